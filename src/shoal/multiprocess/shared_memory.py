"""Memory shared by the owner of a store and the readers.

One anonymous file (`memfd_create`), mapped by every process: it has no name, and is freed with the last process. Almost every
part has a single writer: the owner writes the change log and the timelines, and each process writes its own rate limit counters
and its load. Values of several words are written under a *version* that is odd during the write.

| part | contents |
|---|---|
| words | single numbers, and the load of each process |
| log | version tokens and ids of changes, in a ring |
| counts | a rate limit table for each process |
| rings, floors ... | home timelines, as in `timelines.memory` |
"""

from __future__ import annotations

import mmap
import os
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.core.errors import InvalidInput, Unavailable

LOG_ENTRIES = 1 << 15
COUNTED = 1 << 15
"""Rate limits that one process counts concurrently."""
_PAGE = 4_096
_WORDS = _PAGE // 8
MOST_PROCESSES = 64
OWNER = 0
"""The slot of the process that owns the store."""
_BUSY_FROM = 64


# Indexes in `SharedMemory.words`: here of the arguments of `create`, then of numbers that change.
PROCESSES, CAPACITY, LENGTH = range(3)
POSITION = 3
"""Number of changes in the log. It jumps when a new owner starts, which invalidates all cached data."""
VERSION = 4
"""Version of the timelines: odd during a write."""
NEWEST = 5
"""Upper bound of all ids and floors in timelines."""
USED = 6
"""Number of timeline rows ever used."""
TAG_UPDATES = 7
"""Number of updates on the tag cloud; a new owner increases it too."""


class SharedMemory:
    """Shared memory as a mapped file. `create` creates the file, and `attach` maps the file of another process."""

    def __init__(self, number: int) -> None:
        self.number = number
        """The file descriptor, which children inherit."""
        size = os.fstat(number).st_size
        self._map = mmap.mmap(number, size)
        view = memoryview(self._map)
        self.words = view[: _WORDS * 8].cast("q")
        processes = self.words[PROCESSES]
        self.processes = processes
        self.capacity, self.length = self.words[CAPACITY], self.words[LENGTH]
        self.busy = self.words[_BUSY_FROM : _BUSY_FROM + processes]
        """Recent load of each process, in thousandths."""
        self._at = _PAGE
        self.log_marks = self._view(view, LOG_ENTRIES)
        self.log_ids = self._view(view, LOG_ENTRIES)
        self.counts = [self._view(view, 2 * COUNTED) for _ in range(processes)]
        self.members = self._array(self.capacity, np.int64)
        self.floors = self._array(self.capacity, np.int64)
        self.read_at = self._array(self.capacity, np.float64)
        self.next = self._array(self.capacity, np.int32)
        self.filled = self._array(self.capacity, np.int8)
        self.rings = self._array(self.capacity * self.length, np.int64)
        # Use huge pages if the kernel has them, because writes to timelines are scattered over the whole file.
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE)

    @classmethod
    def create(cls, processes: int, capacity: int, length: int) -> SharedMemory:
        """Create memory for `processes`, and for `capacity` timelines of `length` entries. Pages take memory when they are written.

        Raises `Unavailable`, and `InvalidInput` for too many processes.
        """
        if not hasattr(os, "memfd_create"):
            raise Unavailable("several processes on one SQLite file require Linux: use --workers 1")
        if not 1 < processes <= MOST_PROCESSES:
            raise InvalidInput(
                f"--workers: 2 to {MOST_PROCESSES} processes can share one SQLite file (got {processes})"
            )
        number = os.memfd_create("shoal", os.MFD_CLOEXEC)
        try:
            os.ftruncate(number, _size(processes, capacity, length))
        except OSError as error:
            os.close(number)
            raise Unavailable(f"cannot allocate memory shared by the processes: {error.strerror}") from error
        words = np.array([processes, capacity, length], np.int64)
        os.pwrite(number, words.tobytes(), 0)
        return cls(number)

    @classmethod
    def attach(cls, number: int) -> SharedMemory:
        """Map the shared file whose descriptor (`number`) this process has inherited."""
        os.set_inheritable(number, False)
        return cls(number)

    def _array(self, length: int, kind: type[Any]) -> NDArray[Any]:
        array = np.frombuffer(self._map, kind, length, self._at)
        self._at += _pages(array.nbytes)
        return array

    def _view(self, view: memoryview, length: int) -> memoryview:
        part = view[self._at : self._at + 8 * length].cast("q")
        self._at += _pages(8 * length)
        return part


_ORDERING = threading.Lock()


def barrier() -> None:
    """Make all earlier writes visible to other processes before any later write.

    Releasing and then acquiring a lock is a memory barrier on every processor. Python has nothing cheaper.
    """
    with _ORDERING:
        pass
    with _ORDERING:
        pass


def _size(processes: int, capacity: int, length: int) -> int:
    of_members = [8 * capacity, 8 * capacity, 8 * capacity, 4 * capacity, capacity, 8 * capacity * length]
    log, counts = [8 * LOG_ENTRIES] * 2, [16 * COUNTED] * processes
    return _PAGE + sum(map(_pages, [*log, *counts, *of_members]))


def _pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE
