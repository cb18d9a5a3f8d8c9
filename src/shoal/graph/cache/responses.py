"""Whole answers, remembered for as long as nothing that they were made of has changed.

An answer is remembered when it is asked for the second time: what nobody asks for again costs a note of its name alone. After one
that had changed before anybody used it, three are made without being remembered, which costs a tenth of making them.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

from shoal.core.errors import Unavailable
from shoal.graph.cache.dependencies import ChangeLog, Dependence, packed, reading
from shoal.graph.cache.lru import Recent

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
