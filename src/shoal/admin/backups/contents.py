"""Contents of a backup: the rows of snapshots in files, and copies of media.

Rows are packed in MessagePack and gzip, a few megabytes at a time. They have the format of `shoal move`, which does not
depend on the engine, so a network can be restored to another engine.

Only media that the repository lacks are copied. The contents under a key never change, so files with equal keys and
sizes are identical in all backups. Data sources are processed one after the other, so memory contains the names of a
64th of the media.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import tempfile
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from shoal.admin.backups.repository import MEDIA, BackupDamaged, BackupRepository, DumpPart, Manifest, MediaTotals
from shoal.admin.report import Progress
from shoal.admin.throttling import Throttle, run_bounded
from shoal.core import events
from shoal.core.errors import NewerNeeded, NotFound
from shoal.core.ids import shard_of
from shoal.core.media_files import files_now
from shoal.core.placement import DATA_SOURCES
from shoal.graph.bulk import FIRST_KEYS, KeyRow, Row, SnapshotSource, SnapshotTable
from shoal.graph.contract import AssocRow
from shoal.graph.schema import AnyNode, decode_node
from shoal.media.store import MediaStore, type_of

_PART_BYTES = 4 << 20
"""Approximate bytes of a part's rows in memory. The last page of rows may exceed it."""
_ROW_BYTES = 64
"""Bytes of memory of a row in addition to its values."""
_PAGE = 4_000
_LEVEL = 3
"""The gzip level. The output is a third larger than at the best level, and takes a tenth of the time."""


class BackupFile(msgspec.Struct, frozen=True, array_like=True, gc=False):
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
    SnapshotTable.PARKED.value: tuple[int, bytes, str],
    MEDIA_TABLE: BackupFile,
}
_decoders = {table: msgspec.msgpack.Decoder(list[row]) for table, row in ROWS.items()}  # type: ignore[valid-type]
_encode = msgspec.msgpack.Encoder().encode


async def pack(rows: Sequence[Any]) -> bytes:
    """Pack rows in a thread, because compression takes most of a backup's time."""
    return await asyncio.to_thread(lambda: gzip.compress(_encode(rows), _LEVEL, mtime=0))


def unpack(table: str, data: bytes) -> list[Any]:
    try:
        return _decoders[table].decode(gzip.decompress(data))
    except (OSError, EOFError, zlib.error, msgspec.DecodeError) as error:
        raise BackupDamaged(f"cannot read rows of {table}: {error}") from error


def decode_part(part: DumpPart, data: bytes) -> Sequence[object]:
    """Return the rows in `data`, the file of a backup that `part` describes.

    Raises `BackupDamaged` if rows are missing, or an object or event cannot be decoded.
    """
    rows = unpack(part.table, data)
    if len(rows) != part.rows:
        raise BackupDamaged(f"{part.key} has {len(rows)} rows instead of {part.rows}")
    try:
        for row in rows:
            if part.table == SnapshotTable.OBJECTS.value:
                decode_node(row[2])
            elif part.table in {SnapshotTable.EVENTS.value, SnapshotTable.PARKED.value}:
                events.decode(row[1])
    except NewerNeeded as error:
        raise BackupDamaged(f"{part.key} has an object of a newer Shoal: restore with that version") from error
    except msgspec.DecodeError as error:
        raise BackupDamaged(f"{part.key} has an unreadable row: {error}") from error
    return rows


async def read_parts(
    source: SnapshotSource, table: SnapshotTable, owns: Callable[[int], bool] | None
) -> AsyncIterator[Sequence[Row]]:
    """Yield the rows of a table in chunks for the files of a backup. `owns` selects shards; None selects all."""
    after = FIRST_KEYS[table]
    waiting: list[Row] = []
    size = 0
    while page := await source.page(table, after, _PAGE):
        after = page[-1][: len(after)]
        rows = page if owns is None else [row for row in page if _is_own(table, row, owns)]
        waiting += rows
        size += sum(
            _ROW_BYTES + sum(len(value) if isinstance(value, bytes | str) else 8 for value in row) for row in rows
        )
        if size >= _PART_BYTES:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def _is_own(table: SnapshotTable, row: Row, owns: Callable[[int], bool]) -> bool:
    if table is SnapshotTable.KEYS:
        return owns(KeyRow._make(row).shard)
    # A store processes the events that it contains, so the backup of a store includes all of its events.
    return table in {SnapshotTable.EVENTS, SnapshotTable.PARKED} or owns(shard_of(row[0]))


