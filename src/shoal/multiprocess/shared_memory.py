"""The memory that the owner of a store and the readers beside it have in common.

One anonymous file (`memfd_create`), which every process maps: it has no name, and is gone with the last of them. Almost everything
in it has one writer. The owner writes the log of changes and the timelines; each process writes its own row of the counts for rate
limits and its own word of how busy it is. What has several words is written under a *version* that is odd meanwhile.

| part | what is in it |
|---|---|
| words | single numbers, and how busy each process is |
| log | marks and ids of what has changed, a ring |
| counts | a table of rate limits for each process |
| rings, floors ... | home timelines, as `timelines.memory` has them |

Glossary (`docs/glossary.md`): floor.
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
"""Rate limits that one process counts at a time."""
_PAGE = 4_096
_WORDS = _PAGE // 8
MOST_PROCESSES = 64
_BUSY_FROM = 64


# Where single numbers stand.
PROCESSES, CAPACITY, LENGTH = range(3)
POSITION = 3
"""How many changes the log has had. It jumps when a new owner begins, so nothing of before is known to hold."""
VERSION = 4
"""The version of the timelines: odd while they are written."""
NEWEST = 5
"""No id in a timeline, and no floor, is above this."""
USED = 6
"""Rows of timelines that were ever in use."""


class SharedMemory:
    """A mapping of it. `create` makes the file, `attach` maps one that another process has made."""

    def __init__(self, number: int) -> None:
        self.number = number
        """The file's number, which children inherit."""
        size = os.fstat(number).st_size
        self._map = mmap.mmap(number, size)
        view = memoryview(self._map)
        self.words = view[: _WORDS * 8].cast("q")
        processes = self.words[PROCESSES]
        self.processes = processes
        self.capacity, self.length = self.words[CAPACITY], self.words[LENGTH]
        self.busy = self.words[_BUSY_FROM : _BUSY_FROM + processes]
        """Thousandths of its time that each process was busy lately."""
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
        # Where the kernel is told to: timelines are written all over.
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE)

    @classmethod
    def create(cls, processes: int, capacity: int, length: int) -> SharedMemory:
        """Make the memory of so many processes. What nothing is written to takes no room.

        Raises `Unavailable`, and `InvalidInput` for too many.
        """
        if not hasattr(os, "memfd_create"):
            raise Unavailable("several processes on one SQLite file need Linux: take one process")
        if not 1 < processes <= MOST_PROCESSES:
            raise InvalidInput(f"--workers: 2 to {MOST_PROCESSES} processes share one SQLite file, not {processes}")
        number = os.memfd_create("shoal", os.MFD_CLOEXEC)
        try:
            os.ftruncate(number, _size(processes, capacity, length))
        except OSError as error:
            os.close(number)
            raise Unavailable(f"there is no memory for several processes: {error.strerror}") from error
        words = np.array([processes, capacity, length], np.int64)
        os.pwrite(number, words.tobytes(), 0)
        return cls(number)

    @classmethod
    def attach(cls, number: int) -> SharedMemory:
        """Map the file with this number, which this process has inherited."""
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
    """Have what was written before this seen by other processes before what is written after it.

    To let a lock go, and then to take it again, orders memory on every processor. Python has nothing that would do less.
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
