"""Whether a generation is whole: every file is what was written, and its rows can be read."""

from __future__ import annotations

import asyncio

import msgspec

from shoal.core.placement import DATA_SOURCES
from shoal.ops.backups.manifest import PUSH_KEY, DumpPart, Manifest
from shoal.ops.backups.media_copies import file_in, kept_files, kept_rows, nothing_done
from shoal.ops.backups.repository import BackupDamaged, BackupRepository
from shoal.ops.backups.rows import MEDIA_TABLE, KeptFile, opened
from shoal.ops.backups.throttle import Throttle
from shoal.ops.bounded_tasks import run_bounded
from shoal.ops.checking.report import Progress

_AT_ONCE = 8
_MOST_TOLD = 100


class VerifiedBackup(msgspec.Struct):
    """The result of a look at one generation."""

    generation: str
    rows: int = 0
    media_files: int = 0
    faults: int = 0
    examples: list[str] = []

    def tell(self, words: str) -> None:
        """Note a fault."""
        self.faults += 1
        if len(self.examples) < _MOST_TOLD:
            self.examples.append(words)


async def verify(
    repository: BackupRepository, name: str, throttle: Throttle, tell: Progress, *, quick: bool = False
) -> VerifiedBackup:
    """Read everything of a generation (the newest one without a name). `quick` compares only the sizes of media.

    Raises `InvalidInput` for a generation without a manifest that can be read.
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
        # Told already, as a part.
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
