"""The figures of a study, as `--json` prints them, and the statistics behind them. All are sums: no name is in them.

Pearson's chi-square with its exact tail, and the deviation of a uniform distribution. The tail of the chi-square distribution is
the regularized upper incomplete gamma function Q(a, x / 2) with a = degrees / 2, computed by its series below a + 1 and by its
continued fraction above (DLMF 8.11.4 and 8.9.2, the fraction by Lentz's method). Both give nine digits or more up to a million
degrees of freedom, and the logarithm where the number is too small for a float.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, expm1, inf, lgamma, log, sqrt

import msgspec
import numpy as np

from shoal_study.name_schemes import Loads
from shoal_study.names import Numbers

_PRECISION = 1e-16
_TINY = 1e-300
_MOST_STEPS = 1_000_000


def uniform_deviation(members: int, buckets: int) -> float:
    """Return the population deviation of bucket sizes that chance gives if each member goes to any bucket alike.

    The number in a bucket is binomial, so its variance is n p (1 - p) with p = 1 / buckets, and that is also the mean of the
    population variance over all buckets.
    """
    return sqrt(members / buckets * (1 - 1 / buckets))


def chi_square(counts: Numbers | Sequence[int]) -> float:
    """Return Pearson's statistic of counts against equal shares; 0 for nothing counted."""
    found = np.asarray(counts, np.float64)
    mean = found.mean()
    return float(((found - mean) ** 2).sum() / mean) if mean else 0.0


def tail(statistic: float, degrees: int) -> float:
    """Return the probability that chance gives at least this chi-square. Raises `ValueError` for degrees below 1."""
    return exp(log_tail(statistic, degrees))


def log10_tail(statistic: float, degrees: int) -> float:
    """Return the decimal logarithm of `tail`, which may be far below what a float can hold."""
    return log_tail(statistic, degrees) / log(10)


def log_tail(statistic: float, degrees: int) -> float:
    """Return the natural logarithm of `tail`; minus infinity for an infinite statistic."""
    if degrees < 1:
        raise ValueError("a chi-square has at least one degree of freedom")
    if statistic <= 0:
        return 0.0
    if statistic == inf:
        return -inf
    a, x = degrees / 2, statistic / 2
    front = a * log(x) - x - lgamma(a)
    if x > a + 1:
        return min(0.0, front + log(_fraction(a, x)))
    lower = min(front + log(_series(a, x)), -1e-300)
    return log(-expm1(lower))


def _series(a: float, x: float) -> float:
    """Sum x^n / (a (a + 1) ... (a + n)), which is the lower function but for the front."""
    total = term = 1 / a
    for step in range(1, _MOST_STEPS):
        term *= x / (a + step)
        total += term
        if term < total * _PRECISION:
            break
    return total


def _fraction(a: float, x: float) -> float:
    """Return the continued fraction of the upper function but for the front, by the modified method of Lentz."""
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / b
    value = d
    for step in range(1, _MOST_STEPS):
        an = step * (a - step)
        b += 2
        d = an * d + b
        d = 1 / (d if abs(d) > _TINY else _TINY)
        c = b + an / c
        c = c if abs(c) > _TINY else _TINY
        value *= d * c
        if abs(d * c - 1) < _PRECISION * 4:
            break
    return value


def shown_probability(p: float, log10_p: float) -> str:
    """Return a probability as people read it: `0.410`, `3e-07`, `< 1e-300`."""
    if p >= 1e-3:
        return f"{p:.3f}" if p < 0.995 else f"{p:.2f}"
    if log10_p > -300:
        return f"{p:.0e}"
    return "< 1e-300"


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


class SchemeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One scheme of the paper."""

    key: str
    title: str
    nanoseconds: float
    """Processor time of placing one name, without reading it and without counting."""
    levels: list[LevelFigures]
    """Each level by itself."""
    paths: list[LevelFigures]
    """Each level within those above it: the directories there are down to it."""


class Change(msgspec.Struct, frozen=True):
    """Servers that come or go."""

    before: int
    after: int
    moved: int
    """Members who are on another server afterwards."""
    least: float
    """So many must move if all servers are to have equally many."""


class ServerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One way to place members on servers."""

    key: str
    title: str
    nanoseconds: float
    servers: LevelFigures
    changes: list[Change]
    """One comes, one goes, several come."""
    note: str = ""


class Cooling(msgspec.Struct, frozen=True, kw_only=True):
    """The price of bringing the most active server down to `bound` times the mean. Heat is activity over the mean."""

    key: str
    title: str
    unit: str
    """The smallest part that the scheme can move by itself."""
    servers: int
    before: float
    after: float
    units: int
    members: int
    """Members who have to move for it."""
    moved_activity: float
    """Share of all activity that moves with them."""
    bound: float
    reached: bool


class MappingFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The mapping scheme, simulated."""

    range_size: int
    start: int
    """Servers at the beginning."""
    grown: int
    """Servers that were planned for after growing."""
    members: list[int]
    """Members of each server, a range each, in the order in which they were filled."""
    newest: float
    """Share of the newest hundredth of all members who are on one server: the one that is being filled."""
    heat: list[float]
    """Activity of each server over the mean, before anything is moved; empty where all members are alike."""
    exceptions: int
    """Members who were moved out of their range, and have an entry of their own."""
    lookups: float
    """Look-ups for a request, by activity: one finds the number and its range, and a second one where a member was moved."""
    heat_after: float
    reached: bool


class Outcome(msgspec.Struct, frozen=True):
    """Whether a scheme meets a constraint, and what was found."""

    scheme: str
    met: bool
    words: str


class Constraint(msgspec.Struct, frozen=True):
    """A constraint with its check."""

    name: str
    promise: str
    check: str
    outcomes: list[Outcome]


class Erratum(msgspec.Struct, frozen=True):
    """An error of the paper, and the proof."""

    claim: str
    proof: str
    holds: bool
    """Whether the proof, run again just now, came out."""


class BareLoop(msgspec.Struct, frozen=True):
    """A loop that calls `hashlib.md5` for each name and does nothing else: its processor time, in the same run."""

    names: int
    nanoseconds: float


class StudyResult(msgspec.Struct, frozen=True, kw_only=True):
    """A whole study."""

    names: int
    source: str
    activity: str
    """Where activity comes from, in words."""
    seconds: float
    """From the first name to the figures."""
    processor_seconds: float
    """Processor time of the whole process so far."""
    peak_bytes: int
    """The most memory that the process had."""
    version: str
    schemes: list[SchemeFigures]
    servers: list[ServerFigures]
    mapping: MappingFigures | None
    cooling: list[Cooling]
    constraints: list[Constraint]
    errata: list[Erratum]
    bare_loop: BareLoop
    checked: int
    """Names that the server's own code placed too, one by one, and found at the same place."""
    unavailable: list[str] = []
    """Titles of the schemes that were left out because a package is not installed."""
    needs: str = ""
    """That package."""
