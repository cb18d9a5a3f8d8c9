"""Create, verify and prune backups.

A backup copies existing media, every store as of one moment, the media that those rows name, and the manifest. It runs in
its own process next to the processes that serve the network. Memory is bounded: a few megabytes of rows for each of four
stores, and the names of a 64th of the media.

All stores are opened while no commit ends in any of them. Why that is necessary and sufficient:
docs/decisions/operations.md, "Backups".

Verifying reads every file, compares it with the manifest and decodes its rows. Pruning deletes the rows of backups that are
not kept, and media that no kept backup names.
"""

from __future__ import annotations

import asyncio
import logging
import random
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import msgspec

from shoal.admin.backups.contents import (
    MEDIA_TABLE,
    KeptFile,
    MediaCopier,
    MediaNames,
    file_in,
    kept_files,
    kept_rows,
    nothing_done,
    opened,
    packed,
    parts_of,
)
from shoal.admin.backups.repository import (
    FORMAT,
    MEDIA,
    PUSH_KEY,
    BackupDamaged,
    BackupRepository,
    DumpPart,
    KeptTagRule,
    Manifest,
)
from shoal.admin.report import Progress
from shoal.admin.throttling import Throttle, run_bounded
from shoal.core.errors import InvalidInput, NewerNeeded, ShoalError, Unavailable
from shoal.core.ids import now_ms
from shoal.core.placement import DATA_SOURCES, source_of
from shoal.graph.bulk import Row, SnapshotSource, SnapshotTable, receipt
from shoal.graph.schema import AnyNode, backup_key, decode_node
from shoal.graph.shard_map import ShardMap, ranges_of, shown_url
from shoal.media.store import MediaStore

_ATTEMPTS = 12
_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0


class OneMoment(NamedTuple):
    """The time of a set of snapshots (Unix ms), and for how many seconds commits waited for it."""

    at: int
    held: float


async def open_all(sources: Sequence[SnapshotSource]) -> OneMoment:
    """Open snapshots of all stores as of one moment.

    A single store is not held: its own transaction fixes the moment. Raises `Unavailable` when a store cannot be held within a
    minute.
    """
    if len(sources) == 1:
        at = now_ms()
        await sources[0].open()
        return OneMoment(at, 0.0)
    for attempt in range(_ATTEMPTS):
        try:
            return await _held(sources)
        except Unavailable:
            if attempt == _ATTEMPTS - 1:
                raise
        # Jitter: two backups that block each other do not collide again.
        pause = min(_LONGEST_PAUSE_SECONDS, _PAUSE_SECONDS * 2**attempt)
        await asyncio.sleep(random.uniform(pause / 2, pause))  # noqa: S311  # it guards nothing
    raise AssertionError


async def _held(sources: Sequence[SnapshotSource]) -> OneMoment:
    began = time.monotonic()
    try:
        await _each(source.hold() for source in sources)
        at = now_ms()
        await _each(source.open() for source in sources)
    except BaseException:
        for source in sources:
            with suppress(ShoalError):
                await source.release()
        raise
    # Each release raises if the store was not held until now.
    await _each(source.release() for source in sources)
    return OneMoment(at, time.monotonic() - began)


async def _each(calls: Iterable[Awaitable[None]]) -> None:
    """Wait for all calls, even when one fails, so that none is still running when the caller releases the stores."""
    for error in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(error, BaseException):
            raise error


_STORES_AT_ONCE = 4

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackedNetwork:
    """Everything that a backup reads. Snapshots are in the order of the stores of the map."""

    map: ShardMap
    snapshots: Sequence[SnapshotSource]
    media: MediaStore
    tag_rules: Callable[[], Awaitable[Sequence[KeptTagRule]]]
    push_key: Path | None


async def back_up(network: BackedNetwork, repository: BackupRepository, throttle: Throttle, tell: Progress) -> Manifest:
    """Write one generation, and delete it again if it cannot be finished.

    Raises `Conflict` while another backup is running, `Unavailable` if a part of the network cannot be read.
    """
    async with repository.writing() as name:
        try:
            with tempfile.TemporaryDirectory(prefix="shoal-backup-") as folder:
                manifest = await _Backup(network, repository, name, Path(folder), throttle, tell).write()
            await repository.finish(manifest)
        except BaseException:
            await _abandon(repository, name)
            raise
    await _note(network, manifest)
    return manifest


async def _abandon(repository: BackupRepository, name: str) -> None:
    try:
        await repository.abandon(name)
    except ShoalError:
        _log.warning("what was written of %s stays until the next backup", name)


async def _note(network: BackedNetwork, manifest: Manifest) -> None:
    """Record the backup in the store, for the metrics. A failure does not invalidate the backup."""
    at = network.map.owners[source_of(backup_key().shard)]
    try:
        await network.snapshots[at].note(receipt(manifest.moment))
    except ShoalError as error:
        _log.warning("the metrics do not learn of this backup: %s", error)


