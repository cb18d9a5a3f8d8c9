"""Keeps the tables of a target equal to a network, by its current state and then its events.

Each page of events is one transaction, with the position after it, so a page counts exactly once wherever the program stops. Its
first statement increments the revision that the program has read; if another program changed it, the transaction is undone.

Follows, likes, reactions and shares may arrive before their ends, and remain while an end is withdrawn. So they are kept in
`shoal_edges`, and the public tables have those of which both ends are present. When a member becomes visible again, posts of theirs
may have had no events: the member is noted in `shoal_reading`, and their current state is read before the next events.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

from shoal.core.errors import InvalidInput
from shoal_project.changes import (
    FILE_COLUMNS,
    INCLUDES,
    Changes,
    Event,
    comment_rows,
    field_rows,
    media_rows,
    member_row,
    post_row,
    tag_rows,
)
from shoal_project.tables import (
    CHANGED,
    COMMENTS,
    DAILY,
    EDGES,
    FOLLOWS,
    INTERNAL,
    LIKES,
    MEDIA,
    MEMBERS,
    POST_FIELDS,
    POSTS,
    REACTIONS,
    READING,
    SCHEMA_VERSION,
    SHARES,
    STALE,
    TABLES,
    TAGS,
    Table,
)
from shoal_project.targets import Rows, Statement, Step, Target

REBUILD: Final = "run with --rebuild (in the library: rebuild=True)"
_WHOLE = 0
"""The number in `shoal_reading` for the whole network; otherwise it is a member's id."""
_IGNORE = "ON CONFLICT DO NOTHING"
_NEWER = """ON CONFLICT (kind, id1, id2) DO UPDATE SET version = excluded.version, deleted = excluded.deleted,
    fresh = excluded.fresh, member_id = excluded.member_id, object_id = excluded.object_id, detail = excluded.detail,
    created_at = CASE WHEN excluded.fresh OR excluded.deleted OR shoal_edges.deleted THEN excluded.created_at
        ELSE shoal_edges.created_at END,
    created_on = CASE WHEN excluded.fresh OR excluded.deleted OR shoal_edges.deleted THEN excluded.created_on
        ELSE shoal_edges.created_on END
    WHERE excluded.version > shoal_edges.version OR (excluded.version = shoal_edges.version AND excluded.deleted)"""


class EventsPage(NamedTuple):
    events: Sequence[Event]
    position: str
    more: bool


class Source(Protocol):
    """A network whose events are read."""

    async def end(self) -> str:
        """Return the position after all events so far."""

    async def events(self, after: str, wait: int) -> EventsPage:
        """Return a page of events. Waits up to `wait` seconds for one. Raises `Gone` if events after the position are missing."""

    async def state(self, after: str, member_id: int) -> tuple[Sequence[Event], str | None]:
        """Return a page of the current state, of a member or of all (0), and where to continue; None at the end."""


class _Progress(NamedTuple):
    cursor: str
    revision: int


class _Edges(NamedTuple):
    """A public table of edges: its kind in `shoal_edges`, its key, and where the other end is."""

    table: Table
    kind: str
    key: str
    ends: str
    to: Table

    @property
    def where(self) -> str:
        ids = "id1" if self.kind == "share" else "id1, id2"
        return f"{self.key} IN (SELECT {ids} FROM shoal_changed WHERE kind = '{self.kind}')"


_EDGE_TABLES: Final = (
    _Edges(FOLLOWS, "follow", "(follower_id, followee_id)", "e.member_id, e.object_id", MEMBERS),
    _Edges(LIKES, "like", "(member_id, post_id)", "e.member_id, e.object_id", POSTS),
    _Edges(REACTIONS, "reaction", "(member_id, post_id)", "e.member_id, e.object_id, r.value", POSTS),
    _Edges(SHARES, "share", "id", "e.id1, e.member_id, e.object_id", POSTS),
)


_SPLIT: Final = {
    "postgresql": "CROSS JOIN LATERAL unnest(string_to_array(e.detail, ' ')) AS r(value)",
    "sqlite": """JOIN json_each('["' || replace(e.detail, ' ', '","') || '"]') r""",
    "duckdb": "CROSS JOIN unnest(string_split(e.detail, ' ')) AS r(value)",
}
"""Joins that make a row of each reaction in `shoal_edges.detail`, by engine."""


