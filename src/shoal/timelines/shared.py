"""Home timelines in memory that several processes map: the owner of the store writes them, the others read.

Whoever reads copies a row, and looks whether the *version* of all timelines is as it was before: then nothing was being written
meanwhile, and the copy is whole. A write takes microseconds, so it is seldom met. What a reader does not find warm, it has the
owner warm up; without an owner timelines are not to be had, and pages are pulled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.core.errors import Unavailable
from shoal.graph.contract import Cursor
from shoal.timelines.contract import Seats, Window
from shoal.timelines.memory import MemoryTimelines, TimelineRows, window

_TRIES = 200
_PAUSE_SECONDS = 0.000_1


@dataclass(frozen=True, slots=True)
class SharedRows:
    """The memory, and the numbers beside it: each a place in `words`."""

    rows: TimelineRows
    filled: NDArray[np.int8]
    """Which rows can be read."""
    words: memoryview
    version: int
    newest: int
    used: int
    barrier: Callable[[], None]


class OwnersTimelines(MemoryTimelines):
    """Timelines of the owner, which others may read. What another owner had left there is gone."""

    def __init__(self, length: int, shared: SharedRows) -> None:
        super().__init__(len(shared.filled), length, rows=shared.rows)
        self._shared = shared
        self._depth = 0
        with self._writing():
            shared.filled[:] = 0
            shared.words[shared.used] = shared.words[shared.newest] = 0

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Nothing may be waited for within the block, which may stand within another."""
        shared, words = self._shared, self._shared.words
        self._depth += 1
        if self._depth == 1:
            # An owner that was killed may have left it odd.
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

    async def push(self, entry: int, seats: Seats) -> int:
        if not len(seats):
            return 0
        with self._writing():
            return await super().push(entry, seats)

    async def remove(self, entry: int, seats: Seats) -> None:
        with self._writing():
            await super().remove(entry, seats)

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
    """Timelines of the owner, read by another process. `warm` has the owner warm one up; it raises `Unavailable`."""

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
        # Where a member was found last; it may be somewhere else by now.
        self._row: dict[int, int] = {}

    @property
    def seat_type(self) -> type[np.int32]:
        return np.int32

    def seats(self, members: Sequence[int]) -> Seats:  # noqa: ARG002  # nothing is written here
        return np.empty(0, np.int32)

    async def read(self, member: int, at: Cursor) -> Window | None:
        found = await self._window(member, at)
        if found is None:
            await self._warm(member)
            found = await self._window(member, at)
        if found is None:
            raise Unavailable("a timeline did not stay warm")
        return found

    async def _window(self, member: int, at: Cursor) -> Window | None:
        shared, words = self._shared, self._shared.words
        for tried in range(_TRIES):
            if tried:
                # The owner is in the middle of a write, and may have been stopped there.
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
        raise Unavailable("timelines are being written for too long")

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
        held: list[int] = self._shared.rows.members[:used][self._shared.filled[:used] == 1][:most].tolist()
        return held

    async def create(self, _member: int) -> None:
        raise self._refused()

    async def fill(self, _member: int, _ids: Sequence[int], _floor: int) -> None:
        raise self._refused()

    async def push(self, _entry: int, _seats: Seats) -> int:
        raise self._refused()

    async def remove(self, _entry: int, _seats: Seats) -> None:
        raise self._refused()

    async def union(self, _member: int, _ids: Sequence[int], _floor: int) -> None:
        raise self._refused()

    async def subtract(self, _member: int, _ids: Sequence[int]) -> None:
        raise self._refused()

    async def drop(self, _members: Sequence[int]) -> None:
        raise self._refused()

    async def drop_idle(self, _seconds: float) -> None:
        raise self._refused()

    async def clear(self) -> None:
        raise self._refused()

    def _refused(self) -> Unavailable:
        return Unavailable("only the process that owns the store writes its timelines")
