"""The search index in a PostgreSQL database, in the schema `shoal`: words with their positions, and GIN.

A change is one transaction; concurrent writers wait for each other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import asyncpg
import msgspec

from shoal.core.tokenizer import Clause
from shoal.graph.postgres.connections import LONG_PATIENCE
from shoal.graph.postgres.derived import DerivedStore
from shoal.graph.postgres.migrations import VersionLedger
from shoal.search import postgres_sql as sql
from shoal.search.contract import (
    Ask,
    FillState,
    IndexChange,
    Making,
    MemberRow,
    Order,
    PostRow,
    TagUses,
    ways,
)

_LAST_CHARACTER = "\U0010ffff"
# A rare word is looked up in the index of words, a common one by scanning the newest posts. PostgreSQL can choose by its statistics
# only if it plans each query with the actual words.
_PLANNED = {
    "plan_cache_mode": "force_custom_plan",
    "enable_seqscan": "on",
    "enable_hashjoin": "on",
    "enable_mergejoin": "on",
    # Needed for names that hundreds of thousands of members have: with less memory, the bitmap becomes lossy, and all rows of its
    # pages are rechecked.
    "work_mem": "32MB",
}

_WINDOWS = (2_000, 20_000)
"""Numbers of newest posts that are scanned before words are looked up in the index.

