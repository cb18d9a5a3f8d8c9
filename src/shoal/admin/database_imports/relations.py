"""Import of follows, likes, bookmarks, shares, mutes and blocks."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from shoal.admin.database_imports.maps import Rejected, Section
from shoal.admin.database_imports.merging import commit_merged
from shoal.admin.database_imports.session import (
    AT_ONCE,
    NO_MEMBER,
    NO_POST,
    Record,
    Session,
    candidates,
    parts_of,
    spread,
)
from shoal.admin.imports.follows import OPERATIONS, FollowJob, follow_all
from shoal.admin.imports.records import TICKS
from shoal.admin.throttling import run_bounded
from shoal.commands import reactions, relationships
from shoal.core.errors import Conflict, NotFound, ShoalError, TooLarge, Unavailable
from shoal.core.external_ids import ExternalKind
from shoal.core.ids import EPOCH_MS, compose, shard_of
from shoal.core.model import DAY_MS, OPEN, Post, Visibility
from shoal.graph.contract import Batch, IdTaken, Missing
from shoal.graph.schema import BLOCKED_BY, BLOCKS, BOOKMARKS, FOLLOWS, LIKES, MUTES, AssocType, import_key

_REACTIONS = {"likes": LIKES, "bookmarks": BOOKMARKS}
_BARS = {"mutes": MUTES, "blocks": BLOCKS}
_NOT_SHARED = "post: the member may not share it"


class _Job(NamedTuple):
    """Posts of which a member likes or bookmarks each, with the times in ticks."""

    member: int
    times: Sequence[tuple[int, int]]


class RelationImport:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def follows(self, section: Section, records: list[Record]) -> None:
        ends = await self._session.members(record.fields[end] for record in records for end in ("follower", "followee"))
        by_follower: dict[int, dict[int, int]] = {}
        for record in records:
            fields = record.fields
            lacking = [end for end in ("follower", "followee") if fields[end] not in ends]
            if lacking:
                self._session.refuse_reference(section, record, lacking[0], NO_MEMBER)
            elif fields["follower"] == fields["followee"]:
                self._session.refuse(
                    section, record.where, Rejected("a member cannot follow themselves", fields["follower"])
                )
            elif self._session.options.dry_run:
                self._session.summary["follows"].taken += 1
            else:
                follower, followee = ends[fields["follower"]], ends[fields["followee"]]
                moment = spread(fields.get("created_at", 0), fields["follower"], fields["followee"])
                followees = by_follower.setdefault(follower, {})
                self._session.summary["follows"].there += followee in followees
                followees.setdefault(followee, moment)
        jobs = [
            FollowJob(follower, *map(list, zip(*part, strict=True)))
            for follower, followees in by_follower.items()
            for part in _parts(_distinct(followees))
        ]
        taken = self._session.summary["follows"].taken

        async def follow(job: FollowJob) -> None:
            ended = await self._session.writes.graph.assoc_ended(job.follower, (FOLLOWS,), job.followees)
            pairs = zip(job.followees, job.moments, strict=True)
            left = [(followee, moment) for followee, moment in pairs if followee not in ended[FOLLOWS]]
            if left:
                rest = FollowJob(job.follower, *map(list, zip(*left, strict=True)))
                await follow_all(self._session.network, rest, self._session.summary)
            self._session.summary["follows"].there += len(job.followees) - len(left)

        if self._session.bulk is not None:
            barred = await self._in_blocks({job.follower for job in jobs})
            planned = [(job, _follows(job)) for job in jobs if job.follower not in barred]
            done = await commit_merged(self._session, planned, follow)
            self._session.summary["follows"].taken += sum(len(job.followees) for job in done)
            jobs = [job for job in jobs if job.follower in barred]
        await run_bounded(jobs, follow, AT_ONCE, patience=self._session.options.patience)
        self._session.followed |= self._session.summary["follows"].taken > taken and not self._session.options.dry_run

    async def _in_blocks(self, members: Collection[int]) -> set[int]:
        """Return which of these members have blocked others or are blocked, and so may not follow all."""
        found: set[int] = set()
        for part in parts_of(list(members), AT_ONCE):
            counts = await self._session.writes.graph.assoc_count(part, (BLOCKS, BLOCKED_BY))
            found.update(*counts.values())
        return found

    async def reactions(self, section: Section, records: list[Record]) -> None:
        """Import likes or bookmarks."""
        atype, counted = _REACTIONS[section.kind], self._session.summary[section.kind]
        by_member: dict[int, dict[int, int]] = {}
        nodes: dict[int, Post] = {}
        for record, member, post in await self._of_posts(section, records):
            nodes[post.id] = post
            moment = spread(record.fields.get("created_at", 0), record.fields["member"], record.fields["post"])
            times = by_member.setdefault(member, {})
            counted.there += post.id in times
            times.setdefault(post.id, moment)
        jobs = [_Job(member, part) for member, times in by_member.items() for part in _parts(_distinct(times))]

        async def react(job: _Job) -> None:
            await self._react(section, job, nodes)

        if self._session.bulk is not None:
            planned = [(job, _reactions(atype, job, nodes, must_be_new=True)) for job in jobs]
            done = await commit_merged(self._session, planned, react)
            counted.taken += sum(len(job.times) for job in done)
            return
        await run_bounded(jobs, react, AT_ONCE, patience=self._session.options.patience)

    async def _of_posts(self, section: Section, records: list[Record]) -> list[tuple[Record, int, Post]]:
        """Return the records whose member and post exist, with both. In a dry run, count them instead."""
        of = ExternalKind(section.fields["post"].ids or ExternalKind.POSTS)
        members = await self._session.members(record.fields["member"] for record in records)
        targets = await self._session.objects(of, (record.fields["post"] for record in records))
        nodes = await self._session.posts(set(targets.values()))
        found: list[tuple[Record, int, Post]] = []
        for record in records:
            target = targets.get(record.fields["post"], 0)
            if record.fields["member"] not in members:
                self._session.refuse_reference(section, record, "member", NO_MEMBER)
            elif not target:
                self._session.refuse_reference(section, record, "post", NO_POST)
            elif self._session.options.dry_run and section.kind == "shares" and not self._may_share(of, record):
                self._session.refuse(section, record.where, Rejected(_NOT_SHARED, record.fields["post"]))
            elif self._session.options.dry_run:
                self._session.summary[section.kind].taken += 1
            elif target not in nodes:
                reason = "post: deleted here since it was imported"
                self._session.refuse(section, record.where, Rejected(reason, record.fields["post"]))
            else:
                found.append((record, members[record.fields["member"]], nodes[target]))
        return found

    def _may_share(self, of: ExternalKind, record: Record) -> bool:
        """Return whether a dry run expects that a member may share a post that would be imported."""
        visibility, author = self._session.planned_narrow.get((of, record.fields["post"]), (Visibility.PUBLIC, ""))
        return visibility in OPEN or (visibility is Visibility.FOLLOWERS and author == record.fields["member"])

    async def _react(self, section: Section, job: _Job, nodes: Mapping[int, Post]) -> None:
        graph, atype, ids = self._session.writes.graph, _REACTIONS[section.kind], [id_ for id_, _ in job.times]
        known = (await graph.assoc_get(job.member, (atype,), ids))[atype]
        # What the member has ended here is not restored.
        ended = (await graph.assoc_ended(job.member, (atype,), ids))[atype]
        new = job._replace(times=[entry for entry in job.times if entry[0] not in known and entry[0] not in ended])
        counted = self._session.summary[section.kind]
        counted.there += len(job.times) - len(new.times)
        if not new.times:
            return
        try:
            await graph.commit(_reactions(atype, new, nodes))
        except (TooLarge, Missing):
            # Either the store limits the changes of a commit, or a post was deleted in between.
            if len(new.times) > 1:
                half = len(new.times) // 2
                await self._react(section, new._replace(times=new.times[:half]), nodes)
                await self._react(section, new._replace(times=new.times[half:]), nodes)
        else:
            counted.taken += len(new.times)

    async def shares(self, section: Section, records: list[Record]) -> None:
        counted = self._session.summary["shares"]
        of = section.fields["post"].ids or ExternalKind.POSTS
        kind = "" if of == ExternalKind.POSTS else f"{of}:"

        async def share(job: tuple[Record, int, Post]) -> None:
            record, member, post = job
            fields = record.fields
            external = self._session.external(f"{kind}{fields['member']}/{fields['post']}")
            name = f"external:shares:{external.digest}"
            try:
                # The count is read after the call, because others change it during the call.
                is_new = await self._share(record, member, post, name)
                counted.taken += is_new
            except Unavailable:
                raise
            except NotFound:
                self._session.refuse(section, record.where, Rejected(_NOT_SHARED, fields["post"]))
            except ShoalError as error:
                self._session.refuse(section, record.where, Rejected(str(error), ""))

        jobs: dict[tuple[int, int], tuple[Record, int, Post]] = {}
        for job in await self._of_posts(section, records):
            _record, member, post = job
            counted.there += jobs.setdefault((member, post.id), job) is not job
        await run_bounded(jobs.values(), share, AT_ONCE, patience=self._session.options.patience)

    async def _share(self, record: Record, member: int, post: Post, name: str) -> bool:
        """Share a post, with an id of the time of the record or the next free one. Return whether the share is new."""
        fields, shard = record.fields, shard_of(member)
        if await self._session.writes.graph.key_get((import_key(shard, name),)):
            # Imported before, and possibly deleted here since.
            self._session.summary["shares"].there += 1
            return False
        visibility = fields.get("visibility", Visibility.PUBLIC)
        # Shares without a date are spread over the first day of the ids, in which a member can have many.
        moment = fields.get("created_at") or EPOCH_MS + zlib.crc32(name.encode()) % DAY_MS
        first = spread(moment, fields["member"], fields["post"], "share")
        for at in candidates(first, name):
            with contextlib.suppress(IdTaken):
                id_ = _id_of(at, shard)
                made = await reactions.share(self._session.writes, member, post.id, visibility, id_=id_, record=name)
                self._session.summary["shares"].there += made.id != id_
                return made.id == id_
        raise Conflict("no free id found; try again")

    async def mutes(self, section: Section, records: list[Record]) -> None:
        """Import mutes or blocks. A block ends follows between the two."""
        atype, verb = _BARS[section.kind], section.kind.removesuffix("s")
        counted = self._session.summary[section.kind]
        ends = await self._session.members(record.fields[end] for record in records for end in ("member", "other"))
        jobs: dict[tuple[str, str], Record] = {}
        for record in records:
            pair = record.fields["member"], record.fields["other"]
            lacking = [end for end in ("member", "other") if record.fields[end] not in ends]
            if lacking:
                self._session.refuse_reference(section, record, lacking[0], NO_MEMBER)
            elif pair[0] == pair[1]:
                self._session.refuse(section, record.where, Rejected(f"a member cannot {verb} themselves", pair[0]))
            elif self._session.options.dry_run:
                counted.taken += 1
            else:
                counted.there += jobs.setdefault(pair, record) is not record

        async def begin(record: Record) -> None:
            member, other = ends[record.fields["member"]], ends[record.fields["other"]]
            graph, writes = self._session.writes.graph, self._session.writes
            known = (await graph.assoc_get(member, (atype,), (other,)))[atype]
            ended = (await graph.assoc_ended(member, (atype,), (other,)))[atype]
            if known or ended:
                counted.there += 1
                return
            try:
                if atype is BLOCKS:
                    await relationships.block(writes, member, other)
                else:
                    notifications = record.fields.get("notifications", True)
                    await relationships.mute(writes, member, other, notifications=notifications)
            except Unavailable:
                raise
            except ShoalError as error:
                self._session.refuse(section, record.where, Rejected(str(error), ""))
            else:
                counted.taken += 1

        await run_bounded(jobs.values(), begin, AT_ONCE, patience=self._session.options.patience)


def _follows(job: FollowJob) -> Batch:
    """Return the batch of follows that do not exist yet."""
    shard = shard_of(job.follower)
    batch = Batch(shard)
    for followee, moment in zip(job.followees, job.moments, strict=True):
        batch.assoc_add(job.follower, FOLLOWS, followee, _id_of(moment, shard), must_be_new=True)
    return batch


def _reactions(atype: AssocType, job: _Job, nodes: Mapping[int, Post], *, must_be_new: bool = False) -> Batch:
    shard = shard_of(job.member)
    batch = Batch(shard)
    for post_id, moment in job.times:
        at, author = _id_of(moment, shard), nodes[post_id].author_id
        batch.assoc_add(job.member, atype, post_id, at, aggregate_id=author, must_be_new=must_be_new)
        batch.expect(post_id)
    return batch


def _id_of(moment: int, shard: int) -> int:
    return compose(EPOCH_MS + moment // TICKS, shard, moment % TICKS)


def _distinct(moments: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return ids with their times in order, with at least a tick between any two: lists are read page by page by time."""
    found: list[tuple[int, int]] = []
    last = -1
    for id_, moment in sorted(moments.items(), key=lambda entry: (entry[1], entry[0])):
        last = max(moment, last + 1)
        found.append((id_, last))
    return found


def _parts(entries: Sequence[tuple[int, int]]) -> Iterator[Sequence[tuple[int, int]]]:
    return parts_of(entries, OPERATIONS)
