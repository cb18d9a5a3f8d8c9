"""Posts, pages and changes that come to one process at random moments, and crowds and celebrities on top."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from shoal.ops.planner.simulation.faults import Celebrity, crowding
from shoal.ops.planner.simulation.scenario import Scenario

POST, PAGE, CHANGE, CELEBRITY = range(4)
"""From `CELEBRITY` on, the number of the fault among all of a scenario is added."""
_PIECE_SECONDS = 0.25
"""Rates are those of the beginning of a piece."""
_DRAWN = 4_096


class Coming:
    """Things that come, in order."""

    def __init__(self, scenario: Scenario, random: np.random.Generator) -> None:
        self._scenario = scenario
        # Who writes does not change when the next things come.
        self._random, self._drawing = random.spawn(2)
        self._pieces = self._made()
        self._ahead: list[tuple[float, int]] = []
        self._written = np.zeros(len(scenario.audiences.posts))
        self._drawn: Iterator[int] = iter(())
        self._fill()

    @property
    def next(self) -> float:
        """When the next comes; infinite when nothing does any more."""
        return self._ahead[-1][0] if self._ahead else math.inf

    def until(self, moment: float) -> Iterator[tuple[int, float]]:
        """Yield what has come up to a moment, each with its kind and when it came."""
        while self._ahead and self._ahead[-1][0] <= moment:
            at, kind = self._ahead.pop()
            if not self._ahead:
                self._fill()
            yield kind, at

    def author(self) -> tuple[float, bool]:
        """Draw an author: the followers, and whether this is their first post in a long time."""
        at = next(self._drawn, -1)
        if at < 0:
            audiences = self._scenario.audiences
            shares = audiences.posts / audiences.posts.sum()
            self._drawn = iter(self._drawing.choice(len(shares), _DRAWN, p=shares).tolist())
            at = next(self._drawn)
        authors = self._scenario.audiences.authors[at]
        # None of those who wrote before was this one.
        first = self._drawing.random() < (1 - 1 / authors) ** self._written[at]
        self._written[at] += 1
        return float(self._scenario.audiences.followers[at]), bool(first)

    def _fill(self) -> None:
        while not self._ahead and (piece := next(self._pieces, None)) is not None:
            self._ahead = piece

    def _made(self) -> Iterator[list[tuple[float, int]]]:
        """Yield the things of each piece of time, the last first."""
        scenario = self._scenario
        count = math.ceil(scenario.seconds / _PIECE_SECONDS)
        for number in range(count):
            begin = number * _PIECE_SECONDS
            length = min(_PIECE_SECONDS, scenario.seconds - begin)
            factor = crowding(scenario.faults, begin)
            found: list[tuple[float, int]] = []
            for kind, rate in ((POST, scenario.posts), (PAGE, scenario.pages), (CHANGE, scenario.changes)):
                many = self._random.poisson(rate * factor * length)
                found += [(at, kind) for at in (begin + length * self._random.random(many)).tolist()]
            found += self._celebrities(begin, length)
            yield sorted(found, reverse=True)

    def _celebrities(self, begin: float, length: float) -> Iterator[tuple[float, int]]:
        """Yield one post a second of each celebrity, from the beginning of that on."""
        for number, fault in enumerate(self._scenario.faults):
            if isinstance(fault, Celebrity):
                first = math.ceil(max(0.0, begin - fault.at) - 1e-9)
                moments = (fault.at + second for second in range(first, first + 2))
                yield from ((at, CELEBRITY + number) for at in moments if begin <= at < min(begin + length, fault.end))
