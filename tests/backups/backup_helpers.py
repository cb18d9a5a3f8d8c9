"""Backups for tests: of stores opened from settings, into a directory, and restored into other stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from shoal.admin.backups.backup import back_up
from shoal.admin.backups.repository import BackupRepository, Manifest
from shoal.admin.backups.restore import RestoredNetwork, finish, restore
from shoal.admin.report import nothing
from shoal.admin.throttling import Throttle
from shoal.app.backups import open_backed, open_target, repository_url
from shoal.app.stores import open_store
from shoal.graph.bulk import SnapshotSource
from shoal.graph.contract import Store
from shoal.settings import Settings, build

FAST = Throttle(None)


def repository(folder: Path, *, dead: float = 600.0) -> BackupRepository:
    """Open the backup repository in a directory, which is created if missing."""
    return BackupRepository.open(repository_url(str(folder)), make=True, dead=dead)


class LateSnapshot:
    """A snapshot source that opens after a delay, as over a slow connection."""

    def __init__(self, source: SnapshotSource, seconds: float) -> None:
        self._source = source
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    async def open(self) -> None:
        """Open after the delay."""
        await asyncio.sleep(self._seconds)
        await self._source.open()


async def backed_up(settings: Settings, place: BackupRepository, *, late: float = 0.0) -> Manifest:
    """Create one more generation. Each store opens `late` seconds after the previous one."""
    async with open_backed(settings) as network:
        slow = [cast("SnapshotSource", LateSnapshot(each, at * late)) for at, each in enumerate(network.snapshots)]
        return await back_up(replace(network, snapshots=slow if late else network.snapshots), place, FAST, nothing)


async def brought_back(
    place: BackupRepository, settings: Settings, generation: str = "", throttle: Throttle = FAST
) -> RestoredNetwork:
    """Restore a generation, the newest if none is named."""
    manifest = await place.manifest(generation)
    async with open_target(settings) as target:
        done = await restore(place, manifest, target, throttle, nothing)
        await finish(target, manifest)
        return done


@asynccontextmanager
async def opened(store: str | dict[str, str]) -> AsyncIterator[Store]:
    """Open the graph of these settings, without event consumers."""
    async with AsyncExitStack() as stack:
        yield await open_store(build(store=store), stack, read_only=False, sole=False)
