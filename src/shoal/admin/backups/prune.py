"""Prune backups: delete the rows of backups that are not kept, and the media that no kept backup names."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.admin.backups.contents import media_list, media_sizes
from shoal.admin.backups.repository import MEDIA, BackupRepository, Manifest
from shoal.admin.report import Progress
from shoal.core.placement import DATA_SOURCES


class Keeping(msgspec.Struct, frozen=True):
    """A retention policy: keep the `newest` backups, and the newest backup of each of the last `daily` days and `weekly` weeks.

    Days and weeks are in UTC. Days and weeks without a backup do not count. A value of 0 disables a rule. A backup is
    kept if any rule keeps it. The newest backup is always kept.
    """

    newest: int = 0
    daily: int = 0
    weekly: int = 0

    @property
    def asks(self) -> bool:
        return bool(self.newest or self.daily or self.weekly)


class Pruned(msgspec.Struct, frozen=True):
    generations: tuple[str, ...]
    media_files: int
    media_bytes: int


def generations_to_keep(manifests: Sequence[Manifest], keeping: Keeping) -> set[str]:
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
    """Delete the backups that are not kept, then the media that no remaining backup names.

    Call this only while holding the write lease, because an unfinished backup may rely on media that no manifest names yet.
    Raises `InvalidInput` or `BackupDamaged` if a backup cannot be read, before any media are deleted, and `Conflict` once the
    lease has expired.
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
        # If the lease has expired, another backup may be running. It may rely on media that no manifest names yet.
        repository.check_lease()
        await repository.files.delete([f"{MEDIA}/{key}" for key in unused])
        files += len(unused)
        size += sum(unused.values())
    return Pruned(tuple(deleted), files, size)
