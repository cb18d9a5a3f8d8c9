"""Cached responses, valid while everything they depend on is unchanged.

While a response is made, its *read set* notes each object, list and count that is read, and when parts that depend on the clock
change. A commit adds what it changed to the change log. A response is valid while the log has nothing of its read set. Data outside
the graph (a timeline, the tag cloud, a ranking) is noted as a question with its answer, and is asked again.

Where several processes write to the same stores, no process has a log of all changes. There the read set notes the version token
that each object had before anything of it was read, and the response is valid while all of them are the same
(`coherence.StampGuard`).

A response is cached when it is requested for the second time: one that is never requested again costs a note of its name alone.
After one that changed before it was used, the next three are not cached, which saves a tenth of the cost of making them.

Example: the log has 70 entries when a page with post 5 is made, which reads object 5 and the list of its likes:

1. A like of post 6: the log has 71 entries, none of them the page's. The page is valid, now as of entry 71.
2. A like of post 5, while the page is requested. Until that commit is answered, both pages are right.
3. Entry 72 is the list of likes of 5: any later request makes the page again.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from shoal.core.errors import Unavailable
from shoal.core.ids import named
from shoal.graph.cache.lru import Recent
from shoal.graph.contract import Batch
from shoal.graph.schema import ASSOC_TYPES, USER_NAME, AssocType, Key

T = TypeVar("T")
P = ParamSpec("P")

FOREVER = 1 << 62
COMPARED = 4_096
"""Changes that are compared with a read set, at most: more of them cost as much as a new answer."""
_TYPE_BITS = 40


def list_mark(id1: int, atype: int) -> int:
    """Return the mark of a list and its length. Two may share one: then an answer is made anew without need."""
    return id1 ^ atype << _TYPE_BITS


def name_marks(keys: Iterable[Key]) -> list[int]:
    """Return the marks of the user names among these keys, each on its shard as an id is, so that it may have a stamp.

    Two names may share one. Other keys have none, for some of them end by the clock.
    """
    return [named(key.space, key.name) for key in keys if key.space == USER_NAME]


class Dependence(NamedTuple):
    """A question to something else than the graph, and its answer."""

    ask: Callable[[], Awaitable[Any]]
    answer: Any


class ReadSet:
    """Everything that one answer is made of, as it is made."""

    __slots__ = ("checks", "marks", "stamps", "until", "whole")

    def __init__(self) -> None:
        self.marks: set[int] = set()
        self.stamps: dict[int, bytes] = {}
        """The stamp that each object had before anything of it was read, where changes are told by stamps."""
        self.checks: list[Dependence] = []
        self.until = FOREVER
        """When the answer becomes another by itself, in Unix milliseconds."""
        self.whole = True
        """Whether nothing was asked that cannot be noted."""

    def note_objects(self, ids: Iterable[int]) -> None:
        """Objects are asked for."""
        self.marks.update(ids)

    def note_lists(self, id1s: Iterable[int], atypes: Iterable[AssocType]) -> None:
        """Lists, or how long they are, are asked for."""
        masks = [atype.number << _TYPE_BITS for atype in atypes]
        self.marks.update([id1 ^ mask for id1 in id1s for mask in masks])

    def note_stamps(self, ids: Iterable[int], stamps: Mapping[int, bytes]) -> None:
        """Objects, or lists of theirs, are asked for. An answer made of one that is being changed is not to be remembered."""
        for id_ in ids:
            stamp = stamps.get(id_)
            if stamp is None or self.stamps.setdefault(id_, stamp) != stamp:
                self.whole = False


_READ: ContextVar[ReadSet | None] = ContextVar("shoal_read_set", default=None)

being_made = _READ.get
"""Return the read set of the answer that is being made; None where nobody will remember it."""


@contextmanager
def reading() -> Iterator[ReadSet]:
    """Note what is asked for within the block, also by tasks that begin in it."""
    made = ReadSet()
    token = _READ.set(made)
    try:
        yield made
    finally:
        _READ.reset(token)


def good_until(moment: int, now: int) -> None:
    """The answer that is being made becomes another at a moment, if that is to come. Both in Unix milliseconds."""
    if moment > now and (read := _READ.get()) is not None:
        read.until = min(read.until, moment)


def depends_on(ask: Callable[[], Awaitable[Any]], answer: Any) -> None:
    """The answer that is being made holds while a question to something else than the graph is answered alike."""
    read = _READ.get()
    if read is not None:
        read.checks.append(Dependence(ask, answer))


async def compared(ask: Callable[[], Awaitable[T]]) -> T:
    """Put a question to something without marks, and return its answer; raises as the question does.

    The answer that is being made holds while the question is answered alike: it is put again whenever that is looked up. Nothing
    that it reads itself is noted. It should be cheap to put, and its answer must not move with every look at the clock.
    """
    read = _READ.get()
    if read is None:
        return await ask()
    token = _READ.set(None)
    try:
        answer = await ask()
    except BaseException:
        # Something else may stand on a page in the place of an answer that could not be had.
        read.whole = False
        raise
    finally:
        _READ.reset(token)
    read.checks.append(Dependence(ask, answer))
    return answer


def not_noted() -> None:
    """The answer that is being made depends on something that has no mark, so it is not to be remembered."""
    read = _READ.get()
    if read is not None:
        read.whole = False


def unnoted(ask: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return a question whose answer has no mark: what is made of it is not remembered."""

    async def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        not_noted()
        return await ask(*args, **kwargs)

    return asked


