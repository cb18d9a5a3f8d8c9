"""Records of a simulation run: totals, percentiles and the course over time.

Times are counted in bins whose edges grow by one percent, so percentiles are accurate to one percent.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal_planner.simulation.scenario import AnyFault, Floats, kind_of


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of an interval of a simulation. Times are in seconds, and rates are per second.

    The ends of the interval are measured from the start of the simulation. Lags and page times are of arrivals in the interval, 0
    if there were none.
    """

    begin: float
    end: float
    faults: list[str]
    """Kinds of faults that are active in the interval."""
    posts: float
    refused: float
    pages: float
    pages_refused: float
    deliveries: float
    uncommitted: float
    """Mean number of posts accepted but not committed."""
    queue: float
    """Mean number of committed posts with pending jobs."""
    queue_most: float
    lag: float
    """Median time from a post until it is in the home timelines of the author's followers."""
    lag_p99: float
    page: float
    """Median time of a home page in the server."""
    page_p99: float


class SimulatedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a simulation, in total and by interval. Each attempted post was refused, delivered, or is left undelivered."""

    shape: str
    members: float
    seconds: float
    """Simulated time."""
    came: float
    """Posts attempted."""
    refused: float
    delivered: float
    """Posts in all home timelines by the end."""
    left: float
    """Posts not delivered by the end."""
    drained: float | None
    """Seconds after the end until every post was delivered; None if that took more than an hour."""
    pages: float
    pages_refused: float
    deliveries: float
    """Timeline entries written, including those after the end."""
    lag: float
    lag_p99: float
    lag_most: float
    page: float
    page_p99: float
    queue: float
    """Mean number of committed posts with pending jobs."""
    queue_most: float
    memory: float
    """Bytes of Shoal's own processes and of Redis."""
    busy: dict[str, float]
    """Utilization of each part."""
    phases: list[Stretch]
    """About ten intervals, with edges at the starts and ends of faults."""
    series: list[Stretch]
    """The phases in smaller intervals, for plots."""


_LEAST = 1e-6
_RATIO = 1.01
_BINS = 2_800
"""Number of bins. The last bin begins at about 1e-6 * 1.01 ** 2800 seconds: two weeks."""


class Histogram:
    def __init__(self) -> None:
        self._counts = np.zeros(_BINS)
        self.most = 0.0

    def add(self, seconds: float, times: float = 1.0) -> None:
        self._counts[_bin(seconds)] += times
        self.most = max(self.most, seconds)

    def add_all(self, seconds: NDArray[np.float64], times: NDArray[np.float64]) -> None:
        some = times > 0
        if not some.any():
            return
        found = seconds[some]
        at = np.log(np.maximum(found, _LEAST) / _LEAST) / np.log(_RATIO)
        np.add.at(self._counts, np.minimum(at.astype(np.int64), _BINS - 1), times[some])
        self.most = max(self.most, float(found.max()))

    def merge(self, other: Histogram) -> None:
        self._counts += other._counts
        self.most = max(self.most, other.most)

    @property
    def count(self) -> float:
        return float(self._counts.sum())

    def percentile(self, percent: float) -> float:
        whole = np.cumsum(self._counts)
        if not whole[-1]:
            return 0.0
        at = int(np.searchsorted(whole, whole[-1] * percent / 100))
        return min(self.most, float(_LEAST * _RATIO ** (min(at, _BINS - 1) + 0.5)))


def _bin(seconds: float) -> int:
    return min(_BINS - 1, int(math.log(max(seconds, _LEAST) / _LEAST) / math.log(_RATIO)))


_PHASES, _PIECES = 10, 60
"""Approximate numbers of intervals for tables (phases) and plots (pieces). Each edge of a phase is also an edge of a piece."""
_NEAR = 0.3
"""Drop an edge closer to a fault's edge than this fraction of an interval."""
_LOOK_SECONDS = 0.02
"""Sampling interval of the queue length."""
_MOST_LOOKS = 20_000


class _Piece:
    def __init__(self) -> None:
        self.posts = self.pages = self.deliveries = self.refused = self.pages_refused = self.delivered = 0.0
        self.lags = Histogram()
        self.waits = Histogram()

    def merge(self, other: _Piece) -> None:
        self.posts += other.posts
        self.pages += other.pages
        self.deliveries += other.deliveries
        self.refused += other.refused
        self.pages_refused += other.pages_refused
        self.delivered += other.delivered
        self.lags.merge(other.lags)
        self.waits.merge(other.waits)


