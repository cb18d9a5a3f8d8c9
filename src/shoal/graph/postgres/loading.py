"""Parts of an import into an empty network, by COPY. Associations are made into PostgreSQL's own form of rows by NumPy."""

from __future__ import annotations

import random
from collections.abc import Callable
from io import BytesIO

import asyncpg
import numpy as np

from shoal.core.errors import Unavailable
from shoal.core.placement import source_of
from shoal.graph.loading import LoadPart, Occupied, Table
from shoal.graph.postgres.connections import LONG_PATIENCE, ConnectionPool

_FIRST_REVISION = 1 << 30
# Both are looked at, and locked against changes, as `shoal.commit` does.
_ALLOWED = """
    SELECT EXISTS (SELECT FROM shoal.owner WHERE id = $1), EXISTS (SELECT FROM shoal.moving)"""

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = (-1).to_bytes(2, signed=True)
_LINK = np.dtype(
    [
        ("fields", ">i2"),
        *(
            column
            for name, form in (
                ("id1", ">i8"),
                ("id2", ">i8"),
                ("time", ">i8"),
                ("revision", ">i4"),
                ("atype", ">i2"),
                ("alive", "u1"),
            )
            for column in ((f"{name}_length", ">i4"), (name, form))
        ),
        ("data_length", ">i4"),
    ]
)
_LINK_COLUMNS = ("id1", "id2", "time", "revision", "atype", "alive", "data")


async def load(pool: ConnectionPool, owned_by: int, check: Callable[[], None], part: LoadPart) -> None:
    """Store a part in a transaction of its own. Raises `Occupied`, and `Unavailable` while data sources are moving."""

    async def write(connection: asyncpg.Connection) -> None:
        async with connection.transaction():
            owned, moving = await connection.fetchrow(_ALLOWED, owned_by)
            if moving or not owned:
                raise Unavailable("data sources are being moved, or others have the store: import when that is over")
            await _copy(connection, part)

    check()
    try:
        await pool.use(write, patience=LONG_PATIENCE)
    except asyncpg.UniqueViolationError as error:
        raise Occupied("a row is there already") from error


async def _copy(connection: asyncpg.Connection, part: LoadPart) -> None:
    for table, columns, records in (
        ("object", ("id", "version", "revision", "data"), [(a, b, _revision(), c) for a, b, c in part.objects]),
        (
            "key",
            ("space", "name", "id", "until", "revision", "source"),
            [(*row, _revision(), source_of(row.shard)) for row in part.keys],
        ),
        ("count", ("id1", "atype", "n"), part.counts.tolist()),
    ):
        if records:
            await connection.copy_records_to_table(table, records=records, columns=columns, schema_name="shoal")
    if len(part.links):
        source = BytesIO(_binary(part.links))
        await connection.copy_to_table(
            "association", source=source, columns=_LINK_COLUMNS, schema_name="shoal", format="binary"
        )


def _binary(links: Table) -> bytes:
    """Rows as COPY reads them: the number of fields, then each with its length in bytes before it, in network order."""
    rows = np.zeros(len(links), _LINK)
    rows["fields"] = len(_LINK_COLUMNS)
    for at, name in enumerate(("id1", "atype", "id2", "time")):
        rows[name] = links[:, at]
    rows["revision"] = np.random.default_rng().integers(1, _FIRST_REVISION, len(links))
    rows["alive"] = 1
    for name in _LINK_COLUMNS[:-1]:
        rows[f"{name}_length"] = _LINK[name].itemsize
    return _SIGNATURE + rows.tobytes() + _END


def _revision() -> int:
    return random.randrange(1, _FIRST_REVISION)  # noqa: S311  # it guards nothing
