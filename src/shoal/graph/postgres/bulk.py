"""Bulk access to a PostgreSQL store: whole rows, imports by COPY, and consistent snapshots.

Every commit reads the table `owner`; a snapshot locks it exclusively, which waits for running commits and delays new ones, then
starts a repeatable-read transaction. The server ends a lock held for too long, and `release` then raises.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, TypeVar

import asyncpg
import numpy as np

from shoal.core.errors import Unavailable
from shoal.graph.bulk import (
    ASSOC_BYTES,
    HOLD_SECONDS,
    MEMBER_MARK,
    POST_MARK,
    KeyRow,
    LoadPart,
    Occupied,
    Row,
    Rows,
    SnapshotTable,
    Spread,
    Table,
)
from shoal.graph.postgres import moves_sql, sql
from shoal.graph.postgres.connections import LONG_PATIENCE, ConnectionPool, Work, connect, goodbye, refusal
from shoal.graph.postgres.migrations import check_own_version
from shoal.graph.postgres.primary import LOST, PrimaryConnection, lost_if_closed
from shoal.graph.schema import encode_node
from shoal.graph.shard_map import ShardMap, from_json

_FIRST_REVISION = 1 << 30

KEYS_SCAN = """
    SELECT space, name, id, until FROM shoal.key
    WHERE (space, name) > ($1::text, $2::text) ORDER BY space, name LIMIT $3"""

KEYS_PUT = """
    INSERT INTO shoal.key (space, name, id, until, revision)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::integer[])
    ON CONFLICT (space, name) DO UPDATE
    SET id = excluded.id, until = excluded.until, revision = excluded.revision"""
# Give a replaced row a new revision, so that a commit that has read the old row is refused.
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
    SELECT shard, sum(members)::bigint, sum(posts)::bigint, sum(bytes)::bigint FROM (
        SELECT shoal.shard_of(id) AS shard, count(*) FILTER (WHERE position($1::bytea IN substring(data FOR 32)) > 0) AS members,
            count(*) FILTER (WHERE position($2::bytea IN substring(data FOR 32)) > 0) AS posts, sum(length(data)) AS bytes
        FROM shoal.object GROUP BY 1
        UNION ALL
        SELECT shoal.shard_of(id1), 0, 0, sum(length(data) + $3::integer) FROM shoal.association GROUP BY 1
    ) AS held GROUP BY 1"""


async def put_rows(pool: ConnectionPool, rows: Rows) -> None:
    objects = [(node.id, node.version, _revision(), encode_node(node)) for node in rows.objects]
    assocs = [(*row, _revision()) for row in rows.assocs]
    keys = [(*row, _revision()) for row in rows.keys]
    await _write_each(pool, _PUT, (objects, assocs, rows.counts, keys))


async def remove_rows(pool: ConnectionPool, rows: Rows) -> None:
    objects = [(node.id,) for node in rows.objects]
    parts = ((3, rows.assocs), (2, rows.counts), (2, rows.keys))
    await _write_each(pool, _REMOVE, (objects, *([row[:width] for row in part] for width, part in parts)))


async def _write_each(pool: ConnectionPool, statements: Sequence[str], parts: Sequence[Sequence[Any]]) -> None:
    async def write(connection: asyncpg.Connection) -> None:
        async with connection.transaction():
            for statement, part in zip(statements, parts, strict=True):
                if part:
                    await connection.execute(statement, *map(list, zip(*part, strict=True)))

    await pool.use(write, patience=LONG_PATIENCE)


async def spread(pool: ConnectionPool) -> dict[int, Spread]:
    async def read(connection: asyncpg.Connection) -> list[Any]:
        async with connection.transaction(readonly=True):
            # A sequential scan is cheapest here: every row is read.
            await connection.execute("SET LOCAL enable_seqscan = on")
            rows: list[Any] = await connection.fetch(_SPREAD, MEMBER_MARK, POST_MARK, ASSOC_BYTES)
        return rows

    return {shard: Spread(*values) for shard, *values in await pool.use(read, patience=LONG_PATIENCE)}


