"""The log of changes where several processes read one store and one of them, the owner, makes every change.

It is a ring in memory that all of them map (`readers/memory.py`). The owner writes what a commit has changed before the commit is
answered. A reader looks at the position whenever it is about to use what it remembers: of what has changed since it looked last
it forgets everything. So what a reader remembers is never older than the request, as in the owner.

For example, the owner's position is 70 and a reader remembers post 5:

1. A commit changes post 5. The owner writes the entry and then the position 71, and answers.
2. A request begins that wants post 5 of the reader. It sees 71, not 70, and forgets the post.
3. It reads the post from the store. Were the position 72 by then, it would not remember it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from shoal.core.errors import Unavailable
from shoal.graph.cache.freshness import Settle
from shoal.graph.cache.read_sets import COMPARED, ChangeLog, list_mark

_EPOCH = 1 << 40
"""How far the position jumps when a new owner begins, or when anything may have changed."""


class LogMemory(Protocol):
    """Where the log is."""

    words: memoryview
    log_marks: memoryview
    log_ids: memoryview


class SharedLog(ChangeLog):
    """The log as every process sees it. `at` is where its position stands."""

    def __init__(self, memory: LogMemory, at: int) -> None:
        super().__init__()
        self._memory, self._at = memory, at
        self._size = len(memory.log_marks)

    @property
    def position(self) -> int:
        """Return where the next change will stand."""
        return int(self._memory.words[self._at])

    def unchanged(self, marks: Sequence[int], since: int) -> bool:
        """Return whether none of these is known to have changed since a position. It is false also where that is too long ago."""
        position = self.position
        if position == since:
            return True
        new = self._between(self._memory.log_marks, since, position, COMPARED)
        return new is not None and frozenset(marks).isdisjoint(new)

    def _between(self, ring: memoryview, first: int, end: int, most: int) -> list[int] | None:
        """Return the entries of a part of the log; None where they are too many, or gone."""
        if not 0 <= end - first <= most:
            return None
        start, stop = first % self._size, end % self._size
        found = ring[start:stop].tolist() if start <= stop else ring[start:].tolist() + ring[:stop].tolist()
        # The owner may have come round meanwhile.
        return found if self.position - first < self._size else None


class OwnersLog(SharedLog):
    """The log as the owner of the store writes it, for itself and for its readers."""

    def __init__(self, memory: LogMemory, at: int, barrier: Callable[[], None]) -> None:
        super().__init__(memory, at)
        self._barrier = barrier
        self.forget_all()

    def note(self, objects: Iterable[int], lists: Collection[tuple[int, int]]) -> None:
        """Objects have changed, or may have, and lists, each by its object and type."""
        ids = list(objects)
        marks = [*ids, *(list_mark(id1, atype) for id1, atype in lists)]
        ids += [id1 for id1, _ in lists]
        if len(ids) > self._size // 2:
            self.forget_all()
            return
        log_marks, log_ids, size = self._memory.log_marks, self._memory.log_ids, self._size
        position = self.position
        for at, mark, id_ in zip(range(position, position + len(ids)), marks, ids, strict=True):
            log_marks[at % size], log_ids[at % size] = mark, id_
        self._barrier()
        self._memory.words[self._at] = position + len(ids)

    def forget_all(self) -> None:
        """Anything may have changed."""
        self._memory.words[self._at] = (self.position // _EPOCH + 1) * _EPOCH


class FollowedLog(SharedLog):
    """The log as a reader sees it. `alive` says whether the owner is known to write it."""

    def __init__(self, memory: LogMemory, at: int, alive: Callable[[], bool]) -> None:
        super().__init__(memory, at)
        self._alive = alive
        self._seen = 0

    @property
    def alive(self) -> bool:
        """Whether the owner is known to write the log."""
        return self._alive()

    def unchanged(self, marks: Sequence[int], since: int) -> bool:
        """As in any log; without its owner nothing is known."""
        return self.alive and super().unchanged(marks, since)

    def newly_changed(self) -> list[int] | None:
        """Return the objects that have changed, or whose lists have, since this was asked last; None where it may be any."""
        position, seen = self.position, self._seen
        if position == seen:
            return []
        self._seen = position
        return self._between(self._memory.log_ids, seen, position, self._size // 2)


class LogGuard:
    """For a process that reads beside the owner. `forget` is told of every object that has changed, `clear` where it may be any."""

    def __init__(self, log: FollowedLog, forget: Callable[[int], None], clear: Callable[[], None]) -> None:
        self._log = log
        self._forget = forget
        self._clear = clear

    async def enter(self, ids: Collection[int]) -> int:  # noqa: ARG002  # of all ids it is true
        changed = self._log.newly_changed() if self._log.alive else None
        if changed is None:
            self._clear()
        else:
            for id_ in changed:
                self._forget(id_)
        return self._log.position

    def keeps(self, ticket: int, id_: int) -> bool:  # noqa: ARG002
        return ticket == self._log.position and self._log.alive

    def change(self, ids: Collection[int], settle: Settle) -> AbstractAsyncContextManager[Any]:  # noqa: ARG002
        raise Unavailable("this process only reads the store")

    async def close(self) -> None:
        """Nothing is under way."""
