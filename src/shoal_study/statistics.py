"""The figures of a study, as `--json` prints them, and the statistics behind them. All are sums and contain no names.

Pearson's chi-square with its exact tail, and the deviation of a uniform distribution. The tail of the chi-square
distribution is the regularized upper incomplete gamma function Q(a, x / 2) with a = degrees / 2, computed by its series
below a + 1 and by its continued fraction above (DLMF 8.11.4 and 8.9.2, the fraction by Lentz's method). Both give nine
digits or more up to a million degrees of freedom, and the logarithm where the number is too small for a float.
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
    """Return the expected population deviation of bucket sizes if each member is equally likely to go to any bucket.

    The number in a bucket is binomial, so its variance is n p (1 - p) with p = 1 / buckets, and that is also the mean of
    the population variance over all buckets.
    """
    return sqrt(members / buckets * (1 - 1 / buckets))


def chi_square(counts: Numbers | Sequence[int]) -> float:
    """Return Pearson's chi-square statistic of counts for equal expected counts; 0 if all counts are 0."""
    found = np.asarray(counts, np.float64)
    mean = found.mean()
    return float(((found - mean) ** 2).sum() / mean) if mean else 0.0


def tail(statistic: float, degrees: int) -> float:
    """Return the probability of a chi-square this large or larger for a uniform distribution. Raises `ValueError`."""
    return exp(log_tail(statistic, degrees))


def log10_tail(statistic: float, degrees: int) -> float:
    """Return the decimal logarithm of `tail`, which may be far below what a float can hold."""
    return log_tail(statistic, degrees) / log(10)


def log_tail(statistic: float, degrees: int) -> float:
    """Return the natural logarithm of `tail`; minus infinity for an infinite statistic."""
    if degrees < 1:
        raise ValueError("a chi-square test needs at least one degree of freedom")
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
    """Sum x^n / (a (a + 1) ... (a + n)): the lower incomplete gamma function without its prefactor."""
    total = term = 1 / a
    for step in range(1, _MOST_STEPS):
        term *= x / (a + step)
        total += term
        if term < total * _PRECISION:
            break
    return total


def _fraction(a: float, x: float) -> float:
    """Return the upper incomplete gamma function without its prefactor, by a continued fraction (modified method of Lentz)."""
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
    """Format a probability: `0.410`, `3e-07`, `< 1e-300`."""
    if p >= 1e-3:
        return f"{p:.3f}" if p < 0.995 else f"{p:.2f}"
    if log10_p > -300:
        return f"{p:.0e}"
    return "< 1e-300"


MOST_LISTED = 256
"""Maximum of buckets whose counts are listed individually; larger levels have only a curve."""
GROUPS = 128
CURVE_STEPS = 100


class LevelFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of how evenly members are spread over the buckets of one level of directories.

    A count is a number of members; an empty bucket has the count 0.
    """

    name: str
    graph: str = ""
    """The graph of the paper that shows these buckets, such as M1; empty for a single level below the first."""
    buckets: int
    members: int
    without: int = 0
    """Members without a bucket here: their name has no such letter, or another character."""
    mean: float
    deviation: float
    """Population standard deviation of the bucket sizes."""
    relative: float
    uniform: float
    """The expected deviation under uniform distribution."""
    fullest: int
    fullest_bucket: str
    emptiest: int
    emptiest_bucket: str
    empty: int
    furthest: float
    """The largest deviation of a bucket from the mean, divided by the mean: 0.1 is 10 %."""
    chi_square: float
    degrees: int
    p: float
    """The probability of a chi-square at least this large under uniform distribution."""
    log10_p: float
    """The decimal logarithm of `p`, which may be far below what `p` can hold."""
    hottest: float
    """The activity of the most active bucket divided by the mean; 0 if activity was not counted."""
    hottest_bucket: str = ""
    hottest_members: int = 0
    """Number of members of the most active bucket, who all move together."""
    counts: list[int] = []
    """Members of each bucket, in the order of `labels`; empty for a level with many."""
    labels: list[str] = []
    """A label for each of `counts`, or the label of the first bucket for each of `extremes`."""
    extremes: list[tuple[int, int]] = []
    """For a level with many buckets: members of the emptiest and the fullest one in each of `GROUPS` runs of adjacent buckets."""
    activity: list[float] = []
    curve: list[float] = []
    """Fraction of all members in the fullest 0 %, 1 %, 2 % ... 100 % of the buckets: a straight line if all are equal."""
    random_curve: list[float] = []
    """The curve of a random distribution of as many members."""


def level_figures(name: str, loads: Loads, label: Callable[[int], str] = str, graph: str = "") -> LevelFigures:
    counts = loads.members
    members, buckets = int(counts.sum()), len(counts)
    mean = members / buckets
    statistic = chi_square(counts)
    high, low = int(counts.argmax()), int(counts.argmin())
    listed = buckets <= MOST_LISTED
    active = float(loads.activity.sum())
    hot = int(loads.activity.argmax())
    starts = range(buckets) if listed else [at * buckets // GROUPS for at in range(GROUPS)]
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
        labels=[label(bucket) for bucket in starts],
        extremes=[] if listed else _extremes(counts, starts),
        activity=(loads.activity / active).tolist() if listed and active else [],
        curve=_curve(counts),
        random_curve=_curve(_random_counts(members, buckets)),
    )


def _extremes(counts: Numbers, starts: Sequence[int]) -> list[tuple[int, int]]:
    low, high = np.minimum.reduceat(counts, starts), np.maximum.reduceat(counts, starts)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _curve(counts: Numbers) -> list[float]:
    total = int(counts.sum())
    if not total:
        return []
    cumulative = np.concatenate(([0.0], np.cumsum(np.sort(counts)[::-1]) / total))
    steps = np.linspace(0, len(counts), CURVE_STEPS + 1)
    return [round(float(share), 5) for share in np.interp(steps, np.arange(len(cumulative)), cumulative)]


def _random_counts(members: int, buckets: int) -> Numbers:
    if members == 0:
        return np.zeros(buckets, np.int64)
    # Draw the buckets independently. A multinomial draw would also have the exact sum, but no visible difference.
    return np.random.default_rng(2006).binomial(members, 1 / buckets, buckets).astype(np.int64)


class SchemeFigures(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    title: str
    nanoseconds: float
    """CPU time of placing one name, without reading and counting it."""
    levels: list[LevelFigures]
    """Each level alone."""
    paths: list[LevelFigures]
    """Each level combined with those above it: the directories down to this level."""


class Change(msgspec.Struct, frozen=True):
    before: int
    after: int
    moved: int
    """Members who are on another server after the change."""
    least: float
    """Minimum number of members to move for equally full servers."""
    total: int
    """Members on all servers."""


class ServerFigures(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    title: str
    nanoseconds: float
    servers: LevelFigures
    changes: list[Change]
    """One added, one removed, several added."""
    note: str = ""


class Cooling(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of moving members until no server has more than `bound` times the mean activity.

    The heat of a server is its activity divided by the mean.
    """

    key: str
    title: str
    unit: str
    """The smallest unit that the scheme can move."""
    servers: int
    before: float
    after: float
    units: int
    members: int
    moved_activity: float
    """Fraction of all activity that moves with the members."""
    bound: float
    reached: bool


class MappingFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The simulated figures of the paper's mapping scheme.

    The scheme numbers the members, and stores range n of these numbers on server n mod `servers`.
    """

    range_size: int
    ranges: int
    """Ranges with members, including the one that is being filled."""
    servers: int
    members: list[int]
    """Members of each server, 0 for an idle one."""
    idle: int
    """Servers without members."""
    furthest: float
    """The largest deviation of a server from the mean, divided by the mean."""
    next_count: int
    """Number of members just before the range being filled is full."""
    next_members: list[int]
    """Members of each server just before the range being filled is full."""
    next_furthest: float
    newest: float
    """Largest fraction of the newest hundredth of all members in one range."""
    heat: list[float]
    """Activity of each server divided by the mean, before any moves; empty if all members are equally active."""
    moved_ranges: int
    """Ranges moved from the hottest servers, which the formula no longer locates."""
    moved_members: int
    lookups: int
    """Look-ups per request: 1 for the number of the member, and 1 for the server of its range once any range was moved."""
    heat_after: float
    reached: bool


class PaperComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A graph of the paper, with printed and measured figures. A ratio is a deviation divided by its mean."""

    graph: str
    buckets: int
    paper_mean: float | None
    """None if the paper does not print it; approximate for M1."""
    paper_deviation: float | None
    paper_ratio: float
    paper_random: float
    """The expected ratio of a uniform random distribution of the paper's number of names."""
    paper_fullest: int | None
    mean: float
    deviation: float
    ratio: float
    random: float
    fullest: int


class Outcome(msgspec.Struct, frozen=True):
    """Whether a placement scheme meets a constraint of the paper, with the measured finding."""

    scheme: str
    met: bool | None
    """None if there is no evidence to decide."""
    words: str


class Constraint(msgspec.Struct, frozen=True):
    number: int
    """1 to 7 for a constraint of the paper; 0 for a requirement without a number."""
    name: str
    promise: str
    check: str
    outcomes: list[Outcome]


class Erratum(msgspec.Struct, frozen=True):
    claim: str
    proof: str
    holds: bool
    """Whether the proof was confirmed when it was run."""


class BareLoop(msgspec.Struct, frozen=True):
    """CPU time of a loop that only calls `hashlib.md5` for each name, measured in this run."""

    names: int
    nanoseconds: float


class StudyResult(msgspec.Struct, frozen=True, kw_only=True):
    names: int
    source: str
    activity: str
    """A description of the source of activity."""
    seconds: float
    """From the first name to the figures."""
    processor_seconds: float
    """CPU time of the whole process so far."""
    peak_bytes: int
    version: str
    schemes: list[SchemeFigures]
    servers: list[ServerFigures]
    mapping: MappingFigures | None
    cooling: list[Cooling]
    paper: list[PaperComparison]
    constraints: list[Constraint]
    errata: list[Erratum]
    bare_loop: BareLoop
    checked: int
    """Names also placed one by one by the server's own code, with equal results."""
    unavailable: list[str] = []
    """Titles of the schemes left out because a package is not installed."""
    needs: str = ""
    """The package that is not installed; empty if no scheme is left out."""