class _Backup:
    def __init__(
        self,
        network: BackedNetwork,
        repository: BackupRepository,
        name: str,
        folder: Path,
        throttle: Throttle,
        tell: Progress,
    ) -> None:
        self._network = network
        self._repository = repository
        self._name = name
        self._folder = folder
        self._throttle = throttle
        self._tell = tell
        self._names = MediaNames(folder)
        self._read: Counter[str] = Counter()

    async def write(self) -> Manifest:
        network = self._network
        newest = await self._newest()
        copier = MediaCopier(network.media, self._repository, newest, self._folder, self._throttle, self._tell)
        await copier.copy_all()
        moment = await open_all(network.snapshots)
        known = await self._map()
        rules = await network.tag_rules()
        parts = await self._dump(known)
        push_key = await self._push_key()
        media = await copier.keep(self._name, self._names)
        return Manifest(
            format=FORMAT,
            generation=self._name,
            shoal=version("shoal"),
            moment=moment.at,
            finished=now_ms(),
            held_ms=round(moment.held * 1_000, 1),
            stores={ranges_of(known.of(at)): shown_url(url) for at, url in enumerate(known.stores) if known.of(at)},
            parts=(*parts, *push_key, *media.parts),
            tag_rules=tuple(rules),
            media=media.totals,
            lacking=tuple(media.lacking),
            lacks=media.lacks,
        )

    async def _newest(self) -> Manifest | None:
        """Return the previous manifest. None also if it is damaged: all media are then compared again."""
        try:
            return await self._repository.manifest()
        except InvalidInput:
            return None

    async def _map(self) -> ShardMap:
        """Return the newest shard map. Raises `Unavailable` if it names a store that was not opened."""
        ours = self._network.map
        found = [known for known in [await each.map() for each in self._network.snapshots] if known is not None]
        newest = max((ours, *found), key=lambda known: known.version)
        if newest.stores != ours.stores:
            raise Unavailable("data sources were moved to another store at this moment: run the backup again")
        return newest

    async def _dump(self, known: ShardMap) -> list[DumpPart]:
        turns = asyncio.Semaphore(_STORES_AT_ONCE)

        async def dump(at: int, snapshot: SnapshotSource) -> list[DumpPart]:
            async with turns:
                parts = await self._dump_store(at, snapshot, known)
                await snapshot.forget()
                return parts

        try:
            # A task group cancels the other dumps on an error, so none reads a store that is being closed.
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(dump(at, each)) for at, each in enumerate(self._network.snapshots)]
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [part for task in tasks for part in task.result()]

    async def _dump_store(self, at: int, snapshot: SnapshotSource, known: ShardMap) -> list[DumpPart]:
        owns = None if len(known.stores) == 1 else lambda shard: known.owners[source_of(shard)] == at
        parts: list[DumpPart] = []
        for table in SnapshotTable:
            number = 0
            async for rows in parts_of(snapshot, table, owns):
                if table is SnapshotTable.OBJECTS:
                    self._names.take(await asyncio.to_thread(_nodes, rows))
                number += 1
                name = f"{table.value}-{at:02}-{number:05}.gz"
                parts.append(await self._put(name, table, rows))
                self._read[table.value] += len(rows)
                self._tell(table.value, self._read[table.value], 0)
        return parts

    async def _put(self, name: str, table: SnapshotTable, rows: Sequence[Row]) -> DumpPart:
        data = await packed(rows)
        await self._throttle.spend(len(data))
        part = await self._repository.put_part(self._name, name, table.value, data, len(rows))
        # Verify that the part can be restored before the manifest lists it.
        await asyncio.to_thread(opened, part, data)
        return part

    async def _push_key(self) -> list[DumpPart]:
        path = self._network.push_key
        if path is None or not path.exists():
            return []
        data = await asyncio.to_thread(path.read_bytes)
        return [await self._repository.put_part(self._name, PUSH_KEY, PUSH_KEY, data, 0)]


def _nodes(rows: Sequence[Row]) -> list[AnyNode]:
    try:
        return [decode_node(data) for _, _, data in rows]
    except (msgspec.DecodeError, NewerNeeded) as error:
        raise BackupDamaged(f"an object in the store cannot be read, and so not be backed up: {error}") from error


_AT_ONCE = 8
_MOST_TOLD = 100


class VerifiedBackup(msgspec.Struct):
    generation: str
    rows: int = 0
    media_files: int = 0
    faults: int = 0
    examples: list[str] = []

    def tell(self, words: str) -> None:
        self.faults += 1
        if len(self.examples) < _MOST_TOLD:
            self.examples.append(words)


