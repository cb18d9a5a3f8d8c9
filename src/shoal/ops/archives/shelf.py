"""Archives that members have sent, in a folder of this machine: one each, with the state of its import beside it.

A member's archive is a folder that is called by the member's id. `state.json` says how far it is, and is replaced whole. A process
that works on it holds a lock on `lock`, which ends with the process, so what a killed process has begun is taken up by another.
The folder is removed when the member wants that, or after some days.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Literal

import msgspec

from shoal import private
from shoal.archives.report import ArchiveReport
from shoal.core.errors import InvalidInput, NotFound, StorageFull, Unavailable
from shoal.core.model import Visibility

MOST = 50
"""Archives that lie in the folder at a time."""
KEPT_MS = 7 * 86_400_000
"""Milliseconds for which an archive is kept that its member does nothing about, and the report of one that was taken in."""
_RETRY_SECONDS = 600.0

Phase = Literal["looking", "looked", "taking", "done", "failed"]
WORK: tuple[Phase, ...] = ("looking", "taking")
"""Phases in which there is something to do."""


class ArchiveState(msgspec.Struct, frozen=True, kw_only=True):
    """How far an import is."""

    phase: Phase
    file: str
    """The name that the file had where it came from."""
    size: int
    """Bytes."""
    changed: int
    """When the phase began, in Unix milliseconds."""
    widest: Visibility = Visibility.PUBLIC
    step: str = ""
    """`reading` or `posts`."""
    done: int = 0
    total: int = 0
    """How much of the step is done, and how much there is in all (0: not known)."""
    attempts: int = 0
    """How often it was begun without getting any further."""
    report: ArchiveReport | None = None
    error: str = ""
    """Why it failed, as the message of an error."""


class Discarded(NotFound):
    """The member has discarded the archive."""


class ArchiveShelf:
    """The folder. An archive may have `most_bytes`; with 0 none is taken. Its methods block for the time of a disk."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._folder = folder

    def put(self, member_id: int, file: str, size: int, copy_to: Callable[[IO[bytes]], None]) -> None:
        """Keep an archive, to be looked at. Raises `InvalidInput` where the member has one already, `Unavailable` where too many
        others have, and `StorageFull`.
        """
        private.make_folder(self._folder)
        if self.state(member_id) is not None:
            raise InvalidInput("file: an archive of yours is here already: discard it first", field="file")
        if len(self._members()) >= MOST:
            raise Unavailable("Many archives are being taken in; try again later", retry_after=_RETRY_SECONDS)
        place = self._folder / str(member_id)
        private.make_folder(place)
        try:
            # Should the form be sent twice at once, each of the two files is whole.
            arriving = place / f"archive.{secrets.token_hex(4)}"
            with os.fdopen(private.open_file(arriving, os.O_WRONLY | os.O_TRUNC), "wb") as target:
                copy_to(target)
            arriving.replace(place / "archive")
        except OSError as error:
            shutil.rmtree(place, ignore_errors=True)
            raise StorageFull("the disk has no room for the archive") from error
        self._write(member_id, ArchiveState(phase="looking", file=file, size=size, changed=now_ms()))

    def state(self, member_id: int) -> ArchiveState | None:
        """Return how far a member's import is; None where there is none."""
        try:
            return msgspec.json.decode((self._folder / str(member_id) / "state.json").read_bytes(), type=ArchiveState)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError:
            # Of another version.
            self.discard(member_id)
            return None

    def archive(self, member_id: int) -> Path:
        """Return where a member's archive is."""
        return self._folder / str(member_id) / "archive"

    def begin(self, member_id: int, widest: Visibility) -> None:
        """Have an archive taken in that was looked at. Anything else stays as it is."""
        state = self.state(member_id)
        if state is not None and state.phase == "looked":
            self.note(
                member_id, msgspec.structs.replace(state, phase="taking", widest=widest, step="", done=0, total=0)
            )

    def note(self, member_id: int, state: ArchiveState) -> None:
        """Keep how far an import is. Raises `Discarded`."""
        if self.state(member_id) is None:
            raise Discarded("this archive has been discarded")
        self._write(member_id, state)

    def empty(self, member_id: int) -> None:
        """Remove an archive, and keep what is known of it."""
        self.archive(member_id).unlink(missing_ok=True)

    def discard(self, member_id: int) -> None:
        """Remove an archive and all about it. One that is being taken in stops; what was taken in stays."""
        shutil.rmtree(self._folder / str(member_id), ignore_errors=True)

    def waiting(self) -> list[int]:
        """Return the members whose archives there is something to do about."""
        states = ((member_id, self.state(member_id)) for member_id in self._members())
        return [member_id for member_id, state in states if state is not None and state.phase in WORK]

    def claim(self, member_id: int) -> IO[bytes] | None:
        """Return a lock, held until it is closed or the process ends; None where another process holds it."""
        place = self._folder / str(member_id)
        if not place.is_dir():
            return None
        lock = os.fdopen(private.open_file(place / "lock", os.O_RDWR), "rb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return None
        return lock

    def all(self) -> list[int]:
        """Return the members who have an archive here, or a report."""
        return self._members()

    def sweep(self, now: int) -> None:
        """Discard what nothing has happened to for days, and what never arrived whole."""
        for member_id in self._members():
            state = self.state(member_id)
            place = self._folder / str(member_id)
            if state is None:
                stale = place.is_dir() and place.stat().st_mtime * 1000 < now - KEPT_MS
            else:
                stale = state.phase not in WORK and state.changed < now - KEPT_MS
            if stale:
                self.discard(member_id)

    def _members(self) -> list[int]:
        if not self._folder.is_dir():
            return []
        return sorted(int(place.name) for place in self._folder.iterdir() if place.name.isdecimal())

    def _write(self, member_id: int, state: ArchiveState) -> None:
        place = self._folder / str(member_id)
        try:
            private.write(place / "state.part", msgspec.json.encode(state))
            (place / "state.part").replace(place / "state.json")
        except FileNotFoundError as error:
            raise Discarded("this archive has been discarded") from error


def now_ms() -> int:
    """Return the time, in Unix milliseconds."""
    return time.time_ns() // 1_000_000
