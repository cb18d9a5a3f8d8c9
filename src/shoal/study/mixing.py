"""Numbers that look like chance, by the last steps of SplitMix64.

Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014), with the constants of Stafford's variant 13.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


def mixed(numbers: Hashes, seed: int) -> Hashes:
    """Return other numbers for these, as if by chance; each number of a seed has its own."""
    found = numbers + np.uint64((seed + 1) * _GOLDEN & 0xFFFF_FFFF_FFFF_FFFF)
    found ^= found >> _30
    found *= _FIRST
    found ^= found >> _27
    found *= _SECOND
    found ^= found >> _31
    return found
