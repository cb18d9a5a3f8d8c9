"""Databases of several processes, of which some may be slow for a time.

Of each only the work that waits is known. How long a commit waits follows from that and from the faults to come, so a store that is
fast again works off what has waited at its own pace.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shoal.ops.planner.simulation.faults import AnyFault, SlowStore


class StoreWait(NamedTuple):
    """A share of what comes in a step, how long it waits in front of its stores, and the factor by which a commit takes longer."""

    share: float
    seconds: float
    by: float


class SimulatedStores:
    """Stores by number: a fault slows the first ones, so they fall into groups that are always slow together."""

    def __init__(self, number: int, cores: float, faults: Sequence[AnyFault], random: np.random.Generator) -> None:
        self._cores = cores
        self._random = random
        self._slow = [
            (fault, math.ceil(fault.part * number - 1e-9)) for fault in faults if isinstance(fault, SlowStore)
        ]
        ends = sorted({0, number, *(count for _, count in self._slow)})
        self._groups = list(itertools.pairwise(ends))
        self._edges = sorted({at for fault, _ in self._slow for at in (fault.at, fault.end)})
        self._waiting = np.zeros(number)
        """Seconds of work of one core that wait in each."""
        self.worked = 0.0

    def step(self, now: float, length: float, work: float, things: float) -> list[StoreWait]:
        """Deal work out, made of so many things, and let the stores work for a time. Gives the waits in the middle of it."""
        number = len(self._waiting)
        many = max(1, round(things))
        # What comes to each differs by chance.
        shares = self._random.multinomial(many, np.full(number, 1 / number)) / many
        before = self._waiting
        slower = [self._slower(first, now) for first, _ in self._groups]
        pace = np.concatenate(
            [np.full(last - first, self._cores / by) for (first, last), by in zip(self._groups, slower, strict=True)]
        )
        after = np.maximum(0.0, before + work * shares - length * pace)
        # A slow store works as hard for less.
        self.worked += float(((before + work * shares - after) / pace).sum()) * self._cores
        self._waiting = after
        found = []
        for (first, last), by in zip(self._groups, slower, strict=True):
            mean = float((before[first:last] + after[first:last]).mean()) / 2
            found.append(StoreWait((last - first) / number, self._worked_off(first, mean, now + length / 2), by))
        return found

    def _slower(self, store: int, moment: float) -> float:
        factor = 1.0
        for fault, count in self._slow:
            factor *= fault.by if store < count and fault.now(moment) else 1.0
        return factor

    def _worked_off(self, store: int, work: float, moment: float) -> float:
        """Return the seconds until a store has done what waits at a moment."""
        at = moment
        for edge in self._edges:
            pace = self._cores / self._slower(store, at)
            if edge <= at:
                continue
            if work <= pace * (edge - at):
                break
            work -= pace * (edge - at)
            at = edge
        return at - moment + work * self._slower(store, at) / self._cores
