"""The interface of a scheme that places a name at some levels, and what it finds counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.study.names.batch import Amounts, NameBatch, Numbers

NO_BUCKET = -1
"""Index of a name that a level has no bucket for, such as the second letter of a name that has one."""


class Level(NamedTuple):
    """One level of a scheme."""

    name: str
    labels: Sequence[str]
    """A word for each bucket: a letter, or a number."""
    graph: str = ""
    """Which of the eight graphs of the paper shows it."""

    @property
    def buckets(self) -> int:
        """How many there are."""
        return len(self.labels)


class LevelScheme(Protocol):
    """A scheme of one to three levels. It knows no names but those it is given."""

    @property
    def key(self) -> str:
        """The word that chooses it."""
        ...

    @property
    def title(self) -> str:
        """For people."""
        ...

    @property
    def levels(self) -> Sequence[Level]:
        """The levels, the first one first."""
        ...

    def place(self, batch: NameBatch) -> Sequence[NDArray[np.intp]]:
        """Return the bucket of each name at each level, or `NO_BUCKET`."""
        ...


class Loads:
    """How many members each bucket has, and how active they are together."""

    def __init__(self, buckets: int) -> None:
        self.members: Numbers = np.zeros(buckets, np.int64)
        self.activity: Amounts = np.zeros(buckets)
        self.without = 0
        """Members without a bucket."""

    def add(self, buckets: NDArray[np.intp], activity: Amounts | None) -> None:
        """Count some members; without their activity where nobody asks for it."""
        placed = buckets >= 0
        if not placed.all():
            self.without += int(len(buckets) - placed.sum())
            buckets = buckets[placed]
            activity = None if activity is None else activity[placed]
        self.members += np.bincount(buckets, minlength=len(self.members))
        if activity is not None:
            self.activity += np.bincount(buckets, activity, minlength=len(self.members))


def joined(outer: NDArray[np.intp], inner: NDArray[np.intp], buckets: int) -> NDArray[np.intp]:
    """Return the buckets of a level within those of the level above, numbered on from 0; without either, `NO_BUCKET`."""
    found = outer * buckets + inner
    found[(outer < 0) | (inner < 0)] = NO_BUCKET
    return found


def numbered(buckets: int) -> Sequence[str]:
    """Labels of buckets that have no other name."""
    return tuple(map(str, range(buckets)))
