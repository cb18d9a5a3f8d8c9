"""Archives uploaded by members, in a local folder: one per member, with the state of its import.

An archive is in a folder named by the member's id. During upload and removal, the folder has another name: a visible archive is
therefore complete, and a worker that still uses a removed archive cannot write into the next one. `state.json` holds the
progress of the import; it is replaced atomically, and only by a process that knows the archive's token. A worker locks the file
`lock`. The lock ends with the process, so another worker can resume the import after a kill. The folder is removed on the
member's request, or after some days.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Literal

import msgspec

from shoal import private_files
from shoal.admin.archives.records import ArchiveReport
from shoal.core.errors import InvalidInput, NotFound, StorageFull, Unavailable
from shoal.core.ids import now_ms
from shoal.core.model import Visibility

MOST = 50
"""Maximum number of archives in the folder. Reports of finished imports do not count."""
RETENTION_MS = 7 * 86_400_000
"""Milliseconds after which an unused archive, or the report of a finished import, is removed."""
LOOKED_MS = 86_400_000
"""Milliseconds after which a previewed archive may be removed to make room for another archive."""
_LEFT_OVER_MS = 3_600_000
"""Milliseconds after which a folder is removed that a killed process was creating or removing."""
_RETRY_SECONDS = 600.0
_ALREADY = "file: you have already uploaded an archive: discard it first"

Phase = Literal["looking", "looked", "taking", "done", "failed"]
WORK: tuple[Phase, ...] = ("looking", "taking")
"""Phases in which a worker must process the archive."""
OVER: tuple[Phase, ...] = ("done", "failed")
"""Phases in which the archive itself is no longer needed."""
WORK_PREFIX = "work-"


class ArchiveState(msgspec.Struct, frozen=True, kw_only=True):
    phase: Phase
    token: str
    """An identifier of the archive, which the member's next archive does not have."""
    file: str
    size: int
    changed: int
    """Time when the phase began, in Unix milliseconds."""
    widest: Visibility = Visibility.PUBLIC
    step: str = ""
    """The current step: `reading` or `posts`."""
    done: int = 0
    total: int = 0
    """`done` and `total`: progress of the step. A total of 0 is unknown."""
    furthest: int = 0
    """Highest number of finished posts in any attempt so far."""
    attempts: int = 0
    """Number of successive attempts without progress."""
    report: ArchiveReport | None = None
    error: str = ""
    """Message of the error that ended the import; empty if there was none."""


class Discarded(NotFound):
    pass


