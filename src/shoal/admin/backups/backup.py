"""Create backups.

A backup first copies the existing media. Then it copies snapshots of all stores at a single moment, and new media that
the snapshots name. Last, it writes the manifest. It runs in its own process while other processes serve the network.
Its memory is bounded: a few megabytes of rows for each of four stores, and the names of a 64th of the media.

The snapshots are opened while no commit completes in any store. docs/decisions/0072-backups-are-a-consistent-cut.md
explains why this is necessary and sufficient.
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
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import msgspec

from shoal.admin.backups.contents import MediaCopier, MediaNames, decode_part, pack, read_parts
from shoal.admin.backups.repository import (
    FORMAT,
    PUSH_KEY,
    BackupDamaged,
    BackupRepository,
    DumpPart,
    Manifest,
    SavedTagRule,
)
from shoal.admin.report import Progress
from shoal.admin.throttling import Throttle
from shoal.core.errors import InvalidInput, NewerNeeded, ShoalError, Unavailable
from shoal.core.ids import now_ms
from shoal.graph.bulk import Row, SnapshotSource, SnapshotTable, receipt
from shoal.graph.schema import AnyNode, backup_key, decode_node
from shoal.graph.shard_map import ShardMap, ranges_of, shown_url
from shoal.media.store import MediaStore

_log = logging.getLogger(__name__)

_STORES_AT_ONCE = 4
_ATTEMPTS = 12
_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0


class OneMoment(NamedTuple):
    """The time of a set of snapshots (Unix ms), and the seconds for which commits were blocked to open the snapshots."""

    at: int
    held: float


async def open_all(sources: Sequence[SnapshotSource]) -> OneMoment:
    """Open snapshots of all stores at a single point in time.

    Commits in all stores are blocked until the snapshots are open. A single store needs no blocking, because its transaction
    defines the point in time. Raises `Unavailable` if the commits of a store cannot be blocked within a minute.
    """
    if len(sources) == 1:
        at = now_ms()
        await sources[0].open()
        return OneMoment(at, 0.0)
    for attempt in range(_ATTEMPTS):
        try:
            return await _blocked_at_once(sources)
        except Unavailable:
            if attempt == _ATTEMPTS - 1:
                raise
        # A random delay, so that two backups that block each other do not collide again.
        pause = min(_LONGEST_PAUSE_SECONDS, _PAUSE_SECONDS * 2**attempt)
        await asyncio.sleep(random.uniform(pause / 2, pause))  # noqa: S311  # it guards nothing
    raise AssertionError


async def _blocked_at_once(sources: Sequence[SnapshotSource]) -> OneMoment:
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
    # `release` raises `Unavailable` if commits were not blocked all the time, because the snapshots may then differ in
    # time.
    await _each(source.release() for source in sources)
    return OneMoment(at, time.monotonic() - began)


async def _each(calls: Iterable[Awaitable[None]]) -> None:
    """Await all calls, even if one fails, because the caller must not resume commits while a call is running."""
    for error in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(error, BaseException):
            raise error


@dataclass(frozen=True, slots=True)
class BackedNetwork:
    """Everything that a backup reads: the snapshots, in the order of the shard map's stores, and the media."""

    map: ShardMap
    snapshots: Sequence[SnapshotSource]
    media: MediaStore
    tag_rules: Callable[[], Awaitable[Sequence[SavedTagRule]]]
    push_key: Path | None


async def back_up(network: BackedNetwork, repository: BackupRepository, throttle: Throttle, tell: Progress) -> Manifest:
    """Write a backup. If it cannot be finished, delete it again.

    Raises `Conflict` while another backup is running, and `Unavailable` if a part of the network cannot be read.
    """
    async with repository.writing() as name:
        try:
            with tempfile.TemporaryDirectory(prefix="shoal-backup-") as folder:
                manifest = await _Backup(network, repository, name, Path(folder), throttle, tell).write()
            await repository.finish(manifest)
        except BaseException:
            try:
                await repository.abandon(name)
            except ShoalError:
                _log.warning("the incomplete generation %s stays until the next backup deletes it", name)
            raise
    try:
        # Record the time of the backup for metrics. The backup is valid even if this fails.
        at = network.map.owners[backup_key().shard]
        await network.snapshots[at].note(receipt(manifest.moment))
    except ShoalError as error:
        _log.warning("this backup was not recorded in the metrics: %s", error)
    return manifest


