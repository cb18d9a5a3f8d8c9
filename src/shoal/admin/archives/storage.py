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
"""Maximum number of archives in the folder, not counting reports of finished imports."""
RETENTION_MS = 7 * 86_400_000
"""Milliseconds after which an idle archive, or the report of a finished import, is removed."""
LOOKED_MS = 86_400_000
"""Milliseconds after which a previewed archive may be evicted to make room for another."""
_LEFT_OVER_MS = 3_600_000
"""Milliseconds after which the folder of an upload or removal by a killed process is removed."""
_RETRY_SECONDS = 600.0
_ALREADY = "file: you have already uploaded an archive: discard it first"

Phase = Literal["looking", "looked", "taking", "done", "failed"]
WORK: tuple[Phase, ...] = ("looking", "taking")
"""Phases with work to do."""
OVER: tuple[Phase, ...] = ("done", "failed")
"""Phases in which the archive itself is not needed any more."""
WORK_PREFIX = "work-"
"""Prefix of folders for unpacked files."""


class ArchiveState(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of an import."""

    phase: Phase
    token: str
    """Distinguishes an archive from the member's next one."""
    file: str
    """File name of the upload."""
    size: int
    """In bytes."""
    changed: int
    """When the phase began, in Unix milliseconds."""
    widest: Visibility = Visibility.PUBLIC
    step: str = ""
    """The current step: `reading` or `posts`."""
    done: int = 0
    total: int = 0
    """Progress of the step, and its total (0: unknown)."""
    furthest: int = 0
    """Highest number of finished posts so far."""
    attempts: int = 0
    """Attempts without progress."""
    report: ArchiveReport | None = None
    error: str = ""
    """Message of the error that ended the import."""


class Discarded(NotFound):
    """The member has discarded the archive."""


class ArchiveStorage:
    """The folder in which uploaded archives are stored, each of at most `most_bytes`; 0 disables uploads. Methods block on I/O."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._folder = folder

    def put(self, member_id: int, file: str, size: int, copy_to: Callable[[IO[bytes]], None]) -> None:
        """Store an archive to be previewed.

        Raises `InvalidInput` if the member already has one, `Unavailable` if the folder has too many archives, and `StorageFull`
        if the disk is full.
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
        """Return the state of a member's import; None if there is none, or if another version of Shoal wrote it."""
        try:
            return msgspec.json.decode((self._folder / str(member_id) / "state.json").read_bytes(), type=ArchiveState)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def archive(self, member_id: int, token: str) -> Path:
        return self._folder / str(member_id) / _file_of(token)

    def workplace(self, member_id: int) -> Path:
        """Return a folder for unpacking, empty even after a crash. The caller must hold the lock of `claim`."""
        folder = self._folder / str(member_id)
        for left in folder.glob(f"{WORK_PREFIX}*"):
            _remove(left)
        return folder

    def begin(self, member_id: int, token: str, widest: Visibility) -> None:
        """Start the import of a previewed archive. Do nothing in any other phase."""
        with self._lock():
            state = self.state(member_id)
            if state is not None and (state.token, state.phase) == (token, "looked"):
                taking = msgspec.structs.replace(
                    state, phase="taking", widest=widest, step="", done=0, total=0, furthest=0, attempts=0
                )
                self._write(member_id, taking)

    def note(self, member_id: int, state: ArchiveState) -> None:
        """Save the progress of an import. Raises `Discarded` if its archive was discarded, even if another was uploaded since."""
        with self._lock():
            found = self.state(member_id)
            if found is None or found.token != state.token:
                raise Discarded("this archive has been discarded")
            self._write(member_id, state)

    def empty(self, member_id: int, token: str) -> None:
        """Delete the files of an archive, but keep the state of its import."""
        self.archive(member_id, token).unlink(missing_ok=True)

    def discard(self, member_id: int, token: str = "") -> None:
        """Remove a member's archive and its state; if a token is given, only if it is the token of the archive.

        A running import stops; imported posts remain.
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
        """Return the members whose archives have to be read or imported."""
        states = ((member_id, self.state(member_id)) for member_id in self.members())
        return [member_id for member_id, state in states if state is not None and state.phase in WORK]

    def claim(self, member_id: int) -> IO[bytes] | None:
        """Lock a member's archive until the returned file is closed or the process ends; return None if it is already locked."""
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
        """Return whether there is room for another archive, after removing the oldest expired preview if necessary."""
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
        """Return the members with an archive or a report."""
        if not self._folder.is_dir():
            return []
        return sorted(int(folder.name) for folder in self._folder.iterdir() if folder.name.isdecimal())

    def _in_progress(self) -> list[Path]:
        """Return the folders of uploads and removals in progress."""
        return list(self._folder.glob("[0-9]*.*"))

    def _detach(self, member_id: int) -> Path:
        """Rename a member's folder, if it exists, so that it no longer counts as theirs; return the new path."""
        leaving = self._folder / f"{member_id}.{secrets.token_hex(8)}"
        with contextlib.suppress(FileNotFoundError):
            (self._folder / str(member_id)).rename(leaving)
        return leaving

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Hold the folder's lock, so that no other thread or process changes a state."""
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
