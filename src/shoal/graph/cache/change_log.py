"""The change log: a mark (a number) for each object and list that a commit may have changed, in order of the commits.

A cached response is valid while the log has no mark of its dependencies after the position at which it was computed. A single
process keeps the log in memory (`ChangeLog`). Where one process writes and others only read, the log is a ring buffer in shared
memory, which the owner writes (`OwnersLog`) and the readers follow (`FollowedLog`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from shoal.core.ids import named
from shoal.graph.contract import Batch
from shoal.graph.schema import ASSOC_TYPES, USER_NAME, AssocType, Key

COMPARED = 4_096
"""Maximum number of changes that are compared with a read set: comparing more costs as much as computing the response."""
_TYPE_BITS = 40
_EPOCH = 1 << 40
"""Distance by which the position jumps when a new owner starts, or when anything may have changed."""


def list_mark(id1: int, atype: int) -> int:
    """Return the number under which a change log records changes of a list or of its length.

    If two lists have one mark, the only effect is an unnecessary invalidation.
    """
    return id1 ^ atype << _TYPE_BITS


def list_marks(id1s: Iterable[int], atypes: Iterable[AssocType]) -> list[int]:
    masks = [atype.number << _TYPE_BITS for atype in atypes]
    return [id1 ^ mask for id1 in id1s for mask in masks]


def name_marks(keys: Iterable[Key]) -> list[int]:
    """Return the numbers (marks) under which a change log records changes of the user names among these keys.

    A mark is an id on the shard of its key, so that it can have a version token. If two names have the same mark, the only effect
    is an unnecessary invalidation. Other keys have no marks: some of them expire, and the log does not record when.
    """
    return [named(key.space, key.name) for key in keys if key.space == USER_NAME]


def lists_of(batch: Batch) -> set[tuple[int, int]]:
    """Return the lists, as `(id1, atype)`, whose entries or lengths a batch may change."""
    found: set[tuple[int, int]] = set()
    for op in batch.assocs:
        found.add((op.id1, op.atype))
        if inverse := ASSOC_TYPES[op.atype].inverse:
            found.add((op.id2, inverse))
        if op.aggregate_id:
            found.update(
                [
                    (op.aggregate_id, number)
                    for number in (op.atype, inverse)
                    if number and ASSOC_TYPES[number].aggregated
                ]
            )
    return found


class ChangeLog:
    """The log of recently changed objects and lists, in a process that makes every change itself.

    Positions count the entries since the start of the process. Only the newest entries are kept.
    """

    def __init__(self) -> None:
        self._marks: list[int] = []
        self._first = 0

    @property
    def position(self) -> int:
        return self._first + len(self._marks)

    def note(self, objects: Iterable[int], lists: Collection[tuple[int, int]]) -> None:
        """Record that objects and lists (as `(id1, atype)`) may have changed."""
        self._marks.extend(objects)
        self._marks.extend([list_mark(id1, atype) for id1, atype in lists])
        if len(self._marks) > 4 * COMPARED:
            surplus = len(self._marks) - COMPARED
            del self._marks[:surplus]
            self._first += surplus

    def forget_all(self) -> None:
        self._first = self.position + 1
        self._marks.clear()

    def unchanged(self, marks: Sequence[int], since: int) -> bool:
        """Return whether no object or list identified by one of the numbers `marks` has changed since a position in the log.

        Returns False if this is unknown: the entries since the position are too many, or no longer kept.
        """
        start = since - self._first
        if start < 0:
            return False
        new = self._marks[start:]
        if not new:
            return True
        return len(new) <= COMPARED and frozenset(marks).isdisjoint(new)


class LogMemory(Protocol):
    words: memoryview
    log_marks: memoryview
    log_ids: memoryview


class SharedLog(ChangeLog):
    """A change log in shared memory. `at` is the index of the memory word in which its position is stored."""

    def __init__(self, memory: LogMemory, at: int) -> None:
        super().__init__()
        self._memory, self._at = memory, at
        self._size = len(memory.log_marks)

    @property
    def position(self) -> int:
        return int(self._memory.words[self._at])

    def unchanged(self, marks: Sequence[int], since: int) -> bool:
        position = self.position
        if position == since:
            return True
        new = self._between(self._memory.log_marks, since, position, COMPARED)
        return new is not None and frozenset(marks).isdisjoint(new)

    def _between(self, ring: memoryview, first: int, end: int, most: int) -> list[int] | None:
        """Return the entries between two positions; None if there are more than `most`, or if they are already overwritten."""
        if not 0 <= end - first <= most:
            return None
        start, stop = first % self._size, end % self._size
        found = ring[start:stop].tolist() if start <= stop else ring[start:].tolist() + ring[:stop].tolist()
        # Return nothing if the owner may have overwritten these entries while they were copied.
        return found if self.position - first < self._size else None


class OwnersLog(SharedLog):
    """The shared change log, as the owner of the store writes it.

    The owner writes entries first, and only then advances the position past them.
    """

    def __init__(self, memory: LogMemory, at: int, barrier: Callable[[], None]) -> None:
        super().__init__(memory, at)
        self._barrier = barrier
        self.forget_all()

    def note(self, objects: Iterable[int], lists: Collection[tuple[int, int]]) -> None:
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
        self._memory.words[self._at] = (self.position // _EPOCH + 1) * _EPOCH


class FollowedLog(SharedLog):
    """The shared change log, as read by a process that does not own the store.

    `alive` reports whether the owner still writes it.
    """

    def __init__(self, memory: LogMemory, at: int, alive: Callable[[], bool]) -> None:
        super().__init__(memory, at)
        self._alive = alive
        self._seen = 0

    @property
    def alive(self) -> bool:
        return self._alive()

    def unchanged(self, marks: Sequence[int], since: int) -> bool:
        return self.alive and super().unchanged(marks, since)

    def newly_changed(self) -> list[int] | None:
        """Return the objects that changed, or whose lists changed, since the previous call.

        Returns None if any object may have changed.
        """
        position, seen = self.position, self._seen
        if position == seen:
            return []
        self._seen = position
        return self._between(self._memory.log_ids, seen, position, self._size // 2)