class Observer:
    """Records the events of a simulation, in seconds from the start. Totals include events after the end, intervals do not."""

    def __init__(self, seconds: float, faults: Sequence[AnyFault] = ()) -> None:
        self._seconds = seconds
        self._faults = faults
        self._phases = edges(seconds, faults, _PHASES)
        self._edges = sorted({*edges(seconds, faults, _PIECES), *self._phases})
        self._pieces = [_Piece() for _ in self._edges]
        """Counts by piece; the last piece covers the time after the end."""
        self._looks = int(min(_MOST_LOOKS, max(_PIECES, seconds / _LOOK_SECONDS)))
        self._queue = np.zeros(self._looks)
        self._uncommitted = np.zeros(self._looks)
        """Like `_queue`, the changes of a number of posts between two samples."""
        self.came = 0.0
        """Posts attempted."""

    def _piece(self, at: float) -> _Piece:
        return self._pieces[bisect.bisect_right(self._edges, at) - 1]

    def accepted(self, at: float, posts: float = 1.0) -> None:
        self._change(self._uncommitted, at, posts)

    def committed(self, at: float, posts: float = 1.0) -> None:
        self._piece(at).posts += posts
        self._change(self._uncommitted, at, -posts)
        self._change(self._queue, at, posts)

    def acknowledged(self, at: float, posts: float) -> None:
        self._change(self._queue, at, -posts)

    def _change(self, length: Floats, at: float, by: float) -> None:
        look = math.ceil(at / self._seconds * self._looks) - 1
        if look < self._looks:
            length[max(0, look)] += by

    def delivered(self, at: float, lag: float, followers: float, posts: float = 1.0) -> None:
        piece = self._piece(at)
        piece.delivered += posts
        piece.deliveries += followers * posts
        piece.lags.add(lag, posts)

    def page(self, at: float, seconds: float) -> None:
        piece = self._piece(at)
        piece.pages += 1
        piece.waits.add(seconds)

    def pages(self, at: float, seconds: Floats, pages: Floats) -> None:
        """Record simulated pages. `pages` has the number of pages for each of the waiting times `seconds`."""
        piece = self._piece(at)
        piece.pages += float(pages.sum())
        piece.waits.add_all(seconds, pages)

    def refused(self, at: float, posts: float = 1.0, pages: float = 0.0) -> None:
        piece = self._piece(at)
        piece.refused += posts
        piece.pages_refused += pages

    def outcome(
        self, *, shape: str, members: float, memory: float, busy: dict[str, float], left: float, drained: float | None
    ) -> SimulatedOutcome:
        """Return the outcome of the simulation. `left` is the number of posts that were never delivered."""
        whole, queue = self._merged(self._pieces), _lengths(self._queue)
        late = self._pieces[-1].delivered
        return SimulatedOutcome(
            shape=shape,
            members=members,
            seconds=self._seconds,
            came=self.came,
            refused=whole.refused,
            delivered=whole.delivered - late,
            left=left + late,
            drained=drained,
            pages=whole.pages,
            pages_refused=whole.pages_refused,
            deliveries=whole.deliveries,
            lag=whole.lags.percentile(50),
            lag_p99=whole.lags.percentile(99),
            lag_most=whole.lags.most,
            page=whole.waits.percentile(50),
            page_p99=whole.waits.percentile(99),
            queue=float(queue.mean()),
            queue_most=float(queue.max()),
            memory=memory,
            busy=busy,
            phases=self._stretches(self._phases),
            series=self._stretches(self._edges),
        )

    def _merged(self, pieces: Sequence[_Piece]) -> _Piece:
        whole = _Piece()
        for piece in pieces:
            whole.merge(piece)
        return whole

    def _stretches(self, ends: Sequence[float]) -> list[Stretch]:
        lengths = _lengths(self._queue), _lengths(self._uncommitted)
        return [self._stretch(begin, end, *lengths) for begin, end in itertools.pairwise(ends)]

    def _stretch(self, begin: float, end: float, queue: Floats, uncommitted: Floats) -> Stretch:
        first, last = self._edges.index(begin), self._edges.index(end)
        sums, length = self._merged(self._pieces[first:last]), end - begin
        look = min(self._looks - 1, int(begin / self._seconds * self._looks))
        looks = slice(look, max(look + 1, int(end / self._seconds * self._looks)))
        return Stretch(
            begin=begin,
            end=end,
            faults=[kind_of(fault) for fault in self._faults if _within(fault, begin, end)],
            posts=sums.posts / length,
            refused=sums.refused / length,
            pages=sums.pages / length,
            pages_refused=sums.pages_refused / length,
            deliveries=sums.deliveries / length,
            uncommitted=float(uncommitted[looks].mean()),
            queue=float(queue[looks].mean()),
            queue_most=float(queue[looks].max()),
            lag=sums.lags.percentile(50),
            lag_p99=sums.lags.percentile(99),
            page=sums.waits.percentile(50),
            page_p99=sums.waits.percentile(99),
        )


def _lengths(changes: Floats) -> Floats:
    # Rounding errors keep the sums from reaching 0.
    return np.maximum(0.0, np.cumsum(changes).round(6))


def edges(seconds: float, faults: Sequence[AnyFault], count: int) -> list[float]:
    """Return the ends of about `count` intervals of a simulation.

    The starts and ends of faults are always among them, to the millisecond.
    """
    ends = {0.0, seconds} | {at for fault in faults for at in _ends(fault) if 0 < at < seconds}
    near = _NEAR * seconds / count
    even = (seconds * number / count for number in range(1, count))
    return sorted(ends | {at for at in even if all(abs(at - end) >= near for end in ends)})


def _ends(fault: AnyFault) -> tuple[float, float]:
    return round(fault.at, 3), round(fault.end, 3)


def _within(fault: AnyFault, begin: float, end: float) -> bool:
    first, last = _ends(fault)
    return begin <= first < end or first < end <= last
