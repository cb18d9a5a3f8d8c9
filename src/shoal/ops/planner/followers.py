"""Members by how many followers they have: a power law, cut at both ends, in classes of a factor of two.

The density of members with `k` followers is proportional to `k ** -exponent` from a least number to the largest. Where the mean
asks for it, the least is above 1, or some members have none. The largest is what the largest of so many draws is, or what the
assumptions allow if that is less.
"""

from __future__ import annotations

import itertools
import math

import msgspec

from shoal.ops.planner.assumptions import Assumptions

_CLASSES_A_DOUBLING = 1.0
_STEPS = 80
_SAME = 1e-6


class FollowerClass(msgspec.Struct, frozen=True):
    """Members with about as many followers."""

    members: float
    followers: float
    """Mean number of followers."""
    posts: float
    """Share of all posts that they write."""


def classes(of: Assumptions, cut: float = math.inf) -> list[FollowerClass]:
    """Return the classes, fewest followers first. Together they have all members but those without a follower.

    None has members on both sides of the `cut`.
    """
    if not of.follows:
        return [FollowerClass(float(of.members), 0.0, 1.0)]
    least, most, some = _ends(of)
    edges = _with(_edges(least, most), cut)
    alpha = of.exponent
    whole = _moment(-alpha, least, most)
    written = _moment(of.eagerness - alpha, least, most)
    found = []
    for low, high in itertools.pairwise(edges):
        part = _moment(-alpha, low, high)
        followers = _moment(1 - alpha, low, high) / part
        posts = _moment(of.eagerness - alpha, low, high) / written
        found.append(FollowerClass(of.members * some * part / whole, followers, posts))
    return found


def _with(edges: list[float], cut: float) -> list[float]:
    """Return the edges with one more, unless it is one of them or beyond the ends."""
    near = min(edges, key=lambda edge: abs(edge - cut))
    if abs(near - cut) < near * _SAME or not edges[0] < cut < edges[-1]:
        return edges
    return sorted((*edges, cut))


def _ends(of: Assumptions) -> tuple[float, float, float]:
    """Return the least and the largest number of followers, and the share of members who have any."""
    top = max(2.0, of.largest * of.members)

    def mean(least: float) -> float:
        most = _largest(of, least, top)
        return _moment(1 - of.exponent, least, most) / _moment(-of.exponent, least, most)

    if mean(1.0) >= of.follows:
        return 1.0, _largest(of, 1.0, top), of.follows / mean(1.0)
    low, high = 1.0, top / 1.0001
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if mean(middle) < of.follows else (low, middle)
    return low, _largest(of, low, top), 1.0


def _largest(of: Assumptions, least: float, top: float) -> float:
    """One of so many members is expected to have as many, or more."""
    return min(top, max(1.001 * least, least * math.pow(of.members, 1 / (of.exponent - 1))))


def _edges(least: float, most: float) -> list[float]:
    count = max(1, math.ceil(math.log2(most / least) * _CLASSES_A_DOUBLING))
    return [least * math.pow(most / least, step / count) for step in range(count + 1)]


def _moment(power: float, low: float, high: float) -> float:
    """Return the integral of `k ** power` between two numbers."""
    if abs(power + 1) < 1e-9:
        return math.log(high / low)
    # Relative to the lower end: large powers of large numbers would overflow.
    return math.pow(low, power + 1) * (math.pow(high / low, power + 1) - 1) / (power + 1)
