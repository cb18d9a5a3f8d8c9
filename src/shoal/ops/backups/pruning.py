"""Which generations are kept, and what goes with the others: their rows, and media that none of those kept names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from shoal.core.placement import DATA_SOURCES
from shoal.ops.backups.manifest import Manifest
from shoal.ops.backups.media_copies import kept_files, kept_rows
from shoal.ops.backups.repository import MEDIA, BackupRepository
from shoal.ops.checking.report import Progress


class Keeping(msgspec.Struct, frozen=True):
    """So many of the newest generations are kept, and the newest of so many days and weeks (UTC) that have one.

    0 keeps none for that reason. What is kept for any reason stays; the newest generation always does.
    """

    newest: int = 0
    daily: int = 0
    weekly: int = 0

    @property
    def asks(self) -> bool:
        """Whether anything is to be deleted at all."""
        return bool(self.newest or self.daily or self.weekly)


class Pruned(msgspec.Struct, frozen=True):
    """The result of pruning."""

    generations: tuple[str, ...]
    media_files: int
    media_bytes: int


def kept(manifests: Sequence[Manifest], keeping: Keeping) -> set[str]:
    """Return the names of the generations that stay."""
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
    """Delete the generations that are not kept, then the media that no other one names.

    To be called while the repository is being written: nobody else may rely on media that no generation names.
    Raises `InvalidInput` or `BackupDamaged` when a generation cannot be read: no media are deleted then. Raises `Conflict` once the
    lease of this writer has expired.
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
        # After an expired lease, another backup may rely on media that these manifests do not name.
        repository.check_lease()
        await repository.files.delete([f"{MEDIA}/{key}" for key in there])
        files += len(there)
        size += sum(there.values())
    return files, size
