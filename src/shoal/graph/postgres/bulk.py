"""Reading and writing whole rows of a PostgreSQL store: for moving a network, and for seeing how its data are distributed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import asyncpg

from shoal.core.placement import source_of
from shoal.graph.postgres.connections import LONG_PATIENCE, ConnectionPool
from shoal.graph.rows import ASSOC_BYTES, MEMBER_MARK, POST_MARK, KeyRow, Rows, Spread
from shoal.graph.schema import encode_node

_FIRST_REVISION = 1 << 30

KEYS_SCAN = """
    SELECT space, name, id, until FROM shoal.key
    WHERE (space, name) > ($1::text, $2::text) ORDER BY space, name LIMIT $3"""

KEYS_PUT = """
    INSERT INTO shoal.key (space, name, id, until, revision, source)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::integer[], $6::smallint[])
    ON CONFLICT (space, name) DO UPDATE
    SET id = excluded.id, until = excluded.until, revision = excluded.revision, source = excluded.source"""
# A replaced row gets a new revision, so that a reader notices the change.
_PUT = (
    """
    INSERT INTO shoal.object (id, version, revision, data)
    SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bytea[])
    ON CONFLICT (id) DO UPDATE SET version = excluded.version, revision = excluded.revision, data = excluded.data""",
    """
    INSERT INTO shoal.association (id1, atype, id2, time, alive, data, revision)
    SELECT * FROM unnest(
        $1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::boolean[], $6::bytea[], $7::integer[])
    ON CONFLICT (id1, atype, id2) DO UPDATE
    SET time = excluded.time, alive = excluded.alive, data = excluded.data, revision = excluded.revision""",
    """
    INSERT INTO shoal.count (id1, atype, n) SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::bigint[])
    ON CONFLICT (id1, atype) DO UPDATE SET n = excluded.n""",
    KEYS_PUT,
)
_REMOVE = (
    "DELETE FROM shoal.object WHERE id = ANY ($1::bigint[])",
    """
    DELETE FROM shoal.association AS a USING unnest($1::bigint[], $2::smallint[], $3::bigint[]) AS w (id1, atype, id2)
    WHERE a.id1 = w.id1 AND a.atype = w.atype AND a.id2 = w.id2""",
    """
    DELETE FROM shoal.count AS c USING unnest($1::bigint[], $2::smallint[]) AS w (id1, atype)
    WHERE c.id1 = w.id1 AND c.atype = w.atype""",
    """
    DELETE FROM shoal.key AS k USING unnest($1::text[], $2::text[]) AS w (space, name)
    WHERE k.space = w.space AND k.name = w.name""",
)

_SPREAD = """
    SELECT source, sum(members)::bigint, sum(posts)::bigint, sum(bytes)::bigint FROM (
        SELECT shoal.source_of(id) AS source, count(*) FILTER (WHERE position($1::bytea IN substring(data FOR 32)) > 0) AS members,
            count(*) FILTER (WHERE position($2::bytea IN substring(data FOR 32)) > 0) AS posts, sum(length(data)) AS bytes
        FROM shoal.object GROUP BY 1
        UNION ALL
        SELECT shoal.source_of(id1), 0, 0, sum(length(data) + $3::integer) FROM shoal.association GROUP BY 1
    ) AS held GROUP BY 1"""


class PostgresBulk:
    """The rows of one store. `lazy` is the pool that reads; a write is durable when it returns."""

    def __init__(self, lazy: ConnectionPool, durable: ConnectionPool, check: Callable[[], None]) -> None:
        self._check = check
        self._lazy = lazy
        self._durable = durable

    async def key_scan(self, after: tuple[str, str], limit: int) -> list[KeyRow]:
        """Return a page of keys."""
        return [KeyRow(*row) for row in await self._lazy.ask(KEYS_SCAN, *after, limit, patience=LONG_PATIENCE)]

    async def put_rows(self, rows: Rows) -> None:
        """Store rows as they stand."""
        objects = [(node.id, node.version, _revision(), encode_node(node)) for node in rows.objects]
        assocs = [(*row, _revision()) for row in rows.assocs]
        keys = [(*row, _revision(), source_of(row.shard)) for row in rows.keys]
        await self._each(_PUT, (objects, assocs, rows.counts, keys))

    async def remove_rows(self, rows: Rows) -> None:
        """Delete rows."""
        objects = [(node.id,) for node in rows.objects]
        parts = ((3, rows.assocs), (2, rows.counts), (2, rows.keys))
        await self._each(_REMOVE, (objects, *([row[:width] for row in part] for width, part in parts)))

    async def _each(self, statements: Sequence[str], parts: Sequence[Sequence[Any]]) -> None:
        async def write(connection: asyncpg.Connection) -> None:
            async with connection.transaction():
                for statement, part in zip(statements, parts, strict=True):
                    if part:
                        await connection.execute(statement, *map(list, zip(*part, strict=True)))

        self._check()
        await self._durable.use(write, patience=LONG_PATIENCE)

    async def spread(self) -> dict[int, Spread]:
        """Return how many members, posts and bytes each data source has."""

        async def read(connection: asyncpg.Connection) -> list[Any]:
            async with connection.transaction(readonly=True):
                # A scan of the whole table in its physical order is cheapest here: every row is read.
                await connection.execute("SET LOCAL enable_seqscan = on")
                rows: list[Any] = await connection.fetch(_SPREAD, MEMBER_MARK, POST_MARK, ASSOC_BYTES)
            return rows

        rows = await self._lazy.use(read, patience=LONG_PATIENCE)
        return {source: Spread(*held) for source, *held in rows}


def _revision() -> int:
    return random.randrange(1, _FIRST_REVISION)  # noqa: S311  # it guards nothing
