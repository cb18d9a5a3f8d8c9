"""How evenly members, and what they do, lie in the buckets of one level: the figures, and the curve that a plot shows."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from shoal.study.chance import chi_square, log10_tail, tail, uniform_deviation
from shoal.study.names.batch import Numbers
from shoal.study.schemes.contract import Loads

MOST_LISTED = 256
"""Buckets of a level whose counts are listed one by one; larger ones have a curve only."""
CURVE_STEPS = 100


class LevelFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One level. Counts are members; a bucket that nobody is in counts as empty, not as absent."""

    name: str
    graph: str = ""
    """The graph of the paper that shows this level, such as M1."""
    buckets: int
    members: int
    without: int = 0
    """Members who have no bucket here: their name has no such letter, or another character."""
    mean: float
    deviation: float
    """Population standard deviation of the bucket sizes."""
    relative: float
    """The deviation over the mean."""
    uniform: float
    """The deviation that chance gives where every member goes to any bucket alike."""
    fullest: int
    fullest_bucket: str
    emptiest: int
    emptiest_bucket: str
    empty: int
    furthest: float
    """How far the bucket that is furthest from the mean is from it, over the mean: 0.1 is 10 %."""
    chi_square: float
    degrees: int
    p: float
    """The probability that chance gives at least this chi-square."""
    log10_p: float
    """Its decimal logarithm, which may be far below what `p` can hold."""
    hottest: float
    """The activity of the most active bucket over the mean; 0 where activity was not counted."""
    hottest_bucket: str = ""
    hottest_members: int = 0
    """Members of that bucket: all of them move when it does."""
    counts: list[int] = []
    """Members of each bucket, in the order of `labels`; empty for a level of many."""
    labels: list[str] = []
    activity: list[float] = []
    """Share of all activity that each bucket has."""
    curve: list[float] = []
    """Share of all members in the fullest 0 %, 1 %, 2 % ... 100 % of the buckets: a straight line where all are alike."""
    chance_curve: list[float] = []
    """The curve that chance alone gives with so many members."""


def level_figures(name: str, loads: Loads, label: Callable[[int], str] = str, graph: str = "") -> LevelFigures:
    """Return the figures of a level; `label` is how people call a bucket."""
    counts = loads.members
    members, buckets = int(counts.sum()), len(counts)
    mean = members / buckets
    statistic = chi_square(counts)
    high, low = int(counts.argmax()), int(counts.argmin())
    listed = buckets <= MOST_LISTED
    active = float(loads.activity.sum())
    hot = int(loads.activity.argmax())
    return LevelFigures(
        name=name,
        graph=graph,
        buckets=buckets,
        members=members,
        without=loads.without,
        mean=mean,
        deviation=float(counts.std()),
        relative=float(counts.std()) / mean if mean else 0.0,
        uniform=uniform_deviation(members, buckets),
        fullest=int(counts[high]),
        fullest_bucket=label(high),
        emptiest=int(counts[low]),
        emptiest_bucket=label(low),
        empty=int((counts == 0).sum()),
        furthest=float(np.abs(counts - mean).max()) / mean if mean else 0.0,
        chi_square=statistic,
        degrees=buckets - 1,
        p=tail(statistic, buckets - 1) if buckets > 1 else 1.0,
        log10_p=log10_tail(statistic, buckets - 1) if buckets > 1 else 0.0,
        hottest=float(loads.activity[hot]) * buckets / active if active else 0.0,
        hottest_bucket=label(hot) if active else "",
        hottest_members=int(counts[hot]) if active else 0,
        counts=counts.tolist() if listed else [],
        labels=[label(bucket) for bucket in range(buckets)] if listed else [],
        activity=(loads.activity / active).tolist() if listed and active else [],
        curve=_curve(counts),
        chance_curve=_curve(_by_chance(members, buckets)),
    )


def _curve(counts: Numbers) -> list[float]:
    total = int(counts.sum())
    if not total:
        return []
    held = np.concatenate(([0.0], np.cumsum(np.sort(counts)[::-1]) / total))
    steps = np.linspace(0, len(counts), CURVE_STEPS + 1)
    return [round(float(share), 5) for share in np.interp(steps, np.arange(len(held)), held)]


def _by_chance(members: int, buckets: int) -> Numbers:
    """Bucket sizes as chance makes them: drawn once, always with the same seed."""
    if members == 0:
        return np.zeros(buckets, np.int64)
    # A binomial for each bucket: drawn together they would also have the exact sum, which no eye can see.
    return np.random.default_rng(2006).binomial(members, 1 / buckets, buckets).astype(np.int64)