def _revision() -> int:
    return random.randrange(1, _FIRST_REVISION)  # noqa: S311  # it guards nothing


# Reading the two tables also locks them: a move of data, or another process that opens the store, waits for the end of the
# transaction.
_ALLOWED = """
    SELECT EXISTS (SELECT FROM shoal.owner WHERE id = $1), EXISTS (SELECT FROM shoal.moving)"""

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = (-1).to_bytes(2, signed=True)
_LINK_COLUMNS = {"id1": ">i8", "id2": ">i8", "time": ">i8", "revision": ">i4", "atype": ">i2", "alive": "u1"}
_LINK_FIELDS = [field for name, form in _LINK_COLUMNS.items() for field in ((f"{name}_length", ">i4"), (name, form))]
_LINK = np.dtype([("fields", ">i2"), *_LINK_FIELDS, ("data_length", ">i4")])
"""A row of an import, whose last column, `data`, is empty."""


async def load(pool: ConnectionPool, owned_by: int, part: LoadPart) -> None:
    """Store one chunk of an import in one transaction.

    Raises `Occupied` if a row already exists, and `Unavailable` while shards are being moved or other processes use the
    store.
    """

    async def write(connection: asyncpg.Connection) -> None:
        async with connection.transaction():
            owned, moving = await connection.fetchrow(_ALLOWED, owned_by)
            if moving or not owned:
                raise Unavailable(
                    "data sources are being moved (wait for the end) or other processes have the store open (stop them)"
                )
            await _copy(connection, part)

    try:
        await pool.use(write, patience=LONG_PATIENCE)
    except asyncpg.UniqueViolationError as error:
        raise Occupied("the store already has a row of the import") from error


async def _copy(connection: asyncpg.Connection, part: LoadPart) -> None:
    for table, columns, records in (
        ("object", ("id", "version", "revision", "data"), [(a, b, _revision(), c) for a, b, c in part.objects]),
        (
            "key",
            ("space", "name", "id", "until", "revision"),
            [(*row, _revision()) for row in part.keys],
        ),
        ("count", ("id1", "atype", "n"), part.counts.tolist()),
    ):
        if records:
            await connection.copy_records_to_table(table, records=records, columns=columns, schema_name="shoal")
    if len(part.links):
        source, names = BytesIO(_binary(part.links)), (*_LINK_COLUMNS, "data")
        await connection.copy_to_table(
            "association", source=source, columns=names, schema_name="shoal", format="binary"
        )


def _binary(links: Table) -> bytes:
    """Encode rows in the binary format of COPY.

    Each row is its number of fields, then each field preceded by its length in bytes. Numbers are in network byte order.
    """
    rows = np.zeros(len(links), _LINK)
    rows["fields"] = len(_LINK_COLUMNS) + 1
    for at, name in enumerate(("id1", "atype", "id2", "time")):
        rows[name] = links[:, at]
    rows["revision"] = np.random.default_rng().integers(1, _FIRST_REVISION, len(links))
    rows["alive"] = 1
    for name in _LINK_COLUMNS:
        rows[f"{name}_length"] = _LINK[name].itemsize
    return _SIGNATURE + rows.tobytes() + _END


T = TypeVar("T")

