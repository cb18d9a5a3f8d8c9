"""The plots of a simulation, over its time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal.charts.plots import Axes, Landmark, PlotLine, lines
from shoal.charts.shapes import Chart, Colour
from shoal.ops.planner import words
from shoal.ops.planner.simulation.faults import AnyFault, LostTimelines, kind_of
from shoal.ops.planner.simulation.outcome import SimulatedOutcome, Stretch

Figure = Callable[[Stretch], float]

_WAITS: tuple[tuple[str, Colour, Figure], ...] = (
    ("post, p99", "after", lambda one: one.lag_p99),
    ("post, median", "violet", lambda one: one.lag),
    ("home page, p99", "amber", lambda one: one.page_p99),
)
_QUEUES: tuple[tuple[str, Colour, Figure], ...] = (
    ("queue, most", "rose", lambda one: one.queue_most),
    ("queue, mean", "after", lambda one: one.queue),
    ("uncommitted", "amber", lambda one: one.uncommitted),
)
_POSTS: tuple[tuple[str, Colour, Figure], ...] = (
    ("committed", "after", lambda one: one.posts),
    ("refused", "loss", lambda one: one.refused),
)


def charts(found: SimulatedOutcome, faults: Sequence[AnyFault]) -> list[Chart]:
    """Draw all plots of a simulation; without a post and a page there are no waits to draw."""
    marks = list(landmarks(found, faults))
    waits = _lines(found, _WAITS, skip_nothing=True)
    drawn = []
    if waits:
        axes = Axes("seconds", "how long members wait", _moment, words.seconds, log_across=False)
        below = "From a post to the home timelines of its followers, and for a home page in the server."
        drawn.append(lines("Lag", below, waits, axes, marks=marks))
    for title, below, up, figures in (
        (
            "Queue",
            "Posts that were committed and have consequences left, and posts that wait for their commit.",
            "posts",
            _QUEUES,
        ),
        ("Posts", "Posts that were committed, and posts that were refused.", "a second", _POSTS),
    ):
        axes = Axes("seconds", up, _moment, words.number, log_across=False, log_up=False)
        drawn.append(lines(title, below, _lines(found, figures), axes, height=300, marks=marks))
    return drawn


def landmarks(found: SimulatedOutcome, faults: Sequence[AnyFault]) -> list[Landmark]:
    """Mark where faults begin and end."""
    marks = []
    for fault in sorted(faults, key=lambda fault: fault.at):
        kind = kind_of(fault)
        marks.append(Landmark(fault.at, kind))
        if not isinstance(fault, LostTimelines) and fault.end < found.seconds:
            marks.append(Landmark(fault.end, f"{kind} ends"))
    return marks


def _lines(
    found: SimulatedOutcome, figures: Sequence[tuple[str, Colour, Figure]], *, skip_nothing: bool = False
) -> list[PlotLine]:
    """Return the lines that have two points; each stands in the middle of its stretch."""
    drawn = []
    for name, colour, figure in figures:
        points = [((one.begin + one.end) / 2, figure(one)) for one in found.series]
        if skip_nothing:
            points = [(at, value) for at, value in points if value > 0]
        if len(points) > 1:
            drawn.append(PlotLine(name, colour, points))
    return drawn


def _moment(seconds: float) -> str:
    return f"{seconds:g}"
