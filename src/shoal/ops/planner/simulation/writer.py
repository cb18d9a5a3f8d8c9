"""The writer thread of one process: it commits whatever waits as one group, and copies its log when that is full."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shoal.ops.planner.calibration import OneProcess
from shoal.ops.planner.one_process import pause
from shoal.ops.planner.simulation.faults import AnyFault, StoreAway, of_kind, slowness

_GROUP = 512
"""Commits of a group at most."""
_ACK_SECONDS = 0.05
"""For so long what is done may wait for a commit to go with."""
_TENTH, _HUNDREDTH = 1.2816, 2.3263
"""Normal deviates that one in ten, and one in a hundred, exceeds."""
_HELD = 0.5
"""Share of the writer's work for which it needs the interpreter, which it does not get while the main thread works."""


def sync_time(costs: OneProcess, deviate: float) -> float:
    """Return the seconds of a sync for a normal deviate: 0 gives the median, and above it what was measured."""
    middle, tenth, hundredth = (
        math.log(max(1e-9, seconds)) for seconds in (costs.sync, costs.sync_p90, costs.sync_p99)
    )
    if deviate < _TENTH:
        return math.exp(middle + (tenth - middle) * deviate / _TENTH)
    return math.exp(tenth + (hundredth - tenth) * (deviate - _TENTH) / (_HUNDREDTH - _TENTH))


class Committed(NamedTuple):
    """A group that is on disk since a moment: posts, and how many other things; and posts that were forgotten with it."""

    at: float
    posts: list[int]
    others: int
    done: list[int]


class SimulatedWriter:
    """Goes on beside the main thread. `ready` are the groups whose posts are to be answered."""

    def __init__(self, costs: OneProcess, faults: Sequence[AnyFault], random: np.random.Generator) -> None:
        self._costs = costs
        self._faults = faults
        self._random = random
        # Handed over, each at its moment, the oldest first; -1 is something else than a post.
        self._waiting: deque[tuple[float, int]] = deque()
        self._done: list[int] = []
        self._done_since = math.inf
        self._group: Committed | None = None
        self._left = 0.0
        self._log = costs.log_size * random.random()
        self.now = 0.0
        self.busy = 0.0
        self.ready: deque[Committed] = deque()

    @property
    def working(self) -> bool:
        """Whether a group is being written."""
        return self._group is not None

    @property
    def next(self) -> float:
        """When something happens if the main thread does nothing; infinite when nothing does."""
        if self.ready:
            return self.ready[0].at
        if self._group is not None:
            return self.now + self._left
        return self._begins()

    def submit(self, at: float, post: int = -1) -> None:
        """Hand a commit over."""
        self._waiting.append((at, post))

    def forget(self, at: float, posts: list[int]) -> None:
        """Have posts forgotten of which everything is done, with one of the next groups."""
        self._done += posts
        self._done_since = min(self._done_since, at)

    def advance(self, until: float, *, hindered: bool) -> None:
        """Work up to a moment. It is hindered while the main thread works."""
        pace = 1 / (1 + _HELD) if hindered else 1.0
        while self.now < until:
            if self._group is None:
                begin = max(self.now, self._begins())
                if begin >= until:
                    self.now = until
                    return
                self.now = begin
                self._begin()
            end = self.now + self._left / pace
            if end > until:
                self._left -= (until - self.now) * pace
                self.busy += until - self.now
                self.now = until
                return
            self.busy += end - self.now
            self.now = end
            self._end()

    def _begins(self) -> float:
        if self._waiting:
            return self._waiting[0][0]
        return self._done_since + _ACK_SECONDS if self._done else math.inf

    def _begin(self) -> None:
        posts: list[int] = []
        others = 0
        while self._waiting and self._waiting[0][0] <= self.now and len(posts) + others < _GROUP:
            post = self._waiting.popleft()[1]
            others += post < 0
            if post >= 0:
                posts.append(post)
        self._group = Committed(0.0, posts, others, self._done)
        self._done, self._done_since = [], math.inf
        self._left = self._seconds(len(posts) + others)

    def _seconds(self, size: int) -> float:
        costs = self._costs
        seconds = (
            sync_time(costs, self._random.standard_normal()) * slowness(self._faults, self.now)
            + size * costs.store
            + self._away()
        )
        self._log += size * costs.log + costs.log_group
        if self._log > costs.log_size:
            self._log = 0.0
            seconds += pause(costs)
        return seconds

    def _away(self) -> float:
        """Nothing is committed until the store is back."""
        faults = of_kind(self._faults, StoreAway, self.now)
        return max((fault.end - self.now for fault in faults), default=0.0)

    def _end(self) -> None:
        if self._group is not None:
            self.ready.append(self._group._replace(at=self.now))
        self._group = None
