"""Import of an archive into a member's account: read by a confined process and then, unless it is a dry run, imported.

Posts and photos are created through `shoal.commands`, with their original dates. A post with more photos than the server allows
becomes several posts, its parts. Each part and photo is created under a unique key that is derived from its id in the archive,
and with an id that is identical in every run. A run that was interrupted at any moment, even by `kill -9`, can therefore be
repeated, and continues. No member is notified: posts mention no member, and enter timelines at their dates.

Follows are created only for members identified with certainty: by an address of this network, by a profile that names the
other account, or by id and name in an export of this network. A name alone may belong to another person, so the member chooses
among accounts with equal names in "Find friends".
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from shoal.admin.archives.entries import MAX_UNPACKED
from shoal.admin.archives.plan import ArchivePlan
from shoal.admin.archives.reader_process import ArchiveProcess
from shoal.admin.archives.records import Amounts, ArchivedPost, ArchiveKind, ArchiveReport, Omission
from shoal.admin.archives.storage import WORK_PREFIX
from shoal.admin.contract import AnyNetwork, Operation, member_named
from shoal.admin.imports.records import OrderedIds, cut
from shoal.admin.report import Progress, nothing
from shoal.admin.throttling import run_bounded
from shoal.commands import media, posts, relationships
from shoal.commands.audit import note_alone
from shoal.commands.posts import Draft
from shoal.core.audit import AuditVerb, member_target
from shoal.core.errors import Conflict, Gone, InvalidInput, NotAllowed, NotFound, Rejected, Taken, Unfit
from shoal.core.handles import ForeignHandle
from shoal.core.ids import SEQUENCE_BITS, milliseconds_of, shard_of
from shoal.core.kind_schemas import is_valid
from shoal.core.model import Member, Post, Visibility
from shoal.core.text import is_blank
from shoal.graph.access import access_member, members_by_id
from shoal.graph.kinds import find_kind
from shoal.graph.schema import FOLLOWS, REQUESTS, Key, import_key, user_name_key
from shoal.queries.members import ContactMatch, followees_by_handle

_SEQUENCES = 1 << SEQUENCE_BITS


class Slots:
    def __init__(self, plan: ArchivePlan, shard: int, most: int) -> None:
        self._ids = array("q")
        self._first = array("q", [0]) * len(plan)
        self._most = most
        ids = OrderedIds(shard)
        for position in plan.order:
            self._first[position] = len(self._ids)
            self._ids.append(ids.take(plan.written[position]))
            for _ in range(self.parts(plan.photos[position]) - 1 + plan.photos[position]):
                self._ids.append(ids.after())

    def parts(self, photos: int) -> int:
        """Return into how many posts a post with `photos` photos is split: the post itself, and comments with further photos."""
        return max(1, -(-photos // self._most))

    def part(self, position: int, number: int) -> int:
        return self._ids[self._first[position] + number]

    def photo(self, position: int, parts: int, number: int) -> int:
        """Return the id of photo `number` of the post at `position` in the plan. `parts` is the result of `parts()` for it."""
        return self._ids[self._first[position] + parts + number]


def near(id_: int) -> Iterator[int]:
    """Yield an id, then alternatives within the same millisecond. They are needed if a post of another archive has the id."""
    yield id_
    step = 1
    while step < _SEQUENCES:
        yield id_ & ~(_SEQUENCES - 1) | (id_ + step) % _SEQUENCES
        step *= 2


T = TypeVar("T")

_FOLLOWS_AT_ONCE = 400
"""Accounts that are looked up together. The number is below the maximum number of results."""


async def matched(network: AnyNetwork, member_id: int, plan: ArchivePlan, report: ArchiveReport) -> list[int]:
    """Return the members whom the archive's owner follows. Accounts without a member are counted in the report."""
    found = dict.fromkeys(await _exported_members(network, member_id, plan, report))
    ours = [handle for handle in plan.handles if handle.site == network.writes.domain]
    others = [handle for handle in plan.handles if handle.site != network.writes.domain]
    found.update(dict.fromkeys(await _local_members(network, member_id, ours, report)))
    for part in _batches(others):
        answer = await followees_by_handle(network.reads, member_id, [str(handle) for handle in part])
        found.update(dict.fromkeys(_linked_members(part, answer.matches, report)))
    report.found.follows = len(found)
    return list(found)