_AT_ONCE = 8
_IN_MEMORY = 4 << 20
"""Maximum bytes of a file in memory. A larger file is on disk."""
_PART_ROWS = 20_000
_MAX_REPORTED = 1_000
_ROUNDS = 2
"""Number of rounds. The second round copies files that arrived during the first, which may take hours."""
_KEY_PARTS = 5


class MediaNames:
    """The names of the media files to which objects refer, stored on disk by data source."""

    def __init__(self, folder: Path) -> None:
        self._files = [folder / f"named-{source}" for source in range(DATA_SOURCES)]
        self.strangers = 0
        """Number of names that are not valid media keys."""

    def take(self, nodes: Iterable[AnyNode]) -> None:
        found: dict[int, list[str]] = {}
        for node in nodes:
            for key, required in files_now(node).items():
                if (source := data_source_of(key)) is None:
                    self.strangers += 1
                else:
                    found.setdefault(source, []).append(f"{'!' if required else '?'}{key}\n")
        for source, lines in found.items():
            with self._files[source].open("a") as file:
                file.writelines(lines)

    def of(self, source: int) -> dict[str, bool]:
        """Return the keys of a data source's media files, each with whether the file is required."""
        if not self._files[source].exists():
            return {}
        with self._files[source].open() as file:
            return {line[1:-1]: line[0] == "!" for line in file}


def data_source_of(key: str) -> int | None:
    """Return the data source of a media key; None for a key of another format."""
    parts = key.split("/")
    if len(parts) != _KEY_PARTS or not all(part.isdecimal() for part in parts[:3]) or int(parts[0]) >= DATA_SOURCES:
        return None
    return int(parts[0])


class BackupMedia(NamedTuple):
    parts: list[DumpPart]
    totals: MediaTotals
    lacking: list[str]
    lacks: int


@dataclass
class MediaCopier:
    media: MediaStore
    repository: BackupRepository
    newest: Manifest | None
    folder: Path
    throttle: Throttle
    tell: Progress
    new_files: int = 0
    new_bytes: int = 0

    async def copy_all(self) -> None:
        """Copy all current media in advance, so that few remain to be copied while the snapshots are open."""
        for _ in range(_ROUNDS):
            before = self.new_files
            for source in range(DATA_SOURCES):
                await self._bring(source, await sizes_below(self.media, str(source)))
                self.tell("media", source + 1, DATA_SOURCES)
            if self.new_files == before:
                return

    async def keep(self, generation: str, names: MediaNames) -> BackupMedia:
        """Copy the media in `names` that the repository lacks, and write the backup's lists of those media that exist."""
        parts: list[DumpPart] = []
        lacking: list[str] = []
        lacks, files, size = names.strangers, 0, 0
        for source in range(DATA_SOURCES):
            self.tell("list of media", source + 1, DATA_SOURCES)
            named = await asyncio.to_thread(names.of, source)
            if not named:
                continue
            stored = await self._bring(source, await self._sizes(source, named))
            gone = [key for key, required in named.items() if required and key not in stored]
            lacks += len(gone)
            lacking += gone[: _MAX_REPORTED - len(lacking)]
            rows = [stored[key] for key in sorted(stored)]
            files += len(rows)
            size += sum(row.size for row in rows)
            parts += await self._list(generation, source, rows)
        return BackupMedia(parts, MediaTotals(files, size, self.new_files, self.new_bytes), lacking, lacks)

    async def _sizes(self, source: int, named: Mapping[str, bool]) -> dict[str, int]:
        """Return the sizes of the named files that exist in the network or in the repository."""
        there = await media_sizes(self.repository, source)
        if named.keys() <= there.keys():
            return {key: there[key] for key in named}
        here = await sizes_below(self.media, str(source))
        return {key: size for key in named if (size := here.get(key, there.get(key))) is not None}

    async def _list(self, generation: str, source: int, rows: Sequence[BackupFile]) -> list[DumpPart]:
        parts = []
        for start in range(0, len(rows), _PART_ROWS):
            some = rows[start : start + _PART_ROWS]
            name = f"media-{source:02}-{start // _PART_ROWS + 1:05}.gz"
            data = await pack(some)
            parts.append(await self.repository.put_part(generation, name, MEDIA_TABLE, data, len(some)))
        return parts

    async def _bring(self, source: int, requested: Mapping[str, int]) -> dict[str, BackupFile]:
        """Copy those requested media of a data source that the repository lacks. Return all requested media by key.

        A file that was deleted before it could be copied is left out.
        """
        if not requested:
            return {}
        there = await media_sizes(self.repository, source)
        known = await self._known(source)
        found = {
            key: known[key]
            for key, size in requested.items()
            if key in known and known[key].size == size == there.get(key)
        }

        async def bring(key: str) -> None:
            if there.get(key) == requested[key]:
                # An unfinished backup copied the file, but no manifest has its hash. Read the file again to compute the
                # hash.
                await self.throttle.spend(requested[key])
                stored = await hash_file(self.repository, key)
            else:
                stored = await self._copied(key)
            if stored is not None:
                found[key] = stored

        await run_bounded([key for key in requested if key not in found], bring, _AT_ONCE)
        await asyncio.to_thread(self._spool(source).write_bytes, msgspec.msgpack.encode(list(found.values())))
        return found

    async def _known(self, source: int) -> dict[str, BackupFile]:
        """Return the media whose hashes are known from this run or from the newest backup, by key."""
        spool = self._spool(source)
        if spool.exists():
            rows = msgspec.msgpack.decode(await asyncio.to_thread(spool.read_bytes), type=list[BackupFile])
        elif self.newest is not None:
            rows = await media_list(self.repository, self.newest, source)
        else:
            rows = []
        return {row.key: row for row in rows}

    def _spool(self, source: int) -> Path:
        return self.folder / f"kept-{source}"

    async def _copied(self, key: str) -> BackupFile | None:
        try:
            stored = await copy_file(
                self.media, key, self.repository.files, f"{MEDIA}/{key}", self.folder, self.throttle
            )
        except NotFound:
            return None
        self.new_files += 1
        self.new_bytes += stored.size
        return stored


