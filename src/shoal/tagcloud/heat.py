"""Heat of tags: exponentially decaying sums, and rankings that are updated incrementally.

The heat in a window with half-life h is the sum over uses of 2 ** ((written - now) / h). All heats decay at one rate, so their
order changes only with uses. A heat is stored as `value * 2**step` with `now` at the epoch; powers of two move between the two
without rounding.
"""

from __future__ import annotations

import heapq
import math

import msgspec

HOUR_MS = 3_600_000

HALF_LIVES_MS = (HOUR_MS // 2, 12 * HOUR_MS, 84 * HOUR_MS)
"""Half-lives of the windows hour, day and week (ms): half the length of each."""
HOUR, DAY, WEEK = range(3)
NEVER = -math.inf


class Heat(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The uses of a tag, `value * 2**step`. Later uses get exponentially greater weights, so that stored values need no decay."""

    value: float = 0.0
    step: int = 0

    @property
    def rank(self) -> float:
        """The base-2 logarithm of the heat, by which tags are sorted at any time; `NEVER` for a heat of 0."""
        return math.log2(self.value) + self.step if self.value > 0.0 else NEVER


COLD = Heat()


def heats_of(written: int) -> tuple[Heat, Heat, Heat]:
    """Return the heat of one use, in a post written at this time (Unix ms), for each window."""
    hour, day, week = (math.modf(written / half_life) for half_life in HALF_LIVES_MS)
    return (
        Heat(math.exp2(hour[0]), int(hour[1])),
        Heat(math.exp2(day[0]), int(day[1])),
        Heat(math.exp2(week[0]), int(week[1])),
    )


def joined(one: Heat, other: Heat) -> Heat:
    if one.value == 0.0:
        return other
    if one.step < other.step:
        one, other = other, one
    # A heat that is 2,000 half-lives older is 0 as a float.
    return Heat(one.value + math.ldexp(other.value, max(other.step - one.step, -2_000)), one.step)


def warmth(heat: Heat, window: int, now: int) -> float:
    """Return the warmth of a tag at `now` (Unix ms) from its stored `Heat`: the number of uses, each weighted by its age."""
    if heat.value <= 0.0:
        return 0.0
    return math.exp2(min(1_000.0, max(-1_000.0, heat.rank - now / HALF_LIVES_MS[window])))


def surprise(day: float, week: float, members: int, loudest: float) -> float:
    """Return how unexpected today's uses of a tag are, given its uses in the last week and its number of users.

    The Poisson log-likelihood ratio o ln(o/e) - (o - e) of Dunning (1993, "Accurate Methods for the Statistics of Surprise and
    Coincidence") with o uses observed and e expected at the average rate of the week (plus one, so that a single use is no
    surprise), times the fraction of uses by other members.

    Args:
        day, week: The tag's warmth in these windows.
        members: Number of recent users.
        loudest: The fraction of uses by the member who used it most, 0 to 1.
    """
    expected = week * HALF_LIVES_MS[DAY] / HALF_LIVES_MS[WEEK] + 1.0
    if members < 2 or day <= expected:
        return 0.0
    return (day * math.log(day / expected) - (day - expected)) * (1.0 - loudest)


class Ranking(msgspec.Struct, array_like=True):
    """The tags with the greatest values in one order, by id. All other tags have a value of at most `floor`."""

    ranks: dict[int, float] = {}
    floor: float = NEVER

    def move(self, id_: int, rank: float, most: int) -> None:
        """Set the value of a tag in the ranking. Beyond twice `most` tags, drop the tags with the lowest values."""
        if rank > self.floor:
            self.ranks[id_] = rank
            if len(self.ranks) > 2 * most:
                self._cut(most)
        else:
            self.ranks.pop(id_, None)

    def _cut(self, most: int) -> None:
        ordered = self.first(len(self.ranks))
        self.floor = self.ranks[ordered[most]]
        self.ranks = {id_: rank for id_ in ordered[:most] if (rank := self.ranks[id_]) > self.floor}

    def runs_dry(self, count: int) -> bool:
        """Return whether the ranking has fewer than `count` tags because others were dropped."""
        return len(self.ranks) < count and self.floor > NEVER

    def first(self, most: int) -> list[int]:
        return heapq.nsmallest(most, self.ranks, key=lambda id_: (-self.ranks[id_], id_))


class Rankings(msgspec.Struct, array_like=True):
    by_order: dict[str, Ranking] = {}

    def of(self, order: str) -> Ranking:
        return self.by_order.setdefault(order, Ranking())


encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Rankings).decode


def decode(data: bytes) -> Rankings:
    return _decode(data) if data else Rankings()
