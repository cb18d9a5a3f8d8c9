"""Verify a backup: read every file, compare it with the manifest and decode its rows."""

from __future__ import annotations

import asyncio

import msgspec

from shoal.admin.backups.contents import MEDIA_TABLE, BackupFile, decode_part, hash_file, media_list, media_sizes
from shoal.admin.backups.repository import PUSH_KEY, BackupDamaged, BackupRepository, DumpPart, Manifest
from shoal.admin.report import Progress
from shoal.admin.throttling import Throttle, run_bounded
from shoal.core.placement import DATA_SOURCES

_AT_ONCE = 8
_MAX_EXAMPLES = 100


class VerifiedBackup(msgspec.Struct):
    generation: str
    rows: int = 0
    media_files: int = 0
    faults: int = 0
    examples: list[str] = []

    def add_fault(self, message: str) -> None:
        self.faults += 1
        if len(self.examples) < _MAX_EXAMPLES:
            self.examples.append(message)


async def verify(
    repository: BackupRepository, name: str, throttle: Throttle, tell: Progress, *, quick: bool = False
) -> VerifiedBackup:
    """Read and verify all files of a backup, or of the newest one if `name` is empty.

    With `quick`, only the sizes of media are compared.

    Raises `InvalidInput` if the backup has no readable manifest.
    """
    manifest = await repository.manifest(name)
    found = VerifiedBackup(manifest.generation)
    for done, part in enumerate(manifest.parts, 1):
        await throttle.spend(part.size)
        await _verify_part(repository, manifest, part, found)
        tell("rows", done, len(manifest.parts))
    for source in range(DATA_SOURCES):
        await _verify_media(repository, manifest, source, throttle, found, quick=quick)
        tell("media", source + 1, DATA_SOURCES)
    return found


async def _verify_part(repository: BackupRepository, manifest: Manifest, part: DumpPart, found: VerifiedBackup) -> None:
    try:
        data = await repository.part(manifest.generation, part)
        if part.table == PUSH_KEY:
            return
        rows = await asyncio.to_thread(decode_part, part, data)
    except BackupDamaged as error:
        found.add_fault(str(error))
    else:
        if part.table != MEDIA_TABLE:
            found.rows += len(rows)


async def _verify_media(
    repository: BackupRepository,
    manifest: Manifest,
    source: int,
    throttle: Throttle,
    found: VerifiedBackup,
    *,
    quick: bool,
) -> None:
    try:
        rows = await media_list(repository, manifest, source)
    except BackupDamaged:
        return
    there = await media_sizes(repository, source) if rows else {}
    found.media_files += len(rows)

    async def compare(row: BackupFile) -> None:
        await throttle.spend(row.size)
        if await hash_file(repository, row.key) != row:
            found.add_fault(f"the file {row.key} is damaged: its hash does not match")

    complete = []
    for row in rows:
        if there.get(row.key) == row.size:
            complete.append(row)
        else:
            found.add_fault(f"the file {row.key} {'is missing' if row.key not in there else 'has the wrong size'}")
    if not quick:
        await run_bounded(complete, compare, _AT_ONCE)