async def sizes_below(files: MediaStore, prefix: str) -> dict[str, int]:
    cut = len(MEDIA) + 1 if prefix.startswith(f"{MEDIA}/") else 0
    return {
        file.key: file.size
        async for page in files.files(prefix)
        for file in page
        if data_source_of(file.key[cut:]) is not None
    }


async def media_sizes(repository: BackupRepository, source: int) -> dict[str, int]:
    """Return the sizes of a repository's media that belong to a data source, by their keys in the network."""
    found = await sizes_below(repository.files, f"{MEDIA}/{source}")
    return {key.removeprefix(f"{MEDIA}/"): size for key, size in found.items()}


async def media_list(repository: BackupRepository, manifest: Manifest, source: int) -> list[BackupFile]:
    """Return a backup's media that belong to a data source. Raises `BackupDamaged` if the list of media is damaged or missing."""
    rows: list[BackupFile] = []
    for part in manifest.parts:
        if part.table == MEDIA_TABLE and part.key.startswith(f"media-{source:02}-"):
            rows += unpack(part.table, await repository.part(manifest.generation, part))
    return rows


async def hash_file(repository: BackupRepository, key: str) -> BackupFile | None:
    """Return the size and hash of a media file in the repository; None if it does not exist."""
    digest, size = hashlib.sha256(), 0
    try:
        found = await repository.files.part(f"{MEDIA}/{key}", 0)
        async for piece in found.pieces:
            digest.update(piece)
            size += len(piece)
    except NotFound:
        return None
    return BackupFile(key, size, digest.digest())


async def copy_file(
    source: MediaStore,
    key: str,
    target: MediaStore,
    to: str,
    folder: Path,
    throttle: Throttle,
    expected: BackupFile | None = None,
) -> BackupFile:
    """Copy one file to another store and return its size and hash.

    Raises `NotFound` if the file does not exist, and `BackupDamaged` if it differs from `expected`. Nothing is stored in either
    case.
    """
    found = await source.part(key, 0)
    await throttle.spend(found.size)
    if found.size <= _IN_MEMORY:
        data = b"".join([piece async for piece in found.pieces])
        stored = BackupFile(key, len(data), hashlib.sha256(data).digest())
        _compare(stored, found.size, expected)
        await target.put(to, data, type_of(key))
        return stored
    with tempfile.NamedTemporaryFile(dir=folder) as scratch:
        digest, size = hashlib.sha256(), 0
        async for piece in found.pieces:
            digest.update(piece)
            size += len(piece)
            await asyncio.to_thread(scratch.write, piece)
        stored = BackupFile(key, size, digest.digest())
        _compare(stored, found.size, expected)
        await asyncio.to_thread(scratch.flush)
        await target.put(to, Path(scratch.name), type_of(key))
        return stored


def _compare(stored: BackupFile, size: int, expected: BackupFile | None) -> None:
    if stored.size != size or (
        expected is not None and (stored.size, stored.sha256) != (expected.size, expected.sha256)
    ):
        raise BackupDamaged(f"the file {stored.key} is damaged: its hash differs from the manifest")
