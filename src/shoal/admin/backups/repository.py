"""Backup repository: a directory or a bucket with any number of backups (generations), and the media that they share.

    <generation>/begun              the lease of the writer, renewed every minute until the writer ends
    <generation>/objects-00001.gz   rows, and so on
    <generation>/manifest.json      the commit: put last, deleted first
    media/12/3/99/ann/7-...jpg      media under the keys they have in the network

The manifest lists the contents of a backup with sizes and hashes. A backup without a manifest does not exist. Every file is
put atomically. Therefore an interrupted backup leaves files without a manifest, and earlier backups are unchanged. The next
writer deletes these files: in a directory once it holds the lock, in a bucket once the lease has expired. A writer whose own
lease has expired neither commits nor deletes files that other backups may use.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import logging
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from shoal import private_files
from shoal.core.errors import Conflict, InvalidInput, NotFound, ShoalError
from shoal.media.store import RAW, MediaStore, StoredFile

FORMAT = 1
"""Format version of a backup. Shoal refuses newer versions."""


PUSH_KEY = "push-key"
"""Name and table of the file that contains the web push key, if the network has the key in a file next to the store."""


class DumpPart(msgspec.Struct, frozen=True):
    key: str
    table: str
    size: int
    sha256: str
    rows: int


class SavedTagRule(msgspec.Struct, frozen=True):
    """An admin's tag rule in a backup. It is stored because it is not in the graph, so it cannot be recomputed."""

    name: str
    denied: bool
    target: str


class MediaTotals(msgspec.Struct, frozen=True):
    """Number and bytes of all media files of a backup, and of the media files that it added to the repository."""

    files: int = 0
    bytes: int = 0
    new_files: int = 0
    new_bytes: int = 0


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    generation: str
    shoal: str
    moment: int
    """The time of the snapshots, in Unix milliseconds."""
    finished: int
    held_ms: float
    """Milliseconds for which commits waited while the stores were opened; 0 for a single store."""
    stores: Mapping[str, str]
    """URL of each store without user and password, by the ranges of its data sources."""
    parts: tuple[DumpPart, ...]
    tag_rules: tuple[SavedTagRule, ...] = ()
    media: MediaTotals = MediaTotals()
    lacking: tuple[str, ...] = ()
    """Media files that were deleted before they could be copied. At most 1,000 are listed."""
    lacks: int = 0
    """Number of all media files that were deleted before they could be copied."""

    def rows(self, table: str) -> int:
        return sum(part.rows for part in self.parts if part.table == table)

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.moment / 1_000, UTC)

    @property
    def stored(self) -> int:
        return sum(part.size for part in self.parts)


class _Head(msgspec.Struct):
    format: int