async def follow_all(network: AnyNetwork, member_id: int, followees: Sequence[int], report: ArchiveReport) -> None:
    """Follow members as in the app: a member who approves followers gets a follow request."""
    new: list[int] = []
    for part in _batches(followees):
        existing = await network.writes.graph.assoc_get(member_id, (FOLLOWS, REQUESTS), part)
        new.extend(
            followee for followee in part if followee not in existing[FOLLOWS] and followee not in existing[REQUESTS]
        )
    report.there.follows += len(followees) - len(new)
    for done, followee in enumerate(new):
        try:
            await relationships.follow(network.writes, member_id, followee)
        except InvalidInput as error:
            # The member has reached the maximum number of follows.
            report.omit("follows", Omission.REFUSED, str(error), len(new) - done)
            return
        except (Gone, NotAllowed, NotFound) as error:
            report.omit("follows", Omission.REFUSED, str(error))
        else:
            report.taken.follows += 1


async def _exported_members(network: AnyNetwork, member_id: int, plan: ArchivePlan, report: ArchiveReport) -> list[int]:
    members: dict[int, Member] = {}
    for part in _batches(list(plan.followees)):
        members.update(await members_by_id(network.writes.graph, part))
    found = []
    for id_, name in plan.followees.items():
        if id_ in members and members[id_].name == name and id_ != member_id:
            found.append(id_)
        else:
            report.omit("follows", Omission.ELSEWHERE, name)
    return found


async def _local_members(
    network: AnyNetwork, member_id: int, handles: Sequence[ForeignHandle], report: ArchiveReport
) -> list[int]:
    """Return the members of this network whom these handles name. All handles have this network's address."""
    keys = {handle: user_name_key(handle.name) for handle in handles}
    owners: dict[Key, int] = {}
    for part in _batches(list(keys.values())):
        owners.update(await network.writes.graph.key_get(part))
    found = []
    for handle, key in keys.items():
        if owners.get(key, member_id) != member_id:
            found.append(owners[key])
        else:
            report.omit("follows", Omission.ELSEWHERE, str(handle))
    return found


def _batches(all_: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(all_), _FOLLOWS_AT_ONCE):
        yield all_[start : start + _FOLLOWS_AT_ONCE]


def _linked_members(
    handles: Sequence[ForeignHandle], matches: Sequence[ContactMatch], report: ArchiveReport
) -> list[int]:
    """Return the members whose profile links to one of these accounts."""
    sure = {match.given: match.profile.member.id for match in matches if match.match == "link"}
    like = {match.given for match in matches} - sure.keys()
    for handle in map(str, handles):
        if handle not in sure:
            report.omit("follows", Omission.UNSURE if handle in like else Omission.ELSEWHERE, handle)
    return list(sure.values())


_CHUNK = 200
"""Number of posts that are looked up together and then created."""
_POSTS_AT_ONCE = 16
_PHOTOS_AT_ONCE = 2
_TRIES = 3
"""Number of unique keys that are tried for a photo. If an imported photo was deleted since, its key is still taken."""
_BEHIND_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 60.0
_PAUSE_SECONDS = 0.1
_LANGUAGE = 35
_ID = re.compile(r"[0-9]{1,18}")
_NO_PARENT = -1
_OPENNESS = (Visibility.FOLLOWERS, Visibility.UNLISTED, Visibility.PUBLIC)


class _Job(NamedTuple):
    """A post to create, and comments for photos beyond the limit of a post. `begun` is true if the post exists."""

    position: int
    record: ArchivedPost
    begun: bool


class _Counts:
    """Counts for one post. They are added to the report when the outcome is known, so that a retry does not count twice."""

    def __init__(self) -> None:
        self._omitted: list[tuple[str, Omission, str]] = []
        self._cut = 0
        self.continued = False

    def omit(self, kind: str, reason: Omission, example: str) -> None:
        """Count a record that is not imported, by its kind and the reason. `example` identifies the record."""
        self._omitted.append((kind, reason, example))

    def cut_to(self, whole: str, shortened: str) -> str:
        """Return `shortened`, and count a shortening if it differs from `whole`."""
        self._cut += shortened != whole
        return shortened

    def add_to(self, report: ArchiveReport) -> None:
        for omitted in self._omitted:
            report.omit(*omitted)
        report.cut += self._cut
        report.continued += self.continued


