"""Rows of a snapshot as files: packed in MessagePack and gzip, a few megabytes at a time, and unpacked again.

They are the rows that `shoal move` moves, the same for every engine: a network may be restored to another one.
"""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import msgspec

from shoal.core import events
from shoal.core.errors import NewerNeeded
from shoal.core.ids import shard_of
from shoal.graph.bulk import FIRST_KEYS, KeyRow, Row, SnapshotSource, SnapshotTable
from shoal.graph.contract import AssocRow
from shoal.graph.schema import decode_node
from shoal.ops.backups.manifest import DumpPart
from shoal.ops.backups.repository import BackupDamaged

PART_BYTES = 4 << 20
"""Size of the rows of a part in memory, about; exceeded by a page of rows at most."""
_ROW_BYTES = 64
"""Bytes that a row takes beside its values."""
_PAGE = 4_000
_LEVEL = 3
"""Level of gzip: a third more bytes than the best one, in a tenth of the time."""


class KeptFile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One file of media in a backup."""

    key: str
    size: int
    sha256: bytes


MEDIA_TABLE = "media"
ROWS: Mapping[str, Any] = {
    SnapshotTable.OBJECTS.value: tuple[int, int, bytes],
    SnapshotTable.ASSOCIATIONS.value: AssocRow,
    SnapshotTable.COUNTS.value: tuple[int, int, int],
    SnapshotTable.KEYS.value: KeyRow,
    SnapshotTable.EVENTS.value: tuple[int, bytes],
    SnapshotTable.BURIED.value: tuple[int, bytes, str],
    MEDIA_TABLE: KeptFile,
}
"""The type of a row, by the table that a part is of."""

_decoders = {table: msgspec.msgpack.Decoder(list[row]) for table, row in ROWS.items()}  # type: ignore[valid-type]
_encode = msgspec.msgpack.Encoder().encode


async def packed(rows: Sequence[Any]) -> bytes:
    """Pack rows in a thread: compressing takes most of the time of a backup."""
    return await asyncio.to_thread(lambda: gzip.compress(_encode(rows), _LEVEL, mtime=0))


def unpack(table: str, data: bytes) -> list[Any]:
    """Return the rows of a part. Raises `BackupDamaged`."""
    try:
        return _decoders[table].decode(gzip.decompress(data))
    except (OSError, EOFError, zlib.error, msgspec.DecodeError) as error:
        raise BackupDamaged(f"rows of {table} cannot be read: {error}") from error


def opened(part: DumpPart, data: bytes) -> Sequence[object]:
    """Return the rows of a part. Raises `BackupDamaged` unless all are there, and objects and events can be read."""
    rows = unpack(part.table, data)
    if len(rows) != part.rows:
        raise BackupDamaged(f"{part.key} has {len(rows)} rows and not {part.rows}")
    try:
        for row in rows:
            if part.table == SnapshotTable.OBJECTS.value:
                decode_node(row[2])
            elif part.table in {SnapshotTable.EVENTS.value, SnapshotTable.BURIED.value}:
                events.decode(row[1])
    except NewerNeeded as error:
        raise BackupDamaged(f"{part.key} has an object that only a newer Shoal knows: use that one") from error
    except msgspec.DecodeError as error:
        raise BackupDamaged(f"{part.key} has a row that cannot be read: {error}") from error
    return rows


async def parts_of(
    source: SnapshotSource, table: SnapshotTable, owns: Callable[[int], bool] | None, part_bytes: int = PART_BYTES
) -> AsyncIterator[Sequence[Row]]:
    """Read a table of one store, a part at a time. `owns` says which shards are the store's; None: all of them."""
    after = FIRST_KEYS[table]
    waiting: list[Row] = []
    size = 0
    while page := await source.page(table, after, _PAGE):
        after = page[-1][: len(after)]
        rows = page if owns is None else [row for row in page if _is_own(table, row, owns)]
        waiting += rows
        size += sum(map(_weight, rows))
        if size >= part_bytes:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def _weight(row: Row) -> int:
    """About the bytes of a row."""
    return _ROW_BYTES + sum(len(value) if isinstance(value, bytes | str) else 8 for value in row)


def _is_own(table: SnapshotTable, row: Row, owns: Callable[[int], bool]) -> bool:
    if table is SnapshotTable.KEYS:
        return owns(KeyRow._make(row).shard)
    # Events are acted on wherever they lie.
    return table in {SnapshotTable.EVENTS, SnapshotTable.BURIED} or owns(shard_of(row[0]))