class Projection:
    """The tables in `target`, filled from `source`. Pages of the state are stored together until they have `at_once` events."""

    def __init__(self, target: Target, source: Source, includes: Collection[str] = (), *, at_once: int = 500) -> None:
        self._target = target
        self._source = source
        self._includes = [name for name in INCLUDES if name in includes]
        self._at_once = at_once

    async def begin(self, *, rebuild: bool = False) -> None:
        """Create the tables, unless they exist. With `rebuild`, empty them to read the current state again.

        Raises `InvalidInput` for tables of another program, another version, or with other private data.
        """
        exists = await self._target.has("shoal_projection")
        if exists and not rebuild:
            version, includes = (await self._target.read("SELECT schema_version, includes FROM shoal_projection"))[0]
            if version != SCHEMA_VERSION:
                raise InvalidInput(f"the target has schema version {version}, not {SCHEMA_VERSION}: {REBUILD}")
            if includes != " ".join(self._includes):
                raise InvalidInput(f"the target was built with other private data ({includes or 'none'}): {REBUILD}")
            return
        every = (*INTERNAL, *TABLES)
        if not exists and (taken := [table.name for table in every if await self._target.has(table.name)]):
            raise InvalidInput(f"the target has a table {taken[0]} of another program: use another database or schema")
        steps: list[Step] = [Statement(f"DROP TABLE IF EXISTS {table.name}") for table in every if exists]
        steps += [Statement(sql) for table in every for sql in table.ddl(self._target.engine)]
        # A program that still follows the former tables has read a lower revision.
        values = (" ".join(self._includes), await self._source.end(), time.time_ns())
        steps.append(Statement(f"INSERT INTO shoal_projection VALUES ({SCHEMA_VERSION}, $1, $2, $3, TRUE)", values))
        steps += [Rows(READING, [(_WHOLE, "")]), Rows(STALE, self._target.leftovers())]
        await self._target.write(steps)

    async def step(self, wait: int = 0) -> bool:
        """Read a page of events, or pages of the current state, and store them. Return whether there is more at once."""
        progress = _Progress(*(await self._target.read("SELECT cursor_text, revision FROM shoal_projection"))[0])
        reading = await self._target.read("SELECT member_id, place FROM shoal_reading ORDER BY member_id LIMIT 1")
        changes = Changes(self._includes, is_state=bool(reading))
        if not reading:
            if wait:
                await self._target.release()
            page = await self._source.events(progress.cursor, wait)
            if page.position == progress.cursor:
                return page.more
            changes.add(page.events)
            return await self._store(progress._replace(cursor=page.position), changes, []) or page.more
        member_id, place = reading[0]
        after: str | None = place
        count = 0
        while after is not None and count < self._at_once:
            events, after = await self._source.state(after, member_id)
            changes.add(events)
            count += len(events)
        noted: list[Step] = [Statement("DELETE FROM shoal_reading WHERE member_id = $1", (member_id,))]
        if after is not None:
            noted = [Statement("UPDATE shoal_reading SET place = $1 WHERE member_id = $2", (after, member_id))]
        elif member_id == _WHOLE:
            noted.append(Statement("UPDATE shoal_projection SET rebuilding = FALSE"))
        await self._store(progress, changes, noted, is_end=after is None and member_id == _WHOLE)
        return True

    async def _store(self, progress: _Progress, changes: Changes, noted: list[Step], *, is_end: bool = False) -> bool:
        """Commit changes with the progress. Return whether the state of a member has to be read."""
        authors = {int(post.data["author_id"]) for post in changes.posts.values() if post.data}
        members = await self._versions("members", changes.members.keys() | authors)
        posts = await self._versions("posts", changes.posts.keys())
        orphans: set[int] = set()
        if is_end:
            # In the order of ids, an imported post may precede its author.
            found = await self._target.read(
                "SELECT DISTINCT author_id FROM posts WHERE NOT EXISTS (SELECT 1 FROM members WHERE id = author_id)"
            )
            orphans = {row[0] for row in found} - changes.members.keys()
        plan = _Plan(self._target, changes, members, posts, orphans)
        guard = "UPDATE shoal_projection SET cursor_text = $1, revision = revision + 1 WHERE revision = $2 RETURNING 1"
        steps = [Statement(guard, progress, must_change=True), *plan.steps(), *noted]
        await self._target.write(steps)
        return bool(plan.returning)

    async def _versions(self, table: str, ids: Collection[int]) -> dict[int, tuple[int, bool]]:
        if not ids:
            return {}
        hides = "hides_connections" if table == "members" else "FALSE"
        rows = await self._target.read(f"SELECT id, version, {hides} FROM {table} WHERE id IN ids($1)", list(ids))
        return {id_: (version, bool(hidden)) for id_, version, hidden in rows}