The scans take 1 and 4 ms, or 5 and 20 ms if nothing matches. Only words in fewer than one post in 500 are looked up.
"""

_encode = msgspec.msgpack.Encoder().encode
_post_row = msgspec.msgpack.Decoder(PostRow).decode
_member_row = msgspec.msgpack.Decoder(MemberRow).decode

LEDGER = VersionLedger("the search index", "search_version", sql.MIGRATIONS)


class PostgresIndex(DerivedStore):
    ledger = LEDGER
    title = "the search index"
    readers = 4
    writers = 2
    planner = _PLANNED
    keeps = True

    async def write(self, change: IndexChange | Making) -> None:
        made = change if isinstance(change, IndexChange) else await asyncio.to_thread(change)

        async def write(connection: asyncpg.Connection) -> None:
            async with connection.transaction():
                await connection.execute(sql.LOCK)
                uses: Counter[str] = Counter()
                authors = await _write_posts(connection, made, uses)
                authors |= await _write_members(connection, made)
                counted = sorted((name, n) for name, n in uses.items() if n)
                if counted:
                    await connection.execute(sql.TAGS_COUNT, *map(list, zip(*counted, strict=True)))
                    await connection.execute(sql.TAGS_DROP, [name for name, n in counted if n < 0])
                if authors:
                    await connection.execute(sql.ACTIVE, sorted(authors))

        await self._durable().use(write, patience=LONG_PATIENCE)

    async def posts(self, ask: Ask, limit: int) -> list[int]:
        found: set[int] = set()
        for own, marks in ways(ask):
            values = (_match(ask, marks), ask.before, ask.after, ask.since, ask.until, own)
            # Few posts are by the viewer or mention the viewer: look them up without scanning the newest posts.
            found.update(await self._newest(None if own else sql.NEWEST_POSTS, sql.POSTS, values, limit))
        return sorted(found, reverse=True)[:limit]

    async def members(
        self, clauses: Sequence[Clause], name: str, limit: int, *, among: Collection[int] | None = None
    ) -> list[int]:
        named, bio_clauses = _all(clauses), _all(clause._replace(open=False) for clause in clauses)
        beyond = name + _LAST_CHARACTER
        found: list[int] = []
        for match, values in (
            (sql.BEGINNING, (named, name, beyond)),
            (sql.OTHERWISE, (named, name, beyond)),
            (sql.IN_NOTE, (bio_clauses, named, "")),
        ):
            left = limit - len(found)
            if left and among is None:
                lately, listed = sql.LATELY_ACTIVE.format(match=match), sql.LISTED.format(match=match)
                found += await self._newest(lately, listed, values, left)
            elif left:
                found += await self._ids(sql.AMONG.format(match=match), *values, left, list(among or ()))
        return found

    async def _newest(self, newest: str | None, everything: str, values: Sequence[object], limit: int) -> list[int]:
        """Run the statement `newest` on more and more of the newest rows; if they have too few matches, run `everything`."""
        if newest is not None:
            for window in _WINDOWS:
                ((found, looked_at),) = await self._reading.ask(newest, *values, limit, window)
                if len(found) == limit or looked_at < window:
                    return list(found)
        return await self._ids(everything, *values, limit)

    async def _ids(self, statement: str, *values: object) -> list[int]:
        return [id_ for (id_,) in await self._reading.ask(statement, *values)]

    async def tags(self, prefix: str, limit: int) -> list[TagUses]:
        return [TagUses(*row) for row in await self._reading.ask(sql.TAGS, prefix, prefix + _LAST_CHARACTER, limit)]

    async def directory(self, order: Order, limit: int, offset: int = 0) -> list[int]:
        return await self._ids(sql.DIRECTORY[order], limit, offset)

    async def rows(self, ids: Collection[int]) -> dict[int, PostRow | MemberRow]:
        found: dict[int, PostRow | MemberRow] = {}
        for id_, data in await self._reading.ask(sql.POSTS_HELD, list(ids)):
            found[id_] = _post_row(data)
        for id_, data in await self._reading.ask(sql.MEMBERS_HELD, list(ids)):
            found[id_] = _member_row(data)
        return found

    async def ids(self, after: int, limit: int) -> list[int]:
        return await self._ids(sql.IDS, after, limit)

    async def state(self) -> FillState:
        found = await self._reading.ask(sql.STATE)
        return FillState(*found[0]) if found else FillState()

    async def keep_state(self, state: FillState) -> None:
        await self._durable().ask(sql.STATE_PUT, *state)

    async def clear(self) -> None:
        await self._durable().ask(sql.CLEAR, patience=LONG_PATIENCE)


async def _write_posts(connection: asyncpg.Connection, change: IndexChange, uses: Counter[str]) -> set[int]:
    """Write posts, add the change in the number of posts of each tag to `uses`, and return the affected authors."""
    put = {row.id: row for row in change.posts}
    rows = await connection.fetch(sql.POSTS_HELD, [*put, *change.gone])
    stored = {id_: _post_row(data) for id_, data in rows}
    new = [row for id_, row in put.items() if stored.get(id_) != row]
    old = [row for id_, row in stored.items() if put.get(id_) != row]
    for row in old:
        uses.subtract(row.tags)
    for row in new:
        uses.update(row.tags)
    if old:
        await connection.execute(sql.POSTS_DROP, [row.id for row in old])
    if new:
        values = [
            (row.id, row.author_id, row.written, row.public, _vector(row.words, row.marks), _encode(row)) for row in new
        ]
        await connection.execute(sql.POSTS_PUT, *map(list, zip(*values, strict=True)))
    return {row.author_id for row in (*old, *new)}


async def _write_members(connection: asyncpg.Connection, change: IndexChange) -> set[int]:
    put = {row.id: row for row in change.members}
    rows = await connection.fetch(sql.MEMBERS_HELD, [*put, *change.gone])
    stored = {id_: _member_row(data) for id_, data in rows}
    new = [row for id_, row in put.items() if stored.get(id_) != row]
    old = [row.id for id_, row in stored.items() if put.get(id_) != row]
    if old:
        await connection.execute(sql.MEMBERS_DROP, old)
    if new:
        values = [
            (
                *(row.id, row.name, row.joined, row.listed, row.shy, row.suspended),
                *(_vector(row.words), _vector(row.note), _encode(row)),
            )
            for row in new
        ]
        await connection.execute(sql.MEMBERS_PUT, *map(list, zip(*values, strict=True)))
    return {row.id for row in new}


def _vector(words: Sequence[str], marks: Iterable[str] = ()) -> str:
    """Return a tsvector literal. Words need no escaping, because they contain neither quotation marks nor backslashes."""
    positions: dict[str, list[str]] = {mark: [] for mark in marks}
    for at, word in enumerate(words, 1):
        positions.setdefault(word, []).append(str(at))
    return " ".join(f"'{word}'{':' if at else ''}{','.join(at)}" for word, at in positions.items())


def _match(ask: Ask, marks: Sequence[str]) -> str:
    groups = map(_either, (marks, *ask.some))
    return " & ".join((*groups, *map(_clause, ask.every), *(f"!{_clause(clause)}" for clause in ask.none)))


def _either(marks: Iterable[str]) -> str:
    return "({})".format(" | ".join(f"'{mark}'" for mark in marks))


def _all(clauses: Iterable[Clause]) -> str:
    return " & ".join(map(_clause, clauses))


def _clause(clause: Clause) -> str:
    words = [f"'{word}'" for word in clause.words]
    return f"({' <-> '.join(words)}{':*' if clause.open else ''})"
