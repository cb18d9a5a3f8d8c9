"""Writes a generation: media that are there, every store as it is at one moment, the media that it names, and the manifest.

It works beside the processes that serve the network, in a process of its own. Memory is bounded: a few megabytes of rows for each
of four stores, and the names of a 64th of the media.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import msgspec

from shoal.core.errors import InvalidInput, NewerNeeded, ShoalError, Unavailable
from shoal.core.placement import source_of
from shoal.graph.bulk import Row, SnapshotSource, SnapshotTable, receipt
from shoal.graph.schema import AnyNode, backup_key, decode_node
from shoal.graph.sharding.shard_map import ShardMap, ranges_of, shown_url
from shoal.media.store import MediaStore
from shoal.ops.backups.manifest import FORMAT, PUSH_KEY, DumpPart, KeptTagRule, Manifest
from shoal.ops.backups.media_copies import MediaCopier, MediaNames
from shoal.ops.backups.moment import open_all
from shoal.ops.backups.repository import BackupDamaged, BackupRepository
from shoal.ops.backups.rows import opened, packed, parts_of
from shoal.ops.backups.throttle import Throttle
from shoal.ops.checking.report import Progress

_STORES_AT_ONCE = 4

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackedNetwork:
    """Everything that a backup is made of, opened for reading. The snapshots stand in the order of the map's stores."""

    map: ShardMap
    snapshots: Sequence[SnapshotSource]
    media: MediaStore
    tag_rules: Callable[[], Awaitable[Sequence[KeptTagRule]]]
    push_key: Path | None


async def back_up(network: BackedNetwork, repository: BackupRepository, throttle: Throttle, tell: Progress) -> Manifest:
    """Write one more generation. What was begun is deleted again if it cannot be finished.

    Raises `Conflict` while another backup is under way, `Unavailable` for a part of the network that cannot be read.
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
    """Say in the store that there is a new backup, for the metrics. The backup is good without it."""
    at = network.map.owners[source_of(backup_key().shard)]
    try:
        await network.snapshots[at].note(receipt(manifest.moment))
    except ShoalError as error:
        _log.warning("the metrics do not learn of this backup: %s", error)


class _Backup:
    """One generation while it is written."""

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
            finished=time.time_ns() // 1_000_000,
            held_ms=round(moment.held * 1_000, 1),
            stores={ranges_of(known.of(at)): shown_url(url) for at, url in enumerate(known.stores) if known.of(at)},
            parts=(*parts, *push_key, *media.parts),
            tag_rules=tuple(rules),
            media=media.totals,
            lacking=tuple(media.lacking),
            lacks=media.lacks,
        )

    async def _newest(self) -> Manifest | None:
        """Return the generation before; None also where its manifest is damaged: media are looked at anew then."""
        try:
            return await self._repository.manifest()
        except InvalidInput:
            return None

    async def _map(self) -> ShardMap:
        """Return the shard map of the moment. Raises `Unavailable` if it names a store that was not opened."""
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
            # With a group, an error ends the others too: nobody reads a store that is being closed.
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
        # Nothing is stored that could not be restored.
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
