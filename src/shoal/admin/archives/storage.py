"""Archives that members have sent, in a folder of this machine: one each, with the state of its import beside it.

A member's archive is a folder that is called by the member's id. It arrives under another name, so it is there whole or not at all,
and leaves under another, so what works on it writes into no later one. `state.json` says how far it is, and is replaced whole; only
those change it who know its token. A process that works on an archive holds a lock on `lock`, which ends with the process, so what
a killed process has begun is taken up by another. The folder is removed when the member wants that, or after some days.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Literal

import msgspec

from shoal import private_files
from shoal.archives.records import ArchiveReport
from shoal.core.errors import InvalidInput, NotFound, StorageFull, Unavailable
from shoal.core.model import Visibility

MOST = 50
"""Archives that lie in the folder at a time; reports of those that were taken in are not counted."""
KEPT_MS = 7 * 86_400_000
"""Milliseconds for which an archive is kept that its member does nothing about, and the report of one that was taken in."""
LOOKED_MS = 86_400_000
"""Milliseconds after which an archive that was looked at gives way to one that finds no room."""
_LEFT_OVER_MS = 3_600_000
"""Milliseconds after which a folder is removed that a killed process had in hand."""
_RETRY_SECONDS = 600.0
_ALREADY = "file: an archive of yours is here already: discard it first"

Phase = Literal["looking", "looked", "taking", "done", "failed"]
WORK: tuple[Phase, ...] = ("looking", "taking")
"""Phases in which there is something to do."""
OVER: tuple[Phase, ...] = ("done", "failed")
"""Phases in which the archive itself is not needed any more."""
WORK_PREFIX = "work-"
"""How folders are called for what is unpacked."""


class ArchiveState(msgspec.Struct, frozen=True, kw_only=True):
    """How far an import is."""

    phase: Phase
    token: str
    """Tells an archive from the next one of the same member."""
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
    furthest: int = 0
    """Posts that were done when it was furthest."""
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
        token = secrets.token_hex(8)
        arriving = self._folder / f"{member_id}.{token}"
        with self._turn():
            if self.state(member_id) is not None:
                raise InvalidInput(_ALREADY, field="file")
            if not self._has_room(now_ms()):
                raise Unavailable("Many archives are being taken in; try again later", retry_after=_RETRY_SECONDS)
            private_files.make_folder(arriving)
        state = ArchiveState(phase="looking", token=token, file=file, size=size, changed=now_ms())
        try:
            with os.fdopen(
                private_files.open_file(arriving / _file_of(token), os.O_WRONLY | os.O_TRUNC), "wb"
            ) as target:
                copy_to(target)
            private_files.write(arriving / "state.json", msgspec.json.encode(state))
            with self._turn():
                # The form may have been sent twice at once.
                if self.state(member_id) is not None:
                    raise InvalidInput(_ALREADY, field="file")
                left = self._take_away(member_id)
                arriving.rename(self._folder / str(member_id))
            _remove(left)
        except OSError as error:
            raise StorageFull("the disk has no room for the archive") from error
        finally:
            _remove(arriving)

    def state(self, member_id: int) -> ArchiveState | None:
        """Return how far a member's import is; None where there is none, or one that another version has written."""
        try:
            return msgspec.json.decode((self._folder / str(member_id) / "state.json").read_bytes(), type=ArchiveState)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def archive(self, member_id: int, token: str) -> Path:
        """Return where a member's archive is."""
        return self._folder / str(member_id) / _file_of(token)

    def workplace(self, member_id: int) -> Path:
        """Return a folder for what has to be unpacked, without what a killed process has left there. For one who holds the lock."""
        place = self._folder / str(member_id)
        for left in place.glob(f"{WORK_PREFIX}*"):
            _remove(left)
        return place

    def begin(self, member_id: int, token: str, widest: Visibility) -> None:
        """Have an archive taken in that was looked at. Anything else stays as it is."""
        with self._turn():
            state = self.state(member_id)
            if state is not None and (state.token, state.phase) == (token, "looked"):
                taking = msgspec.structs.replace(
                    state, phase="taking", widest=widest, step="", done=0, total=0, furthest=0, attempts=0
                )
                self._write(member_id, taking)

    def note(self, member_id: int, state: ArchiveState) -> None:
        """Keep how far an import is. Raises `Discarded`, also where the member has sent another archive since."""
        with self._turn():
            found = self.state(member_id)
            if found is None or found.token != state.token:
                raise Discarded("this archive has been discarded")
            self._write(member_id, state)

    def empty(self, member_id: int, token: str) -> None:
        """Remove an archive, and keep what is known of it."""
        self.archive(member_id, token).unlink(missing_ok=True)

    def discard(self, member_id: int, token: str = "") -> None:
        """Remove an archive and all about it; with a token, this one alone. An import stops; what was taken in stays."""
        if not (self._folder / str(member_id)).is_dir():
            return
        with self._turn():
            found = self.state(member_id)
            if token and (found is None or found.token != token):
                return
            left = self._take_away(member_id)
        _remove(left)

    def waiting(self) -> list[int]:
        """Return the members whose archives there is something to do about."""
        states = ((member_id, self.state(member_id)) for member_id in self._members())
        return [member_id for member_id, state in states if state is not None and state.phase in WORK]

    def claim(self, member_id: int) -> IO[bytes] | None:
        """Return a lock, held until it is closed or the process ends; None where another process holds it."""
        place = self._folder / str(member_id)
        try:
            lock = os.fdopen(private_files.open_file(place / "lock", os.O_RDWR), "rb")
        except FileNotFoundError:
            return None
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
        """Discard what nothing has happened to for days, and what killed processes have left."""
        for member_id in self._members():
            state = self.state(member_id)
            if state is None:
                if _changed(self._folder / str(member_id)) < now - KEPT_MS:
                    self.discard(member_id)
            elif state.phase not in WORK and state.changed < now - KEPT_MS:
                self.discard(member_id, state.token)
            elif state.phase in OVER:
                self.empty(member_id, state.token)
        for place in self._in_hand():
            if _changed(place) < now - _LEFT_OVER_MS:
                _remove(place)

    def _has_room(self, now: int) -> bool:
        """Return whether one more archive may come. Where it may not, those give way that were looked at long ago."""
        states = [(member_id, state) for member_id in self._members() if (state := self.state(member_id)) is not None]
        held = [one for one in states if one[1].phase not in OVER]
        free = MOST - len(held) - len(self._in_hand())
        idle = [one for one in held if one[1].phase == "looked" and one[1].changed < now - LOOKED_MS]
        if free <= 0 and idle:
            member_id, _ = min(idle, key=lambda one: one[1].changed)
            _remove(self._take_away(member_id))
            free += 1
        return free > 0

    def _members(self) -> list[int]:
        if not self._folder.is_dir():
            return []
        return sorted(int(place.name) for place in self._folder.iterdir() if place.name.isdecimal())

    def _in_hand(self) -> list[Path]:
        """Return the folders of archives that arrive or leave."""
        return list(self._folder.glob("[0-9]*.*"))

    def _take_away(self, member_id: int) -> Path:
        """Give a member's folder, if there is one, a name under which nobody looks for it, and return that."""
        leaving = self._folder / f"{member_id}.{secrets.token_hex(8)}"
        with contextlib.suppress(FileNotFoundError):
            (self._folder / str(member_id)).rename(leaving)
        return leaving

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Have the shelf for a moment: no other thread or process looks at a state and changes it meanwhile."""
        private_files.make_folder(self._folder)
        with os.fdopen(private_files.open_file(self._folder / "lock", os.O_RDWR), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write(self, member_id: int, state: ArchiveState) -> None:
        place = self._folder / str(member_id)
        private_files.write(place / "state.part", msgspec.json.encode(state))
        (place / "state.part").replace(place / "state.json")


def _file_of(token: str) -> str:
    return f"archive.{token}"


def _remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)


def _changed(place: Path) -> float:
    try:
        return place.stat().st_mtime * 1000
    except FileNotFoundError:
        return math.inf


def now_ms() -> int:
    """Return the time, in Unix milliseconds."""
    return time.time_ns() // 1_000_000
