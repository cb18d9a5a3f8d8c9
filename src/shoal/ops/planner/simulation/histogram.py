"""Times, counted in bins whose edges grow by one percent: percentiles of any number of them, within a percent."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_LEAST = 1e-6
_RATIO = 1.01
_BINS = 2_800
"""Up to 1e-6 * 1.01 ** 2800: two weeks."""


class Histogram:
    """Times in seconds, each with how often it was found."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BINS)
        self.most = 0.0

    def add(self, seconds: float, times: float = 1.0) -> None:
        """Count one time, so often."""
        self._counts[_bin(seconds)] += times
        self.most = max(self.most, seconds)

    def add_all(self, seconds: NDArray[np.float64], times: NDArray[np.float64]) -> None:
        """Count many times at once."""
        some = times > 0
        if not some.any():
            return
        found = seconds[some]
        at = np.log(np.maximum(found, _LEAST) / _LEAST) / np.log(_RATIO)
        np.add.at(self._counts, np.minimum(at.astype(np.int64), _BINS - 1), times[some])
        self.most = max(self.most, float(found.max()))

    def merge(self, other: Histogram) -> None:
        """Count all that the other has counted."""
        self._counts += other._counts
        self.most = max(self.most, other.most)

    @property
    def count(self) -> float:
        """How many were counted."""
        return float(self._counts.sum())

    def percentile(self, percent: float) -> float:
        """Return the time that so many percent do not exceed; 0 when nothing was counted."""
        whole = np.cumsum(self._counts)
        if not whole[-1]:
            return 0.0
        at = int(np.searchsorted(whole, whole[-1] * percent / 100))
        return min(self.most, float(_LEAST * _RATIO ** (min(at, _BINS - 1) + 0.5)))


def _bin(seconds: float) -> int:
    return min(_BINS - 1, int(math.log(max(seconds, _LEAST) / _LEAST) / math.log(_RATIO)))
