"""How a queue keeps pace: how long will wait what is added to it now, and how large a part of it is turned away. No I/O.

The wait is worked out from the length of the queue and how fast it moves, because that tells at once what one more adds. The
age of what comes out of the queue tells only what it was like when that went in: a control by it comes too late by as long
as the queue is, and goes up and down.
"""

from __future__ import annotations

_LOOK_SECONDS = 0.1
"""How often the length is counted."""
_DEAREST = 0.05
"""The part of the time that counting may take: a queue of a million is counted more seldom."""
_NEWEST = 0.3
"""How much the newest piece of work counts for the pace, beside all before."""


class ExpectedWait:
    """The wait of what is added now, told piece by piece of the work; moments are seconds of any clock."""

    __slots__ = ("_began", "_each", "_look", "_size", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        # When the piece in hand was begun (None: the one before was the last), how many are in it, and seconds for each.
        self._began: float | None = None
        self._size = 0
        self._each = 0.0
        self._look = 0.0

    def begin(self, size: int, now: float, *, more: bool) -> bool:
        """A piece of so many begins, and the one before is done; whether the queue, if there is `more`, is to be counted."""
        if self._began is not None and self._size:
            each = (now - self._began) / self._size
            self._each += (each - self._each) * (_NEWEST if self._each else 1.0)
        self._began, self._size = (now, size) if more else (None, 0)
        if not more:
            self.seconds = 0.0
        return more and now >= self._look

    def counted(self, length: int, began: float, now: float) -> None:
        """So many wait, as was found out between these moments."""
        self.seconds = max(0, length) * self._each
        self._look = now + max(_LOOK_SECONDS, (now - began) / _DEAREST)


_BREATH_SECONDS = 0.002
"""Seconds that jobs run before the event loop has a turn for requests, when there are few of those."""
_LONGEST_BREATH_SECONDS = 0.02
_SLOW_SECONDS = 0.25
"""Delay for which jobs get one more share of the loop, up to `_MOST_SHARES` for each share of requests."""
_MOST_SHARES = 12.0


class LoopShare:
    """How long jobs may run until requests have the event loop; moments are seconds of any clock.

    Under load both have half of it. Once jobs are behind they have more: otherwise members who wait for the answers to their
    posts would have these accepted faster than they can be delivered.
    """

    __slots__ = ("_seconds", "_took_over")

    def __init__(self, now: float) -> None:
        self._took_over, self._seconds = now, _BREATH_SECONDS

    def is_over(self, now: float) -> bool:
        """Whether it is the turn of requests."""
        return now - self._took_over > self._seconds

    def take_over(self, paused: float, now: float, behind: float) -> None:
        """Jobs, which are so many seconds behind, have the loop again, after requests had it since `paused`."""
        shares = min(1.0 + behind / _SLOW_SECONDS, _MOST_SHARES)
        self._took_over = now
        self._seconds = max(shares * min(now - paused, _LONGEST_BREATH_SECONDS), _BREATH_SECONDS)


def refused_part(wait: float, first: float, most: float) -> float:
    """The part of what comes that is to be refused, 0 to 1: nothing up to a wait of `first` seconds, all from `most` on.

    In between it grows with the wait, so with twice as much as can be done the queue stays where half is refused:
    for 1 and 3 seconds, at a wait of 2.
    """
    return min(1.0, max(0.0, (wait - first) / (most - first)))
