"""Queue control: estimate the wait of a job enqueued now, and the fraction to refuse. No I/O.

The wait is estimated from the length of the queue and its pace, which reflects additions immediately. The age of jobs leaving the
queue only reflects the state when they entered: control based on it lags by the length of the queue, and oscillates.
"""

from __future__ import annotations

_LOOK_SECONDS = 0.1
"""Interval between counts of the queue."""
_DEAREST = 0.05
"""Maximum fraction of the time spent counting: a queue of a million is counted less often."""
_NEWEST = 0.3
"""Weight of the newest batch in the moving average of the pace."""


class ExpectedWait:
    """Estimates the wait of a job enqueued now; times are seconds of any clock."""

    __slots__ = ("_began", "_each", "_look", "_size", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        # Start of the current batch (None: the previous was the last), its size, and the average seconds per job.
        self._began: float | None = None
        self._size = 0
        self._each = 0.0
        self._look = 0.0

    def begin(self, size: int, now: float, *, more: bool) -> bool:
        """Record that a batch of `size` begins and the previous has finished.

        Return whether the queue, if there is `more`, should be counted.
        """
        if self._began is not None and self._size:
            each = (now - self._began) / self._size
            self._each += (each - self._each) * (_NEWEST if self._each else 1.0)
        self._began, self._size = (now, size) if more else (None, 0)
        if not more:
            self.seconds = 0.0
        return more and now >= self._look

    def counted(self, length: int, began: float, now: float) -> None:
        """Record the queue length, counted between two times."""
        self.seconds = max(0, length) * self._each
        self._look = now + max(_LOOK_SECONDS, (now - began) / _DEAREST)


_BREATH_SECONDS = 0.002
"""Minimum seconds that jobs run before the event loop handles requests."""
_LONGEST_BREATH_SECONDS = 0.02
_SLOW_SECONDS = 0.25
"""Delay for which jobs get one more share of the loop, up to `_MOST_SHARES` per share of requests."""
_MOST_SHARES = 12.0


class LoopShare:
    """Limits how long jobs run before the event loop handles requests; times are seconds of any clock.

    Under load both get half of it. Delayed jobs get more: otherwise new posts would be accepted faster than they can be
    delivered.
    """

    __slots__ = ("_seconds", "_took_over")

    def __init__(self, now: float) -> None:
        self._took_over, self._seconds = now, _BREATH_SECONDS

    def is_over(self, now: float) -> bool:
        """Return whether it is the turn of requests."""
        return now - self._took_over > self._seconds

    def take_over(self, paused: float, now: float, behind: float) -> None:
        """Record that jobs, `behind` by some seconds, have the loop again after requests had it since `paused`."""
        shares = min(1.0 + behind / _SLOW_SECONDS, _MOST_SHARES)
        self._took_over = now
        self._seconds = max(shares * min(now - paused, _LONGEST_BREATH_SECONDS), _BREATH_SECONDS)


def refused_part(wait: float, first: float, most: float) -> float:
    """Return the fraction of requests to refuse, 0 to 1: none up to a wait of `first` seconds, all from `most` on.

    In between it grows linearly, so with twice the capacity arriving the queue settles where half is refused: for 1 and 3
    seconds, at a wait of 2.
    """
    return min(1.0, max(0.0, (wait - first) / (most - first)))
