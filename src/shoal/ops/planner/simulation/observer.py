"""Notes what happens in a run: totals, percentiles, and what happened when."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence

import numpy as np

from shoal.ops.planner.simulation.faults import AnyFault, kind_of
from shoal.ops.planner.simulation.histogram import Histogram
from shoal.ops.planner.simulation.outcome import SimulatedOutcome, Stretch
from shoal.ops.planner.simulation.scenario import Floats

_PHASES, _PIECES = 10, 60
"""About so many stretches: the edges of phases are edges of pieces too."""
_NEAR = 0.3
"""An edge is left out that is nearer to a fault's than this part of a stretch."""
_LOOK_SECONDS = 0.02
"""How often the length of the queue is looked at."""
_MOST_LOOKS = 20_000


class _Piece:
    """Counts between two edges."""

    def __init__(self) -> None:
        self.posts = self.pages = self.deliveries = self.refused = self.pages_refused = self.delivered = 0.0
        self.lags = Histogram()
        self.waits = Histogram()

    def merge(self, other: _Piece) -> None:
        """Count all that the other has counted."""
        self.posts += other.posts
        self.pages += other.pages
        self.deliveries += other.deliveries
        self.refused += other.refused
        self.pages_refused += other.pages_refused
        self.delivered += other.delivered
        self.lags.merge(other.lags)
        self.waits.merge(other.waits)


class Observer:
    """Moments are given in seconds from the beginning. Totals have what comes after the end too, stretches have not."""

    def __init__(self, seconds: float, faults: Sequence[AnyFault] = ()) -> None:
        self._seconds = seconds
        self._faults = faults
        self._phases = edges(seconds, faults, _PHASES)
        self._edges = sorted({*edges(seconds, faults, _PIECES), *self._phases})
        self._pieces = [_Piece() for _ in self._edges]
        """The last one is what comes after the end."""
        self._looks = int(min(_MOST_LOOKS, max(_PIECES, seconds / _LOOK_SECONDS)))
        self._queue = np.zeros(self._looks)
        self._uncommitted = np.zeros(self._looks)
        """Both by how much they grew between two looks."""
        self.came = 0.0

    def _piece(self, at: float) -> _Piece:
        return self._pieces[bisect.bisect_right(self._edges, at) - 1]

    def came_in(self, posts: float = 1.0) -> None:
        """Note posts that members want to make."""
        self.came += posts

    def taken_on(self, at: float, posts: float = 1.0) -> None:
        """Note posts that have their ids and are not on disk yet."""
        self._change(self._uncommitted, at, posts)

    def committed(self, at: float, posts: float = 1.0) -> None:
        """Note posts that are on disk from now on."""
        self._piece(at).posts += posts
        self._change(self._uncommitted, at, -posts)
        self._change(self._queue, at, posts)

    def acknowledged(self, at: float, posts: float) -> None:
        """Note posts of which all consequences are done and forgotten."""
        self._change(self._queue, at, -posts)

    def _change(self, length: Floats, at: float, by: float) -> None:
        look = math.ceil(at / self._seconds * self._looks) - 1
        if look < self._looks:
            length[max(0, look)] += by

    def delivered(self, at: float, lag: float, followers: float, posts: float = 1.0) -> None:
        """Note posts that have reached the timelines of so many followers each."""
        piece = self._piece(at)
        piece.delivered += posts
        piece.deliveries += followers * posts
        piece.lags.add(lag, posts)

    def page(self, at: float, seconds: float) -> None:
        """Note a page that took so long."""
        piece = self._piece(at)
        piece.pages += 1
        piece.waits.add(seconds)

    def pages(self, at: float, seconds: Floats, pages: Floats) -> None:
        """Note pages, so many of each time."""
        piece = self._piece(at)
        piece.pages += float(pages.sum())
        piece.waits.add_all(seconds, pages)

    def refused(self, at: float, posts: float = 1.0, pages: float = 0.0) -> None:
        """Note posts and pages that were refused."""
        piece = self._piece(at)
        piece.refused += posts
        piece.pages_refused += pages

    def outcome(
        self, *, shape: str, members: float, memory: float, busy: dict[str, float], left: float, drained: float | None
    ) -> SimulatedOutcome:
        """Sum up; `left` are posts that were never delivered."""
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
    """Return the length of a queue, as somebody sees it who looks now and then."""
    # Sums of many small numbers end near 0, and not at it.
    return np.maximum(0.0, np.cumsum(changes).round(6))


def edges(seconds: float, faults: Sequence[AnyFault], count: int) -> list[float]:
    """Return the ends of about so many stretches of a time: where faults begin and end there is always one, to the millisecond."""
    ends = {0.0, seconds} | {at for fault in faults for at in _ends(fault) if 0 < at < seconds}
    near = _NEAR * seconds / count
    even = (seconds * number / count for number in range(1, count))
    return sorted(ends | {at for at in even if all(abs(at - end) >= near for end in ends)})


def _ends(fault: AnyFault) -> tuple[float, float]:
    return round(fault.at, 3), round(fault.end, 3)


def _within(fault: AnyFault, begin: float, end: float) -> bool:
    """Return whether a fault goes on in a stretch, or happens at a moment in it."""
    first, last = _ends(fault)
    return begin <= first < end or first < end <= last
