"""How much a tag was used of late: sums that decay, and can be added to and taken back from in any order.

The heat of a tag in a window with half-life h is the sum over its uses of 2 ** ((written - now) / h). All heats decay alike, so
which of two tags is hotter does not change while nothing is used: a ranking is kept by merging and never recomputed. A heat is
therefore kept as `value * 2**step`, with `now` at the epoch; powers of two are moved between the two without rounding.
"""

from __future__ import annotations

import math

import msgspec

HOUR_MS = 3_600_000

HALF_LIVES_MS = (HOUR_MS // 2, 12 * HOUR_MS, 84 * HOUR_MS)
"""Half-lives of the windows hour, day and week (ms): half the length of each."""
HOUR, DAY, WEEK = range(3)
NEVER = -math.inf


class Heat(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`value * 2**step`: uses as they would count at the epoch."""

    value: float = 0.0
    step: int = 0

    @property
    def rank(self) -> float:
        """Its logarithm: the greater, the hotter, at whichever moment; `NEVER` for none."""
        return math.log2(self.value) + self.step if self.value > 0.0 else NEVER


COLD = Heat()


def heats_of(written: int) -> tuple[Heat, Heat, Heat]:
    """The heats of one use of a post written at this moment (Unix ms), in all windows."""
    hour, day, week = (math.modf(written / half_life) for half_life in HALF_LIVES_MS)
    return (
        Heat(math.exp2(hour[0]), int(hour[1])),
        Heat(math.exp2(day[0]), int(day[1])),
        Heat(math.exp2(week[0]), int(week[1])),
    )


def heated(heat: Heat, window: int, written: int, by: int) -> Heat:
    """The heat after `by` uses of a post written at this moment (Unix ms) came, or went."""
    one = heats_of(written)[window]
    return joined(heat, Heat(by * one.value, one.step))


def joined(one: Heat, other: Heat) -> Heat:
    """The sum of two heats."""
    if one.value == 0.0:
        return other
    if one.step < other.step:
        one, other = other, one
    # What is more than a thousand half-lives older is nothing beside the other.
    return Heat(one.value + math.ldexp(other.value, max(other.step - one.step, -2_000)), one.step)


def warmth(heat: Heat, window: int, now: int) -> float:
    """How many uses of this very moment (Unix ms) the heat is worth."""
    if heat.value <= 0.0:
        return 0.0
    return math.exp2(min(1_000.0, max(-1_000.0, heat.rank - now / HALF_LIVES_MS[window])))


def surprise(day: float, week: float, members: int, loudest: float) -> float:
    """How much more a tag is used today than its own past lets one expect, and by how many.

    `day` and `week`: its warmth in these windows; `members`: who used it of late; `loudest`: the share of uses by the one
    who used it most, 0 to 1. The Poisson log-likelihood ratio o ln(o/e) - (o - e) of Dunning (1993, "Accurate Methods for the
    Statistics of Surprise and Coincidence") with o uses observed and e expected at the week's pace (and one more, so that a
    single use is no surprise), times the share of it that is not one member's voice.
    """
    expected = week * HALF_LIVES_MS[DAY] / HALF_LIVES_MS[WEEK] + 1.0
    if members < 2 or day <= expected:
        return 0.0
    return (day * math.log(day / expected) - (day - expected)) * (1.0 - loudest)