@dataclass
class ArchiveImport:
    network: AnyNetwork
    member_id: int
    plan: ArchivePlan
    process: ArchiveProcess
    report: ArchiveReport
    slots: Slots
    widest: Visibility
    ids: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.writes = self.network.writes
        self.shard = shard_of(self.member_id)
        self.photo_limit = asyncio.Semaphore(_PHOTOS_AT_ONCE)

    async def run(self, progress: Progress) -> None:
        """Import the posts that do not exist yet.

        Raises `Unavailable` if the store stays unavailable, and `Gone` if the member was deleted.
        """
        total, done = len(self.plan.order), 0

        def report_progress(finished: int) -> None:
            progress("posts", done + finished, total)

        for level in self.plan.levels():
            for start in range(0, len(level), _CHUNK):
                chunk = level[start : start + _CHUNK]
                await access_member(self.writes.graph, self.member_id)
                await run_bounded(await self._missing(chunk), self._import_post, _POSTS_AT_ONCE, report_progress)
                done += len(chunk)
                progress("posts", done, total)
                await self._wait_for_events()

    async def _missing(self, chunk: Sequence[int]) -> list[_Job]:
        """Return the posts of which at least one part is not imported yet. Imported and deleted posts are counted in the report."""
        records = await asyncio.to_thread(self.plan.read, chunk)
        firsts = [self._key(record, 0) for record in records]
        lasts = [self._key(record, self.slots.parts(len(record.photos)) - 1) for record in records]
        known = await self.writes.graph.key_get([*firsts, *lasts])
        made = {record.id: known[key] for key, record in zip(firsts, records, strict=True) if key in known}
        whole = {record.id for key, record in zip(lasts, records, strict=True) if key in known}
        if self.report.kind is ArchiveKind.SHOAL:
            # If the archive is an export of this account, the account already has its posts.
            own = {
                record.id: int(record.id) for record in records if _ID.fullmatch(record.id) and record.id not in made
            }
            made, whole = made | own, whole | own.keys()
        nodes = await self.writes.graph.obj_get(list(made.values()))
        left: list[_Job] = []
        for position, key, record in zip(chunk, firsts, records, strict=True):
            node = nodes.get(made.get(record.id, 0))
            there = isinstance(node, Post) and node.author_id == self.member_id
            if there and record.id in whole:
                self._note(self.report.there, position, len(record.photos), made[record.id])
            elif key in known and not there:
                self.report.omit("posts", Omission.DELETED, record.id)
            else:
                left.append(_Job(position, record, begun=there))
        return left

    async def _import_post(self, job: _Job) -> None:
        position, record = job.position, job.record
        parent = self.plan.parents[position]
        parent_id = self.ids.get(parent, 0)
        if parent != _NO_PARENT and not parent_id:
            self.report.omit("posts", Omission.THREAD, record.id)
            return
        counted = _Counts()
        made, photos = await self._make(position, record, parent_id, counted)
        counted.add_to(self.report)
        if made:
            self._note(self.report.there if job.begun else self.report.taken, position, photos, made)

    async def _make(self, position: int, record: ArchivedPost, parent_id: int, counted: _Counts) -> tuple[int, int]:
        """Create a post with all its parts. Return its id and number of photos; both are 0 if the post was not imported."""
        try:
            photos = await self._photos(position, record, counted)
            drafts = self._drafts(record, photos, parent_id, counted)
            if not drafts:
                counted.omit("posts", Omission.EMPTY, record.id)
                return 0, 0
            made = await self._create(position, record, 0, drafts.pop(0))
            if not made:
                counted.omit("posts", Omission.DELETED, record.id)
                return 0, 0
            for part, draft in drafts.items():
                await self._create(position, record, part, replace(draft, parent_id=made))
        except (InvalidInput, NotAllowed, NotFound, Conflict) as error:
            counted.omit("posts", Omission.REFUSED, f"{record.id}: {error}")
            return 0, 0
        counted.continued = bool(drafts)
        return made, len(photos)

    def _note(self, amounts: Amounts, position: int, photos: int, id_: int) -> None:
        if self.plan.answered[position]:
            self.ids[position] = id_
        if self.plan.parents[position] == _NO_PARENT:
            amounts.posts += 1
        else:
            amounts.comments += 1
        amounts.photos += photos

    def _drafts(
        self, record: ArchivedPost, photos: Mapping[int, int], parent_id: int, counted: _Counts
    ) -> dict[int, Draft]:
        """Return the parts of a post by number: the post itself, and comments with the photos beyond the limit of a post.

        An empty post has no parts. The position of a photo in the archived post determines its part, regardless of which other
        photos can be stored.
        """
        limits = self.writes.limits
        media: dict[int, list[int]] = {}
        for number, id_ in photos.items():
            media.setdefault(number // limits.media, []).append(id_)
        text = counted.cut_to(record.text, cut(record.text, limits.text))
        if is_blank(text) and not (record.data is not None or 0 in media):
            if not media:
                return {}
            # A post without text needs photos, so move the photos of the first part that has photos into the post
            # itself.
            media[0] = media.pop(min(media))
        first = Draft(
            text=text,
            spoiler=counted.cut_to(record.spoiler, record.spoiler[: limits.spoiler]),
            sensitive=record.sensitive,
            visibility=min(record.visibility, self.widest, key=_OPENNESS.index),
            language=record.language if len(record.language) <= _LANGUAGE else "",
            media=media.pop(0, ()),
            parent_id=parent_id,
            place=record.place,
            data=record.data,
            kind=record.kind,
            license=record.license,
            downloads=record.downloads,
            imported=True,
        )
        bare = replace(
            first, text="", spoiler="", place=None, data=None, kind="", sensitive=first.sensitive or bool(first.spoiler)
        )
        return {0: first} | {part: replace(bare, media=media[part]) for part in sorted(media)}

    async def _create(self, position: int, record: ArchivedPost, part: int, draft: Draft) -> int:
        """Create a part of a post. Return its id; 0 if the part was deleted after an earlier run."""
        name = self._name("post", record, part)
        for id_ in near(self.slots.part(position, part)):
            dated = 0 if milliseconds_of(id_) == record.written else record.written
            try:
                made = await posts.create(
                    self.writes,
                    self.member_id,
                    await self._of_known_kind(draft),
                    id_=id_,
                    created_at=dated,
                    record=name,
                )
            except Conflict:
                continue
            except Gone:
                # Either the author or this part of the post was deleted. If it was the author, this call raises an error,
                # which ends the import.
                await access_member(self.writes.graph, self.member_id)
                return 0
            return made.id
        raise Conflict("no free id found; try again")

    async def _of_known_kind(self, draft: Draft) -> Draft:
        """Return a draft without its kind if this network does not have the kind, or if the data does not match it."""
        kind = await find_kind(self.writes.graph, draft.kind) if draft.kind else None
        if not draft.kind or (kind is not None and is_valid(kind.schema, draft.data)):
            return draft
        return replace(draft, kind="")

    async def _photos(self, position: int, record: ArchivedPost, counted: _Counts) -> dict[int, int]:
        """Store the photos of a post, if possible. Return the ids of the stored photos by their position in the archived post."""
        stored: dict[int, int] = {}
        for number, photo in enumerate(record.photos):
            async with self.photo_limit:
                try:
                    stored[number] = await self._photo(position, record, number, counted)
                except Rejected as error:
                    counted.omit("photos", Omission.REFUSED, f"{photo.file}: {error}")
                except Unfit:
                    counted.omit("photos", Omission.OVER_QUOTA, photo.file)
                except InvalidInput as error:
                    counted.omit("photos", Omission.UNREADABLE, f"{photo.file}: {error}")
        return stored

    async def _photo(self, position: int, record: ArchivedPost, number: int, counted: _Counts) -> int:
        photo = record.photos[number]
        names = [self._name(f"photo{attempt or ''}", record, number) for attempt in range(_TRIES)]
        keys = [import_key(self.shard, name) for name in names]
        known = await self.writes.graph.key_get(keys)
        nodes = await self.writes.graph.obj_get(list(known.values()))
        for key in keys:
            if known.get(key) in nodes:
                return known[key]
        name = next((name for name, key in zip(names, keys, strict=True) if key not in known), names[-1])
        data = await self.process.read(photo.file, self.network.media.limits.max_bytes)
        owner = await access_member(self.writes.graph, self.member_id)
        media.check_quota(self.writes, owner, len(data))
        most = self.writes.limits.description
        description = counted.cut_to(photo.description, photo.description[:most])
        focus = photo.focus if all(-1 <= part <= 1 for part in photo.focus) else (0.0, 0.0)
        parts = self.slots.parts(len(record.photos))
        for id_ in near(self.slots.photo(position, parts, number)):
            try:
                made = await media.upload(
                    self.writes,
                    self.member_id,
                    data,
                    description=description,
                    focus=focus,
                    shows_details=photo.shows_details,
                    details=photo.details,
                    id_=id_,
                    record=name,
                )
            except Taken:
                continue
            return made.id
        raise Conflict("no free id found; try again")

    def _key(self, record: ArchivedPost, part: int) -> Key:
        return import_key(self.shard, self._name("post", record, part))

    def _name(self, what: str, record: ArchivedPost, number: int) -> str:
        """Return the unique name of a post or photo, by which later imports recognize it. All names have equal lengths."""
        whole = f"{self.report.kind}\n{record.id}\n{number}"
        return f"archive:{what}:{self.member_id}:{blake2b(whole.encode(), digest_size=16).hexdigest()}"

    async def _wait_for_events(self) -> None:
        """Wait while event processing is delayed, because the actions of members have priority."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _LONGEST_WAIT_SECONDS
        while self.network.runner.behind() > _BEHIND_SECONDS and loop.time() < until:  # noqa: ASYNC110  # no event to wait for
            await asyncio.sleep(_PAUSE_SECONDS)


class Space(NamedTuple):
    """The folder in which archives are unpacked, and the disk space that they may take."""

    folder: Path | None = None
    """None means the system's temporary directory."""
    most_bytes: int = MAX_UNPACKED


SYSTEM = Space()


async def import_archive(
    network: AnyNetwork,
    member_id: int,
    path: Path,
    *,
    dry_run: bool,
    widest: Visibility = Visibility.PUBLIC,
    progress: Progress = nothing,
    space: Space = SYSTEM,
) -> ArchiveReport:
    """Import the archive at `path` into a member's account, and return the report. A dry run changes nothing.

    A post gets at most the visibility `widest`, even if the archive names a wider one. An import can be repeated,
    because existing posts and photos are recognized. Raises `InvalidInput` for a file that is no archive, is damaged or
    too large, `OSError` for a file that cannot be read, `StorageFull` if there is no disk space to unpack it, and
    `Gone` or `NotFound` for an unknown member.
    """
    await access_member(network.writes.graph, member_id)
    with tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=space.folder) as name:
        folder = Path(name)
        async with ArchiveProcess.started(path, folder, space.most_bytes) as process:
            report = await process.plan(lambda count: progress("reading", count, 0))
            plan = await asyncio.to_thread(ArchivePlan.load, folder)
            followees = await matched(network, member_id, plan, report)
            if dry_run:
                return report
            progress("posts", 0, len(plan.order))
            slots = await asyncio.to_thread(Slots, plan, shard_of(member_id), network.writes.limits.media)
            await ArchiveImport(network, member_id, plan, process, report, slots, widest).run(progress)
        await follow_all(network, member_id, followees, report)
        report.finished = True
        return report


_PATIENCE_SECONDS = 600.0


class ImportArchive(Operation[ArchiveReport]):
    """Import an archive, a local file given by its absolute path. A dry run only returns the report."""

    alone = True
    background = True
    name: str
    path: Path
    dry_run: bool = False
    widest: Visibility = Visibility.PUBLIC

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> ArchiveReport:
        member = await member_named(network, self.name)
        if not self.dry_run:
            await note_alone(network.writes, AuditVerb.ARCHIVE_IMPORTED, member_target(member))
        report = await import_archive(
            network, member.id, self.path, dry_run=self.dry_run, widest=self.widest, progress=progress
        )
        if not self.dry_run:
            await network.settle(_PATIENCE_SECONDS)
        return report
