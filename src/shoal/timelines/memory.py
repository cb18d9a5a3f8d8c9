"""Home timelines in memory: one ring of packed 64-bit ids for each warm member, in one process or shared between processes.

The ring of a member is one row of `length` ids. A push writes an id to one element of many rows: one gather and one scatter, bound
by memory latency. An entry that a write pushes out of a full ring raises the floor, so the guarantee of `contract.Timelines` holds
for any order of writes. Memory is reserved once and committed page by page as rows come into use, in huge pages where the kernel
provides them.

In shared memory, the owner of the store writes and the other processes read. A reader copies a row and then checks that the
*version* of all timelines is unchanged, which proves that the copy is consistent. A write takes microseconds, so retries are
rare. A reader asks the owner to warm up a cold timeline. Without an owner, timelines are unavailable and pages are pulled.
"""

from __future__ import annotations

import asyncio
import mmap
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from shoal.core.errors import Unavailable
from shoal.graph.contract import Cursor
from shoal.timelines.contract import Ids, Slots, Window


@dataclass(frozen=True, slots=True)
class TimelineRows:
    """Memory for timelines: zeroed arrays with an element per timeline, and one array with all ring buffers."""

    rings: NDArray[np.int64]
    next: NDArray[np.int32]
    floors: NDArray[np.int64]
    members: NDArray[np.int64]
    read_at: NDArray[np.float64]

    @classmethod
    def own(cls, capacity: int, length: int) -> TimelineRows:
        return cls(
            _reserve(capacity * length),
            np.zeros(capacity, np.int32),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.float64),
        )


class MemoryTimelines:
    """Timelines of up to `capacity` warm members with up to `length` entries: 8 bytes an entry, 24 a member, and an index.

    When every row is used, the least recently read sixteenth becomes cold; `on_drop` is called, because cached slots become
    invalid.
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
        # Members whose timelines are not filled yet.
        self._begun: set[int] = set()
        self._free: list[int] = []
        self._used = 0
        # An upper bound of all ids in timelines and all floors.
        self._newest = 0
        self.on_drop: Callable[[], None] = _nothing

    def __len__(self) -> int:
        return len(self._row)

    def slots(self, members: Sequence[int]) -> Slots:
        row = self._row
        return np.array([row[member] for member in members if member in row], np.int32)

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

    async def push(self, entry: int, slots: Slots) -> int:
        if not len(slots):
            return 0
        rows = slots.astype(np.intp)
        if entry > self._newest:
            # The entry is newer than all others, as usual, so it is above every floor.
            self._newest = entry
        else:
            floors = self._floor[rows]
            if floors.max() >= entry:
                rows = rows[floors < entry]
        offsets = self._next[rows]
        at = rows * self.length
        at += offsets
        evicted = self._flat[at]
        self._flat[at] = entry
        offsets += 1
        offsets *= offsets != self.length
        self._next[rows] = offsets
        # The evicted id may be in the ring twice. The floor is then higher than necessary, which is safe.
        self._floor[rows] = np.maximum(self._floor[rows], evicted, out=evicted)
        return len(rows)

    async def remove(self, entry: int, slots: Slots) -> None:
        rings = self._rings[slots]
        row, slot = np.nonzero(rings == entry)
        self._rings[slots[row], slot] = 0

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
        """Rewrite a ring buffer in ascending order, so that the next pushes overwrite the oldest entries."""
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
        rows = np.nonzero(self._read_at[: self._used] < self._clock() - seconds)[0]
        self._forget([member for row in rows if self._row.get(member := int(self._member[row])) == row])

    async def clear(self) -> None:
        self.forget_all()

    def forget_all(self) -> None:
        self._forget(list(self._row))

    def _forget(self, members: Sequence[int]) -> None:
        rows = [self._row.pop(member) for member in members if member in self._row]
        self._begun.difference_update(members)
        self._free.extend(rows)
        if rows:
            self._read_at[rows] = np.inf
            self.on_drop()


def window(ring: Ids, floor: int, newest: int, at: Cursor) -> Window:
    """Return the entries that the cursor `at` selects from a ring buffer. No id in the buffer is above `newest`."""
    ids = ring.copy()
    ids.sort()
    first = int(ids.searchsorted(max(floor, at.after), "right"))
    end = len(ids) if at.before > newest else int(ids.searchsorted(at.before))
    # Duplicates are rare: usually twice as many ids as needed contain enough different ones.
    size = 2 * at.limit
    while True:
        part = ids[first : min(first + size, end)] if at.oldest_first else ids[max(first, end - size) : end][::-1]
        page = list(dict.fromkeys(part.tolist()))
        if len(page) >= at.limit or len(part) < size:
            return Window(page[: at.limit], floor)
        size *= 2


def _reserve(slots: int) -> NDArray[np.int64]:
    """Reserve zeroed memory that is only committed when written."""
    memory = mmap.mmap(-1, max(slots, 1) * 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.int64)


_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


def _nothing() -> None:
    """Do nothing: no slots are cached."""


_TRIES = 200
_PAUSE_SECONDS = 0.000_1


@dataclass(frozen=True, slots=True)
class SharedRows:
    """Shared memory for timelines. `version`, `newest` and `used` are indexes in `words`."""

    rows: TimelineRows
    filled: NDArray[np.int8]
    words: memoryview
    version: int
    newest: int
    used: int
    barrier: Callable[[], None]


class OwnersTimelines(MemoryTimelines):
    """The timelines in the owner process, which reader processes may read. The timelines of the previous owner are cleared."""

    def __init__(self, length: int, shared: SharedRows) -> None:
        super().__init__(len(shared.filled), length, rows=shared.rows)
        self._shared = shared
        self._depth = 0
        with self._writing():
            shared.filled[:] = 0
            shared.words[shared.used] = shared.words[shared.newest] = 0

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Return a context for a write, which may be nested and must not await."""
        shared, words = self._shared, self._shared.words
        self._depth += 1
        if self._depth == 1:
            # The version is odd during a write. A killed owner may have left it odd.
            words[shared.version] = (words[shared.version] + 1) | 1
            shared.barrier()
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                words[shared.newest], words[shared.used] = self._newest, self._used
                shared.barrier()
                words[shared.version] += 1

    async def create(self, member: int) -> None:
        with self._writing():
            await super().create(member)

    async def push(self, entry: int, slots: Slots) -> int:
        if not len(slots):
            return 0
        with self._writing():
            return await super().push(entry, slots)

    async def remove(self, entry: int, slots: Slots) -> None:
        with self._writing():
            await super().remove(entry, slots)

    async def union(self, member: int, ids: Sequence[int], floor: int) -> None:
        with self._writing():
            await super().union(member, ids, floor)

    async def fill(self, member: int, ids: Sequence[int], floor: int) -> None:
        await super().fill(member, ids, floor)
        if (row := self._row.get(member)) is not None:
            with self._writing():
                self._shared.filled[row] = 1

    async def subtract(self, member: int, ids: Sequence[int]) -> None:
        with self._writing():
            await super().subtract(member, ids)

    def _forget(self, members: Sequence[int]) -> None:
        with self._writing():
            self._shared.filled[[row for member in members if (row := self._row.get(member)) is not None]] = 0
            super()._forget(members)


