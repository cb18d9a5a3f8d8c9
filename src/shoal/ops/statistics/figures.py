"""The figures of one reading of the network, day by day, and the questions that they answer without reading again.

A day is a number: days since 1970-01-01 UTC. Who was active on a day is one bit a member, in the order in which members
stand in `joined`. So the members who were active at any time in a period are found by putting the bits of its days together,
and nobody counts twice: of a million members, a day takes 125 KB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

DAY_MS = 86_400_000
_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1)
"""How many bits are set in each value of a byte."""
PERIOD_DAYS = 366
"""The longest period that may be asked for."""
WINDOW_DAYS = 2 * PERIOD_DAYS
"""So many days are counted: the longest period, and the one before it."""

Kind = TypeVar("Kind", str, int)
Bits = NDArray[np.uint8]


class Period(NamedTuple):
    """Days from the first to the last, both of them counted."""

    first: int
    last: int

    @property
    def days(self) -> range:
        """All of them, the earliest first."""
        return range(self.first, self.last + 1)

    @property
    def before(self) -> Period:
        """The period of the same length that ends where this one begins."""
        return Period(self.first - len(self.days), self.first - 1)


class Held(NamedTuple):
    """How many members of a cohort were active in one of the periods that follow."""

    began: int
    """The first day of that period."""
    members: int
    rate: float
    """The part of the cohort, 0 to 1."""


class Cohort(NamedTuple):
    """Members who joined in the period that began on a day, and how many of them were active in it and later."""

    began: int
    held: tuple[Held, ...]


@dataclass(frozen=True)
class Figures:
    """The network in numbers; days on which nothing happened are in none of the tables."""

    first: int = 0
    """The day when the first member joined, or the first post was written."""
    since: int = 0
    """From this day on everything is known; before it nothing, unless the network is younger than that."""
    joined: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    """The day when each member joined."""
    active: Mapping[int, Bits] = field(default_factory=dict)
    """Members who posted, by day."""
    interactions: Mapping[int, int] = field(default_factory=dict)
    """Likes, shares and comments on posts of others, by day."""
    opened: Mapping[int, int] = field(default_factory=dict)
    resolved: Mapping[int, int] = field(default_factory=dict)
    """Reports that were closed, by day; one that was opened again is not among them."""
    posts: Mapping[int, int] = field(default_factory=dict)
    languages: Mapping[int, Counter[str]] = field(default_factory=dict)
    """Posts by language, by day."""
    apps: Mapping[int, Counter[int]] = field(default_factory=dict)
    """Posts by the app that sent them (0: none), by day."""
    media_bytes: int = 0
    """Bytes of the files of all media."""

    def knows(self, period: Period) -> bool:
        """Whether the whole period was counted, or lies before anything happened."""
        return period.first >= self.since or self.first >= self.since

    def newcomers(self, period: Period) -> list[int]:
        """Members who joined, by day."""
        there = self.joined[(self.joined >= period.first) & (self.joined <= period.last)] - period.first
        return [int(number) for number in np.bincount(there, minlength=len(period.days))]

    def active_by_day(self, period: Period) -> list[int]:
        """Members who posted, by day."""
        return [_ones(self.active[day]) if day in self.active else 0 for day in period.days]

    def active_in(self, period: Period) -> int:
        """Members who posted at any time in the period, each counted once."""
        return _ones(self._together(period.days))

    def retention(self, starts: Sequence[int], last: int) -> list[Cohort]:
        """Cohorts of the periods that begin on these days, the last of which ends with the day `last`.

        Each cohort tells of its own period and of those that follow.
        """
        edges = np.array([*starts, last + 1])
        chosen = np.flatnonzero((self.joined >= edges[0]) & (self.joined < edges[-1]))
        cohort_of = np.searchsorted(edges, self.joined[chosen], side="right") - 1
        sizes = np.bincount(cohort_of, minlength=len(starts))
        held: list[list[Held]] = [[] for _ in starts]
        for place, began in enumerate(starts):
            together = self._together(range(began, int(edges[place + 1])))
            seen = together[chosen >> 3] >> (7 - (chosen & 7)) & 1
            counts = np.bincount(cohort_of[seen.astype(bool)], minlength=len(starts))
            for cohort in range(place + 1):
                number, size = int(counts[cohort]), int(sizes[cohort])
                held[cohort].append(Held(began, number, number / size if size else 0.0))
        return [Cohort(began, tuple(row)) for began, row in zip(starts, held, strict=True)]

    def _together(self, days: Iterable[int]) -> Bits:
        together = np.zeros(-(-len(self.joined) // 8), np.uint8)
        for day in days:
            if (bits := self.active.get(day)) is not None:
                together |= bits
        return together


def by_day(table: Mapping[int, int], period: Period) -> list[int]:
    """The numbers of the days of a period."""
    return [table.get(day, 0) for day in period.days]


def summed(tables: Mapping[int, Counter[Kind]], period: Period) -> Counter[Kind]:
    """Add up the tables of the days of a period."""
    total: Counter[Kind] = Counter()
    for day in period.days:
        total.update(tables.get(day, {}))
    return total


def _ones(bits: Bits) -> int:
    """How many bits are set: bytes are counted by their values, which is faster than taking them apart."""
    return int(np.bincount(bits, minlength=256) @ _ONES)