def encode(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode(data: bytes, generation: str) -> Manifest:
    """Return the decoded manifest of the backup `generation`.

    Raises `InvalidInput` if the manifest is damaged, belongs to another backup or was written by a newer Shoal.
    """
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.format <= FORMAT:
            manifest = msgspec.json.decode(data, type=Manifest)
            if manifest.generation == generation:
                return manifest
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the manifest of {generation} is damaged: use another generation") from error
    if head.format > FORMAT:
        raise InvalidInput(f"{generation} was written by a newer Shoal: restore with that version")
    raise InvalidInput(f"the manifest of {generation} belongs to another generation: use another generation")


def plain(manifest: Manifest) -> dict[str, Any]:
    """Return the fields of a manifest for lists of backups, as JSON values."""
    return {
        "generation": manifest.generation,
        "moment": manifest.at.isoformat(timespec="milliseconds"),
        "shoal": manifest.shoal,
        "held_ms": manifest.held_ms,
        "rows": sum(part.rows for part in manifest.parts),
        "bytes": manifest.stored,
        "media_files": manifest.media.files,
        "media_bytes": manifest.media.bytes,
        "new_media_files": manifest.media.new_files,
        "new_media_bytes": manifest.media.new_bytes,
        "lacks": manifest.lacks,
    }


MEDIA = "media"
_BEGUN = "begun"
_MANIFEST = "manifest.json"
_NAME = re.compile(r"\d{8}T\d{9}Z-[0-9a-f]{4}")
_RENEW_SECONDS = 60.0
DEAD_SECONDS = 600.0
"""Seconds without a renewal after which other writers treat a lease in a bucket as expired."""
_OWN_PART = 0.9
"""The holder gives up its lease after this fraction of the expiry time, because buckets date files in whole seconds."""

_log = logging.getLogger(__name__)


class BackupDamaged(ShoalError):
    """A file of a backup that does not match its manifest."""


class BackupRepository:
    """All backups at one URL. `files` gives access to their files and the media."""

    def __init__(self, files: MediaStore, folder: Path | None, *, dead: float = DEAD_SECONDS) -> None:
        self.files = files
        self._folder = folder
        self._dead = dead
        self._renewed: float | None = None
        """Time of the last lease renewal, in Unix seconds; None when not writing."""

    @classmethod
    def open(cls, url: str, *, make: bool, dead: float = DEAD_SECONDS) -> BackupRepository:
        """Open `file:///directory` or `s3://bucket/prefix?...`. `make` allows a directory that does not exist yet.

        `dead` is the number of seconds after which a lease that is not renewed expires.

        Raises `InvalidInput` for any other URL, and for a missing directory unless `make` is set.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"file", "s3"}:
            raise InvalidInput("backups must be in a directory or at s3://bucket/prefix")
        folder = Path(unquote(parts.path)) if parts.scheme == "file" else None
        if folder is not None and not make and not folder.is_dir():
            raise InvalidInput(f"no directory {folder}: create it first")
        return cls(MediaStore.open(url), folder, dead=dead)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[str]:
        """Take the write lease, delete the files of unfinished backups, and yield the name of a new backup.

        Raises `Conflict` while another backup is running.
        """
        with _locked(self._folder):
            name = _new_name()
            await self._renew(name)
            renewing = asyncio.create_task(self._keep_renewing(name), name="shoal-backup-lease")
            try:
                await self._clear_unfinished(name)
                yield name
            finally:
                renewing.cancel()
                with suppress(asyncio.CancelledError):
                    await renewing
                self._renewed = None
                try:
                    await self.files.delete([f"{name}/{_BEGUN}"])
                except ShoalError as error:
                    _log.warning("backup file %s/%s could not be deleted: %s", name, _BEGUN, error)

    def check_lease(self) -> None:
        """Raise `Conflict` if the lease has expired, because another writer may then have deleted files of this backup.

        A directory has a lock instead of a lease, which does not expire while the process runs.
        """
        if self._folder is None and self._renewed is not None and time.time() - self._renewed > self._dead * _OWN_PART:
            raise Conflict(
                f"the lease of this backup expired after {self._dead * _OWN_PART / 60:.0f} minutes, so another backup may have "
                "deleted its files: run it again"
            )

    async def _renew(self, name: str) -> None:
        """Renew the lease. Raises `Conflict` if the lease expires before the renewal is stored."""
        self.check_lease()
        begun = time.time()
        await self.files.put(f"{name}/{_BEGUN}", b"under way\n", RAW)
        self.check_lease()
        self._renewed = begun

    async def _keep_renewing(self, name: str) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                await self._renew(name)
            except Conflict:
                # The writer's next `check_lease` raises the same conflict.
                return
            except ShoalError as error:
                _log.warning("the lease of backup %s could not be renewed: %s", name, error)

    async def _clear_unfinished(self, mine: str) -> None:
        """Delete the files of killed backups. Raises `Conflict` if another backup may be running in the bucket.

        In a directory, the lock proves that no other backup is running.
        """
        markers = await self._lease_files()
        # The lease file was just written, so its date is the current time by the clock of the storage.
        now = max(file.modified for file in markers[mine])
        for name, files in markers.items():
            if name == mine or any(file.key == f"{name}/{_MANIFEST}" for file in files):
                continue
            silent = now - max(file.modified for file in files)
            if self._folder is None and silent < self._dead:
                raise Conflict(
                    f"another backup to this location is running ({name}): wait for it to finish; a killed backup expires "
                    f"{self._dead / 60:.0f} minutes after its last renewal"
                )
            await self.files.delete([file.key for file in files])

    async def _lease_files(self) -> dict[str, list[StoredFile]]:
        """Return the lease files of all backups, finished or not, by the name of the backup."""
        found: dict[str, list[StoredFile]] = {}
        for name in await self.files.folders():
            if _NAME.fullmatch(name):
                files = [file async for page in self.files.files(name) for file in page]
                if files:
                    found[name] = files
        return found

    async def finish(self, manifest: Manifest) -> None:
        """Commit a backup by storing its manifest.

        Raises `BackupDamaged` if files of the backup are missing or changed, and `Conflict` if the lease has expired. The backup
        is not committed in either case.
        """
        name = manifest.generation
        await self._renew(name)
        await self._check_parts(manifest)
        await self.files.put(f"{name}/{_MANIFEST}", encode(manifest), RAW)
        try:
            self.check_lease()
        except Conflict:
            await self.files.delete([f"{name}/{_MANIFEST}"])
            raise

    async def _check_parts(self, manifest: Manifest) -> None:
        name = manifest.generation
        sizes = {file.key: file.size async for page in self.files.files(name) for file in page}
        for part in manifest.parts:
            if sizes.get(f"{name}/{part.key}") != part.size:
                raise BackupDamaged(
                    f"{name}/{part.key} was deleted or changed while the backup was written: run the backup again"
                )

    async def abandon(self, name: str) -> None:
        """Delete a backup, finished or not.

        The manifest is deleted first, because a backup without a manifest counts as unfinished.
        """
        await self.files.delete([f"{name}/{_MANIFEST}"])
        await self.files.delete([file.key async for page in self.files.files(name) for file in page])

    async def generations(self) -> list[str]:
        names = sorted(filter(_NAME.fullmatch, await self.files.folders()))
        sizes = await asyncio.gather(*(self.files.size(f"{name}/{_MANIFEST}") for name in names))
        return [name for name, size in zip(names, sizes, strict=True) if size is not None]

    async def manifest(self, name: str = "") -> Manifest:
        """Return the manifest of a backup; without a name, of the newest one.

        Raises `InvalidInput` if it is missing or unreadable.
        """
        if not name:
            names = await self.generations()
            if not names:
                raise InvalidInput("no backups found at this location")
            name = names[-1]
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"{name!r} is not a generation: list generations with `shoal backup list`")
        try:
            data, _ = await self.files.get(f"{name}/{_MANIFEST}")
        except NotFound as error:
            raise InvalidInput(f"no generation {name}: list generations with `shoal backup list`") from error
        return decode(data, name)

    async def manifests(self) -> list[Manifest]:
        return [await self.manifest(name) for name in await self.generations()]

    async def put_part(self, generation: str, name: str, table: str, data: bytes, rows: int) -> DumpPart:
        self.check_lease()
        await self.files.put(f"{generation}/{name}", data, RAW)
        return DumpPart(name, table, len(data), hashlib.sha256(data).hexdigest(), rows)

    async def part(self, generation: str, part: DumpPart) -> bytes:
        """Return the contents of a file of a backup. Raises `BackupDamaged` if the file is missing or was changed."""
        try:
            data, _ = await self.files.get(f"{generation}/{part.key}")
        except NotFound as error:
            raise BackupDamaged(f"{generation}/{part.key} is missing") from error
        if len(data) != part.size or hashlib.sha256(data).hexdigest() != part.sha256:
            raise BackupDamaged(f"{generation}/{part.key} is damaged: its hash differs from the manifest")
        return data


def _new_name() -> str:
    """Return a unique name for a backup. It begins with the time in milliseconds, so names sort by time."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1_000:03}Z-{secrets.token_hex(2)}"


@contextmanager
def _locked(folder: Path | None) -> Iterator[None]:
    """Lock a directory, so that no other backup can write to it. A bucket (None) has no locks."""
    if folder is None:
        yield
        return
    handle = private_files.open_file(folder / "lock", os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise Conflict("another backup to this location is running: wait for it to finish") from error
    try:
        yield
    finally:
        os.close(handle)
