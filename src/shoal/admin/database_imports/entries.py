"""Import of posts and comments, with their media."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from shoal.admin.database_imports.files import Files
from shoal.admin.database_imports.maps import Rejected, RowError, Section
from shoal.admin.database_imports.merging import commit_merged
from shoal.admin.database_imports.session import (
    AT_ONCE,
    NO_MEMBER,
    NO_POST,
    SHOWN,
    Record,
    Session,
    candidates,
    parts_of,
    shortened,
    spread,
    text_of,
)
from shoal.admin.database_imports.updates import Updates
from shoal.admin.imports.records import TICKS
from shoal.admin.throttling import run_bounded
from shoal.commands import external_ids, kinds, media, posts
from shoal.commands.posts import Draft
from shoal.core.errors import (
    Conflict,
    Gone,
    InvalidInput,
    NotFound,
    ShoalError,
    Unavailable,
)
from shoal.core.external_ids import ExternalId, ExternalKind, ExternalObject
from shoal.core.ids import EPOCH_MS, compose, milliseconds_of, shard_of
from shoal.core.model import OPEN, Visibility
from shoal.graph.bulk import KeyRow, LoadPart, Occupied
from shoal.graph.contract import Batch
from shoal.graph.schema import Key, encode_node, external_object_key, import_key

_MAX_DEPTH = 1_000
"""Maximum levels of comments whose parents have later rows."""
_NO_PARENT = "post: deleted here since it was imported, or the author may not see it"
_DELETED = ("row was deleted in the source", "rows were deleted in the source")


class EntryImport:
    def __init__(self, session: Session, files: Files) -> None:
        self._session, self._files = session, files
        self._updates = Updates(session)

    async def posts(self, section: Section, records: list[Record]) -> None:
        await self._entries(section, self._session.once(section, records), {})

    async def comments(self, section: Section, records: list[Record]) -> None:
        """Import comments. Comments on comments are imported after these, level by level."""
        of = ExternalKind(section.fields["post"].ids or ExternalKind.POSTS)
        waiting = self._session.once(section, records)
        parents = await self._session.objects(of, (record.fields["post"] for record in waiting.values()))
        if of is section.ids:
            parents |= await self._add_parents(section, waiting, parents)
        while ready := {id_: record for id_, record in waiting.items() if record.fields["post"] in parents}:
            await self._entries(section, ready, {id_: parents[record.fields["post"]] for id_, record in ready.items()})
            waiting = {id_: record for id_, record in waiting.items() if id_ not in ready}
            if of is not section.ids:
                break
            within = [record.fields["post"] for record in waiting.values() if record.fields["post"] in ready]
            parents = await self._session.objects(of, within)
        for record in waiting.values():
            if record.fields.get("deleted_at"):
                # A deleted comment on a deleted post.
                self._session.summary.note(*_DELETED)
            else:
                self._session.refuse_reference(section, record, "post", NO_POST)

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
                rows = await asyncio.to_thread(self._session.source.related, section, column, list(unknown.values()))
            children = []
            for row in rows:
                # A row that does not fit is rejected when it is read in its turn.
                with contextlib.suppress(RowError):
                    record = Record(section.converted(row), row, section, sys.maxsize)
                    if record.fields["id"] in unknown and waiting.setdefault(record.fields["id"], record) is record:
                        children.append(record)
            self._session.early.update(record.fields["id"] for record in children)
            found |= await self._session.objects(section.ids, (record.fields["post"] for record in children))
        return found

    async def _entries(self, section: Section, records: Mapping[str, Record], parents: Mapping[str, int]) -> None:
        """Create missing posts, or comments on `parents`, and store their external ids."""
        counted = self._session.summary[section.kind]
        there = await self._session.objects(section.ids, records)
        there |= await self._linked_again(section, [record for id_, record in records.items() if id_ not in there])
        counted.there += len(there.keys() - self._session.early)
        await self._updates.entries(section, {id_: records[id_] for id_ in there})
        missing = {id_: record for id_, record in records.items() if id_ not in there}
        for id_ in [id_ for id_, record in missing.items() if record.fields.get("deleted_at")]:
            self._session.summary.note(*_DELETED)
            del missing[id_]
        authors = await self._session.members(record.fields["author"] for record in missing.values())
        jobs: dict[str, Record] = {}
        for id_, record in missing.items():
            if record.fields["author"] not in authors:
                self._session.refuse_reference(section, record, "author", NO_MEMBER)
            elif not record.fields["created_at"]:
                self._session.refuse(section, record.where, Rejected("created_at: empty", ""))
            else:
                jobs[id_] = record
        attached = await self._media_of(section, jobs)
        created: dict[ExternalId, int] = {}
        drafts: dict[str, Draft | None] = {}

        async def create(record: Record) -> None:
            id_ = record.fields["id"]
            author = authors[record.fields["author"]]
            # After an interruption of the store, the record is not counted in the report again.
            if id_ not in drafts:
                stored = await self._attached(author, attached.get(id_, []))
                drafts[id_] = await self._draft(section, record, stored, parents.get(id_, 0))
            if (draft := drafts[id_]) and (made := await self._entry(section, record, author, draft)):
                created[self._session.external(id_)] = made

        async def create_planned(planned: tuple[Record, int]) -> None:
            await create(planned[0])

        others: Collection[Record] = jobs.values()
        if self._session.bulk is not None:
            plain = {id_: record for id_, record in jobs.items() if id_ not in attached}
            drafts = {id_: await self._draft(section, record, (), parents.get(id_, 0)) for id_, record in plain.items()}
            planned, others = await self._planned(section, plain, drafts, authors, parents)
            others += [record for id_, record in jobs.items() if id_ in attached]
            for record, post_id in await commit_merged(self._session, planned, create_planned):
                created[self._session.external(record.fields["id"])] = post_id
        await run_bounded(others, create, AT_ONCE, patience=self._session.options.patience)
        if self._session.options.dry_run:
            self._plan(section, [records[external.id] for external in created])
        else:
            updated = {
                external: moment for external in created if (moment := records[external.id].fields.get("updated_at"))
            }
            await self._link(section.ids, created, updated)
        counted.taken += len(created)

    def _plan(self, section: Section, records: Sequence[Record]) -> None:
        """Note in a dry run which posts or comments would exist, and which of them may not be shared by all members."""
        self._session.plan(section.ids, (record.fields["id"] for record in records))
        for record in records:
            visibility = record.fields.get("visibility", Visibility.PUBLIC)
            if visibility not in OPEN:
                self._session.planned_narrow[section.ids, record.fields["id"]] = visibility, record.fields["author"]

    async def _linked_again(self, section: Section, missing: Sequence[Record]) -> dict[str, int]:
        """Link the posts that an interrupted import created without their external ids, and return them.

        Their rows may have been changed or deleted since, so their links have no time, and are compared with the rows.
        """
        if self._session.new:
            return {}
        authors = await self._session.members(record.fields["author"] for record in missing)
        names: dict[Key, str] = {}
        for record in missing:
            if (author := authors.get(record.fields["author"], 0)) > 0:
                name = _record(section, self._session.external(record.fields["id"]))
                names[import_key(shard_of(author), name)] = record.fields["id"]
        found: dict[str, int] = {}
        for part in parts_of(list(names), AT_ONCE):
            owners = await self._session.writes.graph.key_get(part)
            found |= {names[key]: id_ for key, id_ in owners.items()}
        if found and not self._session.options.dry_run:
            linked = {self._session.external(id_): object_id for id_, object_id in found.items()}
            await external_ids.link_objects(self._session.writes, section.ids, linked)
        return found

    async def _link(
        self, kind: ExternalKind, created: Mapping[ExternalId, int], updated: Mapping[ExternalId, int]
    ) -> None:
        """Store the external ids of created objects, with the times of the last changes of their rows."""
        if self._session.bulk is not None:
            rows: list[tuple[int, int, bytes]] = []
            keys: list[KeyRow] = []
            for external, object_id in created.items():
                key = external_object_key(kind, external)
                new_id = self._session.writes.new_id(key.shard)
                node = ExternalObject(id=new_id, object_id=object_id, updated=updated.get(external, 0))
                rows.append((node.id, node.version, encode_node(node)))
                keys.append(KeyRow(key.space, key.name, node.id, 0))
            with contextlib.suppress(Occupied):
                await self._session.bulk.load(LoadPart(sorted(rows), sorted(keys)))
                return
        await external_ids.link_objects(self._session.writes, kind, created, updated)

    async def _planned(
        self,
        section: Section,
        records: Mapping[str, Record],
        drafts: Mapping[str, Draft | None],
        authors: Mapping[str, int],
        parents: Mapping[str, int],
    ) -> tuple[list[tuple[tuple[Record, int], Batch]], list[Record]]:
        """Return the batches that create posts or comments without media, each with its record and the new id.

        The other records need more than a batch: another one of them has the same new id, or their author may not see the parent.
        """
        planned: list[tuple[tuple[Record, int], Batch]] = []
        others: list[Record] = []
        used: set[int] = set()
        nodes = await self._session.posts({parents[id_] for id_ in records if id_ in parents})
        for id_, record in records.items():
            if (draft := drafts[id_]) is None:
                continue
            parent, author = nodes.get(parents.get(id_, 0)), authors[record.fields["author"]]
            name = _record(section, self._session.external(id_))
            post_id, dated = next(_ids(author, record.fields["created_at"], name))
            if post_id in used or (id_ in parents and (parent is None or parent.visibility not in OPEN)):
                others.append(record)
                continue
            try:
                batch = await posts.imported(
                    self._session.writes, author, draft, id_=post_id, created_at=dated, record=name, parent=parent
                )
            except ShoalError as error:
                self._session.refuse(section, record.where, Rejected(str(error), ""))
                continue
            used.add(post_id)
            planned.append(((record, post_id), batch))
        return planned, others

    async def _draft(self, section: Section, record: Record, stored: tuple[int, ...], parent_id: int) -> Draft | None:
        """Return the draft of a post or comment; None if its record is rejected."""
        fields, limits = record.fields, self._session.writes.limits
        text = text_of(record, limits.text)
        kind, data = fields.get("kind", ""), fields.get("data")
        if not text.text and not stored and data is None:
            self._session.refuse(section, record.where, Rejected("text: empty, and no photo could be imported", ""))
            return None
        if self._session.options.dry_run and kind:
            encoded = "" if data is None else msgspec.json.encode(data).decode()
            try:
                await kinds.values_of(self._session.writes, kind, encoded)
            except ShoalError as error:
                self._session.refuse(section, record.where, Rejected(str(error), ""))
                return None
        summary = self._session.summary
        for name, reason in text.refused_tags:
            summary.refuse("tags", f"row {record.where}: {name[:SHOWN]}", reason)
        if text.cut:
            summary.note("text was cut at the limit", "texts were cut at the limit")
        if text.cleaned:
            summary.note("text lost characters that are not text", "texts lost characters that are not text")
        return Draft(
            text=text.text,
            spoiler=shortened(fields.get("spoiler", ""), limits.spoiler),
            sensitive=fields.get("sensitive", False),
            visibility=fields.get("visibility", Visibility.PUBLIC),
            language=_language(fields.get("language", "")),
            media=stored,
            parent_id=parent_id,
            kind=kind,
            data=data,
            imported=True,
        )

    async def _attached(self, author: int, rows: Sequence[tuple[Section, Record]]) -> tuple[int, ...]:
        """Store the photos of a post, and return their ids."""
        limit = self._session.writes.limits.media
        for section, extra in rows[limit:]:
            self._session.refuse(section, extra.where, Rejected(f"a post can have up to {limit} photos", ""))
        return await self._stored_media(author, rows[:limit])

    async def _entry(self, section: Section, record: Record, author: int, draft: Draft) -> int:
        """Create a post or comment. Return its id, or -1 in a dry run; 0 if it is rejected."""
        if self._session.options.dry_run:
            return -1
        try:
            name = _record(section, self._session.external(record.fields["id"]))
            return await self._created(author, draft, record.fields["created_at"], name)
        except Unavailable:
            raise
        except Gone:
            reason = "imported before and deleted here since, or the author is suspended"
        except NotFound as error:
            reason = _NO_PARENT if draft.parent_id else str(error)
        except ShoalError as error:
            reason = str(error)
        self._session.refuse(section, record.where, Rejected(reason, ""))
        return 0

    async def _created(self, author: int, draft: Draft, moment: int, record: str) -> int:
        """Create a post with an id of its time, or the next free one."""
        for id_, dated in _ids(author, moment, record):
            with contextlib.suppress(Conflict):
                writes = self._session.writes
                made = await posts.create(writes, author, draft, id_=id_, created_at=dated, record=record)
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
        for media_section in self._session.map.of("media"):
            if (media_section.fields["post"].ids or ExternalKind.POSTS) != section.ids:
                continue
            # Without a section of photos, the report would lack them.
            self._session.summary["media"]
            rows = await asyncio.to_thread(
                self._session.source.related, media_section, media_section.fields["post"].column, raw
            )
            for record in self._session.records(media_section, rows):
                found.setdefault(record.fields["post"], []).append((media_section, record))
        return found

    async def _stored_media(self, author: int, rows: Sequence[tuple[Section, Record]]) -> tuple[int, ...]:
        stored = []
        for section, record in rows:
            path, url = record.fields.get("path", ""), record.fields.get("url", "")
            with self._files.refusing(section, record, path, url):
                async with self._files.limit:
                    stored.append(await self._photo(author, section, record))
        return tuple(stored)

    async def _photo(self, author: int, section: Section, record: Record) -> int:
        """Store a photo and return its id; -1 in a dry run, which fetches nothing."""
        fields, graph = record.fields, self._session.writes.graph
        external = self._session.external(fields.get("id") or f"{fields['post']}/{record.where}")
        url = fields.get("url", "")
        local = await self._files.located(fields.get("path"))
        if self._session.options.dry_run:
            self._session.summary["media"].taken += 1
            return -1
        if "id" in fields and (known := await self._session.objects(section.ids, (external.id,))):
            nodes = await graph.obj_get(list(known.values()))
            if nodes:
                self._session.summary["media"].there += 1
                return next(iter(nodes))
        data = await self._files.read(local, url)
        made = await media.upload(
            self._session.writes,
            author,
            data,
            description=shortened(fields.get("description", ""), self._session.writes.limits.description),
            record=_record(section, external),
        )
        if "id" in fields:
            await external_ids.link_objects(self._session.writes, section.ids, {external: made.id})
        self._session.summary["media"].taken += 1
        return made.id


def _ids(author: int, moment: int, record: str) -> Iterator[tuple[int, int]]:
    """Yield ids for a post of this time (Unix ms), each with the time to be stored if the id does not contain it."""
    shard = shard_of(author)
    for at in candidates(spread(moment, record), record):
        id_ = compose(EPOCH_MS + at // TICKS, shard, at % TICKS)
        yield id_, 0 if milliseconds_of(id_) == moment else moment


def _record(section: Section, external: ExternalId) -> str:
    """Return the unique name by which the author's shard recognizes the object."""
    return f"external:{section.ids}:{external.digest}"


def _language(text: str) -> str:
    return text if len(text) <= 35 else ""  # the length of a language tag (RFC 5646)
