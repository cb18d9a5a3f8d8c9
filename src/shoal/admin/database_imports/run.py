"""Import from a database or a folder by a map (`maps.py`): members, follows, posts with media, comments and likes.

Every row keeps its external id, by which a repeated import recognizes it and the API finds its object, so an import can be repeated
or interrupted at any moment. Existing objects are not changed, and deleted ones are not restored. Rows are read in batches in the
order of their key; after each batch, the position is stored in the network. A repeated import of a section that was not finished
begins after the position; one of a finished section reads all rows, or with a watermark only rows that are not older than the
newest imported one.

    source -> batch of rows -> converted, or rejected -> references resolved -> missing objects created -> external ids -> position

No notifications are sent. A row that does not fit is rejected with its key, its column and the reason. A dry run does the same, and
writes nothing: references may then also lead to rows that would have been imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import msgspec
import numpy as np
from msgspec import structs

from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.database_imports.maps import ImportMap, Rejected, RowError, Section, parse_map
from shoal.admin.imports.follows import OPERATIONS, FollowJob, follow_all
from shoal.admin.imports.members import bulk_keys
from shoal.admin.imports.posts import with_own_decoder
from shoal.admin.imports.records import TICKS, ImportReport, PostRecord, Summary, ticks_of, worded
from shoal.admin.imports.run import begin_index, is_empty
from shoal.admin.report import Progress
from shoal.admin.throttling import run_bounded
from shoal.commands import external_ids, kinds, media, posts
from shoal.commands.context import Writes, made_once
from shoal.commands.external_ids import ExternalProfile
from shoal.commands.posts import Draft
from shoal.core.errors import (
    Conflict,
    Gone,
    InvalidInput,
    ShoalError,
    TooLarge,
    Unavailable,
    Unfit,
)
from shoal.core.errors import (
    Rejected as Refused,
)
from shoal.core.external_ids import ExternalId, ExternalKind, ExternalLink, ExternalObject
from shoal.core.ids import EPOCH_MS, compose, milliseconds_of, shard_of
from shoal.core.model import ImportPosition, ImportProgress, Post, Visibility
from shoal.core.placement import place
from shoal.core.text import as_text, check_user_name, normalized
from shoal.graph.access import count_of
from shoal.graph.bulk import KeyRow, Loading, LoadPart, Occupied
from shoal.graph.changes import change_object
from shoal.graph.contract import Batch, Missing, find_object
from shoal.graph.schema import (
    BLOCKS_NAME,
    EVERYBODY,
    EXTERNAL_IDS,
    LIKES,
    USER_NAME,
    encode_node,
    external_id_key,
    external_object_key,
    import_progress_key,
    user_name_key,
)
from shoal.outgoing import Network, RequestFailed, networks_of, open_pool, request
from shoal.search.indexing import fill

if TYPE_CHECKING:
    from shoal.admin.database_imports.source import Source

Row = Mapping[str, Any]

ROWS = 2_000
"""Rows of a batch of posts or comments."""
MANY_ROWS = 20_000
"""Rows of a batch of other kinds. Its follows and likes are committed by member, so a larger batch takes fewer commits."""
_AT_ONCE = 256
_MEDIA_AT_ONCE = 8
"""Photos that are in memory concurrently."""
_MAX_DEPTH = 1_000
"""Maximum levels of comments whose parents have later rows."""
_ID_TRIES = 16
_REMEMBERED = 500_000
"""Maximum number of references that are kept in memory."""
_FETCH_SECONDS = 30.0
_MAX_POSITIONS = 200
_SHOWN = 60
"""Maximum characters of a value in the report."""
_PATIENCE_SECONDS = 3_600.0
_MAX_REASONS = 100
"""Maximum number of reasons that the report counts separately, for each kind."""
_NO_ROW = "an earlier row has this id"
_NO_MEMBER = "no member has this id"
_NO_POST = "no post or comment has this id"


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """ImportOptions of an import."""

    dry_run: bool = False
    strict: bool = False
    """Whether the first rejected row ends the import."""
    full: bool = False
    """Whether to read all rows, whatever the stored positions."""
    media: Path | None = None
    """The folder of the media that have a path."""
    fetch: bool = False
    """Whether to fetch the media that have a URL."""
    networks: tuple[str, ...] = ()
    """Address ranges from which media may be fetched, in addition to public addresses."""
    patience: float = 60.0
    """Seconds for which an unavailable store is retried."""


class Record(NamedTuple):
    """A converted row: its fields, the row, its key for reports, and its number in the order of rows."""

    fields: dict[str, Any]
    row: Row
    where: str
    number: int = 0


class Retry(NamedTuple):
    """The first row of a section whose reference led nowhere, although its object may have been created since it was looked for."""

    number: int
    watermark: tuple[str, str]


class MappedImport:
    """One run of an import."""

    def __init__(
        self,
        network: AnyNetwork,
        mapped: ImportMap,
        source: Source,
        summary: Summary,
        progress: Progress,
        options: ImportOptions,
        writes: Writes,
        fetch: Callable[[str], Any],
    ) -> None:
        self._network, self._map, self._source = network, mapped, source
        self._summary, self._progress, self._options = summary, progress, options
        self._writes, self._fetch = writes, fetch
        self._member_ids: dict[str, int] = {}
        self._planned: dict[str, set[int]] = {}
        """In a dry run, hashes of the ids that would be imported."""
        self._followed = False
        self._photos = asyncio.Semaphore(_MEDIA_AT_ONCE)
        self._early: set[str] = set()
        """Ids of comments of the current section that were imported before their own rows were read, as parents of others."""
        self._newest: Any = None
        """The newest watermark of the current section that an earlier import has read; None if there is none."""
        self._retry: Retry | None = None
        self._bulk: Loading | None = None
        """The store, if members and external ids are written into it directly because the network was empty."""

    async def run(self) -> None:
        for section in self._map.sections:
            await asyncio.to_thread(self._source.check, section)
        await self._begin()
        handlers = {
            "members": self._import_members,
            "follows": self._import_follows,
            "posts": self._import_posts,
            "comments": self._import_comments,
            "likes": self._import_likes,
        }
        for kind, handle in handlers.items():
            with self._summary.timed(kind):
                for section in self._map.of(kind):
                    await self._section(section, handle)
        if self._options.dry_run:
            return
        with self._summary.timed("consequences"):
            await self._network.settle(_PATIENCE_SECONDS)
            if self._followed or self._bulk:
                # As in an import of files, follows emit no events: read timelines again, with the posts of the followees.
                await self._network.effects.followers.changed(EVERYBODY)
                await self._network.timelines.clear()
        if self._bulk:
            with self._summary.timed("search"):
                await begin_index(self._network)
                effects = self._network.effects
                await fill(self._network.store, effects.graph, effects.search, self._progress)
            await self._change(lambda before: structs.replace(before, bulk=False))

    async def _begin(self) -> None:
        """Read the stored positions. If all sections are finished, this run is a new one."""
        stored = await self._stored()
        self._positions = {} if self._options.full else dict(stored.positions)
        mine = {section.digest for section in self._map.sections if section.kind != "media"}
        if all(name in self._positions and self._positions[name].finished for name in mine):
            self._resumed: frozenset[str] = frozenset()
        else:
            self._resumed = frozenset(mine & self._positions.keys())
        store = self._network.store
        if self._options.dry_run or not (isinstance(store, Loading) and store.loads):
            return
        if stored.bulk or (not stored.id and await is_empty(self._network.store)):
            self._bulk = store
            await self._change(lambda before: structs.replace(before, bulk=True))
            await begin_index(self._network)

    async def _stored(self) -> ImportProgress:
        key = import_progress_key(self._map.issuer)
        owners = await self._writes.graph.key_get((key,))
        return await find_object(self._writes.graph, ImportProgress, owners.get(key, 0)) or ImportProgress(id=0)

    async def _section(self, section: Section, handle: Callable[[Section, list[Record]], Any]) -> None:
        # Without this line, the report lacks a kind without rows.
        self._summary[section.kind]
        stored = self._positions.get(section.digest)
        after: list[Any] = []
        inclusive = False
        self._early, self._newest, self._retry = set(), None, None
        if stored is not None and section.digest in self._resumed and not stored.finished:
            after = unpack(stored.values)
            self._retry = Retry(-1, stored.retry[0]) if stored.retry else None
        elif stored is not None and section.digest in self._resumed and not section.watermark:
            return
        elif stored is not None and section.watermark and stored.values:
            (self._newest,) = unpack(stored.values[:1])
            after, inclusive = unpack(stored.retry or stored.values[:1]), True
        for column, count in (await asyncio.to_thread(self._source.without_order, section)).items():
            self._refuse_many(section, f"{column}: empty, so the row has no place in the order of rows", count)
        done, total = 0, await asyncio.to_thread(self._source.count, section)
        last = settled = stored.values if stored is not None else ()
        size = ROWS if section.kind in ("posts", "comments") else MANY_ROWS
        batches = self._source.batches(section, after, size, inclusive=inclusive)
        try:
            while rows := await asyncio.to_thread(next, batches, None):
                await handle(section, list(self._records(section, rows, done)))
                last = pack([rows[-1][column] for column in section.order])
                past = next((row for row in reversed(rows) if not _is_future(row[section.order[0]])), None)
                settled = pack([past[column] for column in section.order]) if past else settled
                done += len(rows)
                self._progress(section.kind, done, total)
                await self._keep(section, ImportPosition(last, retry=self._to_retry()))
        finally:
            # After an error, the connection would stay open until the garbage collector finds it.
            await asyncio.to_thread(batches.close)
        # A row with a watermark in the future, such as the year 9999, must not hide later rows from the next import.
        await self._keep(section, ImportPosition(settled, finished=True, retry=self._to_retry()))

    def _to_retry(self) -> tuple[tuple[str, str], ...]:
        return (self._retry.watermark,) if self._retry else ()

    def _records(self, section: Section, rows: Iterable[Row], first: int = 0) -> Iterator[Record]:
        for number, row in enumerate(rows, first):
            where = section.where(row)
            try:
                yield Record(section.converted(row), row, where, number)
            except RowError as error:
                self._refuse(section, where, error.rejected)

    async def _keep(self, section: Section, position: ImportPosition) -> None:
        """Store the position of a section. Positions of other maps are kept, up to a maximum."""
        if self._options.dry_run:
            return
        mine = {section.digest for section in self._map.sections}

        def change(before: ImportProgress) -> ImportProgress:
            others = {name: kept for name, kept in before.positions.items() if name not in mine}
            kept = dict(list(others.items())[-(_MAX_POSITIONS - len(mine)) :])
            own = {name: kept for name, kept in before.positions.items() if name in mine}
            return structs.replace(before, positions=kept | own | {section.digest: position})

        await self._change(change)

    async def _change(self, change: Callable[[ImportProgress], ImportProgress]) -> None:
        key = import_progress_key(self._map.issuer)

        async def read() -> ImportProgress:
            return await made_once(self._writes, key, ImportProgress, lambda id_: ImportProgress(id=id_))

        await change_object(self._writes.graph, read, change)

    def _refuse(self, section: Section, where: str, rejected: Rejected) -> None:
        value = f": {rejected.value}" if rejected.value else ""
        if self._options.strict:
            raise InvalidInput(f"{section.title}, row {where}: {rejected.reason}{value}")
        reason, known = rejected.reason, self._summary[section.kind].refused
        if reason not in known and len(known) >= _MAX_REASONS:
            # Some reasons contain a value, such as the length of a text.
            reason, value = "other reasons", f": {reason}"
        self._summary.refuse(section.kind, f"row {where}{value}", reason)

    def _refuse_reference(self, section: Section, record: Record, field: str, reason: str) -> None:
        """Reject a row whose reference leads nowhere.

        Its object may have been created after the section of that kind was read. With a watermark, the next import therefore
        begins at the first of these rows, unless an earlier import has read it too.
        """
        self._refuse(section, record.where, Rejected(f"{field}: {reason}", record.fields[field]))
        if section.watermark and (self._retry is None or record.number < self._retry.number):
            watermark = record.row[section.watermark]
            if self._newest is None or not _is_before(watermark, self._newest):
                self._retry = Retry(record.number, pack([watermark])[0])

    def _refuse_many(self, section: Section, reason: str, count: int) -> None:
        if self._options.strict:
            raise InvalidInput(f"{section.title}: {reason} ({count} rows)")
        for _ in range(count):
            self._summary.refuse(section.kind, "", reason)

    def _external(self, id_: str) -> ExternalId:
        return ExternalId(self._map.issuer, id_)

    def _once(self, section: Section, records: Iterable[Record]) -> dict[str, Record]:
        """Return records by their id. A record whose id an earlier one of the batch has is rejected."""
        found: dict[str, Record] = {}
        for record in records:
            if found.setdefault(record.fields["id"], record) is not record:
                self._refuse(section, record.where, Rejected(f"id: {_NO_ROW}", record.fields["id"]))
        return found

    def _plan(self, kind: str, ids: Iterable[str]) -> None:
        self._planned.setdefault(kind, set()).update(map(hash, ids))

    def _is_planned(self, kind: str, id_: str) -> bool:
        return hash(id_) in self._planned.get(kind, ())

    async def _import_members(self, section: Section, records: list[Record]) -> None:
        once = self._once(section, records)
        there = await self._members(once)
        missing = [record for id_, record in once.items() if id_ not in there]
        self._summary["members"].there += len(there)
        if self._options.dry_run:
            self._plan("members", once)
            self._summary["members"].taken += len(missing)
            return

        if self._bulk is not None:
            missing = await self._load_members(self._bulk, section, missing)

        async def create(record: Record) -> None:
            fields, profile = record.fields, self._profile(record)
            try:
                made = await external_ids.upsert(self._writes, self._external(fields["id"]), profile, update=False)
            except Unavailable:
                raise
            except ShoalError as error:
                self._refuse(section, record.where, Rejected(str(error), ""))
                return
            self._member_ids[fields["id"]] = made.member.id
            self._summary["members"].taken += made.created
            if made.member.name != fields["name"].lower():
                one, many = "user name was changed", "user names were changed"
                self._summary.note(f"{one}: invalid here, or taken", f"{many}: invalid here, or taken")

        await run_bounded(missing, create, _AT_ONCE, patience=self._options.patience)

    def _profile(self, record: Record) -> ExternalProfile:
        fields, limits = record.fields, self._writes.limits
        name = fields["name"]
        return ExternalProfile(
            user_name=name,
            display_name=_shortened(fields.get("display_name", ""), limits.display_name)
            or _shortened(name, limits.display_name),
            note=_shortened(fields.get("note", ""), limits.note),
            language=fields.get("language", ""),
            created_at=fields.get("created_at", 0),
        )

    async def _load_members(self, store: Loading, section: Section, records: Sequence[Record]) -> list[Record]:
        """Write new members as rows, in one transaction. Return the records that `external_ids.upsert` has to create."""
        named: dict[str, Record] = {}
        others: list[Record] = []
        blocked = await count_of(self._writes.graph, EVERYBODY, BLOCKS_NAME)
        for record in records:
            name = record.fields["name"].lower()
            if blocked or not _is_user_name(name) or named.setdefault(name, record) is not record:
                others.append(record)
        taken = await bulk_keys(self._network, [user_name_key(name) for name in named])
        others += [named.pop(key.name) for key in taken]
        rows: list[tuple[int, int, bytes]] = []
        keys: list[KeyRow] = []
        made: dict[str, tuple[int, int]] = {}
        for name, record in list(named.items()):
            external, profile, shard = self._external(record.fields["id"]), self._profile(record), place(name).shard
            member_id, login_id, link_id = (self._writes.new_id(shard) for _ in range(3))
            try:
                member, login = external_ids.imported(self._writes, (member_id, login_id), name, profile)
            except ShoalError as error:
                self._refuse(section, named.pop(name).where, Rejected(str(error), ""))
                continue
            link = ExternalLink(id=link_id, member_id=member_id, issuer=external.issuer, subject=external.id)
            rows += [(node.id, node.version, encode_node(node)) for node in (member, login, link)]
            keys += [KeyRow(USER_NAME, name, member_id, 0)]
            keys += [KeyRow("external_id", external_id_key(external).name, link_id, 0)]
            made[external.id] = member_id, link_id
        ends = np.array(list(made.values()), np.int64).reshape(-1, 2)
        atype = np.full(len(ends), EXTERNAL_IDS.number, np.int64)
        links = np.column_stack((ends[:, 0], atype, ends[:, 1], ends[:, 1]))
        counts = np.column_stack((ends[:, 0], atype, np.ones(len(ends), np.int64)))
        order = np.argsort(ends[:, 0])
        try:
            await store.load(LoadPart(sorted(rows), sorted(keys), links[order], counts[order]))
        except Occupied:
            # A member who has joined since has one of the names, or another process imports the same rows.
            return [*named.values(), *others]
        self._member_ids |= {id_: member_id for id_, (member_id, _) in made.items()}
        self._summary["members"].taken += len(made)
        return others

    async def _members(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the members with these ids in the product. In a dry run, a member who would be imported has the id -1."""
        requested = list(dict.fromkeys(ids))
        if len(self._member_ids) > _REMEMBERED:
            self._member_ids.clear()
        unknown = [id_ for id_ in requested if id_ not in self._member_ids]
        found = await external_ids.members_of(self._writes.graph, map(self._external, unknown))
        self._member_ids |= {external.id: member_id for external, member_id in found.items()}
        known = {id_: self._member_ids[id_] for id_ in requested if id_ in self._member_ids}
        return {id_: -1 for id_ in requested if self._is_planned("members", id_)} | known

    async def _objects(self, kind: ExternalKind, ids: Iterable[str]) -> dict[str, int]:
        """Return the objects with these ids in the product, as `_members`."""
        requested = list(dict.fromkeys(ids))
        found = await external_ids.objects_of_kind(self._writes.graph, kind, map(self._external, requested))
        planned = {id_: -1 for id_ in requested if self._is_planned(kind, id_)}
        return planned | {external.id: object_id for external, object_id in found.items()}

    async def _import_follows(self, section: Section, records: list[Record]) -> None:
        ends = await self._members(record.fields[end] for record in records for end in ("follower", "followee"))
        by_follower: dict[int, dict[int, int]] = {}
        for record in records:
            fields = record.fields
            lacking = [end for end in ("follower", "followee") if fields[end] not in ends]
            if lacking:
                self._refuse_reference(section, record, lacking[0], _NO_MEMBER)
            elif fields["follower"] == fields["followee"]:
                self._refuse(section, record.where, Rejected("a member cannot follow themselves", fields["follower"]))
            elif self._options.dry_run:
                self._summary["follows"].taken += 1
            else:
                follower, followee = ends[fields["follower"]], ends[fields["followee"]]
                moment = _spread(fields.get("created_at", 0), fields["follower"], fields["followee"])
                followees = by_follower.setdefault(follower, {})
                self._summary["follows"].there += followee in followees
                followees.setdefault(followee, moment)
        jobs = [
            FollowJob(follower, *map(list, zip(*part, strict=True)))
            for follower, followees in by_follower.items()
            for part in _parts(_distinct(followees))
        ]
        taken = self._summary["follows"].taken

        async def follow(job: FollowJob) -> None:
            await follow_all(self._network, job, self._summary)

        await run_bounded(jobs, follow, _AT_ONCE, patience=self._options.patience)
        self._followed |= self._summary["follows"].taken > taken and not self._options.dry_run

    async def _import_posts(self, section: Section, records: list[Record]) -> None:
        await self._entries(section, self._once(section, records), {})

    async def _import_comments(self, section: Section, records: list[Record]) -> None:
        """Import comments. Comments on comments are imported after these, level by level."""
        of = ExternalKind(section.fields["post"].ids or ExternalKind.POSTS)
        waiting = self._once(section, records)
        parents = await self._objects(of, (record.fields["post"] for record in waiting.values()))
        if of is section.ids:
            parents |= await self._add_parents(section, waiting, parents)
        while ready := {id_: record for id_, record in waiting.items() if record.fields["post"] in parents}:
            await self._entries(section, ready, {id_: parents[record.fields["post"]] for id_, record in ready.items()})
            waiting = {id_: record for id_, record in waiting.items() if id_ not in ready}
            if of is not section.ids:
                break
            within = [record.fields["post"] for record in waiting.values() if record.fields["post"] in ready]
            parents = await self._objects(of, within)
        for record in waiting.values():
            self._refuse_reference(section, record, "post", _NO_POST)

    async def _add_parents(
        self, section: Section, waiting: dict[str, Record], parents: Mapping[str, int]
    ) -> dict[str, int]:
        """Add comments that others reply to, and whose rows come later, to those that wait. Return the objects that they reply to.

        Rows come in the order of the watermark or of `created_at`, and a parent may have been edited, or have a wrong time.
        """
        found: dict[str, int] = {}
        column, reference = section.fields["id"].column, section.fields["post"].column
        children = list(waiting.values())
        for _ in range(_MAX_DEPTH):
            unknown = {
                record.fields["post"]: record.row[reference]
                for record in children
                if record.fields["post"] not in waiting
                and not parents.get(record.fields["post"], found.get(record.fields["post"]))
            }
            if not (column and reference and unknown):
                break
            rows: list[dict[str, Any]] = []
            # In some databases, a column of texts cannot be compared with ids that are numbers.
            with contextlib.suppress(InvalidInput):
                rows = await asyncio.to_thread(self._source.related, section, column, list(unknown.values()))
            children = []
            for row in rows:
                # A row that does not fit is rejected when it is read in its turn.
                with contextlib.suppress(RowError):
                    record = Record(section.converted(row), row, section.where(row))
                    if record.fields["id"] in unknown and waiting.setdefault(record.fields["id"], record) is record:
                        children.append(record)
            self._early.update(record.fields["id"] for record in children)
            found |= await self._objects(section.ids, (record.fields["post"] for record in children))
        return found

    async def _entries(self, section: Section, records: Mapping[str, Record], parents: Mapping[str, int]) -> None:
        """Create missing posts, or comments on `parents`, and store their external ids."""
        counted = self._summary[section.kind]
        there = await self._objects(section.ids, records)
        counted.there += len(there.keys() - self._early)
        missing = {id_: record for id_, record in records.items() if id_ not in there}
        authors = await self._members(record.fields["author"] for record in missing.values())
        jobs: dict[str, Record] = {}
        for id_, record in missing.items():
            if record.fields["author"] not in authors:
                self._refuse_reference(section, record, "author", _NO_MEMBER)
            elif not record.fields["created_at"]:
                self._refuse(section, record.where, Rejected("created_at: empty", ""))
            else:
                jobs[id_] = record
        attached = await self._media_of(section, jobs)
        nodes: dict[int, Post] = {}
        if self._bulk is not None:
            nodes = await self._posts({parents[id_] for id_ in jobs if id_ in parents})
        created: dict[ExternalId, int] = {}

        async def create(record: Record) -> None:
            id_ = record.fields["id"]
            author, rows = authors[record.fields["author"]], attached.get(id_, [])
            parent_id = parents.get(id_, 0)
            made = await self._entry(section, record, author, parent_id, rows, nodes.get(parent_id))
            if made:
                created[self._external(id_)] = made

        await run_bounded(jobs.values(), create, _AT_ONCE, patience=self._options.patience)
        if self._options.dry_run:
            self._plan(section.ids, (external.id for external in created))
        else:
            await self._link(section.ids, created)
        counted.taken += len(created)

    async def _link(self, kind: ExternalKind, created: Mapping[ExternalId, int]) -> None:
        """Store the external ids of created objects."""
        if self._bulk is not None:
            rows: list[tuple[int, int, bytes]] = []
            keys: list[KeyRow] = []
            for external, object_id in created.items():
                key = external_object_key(kind, external)
                node = ExternalObject(id=self._writes.new_id(key.shard), object_id=object_id)
                rows.append((node.id, node.version, encode_node(node)))
                keys.append(KeyRow(key.space, key.name, node.id, 0))
            with contextlib.suppress(Occupied):
                await self._bulk.load(LoadPart(sorted(rows), sorted(keys)))
                return
        await external_ids.link_objects(self._writes, kind, created)

    async def _entry(
        self,
        section: Section,
        record: Record,
        author: int,
        parent_id: int,
        rows: Sequence[tuple[Section, Record]],
        parent: Post | None,
    ) -> int:
        """Create a post or comment. Return its id, or -1 in a dry run; 0 if it is rejected."""
        fields, limits = record.fields, self._writes.limits
        text = worded(
            PostRecord(
                *(
                    fields["id"],
                    fields["author"],
                    fields["created_at"],
                    fields.get("title", ""),
                    fields.get("text", ""),
                ),
                *(fields.get("tags", ()), fields.get("sensitive", False), fields.get("language", "")),
            ),
            limits.text,
        )
        for media_section, extra in rows[limits.media :]:
            self._refuse(media_section, extra.where, Rejected(f"a post can have up to {limits.media} photos", ""))
        stored = await self._stored_media(author, rows[: limits.media])
        kind, data = fields.get("kind", ""), fields.get("data")
        if not text.text and not stored and data is None:
            self._refuse(section, record.where, Rejected("text: empty, and no photo could be imported", ""))
            return 0
        if self._options.dry_run and kind:
            try:
                await kinds.values_of(self._writes, kind, "" if data is None else msgspec.json.encode(data).decode())
            except ShoalError as error:
                self._refuse(section, record.where, Rejected(str(error), ""))
                return 0
        for name, reason in text.refused_tags:
            self._summary.refuse("tags", f"row {record.where}: {name[:_SHOWN]}", reason)
        if self._options.dry_run:
            return -1
        draft = Draft(
            text=text.text,
            spoiler=_shortened(fields.get("spoiler", ""), limits.spoiler),
            sensitive=fields.get("sensitive", False),
            visibility=fields.get("visibility", Visibility.PUBLIC),
            language=_language(fields.get("language", "")),
            media=stored,
            parent_id=parent_id,
            kind=kind,
            data=data,
            imported=True,
        )
        try:
            record_name = _record(section, self._external(fields["id"]))
            made = await self._created(author, draft, fields["created_at"], record_name, parent)
        except Unavailable:
            raise
        except Gone:
            self._refuse(
                section,
                record.where,
                Rejected("imported before and deleted here since, or the author is suspended", ""),
            )
            return 0
        except ShoalError as error:
            self._refuse(section, record.where, Rejected(str(error), ""))
            return 0
        if text.cut:
            self._summary.note("text was cut at the limit", "texts were cut at the limit")
        if text.cleaned:
            self._summary.note("text lost characters that are not text", "texts lost characters that are not text")
        return made

    async def _created(self, author: int, draft: Draft, moment: int, record: str, parent: Post | None) -> int:
        """Create a post with an id of its time, or the next free one."""
        shard, ticks = shard_of(author), _spread(moment, record)
        if self._bulk is not None and not draft.media and (parent is not None or not draft.parent_id):
            id_ = compose(EPOCH_MS + ticks // TICKS, shard, ticks % TICKS)
            dated = 0 if milliseconds_of(id_) == moment else moment
            with contextlib.suppress(Conflict):
                batch = await posts.imported(
                    self._writes, author, draft, id_=id_, created_at=dated, record=record, parent=parent
                )
                await self._writes.graph.commit(batch)
                return id_
        for step in range(_ID_TRIES):
            at = ticks + step
            id_ = compose(EPOCH_MS + at // TICKS, shard, at % TICKS)
            dated = 0 if milliseconds_of(id_) == moment else moment
            try:
                made = await posts.create(self._writes, author, draft, id_=id_, created_at=dated, record=record)
            except Conflict:
                if step == _ID_TRIES - 1:
                    raise
            else:
                return made.id
        raise Conflict("no free id found; try again")

    async def _media_of(
        self, section: Section, records: Mapping[str, Record]
    ) -> dict[str, list[tuple[Section, Record]]]:
        """Return the media rows of posts, by the id of the post, in the order of their keys."""
        found: dict[str, list[tuple[Section, Record]]] = {}
        column = section.fields["id"].column
        if not records or not column:
            return found
        raw = [record.row[column] for record in records.values()]
        for media_section in self._map.of("media"):
            if (media_section.fields["post"].ids or ExternalKind.POSTS) != section.ids:
                continue
            # Without a section of photos, the report would lack them.
            self._summary["media"]
            rows = await asyncio.to_thread(
                self._source.related, media_section, media_section.fields["post"].column, raw
            )
            for record in self._records(media_section, rows):
                found.setdefault(record.fields["post"], []).append((media_section, record))
        return found

    async def _stored_media(self, author: int, rows: Sequence[tuple[Section, Record]]) -> tuple[int, ...]:
        stored = []
        for section, record in rows:
            try:
                async with self._photos:
                    stored.append(await self._photo(author, section, record))
            except Unavailable as error:
                if not isinstance(error, RequestFailed):
                    raise
                self._refuse(section, record.where, Rejected(f"url: {error}", record.fields.get("url", "")[:_SHOWN]))
            except (Unfit, Refused, InvalidInput) as error:
                self._refuse(section, record.where, Rejected(str(error), record.fields.get("path", "")[:_SHOWN]))
            except OSError as error:
                reason = f"path: {error.strerror or 'cannot be read'}"
                self._refuse(section, record.where, Rejected(reason, record.fields.get("path", "")[:_SHOWN]))
        return tuple(stored)

    async def _photo(self, author: int, section: Section, record: Record) -> int:
        """Store a photo and return its id; -1 in a dry run, which fetches nothing."""
        fields, graph = record.fields, self._writes.graph
        external = self._external(fields.get("id") or f"{fields['post']}/{record.where}")
        path, url = fields.get("path", ""), fields.get("url", "")
        local = await asyncio.to_thread(self._inside, path) if "path" in fields else None
        if local is None and not self._options.fetch:
            raise InvalidInput("url: not fetched without --fetch-media")
        if self._options.dry_run:
            self._summary["media"].taken += 1
            return -1
        if "id" in fields and (known := await self._objects(section.ids, (external.id,))):
            nodes = await graph.obj_get(list(known.values()))
            if nodes:
                self._summary["media"].there += 1
                return next(iter(nodes))
        data = await asyncio.to_thread(local.read_bytes) if local else await self._fetch(url)
        made = await media.upload(
            self._writes,
            author,
            data,
            description=_shortened(fields.get("description", ""), self._writes.limits.description),
            record=_record(section, external),
        )
        if "id" in fields:
            await external_ids.link_objects(self._writes, section.ids, {external: made.id})
        self._summary["media"].taken += 1
        return made.id

    def _inside(self, name: str) -> Path:
        """Return a file in the folder of media. Raises `InvalidInput` for other places, and for a file that is too large."""
        folder = self._options.media
        if folder is None:
            raise InvalidInput("path: name the folder of the files by --media")
        if not name or "\0" in name:
            raise InvalidInput("path: empty")
        # `Path.resolve` raises `RuntimeError` for a loop of links.
        path = Path(os.path.realpath(folder / name))
        if not path.is_relative_to(os.path.realpath(folder)):
            raise InvalidInput("path: outside the folder of --media")
        if not path.is_file():
            raise InvalidInput("path: no such file")
        limits = self._network.media.limits
        if path.stat().st_size > limits.max_bytes:
            raise TooLarge(f"path: at most {limits.max_bytes} bytes")
        return path

    async def _import_likes(self, section: Section, records: list[Record]) -> None:
        of = ExternalKind(section.fields["post"].ids or ExternalKind.POSTS)
        members = await self._members(record.fields["member"] for record in records)
        targets = await self._objects(of, (record.fields["post"] for record in records))
        nodes = await self._posts(set(targets.values()))
        by_member: dict[int, dict[int, int]] = {}
        for record in records:
            fields = record.fields
            target = targets.get(fields["post"], 0)
            if fields["member"] not in members:
                self._refuse_reference(section, record, "member", _NO_MEMBER)
            elif not target:
                self._refuse_reference(section, record, "post", _NO_POST)
            elif self._options.dry_run:
                self._summary["likes"].taken += 1
            elif target not in nodes:
                self._refuse(
                    section, record.where, Rejected("post: deleted here since it was imported", fields["post"])
                )
            else:
                member = members[fields["member"]]
                moment = _spread(fields.get("created_at", 0), fields["member"], fields["post"])
                liked = by_member.setdefault(member, {})
                self._summary["likes"].there += target in liked
                liked.setdefault(target, moment)
        jobs = [(member, part) for member, liked in by_member.items() for part in _parts(_distinct(liked))]

        async def like(job: tuple[int, Sequence[tuple[int, int]]]) -> None:
            await self._like(*job, nodes)

        await run_bounded(jobs, like, _AT_ONCE, patience=self._options.patience)

    async def _posts(self, ids: Collection[int]) -> dict[int, Post]:
        requested = [id_ for id_ in ids if id_ > 0]
        nodes: dict[int, Post] = {}
        for start in range(0, len(requested), _AT_ONCE):
            found = await self._writes.graph.obj_get(requested[start : start + _AT_ONCE])
            nodes |= {id_: node for id_, node in found.items() if isinstance(node, Post)}
        return nodes

    async def _like(self, member: int, likes: Sequence[tuple[int, int]], nodes: Mapping[int, Post]) -> None:
        graph, shard = self._writes.graph, shard_of(member)
        known = (await graph.assoc_get(member, (LIKES,), [post_id for post_id, _ in likes]))[LIKES]
        new = [(post_id, moment) for post_id, moment in likes if post_id not in known]
        counted = self._summary["likes"]
        counted.there += len(likes) - len(new)
        batch = Batch(shard)
        for post_id, moment in new:
            at = compose(EPOCH_MS + moment // TICKS, shard, moment % TICKS)
            batch.assoc_add(member, LIKES, post_id, at, aggregate_id=nodes[post_id].author_id)
            batch.expect(post_id)
        if not new:
            return
        try:
            await graph.commit(batch)
        except (TooLarge, Missing):
            # Either the store limits the changes of a commit, or a post was deleted in between.
            if len(new) > 1:
                half = len(new) // 2
                await self._like(member, new[:half], nodes)
                await self._like(member, new[half:], nodes)
        else:
            counted.taken += len(new)


def _spread(moment: int, *of: object) -> int:
    """Return the ticks of a time (Unix ms). Times in whole seconds are spread within their second, and others in their millisecond.

    The position depends on `of` only, so a repeated import has an equal result.
    """
    number = int.from_bytes(blake2b(repr(of).encode(), digest_size=8).digest())
    first = ticks_of(moment)
    if moment < EPOCH_MS:
        return first + number % TICKS
    return first + number % (TICKS * 1_000 if moment % 1_000 == 0 else TICKS)


def _distinct(moments: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return ids with their times in order, with at least a tick between any two: lists are read page by page by time."""
    found: list[tuple[int, int]] = []
    last = -1
    for id_, moment in sorted(moments.items(), key=lambda entry: (entry[1], entry[0])):
        last = max(moment, last + 1)
        found.append((id_, last))
    return found


def _parts(entries: Sequence[tuple[int, int]]) -> Iterator[Sequence[tuple[int, int]]]:
    return (entries[start : start + OPERATIONS] for start in range(0, len(entries), OPERATIONS))


def _record(section: Section, external: ExternalId) -> str:
    """Return the unique name by which the author's shard recognizes the object."""
    return f"external:{section.ids}:{external.digest}"


def pack(values: Sequence[Any]) -> tuple[tuple[str, str], ...]:
    """Return values of a database as texts with their types, so that they can be stored and used in a query later."""
    return tuple(_packed(value) for value in values)


def _packed(value: Any) -> tuple[str, str]:
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes", bytes(value).hex()
    if isinstance(value, datetime | date):
        return type(value).__name__, value.isoformat()
    if isinstance(value, bool | int):
        return "int", str(int(value))
    for type_ in (float, Decimal, UUID):
        if isinstance(value, type_):
            return type_.__name__, repr(value) if type_ is float else str(value)
    return "str", str(value)


def _is_future(value: Any) -> bool:
    """Return whether a time is later than tomorrow: the zone of a time without an offset is unknown."""
    if not isinstance(value, date):
        return False
    limit = datetime.now(UTC) + timedelta(days=1)
    if not isinstance(value, datetime):
        return value > limit.date()
    return value > (limit if value.tzinfo else limit.replace(tzinfo=None))


def _is_before(first: Any, second: Any) -> bool:
    try:
        return bool(first < second)
    except TypeError:
        # The type of the column has changed.
        return False


_UNPACK: dict[str, Any] = {
    "bytes": bytes.fromhex,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "int": int,
    "float": float,
    "Decimal": Decimal,
    "UUID": UUID,
    "str": str,
}


def unpack(packed: Sequence[Sequence[str]]) -> list[Any]:
    """Return the values of `pack`."""
    return [_UNPACK[type_](text) for type_, text in packed]


def _is_user_name(name: str) -> bool:
    try:
        check_user_name(name)
    except InvalidInput:
        return False
    return True


def _shortened(text: str, limit: int) -> str:
    """Return the first `limit` characters of a text, cleaned as `as_text` does."""
    return normalized("NFC", as_text(text))[:limit]


def _language(text: str) -> str:
    return text if len(text) <= 35 else ""  # the length of a language tag (RFC 5646)


@asynccontextmanager
async def _fetching(options: ImportOptions, max_bytes: int) -> AsyncIterator[Callable[[str], Any]]:
    allowed: Sequence[Network] = networks_of(options.networks, "outgoing_networks")
    async with open_pool(allowed, _MEDIA_AT_ONCE) as pool:

        async def fetch(url: str) -> bytes:
            found = await request(pool, "GET", url, seconds=_FETCH_SECONDS, max_bytes=max_bytes)
            if found.status != 200:
                raise RequestFailed(f"the server returned the status {found.status}")
            return found.body

        yield fetch


def _database() -> Any:
    """Return the module of sources, which needs the packages of the extra `import`."""
    try:
        return import_module("shoal.admin.database_imports.source")
    except ModuleNotFoundError as error:
        raise InvalidInput(f"from: {error.name} is not installed: pip install 'shoal[import]'") from error


async def import_mapped(
    network: AnyNetwork, mapped: ImportMap, url: str, summary: Summary, progress: Progress, options: ImportOptions
) -> None:
    """Import the rows of a source. Raises `InvalidInput` for a source that the map does not fit, and `Unavailable`."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-import-")))
        writes = network.writes.trusted()
        if mapped.of("media") and not options.dry_run:
            writes = await stack.enter_async_context(with_own_decoder(network))
        fetch = await stack.enter_async_context(_fetching(options, network.media.limits.max_bytes))
        # Opening a folder reads all its files.
        opening = _database().open_source(url, mapped, folder, summary)
        source = await asyncio.to_thread(opening.__enter__)
        stack.push(opening.__exit__)
        run = MappedImport(network, mapped, source, summary, progress, options, writes, fetch)
        await run.run()


class ImportMapped(Operation[ImportReport]):
    """Import a database or a folder by the text of a map. Rejected rows are written to the file `refused`."""

    alone = True
    background = True
    map: str
    source: str
    issuer: str = ""
    options: ImportOptions = ImportOptions()
    refused: Path | None = None

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> ImportReport:
        mapped = parse_map(self.map, self.issuer)
        async with AsyncExitStack() as stack:
            summary = Summary(stack.enter_context(self.refused.open("wb")) if self.refused else None)
            summary.way = "from a database; dry run, nothing was written" if self.options.dry_run else "from a database"
            await import_mapped(network, mapped, self.source, summary, progress, self.options)
            return summary.report()
