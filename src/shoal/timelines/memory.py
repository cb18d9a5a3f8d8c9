"""Home timelines in this process: one ring of packed 64-bit ids a warm member, written by vector operations.

A row is `length` slots. A push writes the same id to one slot of many rows: one gather and one scatter, bound by memory
latency. What a write pushes out of a full ring raises the floor, so the promise of `contract.Timelines` holds in whatever
order entries come. Memory is reserved once and taken page by page as rows come into use, in huge pages where the kernel
gives them.

Glossary (`docs/glossary.md`): floor, seat.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from shoal.graph.contract import Cursor
from shoal.timelines.contract import Ids, Seats, Window

_EMPTY: Seats = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class TimelineRows:
    """Memory for timelines: zeroed arrays of one place a member, and of the places of all rings, one after the other."""

    rings: NDArray[np.int64]
    next: NDArray[np.int32]
    floors: NDArray[np.int64]
    members: NDArray[np.int64]
    read_at: NDArray[np.float64]

    @classmethod
    def own(cls, capacity: int, length: int) -> TimelineRows:
        """Rows in memory of this process alone."""
        return cls(
            _reserve(capacity * length),
            np.zeros(capacity, np.int32),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.float64),
        )


class MemoryTimelines:
    """Timelines of up to `capacity` warm members with up to `length` entries each: 8 bytes an entry, 24 a member, and an index.

    When every row is taken, those read longest ago (a sixteenth of all) become cold; `on_drop` is told, because seats that
    somebody keeps are worth nothing from then on.
    """

    def __init__(
        self,
        capacity: int = 100_000,
        length: int = 800,
        *,
        clock: Callable[[], float] = time.monotonic,
        rows: TimelineRows | None = None,
    ) -> None:
        self.length = length
        self.capacity = capacity
        self._clock = clock
        rows = rows or TimelineRows.own(capacity, length)
        self._flat = rows.rings
        self._rings = self._flat.reshape(capacity, length)
        self._next, self._floor, self._member, self._read_at = rows.next, rows.floors, rows.members, rows.read_at
        self._row: dict[int, int] = {}
        # Those that are not filled yet.
        self._begun: set[int] = set()
        self._free: list[int] = []
        self._used = 0
        # No id in a timeline and no floor is above this.
        self._newest = 0
        self.on_drop: Callable[[], None] = _nothing

    def __len__(self) -> int:
        return len(self._row)

    @property
    def seat_type(self) -> type[np.int32]:
        return np.int32

    def seats(self, members: Sequence[int]) -> Seats:
        row = self._row
        return np.array([row[member] for member in members if member in row], np.int32)

    def warm(self, member: int) -> bool:
        return member in self._row

    async def members(self, most: int) -> list[int]:
        return list(islice(self._row, most))

    async def create(self, member: int) -> None:
        if member in self._row:
            return
        row = self._take_row()
        self._rings[row] = 0
        self._next[row] = 0
        self._floor[row] = 0
        self._member[row] = member
        self._read_at[row] = self._clock()
        self._row[member] = row
        self._begun.add(member)

    def _take_row(self) -> int:
        if self._free:
            return self._free.pop()
        if self._used == self.capacity:
            oldest = np.argsort(self._read_at)[: max(1, self.capacity // 16)]
            self._forget([int(member) for member in self._member[oldest]])
            return self._free.pop()
        self._used += 1
        return self._used - 1

    async def push(self, entry: int, seats: Seats) -> int:
        if not len(seats):
            return 0
        rows = seats.astype(np.intp)
        if entry > self._newest:
            # In order, as most come: above every floor.
            self._newest = entry
        else:
            floors = self._floor[rows]
            if floors.max() >= entry:
                rows = rows[floors < entry]
        slots = self._next[rows]
        at = rows * self.length
        at += slots
        evicted = self._flat[at]
        self._flat[at] = entry
        slots += 1
        slots *= slots != self.length
        self._next[rows] = slots
        # An id that is on the ring twice may go once without anything being lost: the floor only need not be too low.
        self._floor[rows] = np.maximum(self._floor[rows], evicted, out=evicted)
        return len(rows)

    async def remove(self, entry: int, seats: Seats) -> None:
        rings = self._rings[seats]
        row, slot = np.nonzero(rings == entry)
        self._rings[seats[row], slot] = 0

    async def fill(self, member: int, ids: Sequence[int], floor: int) -> None:
        await self.union(member, ids, floor)
        self._begun.discard(member)

    async def union(self, member: int, ids: Sequence[int], floor: int) -> None:
        row = self._row.get(member)
        if row is None:
            return
        floor = max(floor, int(self._floor[row]))
        every = np.unique(np.concatenate((self._rings[row], np.array(ids, np.int64))))
        every = every[every > floor]
        if len(every) > self.length:
            floor = int(every[-self.length - 1])
            every = every[-self.length :]
        self._write(row, every, floor)

    async def subtract(self, member: int, ids: Sequence[int]) -> None:
        row = self._row.get(member)
        if row is not None:
            ring = self._rings[row]
            ring[np.isin(ring, np.array(ids, np.int64))] = 0

    def _write(self, row: int, ids: Ids, floor: int) -> None:
        """Lay a row out anew, oldest first, so that the next writes push the oldest out."""
        self._newest = max(self._newest, floor, int(ids[-1]) if len(ids) else 0)
        ring = self._rings[row]
        ring[: len(ids)] = ids
        ring[len(ids) :] = 0
        self._next[row] = len(ids) % self.length
        self._floor[row] = floor

    async def read(self, member: int, at: Cursor) -> Window | None:
        row = self._row.get(member)
        if row is None or member in self._begun:
            return None
        self._read_at[row] = self._clock()
        return window(self._rings[row], int(self._floor[row]), self._newest, at)

    async def floor(self, member: int) -> int | None:
        row = self._row.get(member)
        return None if row is None else int(self._floor[row])

    async def drop(self, members: Sequence[int]) -> None:
        self._forget(members)

    async def drop_idle(self, seconds: float) -> None:
        self._forget(self.idle(seconds))

    async def clear(self) -> None:
        self.forget_all()

    def forget_all(self) -> None:
        """Make every timeline cold."""
        self._forget(list(self._row))

    def idle(self, seconds: float) -> list[int]:
        """Members whose timelines nobody has read for so long."""
        rows = np.nonzero(self._read_at[: self._used] < self._clock() - seconds)[0]
        return [member for row in rows if self._row.get(member := int(self._member[row])) == row]

    def _forget(self, members: Sequence[int]) -> None:
        rows = [self._row.pop(member) for member in members if member in self._row]
        self._begun.difference_update(members)
        self._free.extend(rows)
        if rows:
            self._read_at[rows] = np.inf
            self.on_drop()


def window(ring: Ids, floor: int, newest: int, at: Cursor) -> Window:
    """Return a part of the timeline that is on a ring. No id on it is above `newest`."""
    ids = ring[ring > max(floor, at.after)]
    if at.before <= newest:
        ids = ids[ids < at.before]
    ids.sort()
    fresh = ids[1:] != ids[:-1]
    if np.count_nonzero(fresh) != len(fresh):
        ids = ids[np.concatenate(([True], fresh))]
    page = ids[: at.limit] if at.oldest_first else ids[: -at.limit - 1 : -1]
    return Window(page.tolist(), floor)


def _reserve(slots: int) -> NDArray[np.int64]:
    """Zeroed memory that costs nothing until it is written to."""
    memory = mmap.mmap(-1, max(slots, 1) * 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.int64)


_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


def _nothing() -> None:
    """Nobody keeps seats."""