async def verify(
    repository: BackupRepository, name: str, throttle: Throttle, tell: Progress, *, quick: bool = False
) -> VerifiedBackup:
    """Read and verify all files of a generation (default: the newest). `quick` compares only the sizes of media.

    Raises `InvalidInput` if the generation has no readable manifest.
    """
    manifest = await repository.manifest(name)
    found = VerifiedBackup(manifest.generation)
    for done, part in enumerate(manifest.parts, 1):
        await throttle.spend(part.size)
        await _look_at(repository, manifest, part, found)
        tell("rows", done, len(manifest.parts))
    for source in range(DATA_SOURCES):
        await _look_at_media(repository, manifest, source, throttle, found, quick=quick)
        tell("media", source + 1, DATA_SOURCES)
    return found


async def _look_at(repository: BackupRepository, manifest: Manifest, part: DumpPart, found: VerifiedBackup) -> None:
    try:
        data = await repository.part(manifest.generation, part)
        if part.table == PUSH_KEY:
            return
        rows = await asyncio.to_thread(opened, part, data)
    except BackupDamaged as error:
        found.tell(str(error))
    else:
        if part.table != MEDIA_TABLE:
            found.rows += len(rows)


async def _look_at_media(
    repository: BackupRepository,
    manifest: Manifest,
    source: int,
    throttle: Throttle,
    found: VerifiedBackup,
    *,
    quick: bool,
) -> None:
    try:
        rows = await kept_rows(repository, manifest, source)
    except BackupDamaged:
        return
    there = await kept_files(repository, source) if rows else {}
    found.media_files += len(rows)

    async def compare(row: KeptFile) -> None:
        await throttle.spend(row.size)
        if await file_in(repository, row.key) != row:
            found.tell(f"the file {row.key} is not what was written: its hash is another one")

    whole = []
    for row in rows:
        if there.get(row.key) == row.size:
            whole.append(row)
        else:
            found.tell(f"the file {row.key} is {'gone' if row.key not in there else 'of another size'}")
    if not quick:
        await run_bounded(whole, compare, _AT_ONCE, nothing_done)


class Keeping(msgspec.Struct, frozen=True):
    """Retention policy: how many of the newest generations to keep, and of how many days and weeks (UTC) the newest one.

    A value of 0 disables a rule. A generation is kept if any rule keeps it; the newest one always is.
    """

    newest: int = 0
    daily: int = 0
    weekly: int = 0

    @property
    def asks(self) -> bool:
        """Whether any rule is set."""
        return bool(self.newest or self.daily or self.weekly)


class Pruned(msgspec.Struct, frozen=True):
    generations: tuple[str, ...]
    media_files: int
    media_bytes: int


def kept(manifests: Sequence[Manifest], keeping: Keeping) -> set[str]:
    """Return the names of the generations to keep."""
    newest_first = sorted(manifests, key=lambda each: (each.moment, each.generation), reverse=True)
    days = {each.at.date(): each for each in reversed(newest_first)}
    weeks = {each.at.isocalendar()[:2]: each for each in reversed(newest_first)}
    chosen = [
        *newest_first[: max(1, keeping.newest)],
        *(days[day] for day in sorted(days, reverse=True)[: keeping.daily]),
        *(weeks[week] for week in sorted(weeks, reverse=True)[: keeping.weekly]),
    ]
    return {each.generation for each in chosen}


async def prune(repository: BackupRepository, keeping: Keeping, tell: Progress) -> Pruned:
    """Delete the generations that are not kept, then the media that no remaining generation names.

    Call only while holding the write lease: no other writer may rely on media that no generation names. Raises `InvalidInput` or
    `BackupDamaged` if a generation cannot be read, before any media are deleted; `Conflict` once the lease has expired.
    """
    manifests = await repository.manifests()
    stays = kept(manifests, keeping)
    gone = [each.generation for each in manifests if each.generation not in stays]
    for name in gone:
        repository.check_lease()
        await repository.abandon(name)
    files, size = await _drop_media(repository, [each for each in manifests if each.generation in stays], tell)
    return Pruned(tuple(gone), files, size)


async def _drop_media(repository: BackupRepository, manifests: Iterable[Manifest], tell: Progress) -> tuple[int, int]:
    manifests = list(manifests)
    files = size = 0
    for source in range(DATA_SOURCES):
        tell("pruning", source + 1, DATA_SOURCES)
        there = await kept_files(repository, source)
        if not there:
            continue
        for manifest in manifests:
            for row in await kept_rows(repository, manifest, source):
                there.pop(row.key, None)
        # After the lease expires, another backup may rely on media that these manifests do not name.
        repository.check_lease()
        await repository.files.delete([f"{MEDIA}/{key}" for key in there])
        files += len(there)
        size += sum(there.values())
    return files, size