class ChangeLog:
    """Marks of what was changed, in order. Positions count from the beginning of the process; only the newest are kept."""

    def __init__(self) -> None:
        self._marks: list[int] = []
        self._first = 0

    @property
    def position(self) -> int:
        """Return where the next change will stand."""
        return self._first + len(self._marks)

    def add(self, marks: Iterable[int]) -> None:
        """These have changed, or may have."""
        self._marks.extend(marks)
        if len(self._marks) > 4 * COMPARED:
            gone = len(self._marks) - COMPARED
            del self._marks[:gone]
            self._first += gone

    def note(self, objects: Iterable[int], lists: Collection[tuple[int, int]]) -> None:
        """Objects have changed, or may have, and lists, each by its object and type."""
        self.add(objects)
        self.add([list_mark(id1, atype) for id1, atype in lists])

    def forget_all(self) -> None:
        """Anything may have changed."""
        self._first = self.position + 1
        self._marks.clear()

    def unchanged(self, marks: Sequence[int], since: int) -> bool:
        """Return whether none of these is known to have changed since a position. It is false also where that is too long ago."""
        start = since - self._first
        if start < 0:
            return False
        new = self._marks[start:]
        if not new:
            return True
        return len(new) <= COMPARED and frozenset(marks).isdisjoint(new)


def packed(marks: Iterable[int]) -> array[int]:
    """Return marks in eight bytes each."""
    return array("q", list(marks))


def lists_of(batch: Batch) -> set[tuple[int, int]]:
    """The lists whose entries or lengths a batch may change, each by its object and type."""
    found: set[tuple[int, int]] = set()
    for op in batch.assocs:
        found.add((op.id1, op.atype))
        if inverse := ASSOC_TYPES[op.atype].inverse:
            found.add((op.id2, inverse))
        if op.tally:
            found.update(
                [(op.tally, number) for number in (op.atype, inverse) if number and ASSOC_TYPES[number].tallied]
            )
    return found


A = TypeVar("A")

_MARK_BYTES = 8
_STAMP_BYTES = 150
"""Bytes of a stamp, and of its place among others."""
_CHECK_BYTES = 1_000
"""Bytes of a question and its answer, about: answers are mostly shared with whoever was asked."""
_LEFT_OUT = 3
"""Answers that are not remembered after one that was of no use."""


