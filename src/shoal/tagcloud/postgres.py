"""The tag cloud in a PostgreSQL database, in the schema `shoal`: the graph's own or another one.

A merge is one transaction that first locks the row of the newest version, so if two would write one version, the second
finds it written. Its rows are written in slices, one statement each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import asyncpg

from shoal.graph.postgres.connections import LONG_PATIENCE
from shoal.graph.postgres.derived import DerivedStore
from shoal.graph.postgres.migrations import VersionLedger
from shoal.tagcloud import postgres_sql as sql
from shoal.tagcloud.contract import (
    CLOCK_SLACK,
    KEEP_CLOUDS,
    KEEP_INCREMENTS_MS,
    LOCK_SECONDS,
    ORDER_COLUMNS,
    AuthorKey,
    Head,
    Merge,
    Overtaken,
    Parts,
    TagRow,
    TagRule,
    authors_of,
    rows_of,
)

_SLICE = 2_000
_IDLE_MS = str(round(LOCK_SECONDS * 1000))
_DELETED_AT_ONCE = 50_000
"""Maximum of authors of past days that a merge deletes; reads ignore the rest, which is left to the next merges."""

LEDGER = VersionLedger("the tag cloud", "tag_version", sql.MIGRATIONS)


class PostgresCloud(DerivedStore):
    """A `contract.CloudStore` in PostgreSQL."""

    ledger = LEDGER
    title = "the store"
    readers = 4
    writers = 4
    """A merge occupies one of them for a while; the others serve locks and increments."""

    @property
    def round_trips(self) -> int:
        return self._reading.asked + (self._writing.asked if self._writing else 0)

    async def lock(self, holder: bytes, seconds: float = LOCK_SECONDS) -> bool:
        return bool(await self._durable().ask(sql.LOCK, holder, seconds, CLOCK_SLACK))

    async def renew(self, holder: bytes, seconds: float = LOCK_SECONDS) -> bool:
        return bool(await self._durable().ask(sql.RENEW, holder, seconds))

    async def unlock(self, holder: bytes) -> None:
        await self._durable().ask(sql.UNLOCK, holder)

    async def version(self) -> int:
        found = await self._reading.ask(sql.VERSION)
        return int(found[0][0]) if found else 0

    async def head(self) -> Head:
        found = await self._reading.ask(sql.HEAD)
        return Head(*found[0]) if found else Head()

    async def clouds(self, limit: int) -> list[tuple[int, int, bytes]]:
        return list(map(tuple, await self._reading.ask(sql.CLOUDS, limit)))

    async def merged(self, increments: Collection[bytes]) -> set[bytes]:
        return {id_ for (id_,) in await self._reading.ask(sql.MERGED, list(increments))}

    async def marks(self, buckets: Collection[int], after_version: int) -> dict[int, list[bytes]]:
        answer: dict[int, list[bytes]] = {}
        for bucket, marks in await self._reading.ask(sql.MARKS, list(buckets), after_version):
            answer.setdefault(bucket, []).append(marks)
        return answer

    async def tags(self, ids: Collection[int]) -> dict[int, TagRow]:
        return {row.id: row for row in rows_of(await self._reading.ask(sql.COUNTS, sorted(ids)))}

    async def authors(self, keys: Collection[AuthorKey]) -> dict[AuthorKey, int]:
        sorted_keys = sorted((day, tag, member) for tag, day, member in keys)
        return authors_of(await self._reading.ask(sql.AUTHORS, *_columns(sorted_keys, 3)))

    async def author_counts(self, days: Collection[tuple[int, int]]) -> dict[AuthorKey, int]:
        sorted_keys = sorted((day, tag) for tag, day in days)
        return authors_of(await self._reading.ask(sql.CROWDS, *_columns(sorted_keys, 2)))

    async def top(self, window: int, limit: int) -> list[TagRow]:
        statement = sql.TOP.format(column=ORDER_COLUMNS[window])
        return rows_of(await self._reading.ask(statement, limit, patience=LONG_PATIENCE))

    async def scan(self, after: int, limit: int) -> list[TagRow]:
        return rows_of(await self._reading.ask(sql.SCAN, after, limit, patience=LONG_PATIENCE))

    async def rules(self) -> dict[str, TagRule]:
        return {name: TagRule(name, denied, target) for name, denied, target in await self._reading.ask(sql.RULES)}

    async def write(self, merge: Merge, holder: bytes = b"") -> None:
        connections = self._durable()

        async def write(connection: asyncpg.Connection) -> None:
            async with connection.transaction():
                connections.asked += 3
                if await connection.fetchval(sql.VERSION_LOCK, _IDLE_MS) != merge.head.version - 1:
                    raise Overtaken("the tag cloud was changed concurrently")
                for statement, values in _statements(merge):
                    connections.asked += 1
                    await connection.execute(statement, *values)
                # Check the lock last: the check locks the row of the lock, and another process must be able to take over from a
                # writer that was paused earlier.
                if holder:
                    connections.asked += 1
                    if await connection.fetchval(sql.HELD, holder) is None:
                        raise Overtaken("another process has taken the lock of the tag cloud")

        await connections.use(write, patience=LONG_PATIENCE)

    async def put(self, id_: bytes, body: bytes) -> None:
        await self._durable().ask(sql.INBOX_PUT, id_, body)

    async def inbox(self, limit: int) -> list[tuple[bytes, bytes]]:
        return list(map(tuple, await self._reading.ask(sql.INBOX, limit)))

    async def discard(self, increments: Collection[bytes]) -> None:
        await self._durable().ask(sql.INBOX_FORGET, list(increments))

    async def waiting(self) -> int:
        return int((await self._reading.ask(sql.INBOX_SIZE))[0][0])


def _statements(merge: Merge) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the statements of a merge, without statements that would change nothing."""
    head, parts = merge.head, Parts(merge)
    rules = [(rule.name, rule.denied, rule.target) for rule in parts.rules]
    for statement, rows, width in (
        (sql.COUNT_PUT, parts.rows, 7),
        (sql.AUTHOR_PUT, parts.authors, 4),
        (sql.AUTHOR_FORGET, parts.silent, 3),
        (sql.RULE_PUT, rules, 3),
    ):
        for start in range(0, len(rows), _SLICE):
            yield statement, _columns(rows[start : start + _SLICE], width)
    if parts.gone:
        yield sql.COUNT_FORGET, [parts.gone]
    if parts.revoked:
        yield sql.RULE_FORGET, [parts.revoked]
    if parts.increments:
        yield sql.INCREMENT_PUT, [parts.increments, head.at]
        yield sql.INBOX_FORGET, [parts.increments]
    if parts.marks:
        yield sql.MARK_PUT, [head.version, *_columns(parts.marks, 2)]
    yield sql.AUTHORS_FORGET, [merge.before_day, _DELETED_AT_ONCE]
    yield sql.INCREMENT_FORGET, [head.at - KEEP_INCREMENTS_MS]
    yield sql.CLOUD_PUT, [head.version, head.at, head.cloud]
    yield sql.CLOUD_FORGET, [head.version - KEEP_CLOUDS]
    yield sql.STATE_PUT, [head.version, head.at, head.complete_to, merge.before_day, head.state]


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