@dataclass
class _Backup:
    network: BackedNetwork
    repository: BackupRepository
    name: str
    folder: Path
    throttle: Throttle
    tell: Progress
    read: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.names = MediaNames(self.folder)

    async def write(self) -> Manifest:
        network = self.network
        try:
            newest = await self.repository.manifest()
        except InvalidInput:
            # The newest backup has no readable manifest with the hashes of media, so all media are read and compared
            # again.
            newest = None
        copier = MediaCopier(network.media, self.repository, newest, self.folder, self.throttle, self.tell)
        await copier.copy_all()
        moment = await open_all(network.snapshots)
        known = await self._map()
        rules = await network.tag_rules()
        parts = await self._dump(known)
        push_key = await self._push_key()
        media = await copier.keep(self.name, self.names)
        return Manifest(
            format=FORMAT,
            generation=self.name,
            shoal=version("shoal"),
            moment=moment.at,
            finished=now_ms(),
            held_ms=round(moment.held * 1_000, 1),
            stores={
                ranges_of(shards): shown_url(url)
                for url, shards in zip(known.stores, known.by_store(), strict=True)
                if shards
            },
            parts=(*parts, *push_key, *media.parts),
            tag_rules=tuple(rules),
            media=media.totals,
            lacking=tuple(media.lacking),
            lacks=media.lacks,
        )

    async def _map(self) -> ShardMap:
        """Return the newest shard map. Raises `Unavailable` if the map names a store that was not opened."""
        ours = self.network.map
        found = [known for known in [await each.map() for each in self.network.snapshots] if known is not None]
        newest = max((ours, *found), key=lambda known: known.version)
        if newest.stores != ours.stores:
            raise Unavailable("data sources moved to another store during the backup: run it again")
        return newest

    async def _dump(self, known: ShardMap) -> list[DumpPart]:
        limit = asyncio.Semaphore(_STORES_AT_ONCE)

        async def dump(at: int, snapshot: SnapshotSource) -> list[DumpPart]:
            async with limit:
                parts = await self._dump_store(at, snapshot, known)
                await snapshot.forget()
                return parts

        try:
            # If one store cannot be read, the task group cancels reading the others before the stores are closed.
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(dump(at, each)) for at, each in enumerate(self.network.snapshots)]
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [part for task in tasks for part in task.result()]

    async def _dump_store(self, at: int, snapshot: SnapshotSource, known: ShardMap) -> list[DumpPart]:
        owns = None if len(known.stores) == 1 else lambda shard: known.owners[shard] == at
        parts: list[DumpPart] = []
        for table in SnapshotTable:
            number = 0
            async for rows in read_parts(snapshot, table, owns):
                if table is SnapshotTable.OBJECTS:
                    self.names.take(await asyncio.to_thread(_nodes, rows))
                number += 1
                name = f"{table.value}-{at:02}-{number:05}.gz"
                parts.append(await self._put(name, table, rows))
                self.read[table.value] += len(rows)
                self.tell(table.value, self.read[table.value], 0)
        return parts

    async def _put(self, name: str, table: SnapshotTable, rows: Sequence[Row]) -> DumpPart:
        data = await pack(rows)
        await self.throttle.spend(len(data))
        part = await self.repository.put_part(self.name, name, table.value, data, len(rows))
        # Check that the written file can be decoded before the manifest lists it.
        await asyncio.to_thread(decode_part, part, data)
        return part

    async def _push_key(self) -> list[DumpPart]:
        path = self.network.push_key
        if path is None or not path.exists():
            return []
        data = await asyncio.to_thread(path.read_bytes)
        return [await self.repository.put_part(self.name, PUSH_KEY, PUSH_KEY, data, 0)]


def _nodes(rows: Sequence[Row]) -> list[AnyNode]:
    try:
        return [decode_node(data) for _, _, data in rows]
    except (msgspec.DecodeError, NewerNeeded) as error:
        raise BackupDamaged(f"an unreadable object in the store prevents the backup: {error}") from error