class _Held(Generic[A]):
    """An answer, what it was made of, and the position in the log up to which that is known to be unchanged."""

    __slots__ = ("answer", "checks", "kilobytes", "marks", "since", "until", "used")

    def __init__(
        self, answer: A, marks: array[int], checks: Sequence[Dependence], until: int, since: int, kilobytes: int
    ) -> None:
        self.answer = answer
        self.kilobytes = kilobytes
        self.marks = marks
        self.checks = checks
        self.until = until
        self.since = since
        self.used = False


class Answers(Generic[A]):
    """A memory of answers by name, of at most so many kilobytes: those that were used last. With 0 it remembers nothing.

    An answer that is kept is first made `ready`, with its size in bytes. `asked` counts the answers that were asked for, and
    `missed` those that had to be made. After one that was of no use, `left_out` are not remembered.
    """

    def __init__(
        self, log: ChangeLog, kilobytes: int, ready: Callable[[A], tuple[A, int]], *, left_out: int = _LEFT_OUT
    ) -> None:
        self._log = log
        self._ready = ready
        self._room = kilobytes
        # In the order of their last use.
        self._held: OrderedDict[Hashable, _Held[A]] = OrderedDict()
        self._filled = 0
        self._after_useless = left_out
        self._left_out: Recent[Hashable, int] = Recent(64 * kilobytes)
        self.asked = self.missed = 0

    def __len__(self) -> int:
        return len(self._held)

    async def get(self, name: Hashable, make: Callable[[], Awaitable[A]]) -> A:
        """Return the answer of this name as it is now: remembered, or made. Errors are those of `make`."""
        if not self._room:
            return await make()
        self.asked += 1
        held = self._held.get(name)
        if held is not None:
            self._held.move_to_end(name)
            if await self._is_good(held):
                held.used = True
                return held.answer
            if self._held.get(name) is held:
                self._forget(name)
        self.missed += 1
        if self._leaves_out(name, held):
            return await make()
        return await self._remember(name, make)

    def _leaves_out(self, name: Hashable, held: _Held[A] | None) -> bool:
        """Count an answer that has to be made; say whether it is not worth remembering. `held` is the one that has changed."""
        left = self._left_out.get(name) if held is None else 0 if held.used else self._after_useless
        if left == 0:
            return False
        self._left_out.put(name, 0 if left is None else left - 1)
        return True

    async def _is_good(self, held: _Held[A]) -> bool:
        if not self._is_unchanged(held):
            return False
        # After a wait once more, and with nothing in between: all of it was so at one moment since the question was put.
        return not held.checks or (await _are_answered_alike(held.checks) and self._is_unchanged(held))

    def _is_unchanged(self, held: _Held[A]) -> bool:
        now = self._log.position
        if _now_ms() >= held.until or (held.marks and not self._log.unchanged(held.marks, held.since)):
            return False
        held.since = now
        return True

    async def _remember(self, name: Hashable, make: Callable[[], Awaitable[A]]) -> A:
        since = self._log.position
        with reading() as read:
            answer = await make()
        if read.whole and _now_ms() < read.until:
            answer, size = self._ready(answer)
            marks = packed(read.marks)
            size += _MARK_BYTES * len(marks) + _STAMP_BYTES * len(read.stamps) + _CHECK_BYTES * len(read.checks)
            self._put(name, _Held(answer, marks, read.checks, read.until, since, 1 + size // 1024))
        return answer

    def _put(self, name: Hashable, held: _Held[A]) -> None:
        if name in self._held:
            self._forget(name)
        if held.kilobytes > self._room:
            return
        self._held[name] = held
        self._filled += held.kilobytes
        while self._filled > self._room:
            self._forget(next(iter(self._held)))

    def _forget(self, name: Hashable) -> None:
        self._filled -= self._held.pop(name).kilobytes


async def _are_answered_alike(checks: Sequence[Dependence]) -> bool:
    """Put these questions side by side, so that those to servers take one round trip; one without an answer may be another."""
    try:
        if len(checks) == 1:
            return bool(await checks[0].ask() == checks[0].answer)
        answers = await asyncio.gather(*[check.ask() for check in checks])
    except Unavailable:
        return False
    return answers == [check.answer for check in checks]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
