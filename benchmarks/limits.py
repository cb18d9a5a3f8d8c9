"""Paths of Shoal next to their limit: a bare engine that does the minimum that such a path needs, in the same run.

    docs/limits.svg     python -m benchmarks.page      one chart of all paths, from docs/figures.json
    docs/ratios.json    make bench-ratios              fractions of the limit that a release reached, in quick runs
    make bench-check    the same runs; fails if the fraction of a path decreased by more than a tenth

Fractions are compared instead of times, so they hold for faster and slower machines, but not for busy ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from benchmarks.measure import REPOSITORY, Figure
from benchmarks.peers import marks
from benchmarks.results import Result
from shoal.charts import Chart
from shoal_planner.plots import PlotBar, bars

CHART = REPOSITORY / "docs" / "limits.svg"
ACROSS = "acts per second; dots are what peers published of themselves, on other machines and under other loads"
MOST_WORSE = 0.1
"""Fraction by which a path may move away from its limit."""

_A_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


class Limit(NamedTuple):
    """A path, a pattern of its figure (the first match counts), and the raw engine that it is compared with."""

    path: str
    benchmark: str
    figure: str
    engine: str


LIMITS = (
    Limit("Reads and writes at once", "mixed_load", "1: at *: processor time per request", "ready body"),
    Limit("Deliveries in memory", "fanout_memory", "written deliveries", "bare ring"),
    Limit("Home page, library", "home_page", "*: warm page, median", "20 rows by key"),
    Limit("Home page, unchanged", "http_network", "home: compared with a bare ASGI server", "ready body"),
    Limit(
        "Home page, not modified", "http_network", "home, not modified: compared with a bare ASGI server", "ready body"
    ),
    Limit(
        "Home page, re-rendered",
        "http_network",
        "home, rendered again: compared with a bare ASGI server",
        "ready body",
    ),
    Limit("Post over HTTP", "http_network", "post: compared with a bare ASGI server", "ready body"),
    Limit("Durable posts", "end_to_end", "* writers: durable posts", "rows in bare SQLite"),
    Limit("Home page, web app", "web_pages", "home pages", "ready body"),
    Limit("For You", "discovery", "a warm page, median", "its rows by key"),
    Limit("Follows imported", "import_real", "follows per second, compared with bare SQLite", "rows in bare SQLite"),
    Limit("Tag uses merged", "tag_merge", "merged tag uses per second, compared with bare upserts", "bare upserts"),
    Limit("Home page from Redis", "shared_home", "follows *: nothing changed, median", "its keys by MGET"),
    Limit(
        "Deliveries to Redis", "redis_structures", "fan-out of one worker, compared with ZADD and trim", "ZADD and trim"
    ),
    Limit("Jobs through RabbitMQ", "rabbitmq_jobs", "jobs relayed and done by one worker", "publish, then consume"),
)


class Measured(NamedTuple):
    """Both sides of a path, in operations per second."""

    limit: Limit
    ours: float
    raw: float

    @property
    def share(self) -> float:
        return self.ours / self.raw


def rate(value: float, unit: str) -> float:
    """Return a figure as operations per second; times are inverted. Raises `ValueError` for a unit that is neither."""
    if "/s" in unit:
        return value
    if unit in _A_SECOND:
        return _A_SECOND[unit] / value
    raise ValueError(f"{unit!r} is neither a unit of rates nor of times")


def paths(results: Iterable[Result]) -> Iterator[Measured]:
    """Yield the paths that these results contain, in the order of `LIMITS`."""
    told = [(result.benchmark, result.figures) for result in results]
    for limit in LIMITS:
        mine = (figure for name, figures in told if name == limit.benchmark for figure in figures)
        figure = figure_of(limit, mine)
        if figure is not None and figure.raw:
            yield Measured(limit, rate(figure.value, figure.unit), rate(figure.raw, figure.unit))


def figure_of(limit: Limit, figures: Iterable[Figure]) -> Figure | None:
    return next((figure for figure in figures if fnmatchcase(figure.what, limit.figure)), None)


def chart(measured: Sequence[Measured], below: str) -> Chart:
    """Return all paths as bars on one scale, each above its limit and the marks of its peers."""
    drawn: list[PlotBar] = []
    for path in measured:
        drawn += [
            PlotBar(path.limit.path, 1.0, path.ours, f"{shown(path.ours)}/s: {_relative(path.share)}"),
            PlotBar(path.limit.engine, 1.0, path.raw, f"{shown(path.raw)}/s", "before"),
        ]
        drawn += [
            PlotBar(mark.label, mark.rate, mark.rate, f"{shown(mark.rate)}/s", "amber", dot=True)
            for mark in marks(path.limit.path)
        ]
    return bars("Paths of Shoal, each above a bare engine", below, drawn, shown, ACROSS)


def _relative(share: float) -> str:
    if share > 1:
        return f"{share:.1f} times the engine"
    return f"{share:.0%} of the engine" if share >= 0.01 else f"{share:.1%} of the engine"


def shown(number: float) -> str:
    """Return a number with three significant digits: 12.3 k."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if number >= size:
            return re.sub(r"\.0$", "", f"{number / size:.1f}") + letter
    return f"{number:.0f}"