class _Plan:
    """The statements for some changes, given the versions of the stored members and posts."""

    def __init__(
        self,
        target: Target,
        changes: Changes,
        members: dict[int, tuple[int, bool]],
        posts: dict[int, tuple[int, bool]],
        orphans: set[int],
    ) -> None:
        self._partitioned = target.partitioned
        self._split = _SPLIT[target.engine]
        self._changes = changes
        is_state = changes.is_state
        touched = {
            id_: new for id_, new in changes.members.items() if id_ not in members or new.version >= members[id_][0]
        }
        self._members = {id_: new for id_, new in touched.items() if new.data is not None}
        self._gone = (touched.keys() - self._members.keys()) & members.keys() | orphans
        appeared = self._members.keys() - members.keys()
        hides = {id_: new.data["hides_connections"] for id_, new in self._members.items() if new.data}
        shown = {id_ for id_, (_, hid) in members.items() if hid and not hides.get(id_, True)}
        hidden = {id_ for id_, (_, hid) in members.items() if not hid and hides.get(id_, False)}
        self.returning = set() if is_state else shown | changes.returned | (appeared - changes.created)
        authors = (members.keys() | self._members.keys()) - self._gone
        self._posts = {
            id_: new
            for id_, new in changes.posts.items()
            if new.data
            and (id_ not in posts or new.version >= posts[id_][0])
            and (is_state or int(new.data["author_id"]) in authors)
        }
        dropped = {id_ for id_, new in changes.posts.items() if new.data is None and id_ in posts}
        self._touched_posts = self._posts.keys() | {
            id_ for id_ in dropped if changes.posts[id_].version >= posts[id_][0]
        }
        self._ends = sorted(appeared | self._gone | shown | hidden | (self._posts.keys() - posts.keys()) | dropped)
        deleted = {**changes.members, **changes.posts}.items()
        self._deleted = sorted(id_ for id_, new in deleted if new.data is None and not new.withdrawn)

    def steps(self) -> Iterator[Step]:
        rows = list(self._changes.edge_rows())
        has_edges = bool(rows or self._ends)
        if rows:
            yield Rows(EDGES, rows, _NEWER)
            yield Rows(CHANGED, [row[:3] for row in rows], _IGNORE)
        if self._ends:
            yield from self._incident()
        if has_edges:
            for edges in _EDGE_TABLES:
                yield from self._delete(edges.table, edges.where)
        if self._members or self._gone:
            ids = sorted(self._members.keys() | self._gone)
            put = [member_row(new.data, new.version) for new in self._members.values() if new.data]
            yield from self._replace(MEMBERS, "id IN ids($1)", (ids,), put)
        if self._touched_posts or self._gone:
            yield from self._replace_posts()
        for id_, file in self._changes.files.items():
            yield from self._update_file(id_, file)
        if self._deleted:
            yield Statement("DELETE FROM shoal_edges WHERE member_id IN ids($1)", (self._deleted,))
            yield Statement("DELETE FROM shoal_edges WHERE object_id IN ids($1)", (self._deleted,))
        if has_edges:
            yield from self._show_edges()
        if self.returning:
            yield Rows(
                READING,
                [(id_, "") for id_ in sorted(self.returning)],
                "ON CONFLICT (member_id) DO UPDATE SET place = ''",
            )
        yield Statement(f"DELETE FROM daily WHERE {' AND '.join(f'{c.name} = 0' for c in DAILY.columns[1:])}")

    def _incident(self) -> Iterator[Step]:
        """Note the edges of which an end appeared or disappeared."""
        chosen = (
            ("member_id IN ids($1)", self._ends),
            ("object_id IN ids($1)", self._ends),
            ("object_id IN (SELECT id FROM posts WHERE author_id IN ids($1))", sorted(self._gone)),
        )
        for where, ids in chosen:
            if ids:
                select = f"SELECT kind, id1, id2 FROM shoal_edges WHERE {where}"
                yield Statement(f"INSERT INTO shoal_changed {select} {_IGNORE}", (ids,))

    def _show_edges(self) -> Iterator[Step]:
        """Insert the changed edges of which both ends are present."""
        if "connections" not in self._changes.includes:
            yield Statement(
                "DELETE FROM shoal_edges WHERE kind = 'follow' AND (id1, id2) IN (SELECT id1, id2 FROM shoal_changed "
                "WHERE kind = 'follow') AND EXISTS (SELECT 1 FROM members WHERE id IN (id1, id2) AND hides_connections)"
            )
        for edges in _EDGE_TABLES:
            yield Statement(
                f"INSERT INTO {edges.table.name} SELECT {edges.ends}, e.created_at, e.created_on FROM shoal_changed c "
                "JOIN shoal_edges e ON e.kind = c.kind AND e.id1 = c.id1 AND e.id2 = c.id2 "
                f"{self._split if edges.table is REACTIONS else ''} "
                f"WHERE c.kind = '{edges.kind}' AND NOT e.deleted "
                "AND EXISTS (SELECT 1 FROM members m WHERE m.id = e.member_id) "
                f"AND EXISTS (SELECT 1 FROM {edges.to.name} o WHERE o.id = e.object_id)"
            )
            yield from self._note(edges.table, edges.where, (), "")
        yield Statement("DELETE FROM shoal_changed")

    def _replace_posts(self) -> Iterator[Step]:
        where = "id IN ids($1) OR author_id IN ids($2)"
        args = (sorted(self._touched_posts), sorted(self._gone))
        put = [(new.data, new.version) for new in self._posts.values() if new.data]
        children = ((COMMENTS, comment_rows), (TAGS, tag_rows), (MEDIA, media_rows), (POST_FIELDS, field_rows))
        for table, _ in children:
            inner = f"post_id IN (SELECT id FROM posts WHERE {where})"
            yield from self._delete(table, inner, args)
        yield from self._replace(POSTS, where, args, [post_row(data, version) for data, version in put])
        for table, rows_of in children:
            yield Rows(table, [row for data, _ in put for row in rows_of(data)])
            yield from self._note(table, "post_id IN ids($1)", args[:1], "")

    def _update_file(self, id_: int, file: Any) -> Iterator[Step]:
        yield from self._note(MEDIA, "id = $1", (id_,), "")
        assigned = ", ".join(f"{name} = ${at}" for at, name in enumerate(FILE_COLUMNS, 2))
        yield Statement(f"UPDATE media SET {assigned} WHERE id = $1", (id_, *(file[name] for name in FILE_COLUMNS)))

    def _replace(self, table: Table, where: str, args: tuple[Any, ...], rows: list[tuple[Any, ...]]) -> Iterator[Step]:
        yield from self._delete(table, where, args)
        yield Rows(table, rows)
        yield from self._note(table, "id IN ids($1)", args[:1], "")

    def _delete(self, table: Table, where: str, args: tuple[Any, ...] = ()) -> Iterator[Step]:
        yield from self._note(table, where, args, "-")
        yield Statement(f"DELETE FROM {table.name} WHERE {where}", args)

    def _note(self, table: Table, where: str, args: tuple[Any, ...], sign: str) -> Iterator[Step]:
        """Count rows that were inserted, or ("-") are deleted, in `daily`, and note their months if they are in files."""
        name = table.name
        if any(column.name == name for column in DAILY.columns):
            only = " AND in_reply_to_id IS NULL" if table is POSTS else ""
            counts = ", ".join(f"{sign}count(*)" if column.name == name else "0" for column in DAILY.columns[1:])
            yield Statement(
                f"INSERT INTO daily SELECT created_on, {counts} FROM {name} WHERE ({where}){only} GROUP BY created_on "
                f"ON CONFLICT (day) DO UPDATE SET {name} = daily.{name} + excluded.{name}",
                args,
            )
        if self._partitioned:
            month = "strftime(created_on, '%Y-%m')"
            for noted in (name, "daily"):
                yield Statement(
                    f"INSERT INTO shoal_stale SELECT DISTINCT '{noted}', {month} FROM {name} WHERE {where} {_IGNORE}",
                    args,
                )