class ArchiveStorage:
    """The folder of uploaded archives, each of at most `most_bytes`; 0 disables uploads. All methods block on the disk."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._folder = folder

    def put(self, member_id: int, file: str, size: int, copy_to: Callable[[IO[bytes]], None]) -> None:
        """Store an archive, of which a worker will create a preview.

        Raises `InvalidInput` if the member already has an archive, `Unavailable` if the folder has too many archives,
        and `StorageFull` if the disk is full.
        """
        token = secrets.token_hex(8)
        arriving = self._folder / f"{member_id}.{token}"
        with self._lock():
            if self.state(member_id) is not None:
                raise InvalidInput(_ALREADY, field="file")
            if not self._has_capacity(now_ms()):
                raise Unavailable("Many archives are being imported; try again later", retry_after=_RETRY_SECONDS)
            private_files.make_folder(arriving)
        state = ArchiveState(phase="looking", token=token, file=file, size=size, changed=now_ms())
        try:
            with os.fdopen(
                private_files.open_file(arriving / _file_of(token), os.O_WRONLY | os.O_TRUNC), "wb"
            ) as target:
                copy_to(target)
            private_files.write(arriving / "state.json", msgspec.json.encode(state))
            with self._lock():
                # The form may have been submitted twice concurrently.
                if self.state(member_id) is not None:
                    raise InvalidInput(_ALREADY, field="file")
                left = self._detach(member_id)
                arriving.rename(self._folder / str(member_id))
            _remove(left)
        except OSError as error:
            raise StorageFull("the disk has no room for the archive") from error
        finally:
            _remove(arriving)

    def state(self, member_id: int) -> ArchiveState | None:
        """Return the state of a member's import; None if there is none, or if it was written by another version of Shoal."""
        try:
            return msgspec.json.decode((self._folder / str(member_id) / "state.json").read_bytes(), type=ArchiveState)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def archive(self, member_id: int, token: str) -> Path:
        return self._folder / str(member_id) / _file_of(token)

    def workplace(self, member_id: int) -> Path:
        """Return an empty folder for unpacking.

        Files of a crashed worker are removed. The caller must hold the lock of `claim`.
        """
        folder = self._folder / str(member_id)
        for left in folder.glob(f"{WORK_PREFIX}*"):
            _remove(left)
        return folder

    def begin(self, member_id: int, token: str, widest: Visibility) -> None:
        """Start the import of a previewed archive. In any other phase, nothing changes."""
        with self._lock():
            state = self.state(member_id)
            if state is not None and (state.token, state.phase) == (token, "looked"):
                taking = msgspec.structs.replace(
                    state, phase="taking", widest=widest, step="", done=0, total=0, furthest=0, attempts=0
                )
                self._write(member_id, taking)

    def note(self, member_id: int, state: ArchiveState) -> None:
        """Save the progress of an import.

        Raises `Discarded` if its archive was discarded, even if the member has uploaded another.
        """
        with self._lock():
            found = self.state(member_id)
            if found is None or found.token != state.token:
                raise Discarded("this archive has been discarded")
            self._write(member_id, state)

    def empty(self, member_id: int, token: str) -> None:
        """Delete the files of an archive. The state of its import remains."""
        self.archive(member_id, token).unlink(missing_ok=True)

    def discard(self, member_id: int, token: str = "") -> None:
        """Remove a member's archive and the state of its import. With a `token`, only the archive with this token is removed.

        A running import stops. Imported posts remain.
        """
        if not (self._folder / str(member_id)).is_dir():
            return
        with self._lock():
            found = self.state(member_id)
            if token and (found is None or found.token != token):
                return
            left = self._detach(member_id)
        _remove(left)

    def waiting(self) -> list[int]:
        states = ((member_id, self.state(member_id)) for member_id in self.members())
        return [member_id for member_id, state in states if state is not None and state.phase in WORK]

    def claim(self, member_id: int) -> IO[bytes] | None:
        """Lock a member's archive until the returned file is closed or the process ends.

        Return None if the archive is locked already.
        """
        folder = self._folder / str(member_id)
        try:
            lock = os.fdopen(private_files.open_file(folder / "lock", os.O_RDWR), "rb")
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return None
        return lock

    def sweep(self, now: int) -> None:
        """Discard archives that have been idle for days, and files left by killed processes."""
        for member_id in self.members():
            state = self.state(member_id)
            if state is None:
                if _changed(self._folder / str(member_id)) < now - RETENTION_MS:
                    self.discard(member_id)
            elif state.phase not in WORK and state.changed < now - RETENTION_MS:
                self.discard(member_id, state.token)
            elif state.phase in OVER:
                self.empty(member_id, state.token)
        for folder in self._in_progress():
            if _changed(folder) < now - _LEFT_OVER_MS:
                _remove(folder)

    def _has_capacity(self, now: int) -> bool:
        """Return whether the folder has room for another archive. If necessary, the oldest expired preview is removed."""
        states = [(member_id, state) for member_id in self.members() if (state := self.state(member_id)) is not None]
        unfinished = [entry for entry in states if entry[1].phase not in OVER]
        free = MOST - len(unfinished) - len(self._in_progress())
        idle = [entry for entry in unfinished if entry[1].phase == "looked" and entry[1].changed < now - LOOKED_MS]
        if free <= 0 and idle:
            member_id, _ = min(idle, key=lambda entry: entry[1].changed)
            _remove(self._detach(member_id))
            free += 1
        return free > 0

    def members(self) -> list[int]:
        if not self._folder.is_dir():
            return []
        return sorted(int(folder.name) for folder in self._folder.iterdir() if folder.name.isdecimal())

    def _in_progress(self) -> list[Path]:
        return list(self._folder.glob("[0-9]*.*"))

    def _detach(self, member_id: int) -> Path:
        """Rename a member's folder, so that it no longer counts as the member's. Return the new path."""
        leaving = self._folder / f"{member_id}.{secrets.token_hex(8)}"
        with contextlib.suppress(FileNotFoundError):
            (self._folder / str(member_id)).rename(leaving)
        return leaving

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Hold the lock of the folder. While it is held, no other thread or process changes the state of an import."""
        private_files.make_folder(self._folder)
        with os.fdopen(private_files.open_file(self._folder / "lock", os.O_RDWR), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write(self, member_id: int, state: ArchiveState) -> None:
        folder = self._folder / str(member_id)
        private_files.write(folder / "state.part", msgspec.json.encode(state))
        (folder / "state.part").replace(folder / "state.json")


def _file_of(token: str) -> str:
    return f"archive.{token}"


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime * 1000
    except FileNotFoundError:
        return math.inf
