"""Prune backups: delete the rows of backups that are not kept, and the media that no kept backup names."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.admin.backups.contents import media_list, media_sizes
from shoal.admin.backups.repository import MEDIA, BackupRepository, Manifest
from shoal.admin.report import Progress
from shoal.core.placement import DATA_SOURCES


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


def generations_to_keep(manifests: Sequence[Manifest], keeping: Keeping) -> set[str]:
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
    names = generations_to_keep(manifests, keeping)
    deleted = [each.generation for each in manifests if each.generation not in names]
    for name in deleted:
        repository.check_lease()
        await repository.abandon(name)
    files = size = 0
    for source in range(DATA_SOURCES):
        tell("pruning", source + 1, DATA_SOURCES)
        unused = await media_sizes(repository, source)
        if not unused:
            continue
        for manifest in manifests:
            if manifest.generation in names:
                for row in await media_list(repository, manifest, source):
                    unused.pop(row.key, None)
        # After the lease expires, another backup may rely on media that these manifests do not name.
        repository.check_lease()
        await repository.files.delete([f"{MEDIA}/{key}" for key in unused])
        files += len(unused)
        size += sum(unused.values())
    return Pruned(tuple(deleted), files, size)