class ReadTimelines:
    """The owner's timelines, as a reader process reads them.

    `warm` asks the owner to materialize a member's timeline, and raises `Unavailable` if that fails.
    """

    def __init__(
        self,
        length: int,
        shared: SharedRows,
        warm: Callable[[int], Awaitable[None]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.length = length
        self._shared = shared
        self._warm = warm
        self._clock = clock
        self._rings = shared.rows.rings.reshape(-1, length)
        # The row in which each member's timeline was found last. It may belong to another member now.
        self._row: dict[int, int] = {}

    def slots(self, members: Sequence[int]) -> Slots:  # noqa: ARG002  # nothing is written here
        return np.empty(0, np.int32)

    async def read(self, member: int, at: Cursor) -> Window | None:
        found = await self._window(member, at)
        if found is None:
            await self._warm(member)
            found = await self._window(member, at)
        if found is None:
            raise Unavailable("a timeline was evicted while it was read")
        return found

    async def _window(self, member: int, at: Cursor) -> Window | None:
        shared, words = self._shared, self._shared.words
        for tried in range(_TRIES):
            if tried:
                # The owner is in the middle of a write, or was killed there.
                await asyncio.sleep(_PAUSE_SECONDS)
            version = words[shared.version]
            if version & 1:
                continue
            shared.barrier()
            row = self._find(member)
            if row is None:
                ring, floor, newest = None, 0, 0
            else:
                ring, floor, newest = self._rings[row].copy(), int(shared.rows.floors[row]), words[shared.newest]
            shared.barrier()
            if words[shared.version] != version:
                continue
            if row is None or ring is None:
                return None
            shared.rows.read_at[row] = self._clock()
            return window(ring, floor, newest, at)
        raise Unavailable("waiting for timeline writes timed out")

    def _find(self, member: int) -> int | None:
        shared = self._shared
        row = self._row.get(member)
        if row is not None and shared.rows.members[row] == member and shared.filled[row]:
            return row
        used = shared.words[shared.used]
        found = np.flatnonzero((shared.rows.members[:used] == member) & (shared.filled[:used] == 1))
        if not len(found):
            self._row.pop(member, None)
            return None
        row = self._row[member] = int(found[0])
        return row

    async def floor(self, member: int) -> int | None:
        row = self._find(member)
        return None if row is None else int(self._shared.rows.floors[row])

    async def members(self, most: int) -> list[int]:
        used = self._shared.words[self._shared.used]
        members: list[int] = self._shared.rows.members[:used][self._shared.filled[:used] == 1][:most].tolist()
        return members

    async def _refuse(self, *_arguments: object, **_named: object) -> NoReturn:
        raise Unavailable("only the process that owns the store writes its timelines")

    create = fill = push = remove = union = subtract = drop = drop_idle = clear = _refuse
