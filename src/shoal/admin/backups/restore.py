"""Restore a backup into an empty store: rows, events and media, then a consistency check with repair.

All rows are read and compared with their hashes before the first write; media are verified while they are copied. An interrupted
restore can be run again. Until then, a key in the store marks it as unfinished and prevents servers from starting; `finish`
removes the key as the last step.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from shoal import private_files
from shoal.admin.backups.contents import BackupFile, copy_file, decode_part, media_list, sizes_below
from shoal.admin.backups.repository import MEDIA, PUSH_KEY, BackupDamaged, BackupRepository, DumpPart, Manifest
from shoal.admin.consistency.check import check
from shoal.admin.contract import AnyNetwork
from shoal.admin.move import emit_events, forget_events, has_content, park_events, whole
from shoal.admin.report import CheckReport, Progress
from shoal.admin.throttling import Throttle, run_bounded
from shoal.admin.unfinished import mark_of, marked
from shoal.core import events
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.placement import DATA_SOURCES
from shoal.graph.bulk import Rows, SnapshotTable
from shoal.graph.contract import Store
from shoal.graph.schema import decode_node
from shoal.media.store import MediaStore
from shoal.tagcloud.contract import TagRule
from shoal.tagcloud.merger import Amendment

_AT_ONCE = 8
_ROWS_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class RestoreTarget:
    """The store and the media store that a restore fills. No other process may have the store open."""

    store: Store
    media: MediaStore
    push_key: Path | None


class RestoredNetwork(msgspec.Struct):
    rows: int = 0
    events: int = 0
    parked: int = 0
    media_files: int = 0
    media_there: int = 0
    faults: list[str] = []
    """Media files that the backup lacks, or contains damaged. Everything else was restored."""


async def restore(
    repository: BackupRepository, manifest: Manifest, target: RestoreTarget, throttle: Throttle, tell: Progress
) -> RestoredNetwork:
    """Restore the rows, events and media of a backup. The caller must then call `finish`.

    A damaged media file is skipped and reported. Raises `InvalidInput` if the store is not empty, and `BackupDamaged`
    if rows of the backup are damaged. After such an error, nothing has been written.
    """
    return await _Restore(repository, manifest, target, throttle, tell).run()


async def restore_tag_rules(network: AnyNetwork, manifest: Manifest) -> None:
    if manifest.tag_rules:
        rules = [TagRule(rule.name, rule.denied, rule.target) for rule in manifest.tag_rules]
        await network.amend_tags(Amendment(rules=rules))


async def make_whole(network: AnyNetwork, tell: Progress) -> CheckReport:
    """Recompute data that a backup does not contain, such as counts of tags, and complete operations that were in progress."""
    return await check(network, repair=True, progress=tell)


async def finish(target: RestoreTarget, manifest: Manifest) -> None:
    """Remove the key that marks the restore as unfinished, so that servers may start on the store."""
    await whole(target.store).remove_rows(Rows(keys=[mark_of(manifest.generation)]))


@dataclass
class _Restore:
    repository: BackupRepository
    manifest: Manifest
    target: RestoreTarget
    throttle: Throttle
    tell: Progress
    done: RestoredNetwork = field(default_factory=RestoredNetwork)

    def __post_init__(self) -> None:
        self.store = whole(self.target.store)
        self.mark = mark_of(self.manifest.generation)

    async def run(self) -> RestoredNetwork:
        await self._check_empty()
        push_key = await self._push_key()
        await self._check_rows()
        await self.store.put_rows(Rows(keys=[self.mark]))
        await self._put_rows()
        await self._put_events()
        with tempfile.TemporaryDirectory(prefix="shoal-restore-") as folder:
            await self._put_media(Path(folder))
        if push_key and self.target.push_key is not None:
            await asyncio.to_thread(private_files.write, self.target.push_key, push_key)
        return self.done

    async def _check_empty(self) -> None:
        begun = await marked(self.store)
        if begun and begun != self.mark.id:
            raise InvalidInput(
                "a restore of another generation into this store is unfinished: restore that generation, or use an empty store"
            )
        if not begun and await has_content(self.store):
            raise InvalidInput("the target store is not empty: name an empty store with --store")

    async def _push_key(self) -> bytes:
        """Return the web push key of the backup; empty if it has none. Raises `InvalidInput` if the target has another key."""
        key_parts = [part for part in self.manifest.parts if part.table == PUSH_KEY]
        if not key_parts:
            return b""
        key = await self.repository.part(self.manifest.generation, key_parts[0])
        path = self.target.push_key
        there = await asyncio.to_thread(path.read_bytes) if path is not None and path.exists() else b""
        if there.strip() not in {b"", key.strip()}:
            raise InvalidInput(f"{path} differs from the web push key of the backup: move the file away")
        return key

    async def _check_rows(self) -> None:
        for at, part in enumerate(self.manifest.parts, 1):
            if part.table != PUSH_KEY:
                await self._opened(part)
            self.tell("looked through", at, len(self.manifest.parts))

    async def _opened(self, part: DumpPart) -> Sequence[Any]:
        await self.throttle.spend(part.size)
        return await asyncio.to_thread(decode_part, part, await self.repository.part(self.manifest.generation, part))

    async def _rows(self, table: SnapshotTable) -> AsyncIterator[Sequence[Any]]:
        for part in self.manifest.parts:
            if part.table == table.value:
                yield await self._opened(part)

    async def _put_rows(self) -> None:
        for table in (SnapshotTable.OBJECTS, SnapshotTable.ASSOCIATIONS, SnapshotTable.COUNTS, SnapshotTable.KEYS):
            put, total = 0, self.manifest.rows(table.value)
            async for rows in self._rows(table):
                for start in range(0, len(rows), _ROWS_AT_ONCE):
                    some = rows[start : start + _ROWS_AT_ONCE]
                    await self.store.put_rows(_as_rows(table, some))
                    put += len(some)
                    self.tell(table.value, put, total)
            self.done.rows += put

    async def _put_events(self) -> None:
        # An earlier attempt to restore may have added events.
        await forget_events(self.store)
        async for rows in self._rows(SnapshotTable.PARKED):
            await park_events(self.store, [(events.decode(event), error) for _, event, error in rows])
            self.done.parked += len(rows)
        async for rows in self._rows(SnapshotTable.EVENTS):
            await emit_events(self.store, [events.decode(event) for _, event in rows])
            self.done.events += len(rows)

    async def _put_media(self, folder: Path) -> None:
        media, done, total = self.target.media, self.done, self.manifest.media.files

        async def put(row: BackupFile) -> None:
            try:
                await copy_file(self.repository.files, f"{MEDIA}/{row.key}", media, row.key, folder, self.throttle, row)
            except (BackupDamaged, NotFound):
                done.faults.append(f"the file {row.key} is damaged or missing")
            else:
                done.media_files += 1

        for source in range(DATA_SOURCES):
            rows = await media_list(self.repository, self.manifest, source)
            there = await sizes_below(media, str(source)) if rows else {}
            missing = [row for row in rows if there.get(row.key) != row.size]
            done.media_there += len(rows) - len(missing)
            await run_bounded(missing, put, _AT_ONCE)
            self.tell("media", done.media_files + done.media_there, total)


def _as_rows(table: SnapshotTable, rows: Sequence[Any]) -> Rows:
    match table:
        case SnapshotTable.OBJECTS:
            return Rows(objects=[decode_node(data) for _, _, data in rows])
        case SnapshotTable.ASSOCIATIONS:
            return Rows(assocs=rows)
        case SnapshotTable.COUNTS:
            return Rows(counts=rows)
        case _:
            return Rows(keys=rows)