_SETTINGS = {
    "application_name": "shoal backup",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "jit": "off",
    "statement_timeout": "0",
    # The read transaction is idle while the previous page is written to the destination of the backup.
    "idle_in_transaction_session_timeout": "0",
}
_HOLDING = {
    "application_name": "shoal backup",
    "lock_timeout": f"{HOLD_SECONDS * 1_000:.0f}",
    # Long enough to open the snapshots of all stores. If this process is suspended, it is the longest delay of commits.
    "idle_in_transaction_session_timeout": "3s",
}
_PAGES: Mapping[SnapshotTable, str] = {
    SnapshotTable.OBJECTS: "SELECT id, version, data FROM shoal.object WHERE id > $1 ORDER BY id LIMIT $2",
    SnapshotTable.ASSOCIATIONS: sql.ASSOC_SCAN,
    SnapshotTable.COUNTS: sql.COUNT_SCAN,
    SnapshotTable.KEYS: KEYS_SCAN,
    SnapshotTable.EVENTS: "SELECT seq, event FROM shoal.outbox WHERE seq > $1 ORDER BY seq LIMIT $2",
    SnapshotTable.PARKED: "SELECT seq, event, error FROM shoal.buried WHERE seq > $1 ORDER BY seq LIMIT $2",
}
_LOST = "lost the connection to the store: run the backup again"


class PostgresSnapshot:
    def __init__(self, url: str, reading: PrimaryConnection, holding: PrimaryConnection) -> None:
        self._url = url
        self._reading = reading
        self._holding = holding

    @classmethod
    async def connect(cls, url: str) -> PostgresSnapshot:
        """Connect to the database. Raises `Unavailable` if it cannot be reached or if its tables are of another version."""
        reading = await connect(url, _SETTINGS)
        try:
            await _do(reading, check_own_version)
            return cls(url, reading, await connect(url, _HOLDING))
        except BaseException:
            reading.terminate()
            raise

    async def hold(self) -> None:
        """Block commits, and the publication of new shard maps (see `SnapshotSource.hold`)."""

        async def hold(connection: asyncpg.Connection) -> None:
            await connection.execute("BEGIN")
            await connection.execute(sql.OWNER_LOCK)
            await connection.execute(moves_sql.MAP_KEEP)

        if self._holding.is_closed():
            self._holding = await connect(self._url, _HOLDING)
        await _do(self._holding, hold)

    async def open(self) -> None:
        async def begin(connection: asyncpg.Connection) -> None:
            if connection.is_in_transaction():
                await connection.execute("ROLLBACK")
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # The statement must not read a table: the table would stay locked against upgrades for as long as the backup takes.
            await connection.execute("SELECT 1")

        await _do(self._reading, begin)

    async def release(self) -> None:
        """End the transaction that blocks commits; raise `Unavailable` if the server has already ended it, or was replaced."""
        if self._holding.is_closed() or self._holding.history != self._reading.history:
            raise Unavailable(_LOST)
        if self._holding.is_in_transaction():
            await _do(self._holding, lambda connection: connection.execute("ROLLBACK"))

    async def map(self) -> ShardMap | None:
        row = await _do(self._reading, lambda connection: connection.fetchrow(moves_sql.LAST_MAP))
        return from_json(*row) if row else None

    async def page(self, table: SnapshotTable, after: Row, limit: int) -> list[Row]:
        async def read(connection: asyncpg.Connection) -> list[Row]:
            rows = await connection.fetch(_PAGES[table], *after, limit, timeout=LONG_PATIENCE)
            return list(map(tuple, rows))

        return await _do(self._reading, read)

    async def forget(self) -> None:
        if self._reading.is_in_transaction():
            await _do(self._reading, lambda connection: connection.execute("ROLLBACK"))

    async def note(self, row: KeyRow) -> None:
        """In a separate transaction, store the key that records a backup; also in the journal if its shard is being moved."""
        values = (*row, 1)

        async def put(connection: asyncpg.Connection) -> None:
            async with connection.transaction():
                await connection.execute(sql.KEY_WATCH, [row.space], [row.name], [row.shard])
                await connection.execute(KEYS_PUT, *([value] for value in values))

        await _do(self._holding, put)

    async def close(self) -> None:
        await goodbye(self._holding)
        await goodbye(self._reading)


async def _do(connection: asyncpg.Connection, work: Work[T]) -> T:
    try:
        with lost_if_closed(connection):
            return await work(connection)
    except LOST as error:
        raise Unavailable(_LOST) from error
    except asyncpg.PostgresError as error:
        refused = refusal(error)
        if refused is error:
            raise
        raise refused from error
