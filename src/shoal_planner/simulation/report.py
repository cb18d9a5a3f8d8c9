"""The outcome of a simulation as sentences, tables for the terminal, and plots over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal.charts import Chart, Color
from shoal_planner import units
from shoal_planner.plots import Axes, Landmark, PlotLine, lines
from shoal_planner.report import WordTable
from shoal_planner.simulation.observer import SimulatedOutcome, Stretch
from shoal_planner.simulation.scenario import AnyFault, LostTimelines, kind_of

CellFigure = Callable[[Stretch], str]


def summary(found: SimulatedOutcome, faults: Sequence[AnyFault]) -> list[str]:
    return [
        f"{units.people(found.members)} members for {found.seconds:g} s: {found.shape}.",
        *(f"{_when(fault)} {fault.description()}." for fault in sorted(faults, key=lambda fault: fault.at)),
        _posts(found),
    ]


def _when(fault: AnyFault) -> str:
    if isinstance(fault, LostTimelines):
        return f"At {fault.at:g} s"
    return f"From {fault.at:g} s to {fault.end:g} s"


def _posts(found: SimulatedOutcome) -> str:
    sentence = f"Of {found.came:,.0f} posts, {_were(found.delivered)} delivered to all home timelines by the end"
    if round(found.refused):
        sentence += f", {_were(found.refused)} refused"
    if not round(found.left):
        return f"{sentence}, and none was pending."
    if found.drained is None:
        return f"{sentence}, and {_were(found.left)} pending, some of them even an hour later."
    return f"{sentence}, and {_were(found.left)} pending, delivered {units.seconds(found.drained)} later."


def _were(posts: float) -> str:
    number = round(posts)
    return f"{number:,} {'was' if number == 1 else 'were'}"


def tables(found: SimulatedOutcome) -> list[WordTable]:
    busy = [(part, f"{share:.1%}") for part, share in found.busy.items()]
    return [
        _posts_by_time(found),
        _waits_by_time(found),
        _together(found),
        WordTable("Utilization", ("component", "busy"), busy),
    ]


def _posts_by_time(found: SimulatedOutcome) -> WordTable:
    figures: dict[str, CellFigure] = {"committed": lambda stretch: units.number(stretch.posts)}
    if found.refused:
        figures["refused"] = lambda stretch: units.number(stretch.refused)
    figures |= {
        "deliveries": lambda stretch: units.number(stretch.deliveries),
        "uncommitted": lambda stretch: units.number(stretch.uncommitted),
        "queue": lambda stretch: units.number(stretch.queue),
        "max": lambda stretch: f"{stretch.queue_most:,.0f}",
    }
    return _by_time("Posts per second, uncommitted posts, and pending jobs", figures, found)


def _waits_by_time(found: SimulatedOutcome) -> WordTable:
    figures: dict[str, CellFigure] = {
        "post to timelines": lambda stretch: _time(stretch.lag),
        "p99": lambda stretch: _time(stretch.lag_p99),
        "home page": lambda stretch: _time(stretch.page),
        "p99 ": lambda stretch: _time(stretch.page_p99),
    }
    return _by_time("Response times", figures, found)


def _by_time(title: str, figures: dict[str, CellFigure], found: SimulatedOutcome) -> WordTable:
    """Return a table with a row for each interval of the simulation, and a column of the active faults if there are any."""
    columns: dict[str, CellFigure] = {"seconds": lambda stretch: f"{stretch.begin:g} to {stretch.end:g}"}
    if any(phase.faults for phase in found.phases):
        columns["fault"] = lambda stretch: ", ".join(stretch.faults)
    columns |= figures
    rows = [tuple(tell(phase) for tell in columns.values()) for phase in found.phases]
    return WordTable(title, tuple(columns), rows)


def _time(seconds: float) -> str:
    return units.seconds(seconds) if seconds else ""


def _together(found: SimulatedOutcome) -> WordTable:
    rows = [
        ("deliveries", units.number(found.deliveries)),
        ("post to home timelines, median", units.seconds(found.lag)),
        ("post to home timelines, p99", units.seconds(found.lag_p99)),
        ("post to home timelines, max", units.seconds(found.lag_most)),
        ("posts with pending jobs, mean", units.number(found.queue)),
        ("posts with pending jobs, max", f"{found.queue_most:,.0f}"),
        ("home pages", units.number(found.pages)),
        ("home pages refused", units.number(found.pages_refused)),
        ("home page in the server, median", units.seconds(found.page)),
        ("home page in the server, p99", units.seconds(found.page_p99)),
        ("memory of Shoal and Redis", units.size(found.memory)),
    ]
    return WordTable("Totals", ("", "number"), rows)


PlottedFigure = Callable[[Stretch], float]

_WAITS: tuple[tuple[str, Color, PlottedFigure], ...] = (
    ("post, p99", "after", lambda one: one.lag_p99),
    ("post, median", "violet", lambda one: one.lag),
    ("home page, p99", "amber", lambda one: one.page_p99),
)
_QUEUES: tuple[tuple[str, Color, PlottedFigure], ...] = (
    ("queue, max", "rose", lambda one: one.queue_most),
    ("queue, mean", "after", lambda one: one.queue),
    ("uncommitted", "amber", lambda one: one.uncommitted),
)
_POSTS: tuple[tuple[str, Color, PlottedFigure], ...] = (
    ("committed", "after", lambda one: one.posts),
    ("refused", "loss", lambda one: one.refused),
)


def charts(found: SimulatedOutcome, faults: Sequence[AnyFault]) -> list[Chart]:
    """Draw all plots; waits are left out if there was no post and no page."""
    marks = list(landmarks(found, faults))
    waits = _lines(found, _WAITS, skip_nothing=True)
    result = []
    if waits:
        axes = Axes("seconds", "response time", "{:g}".format, units.seconds, log_across=False)
        below = "From a post to the home timelines of its followers, and of a home page in the server."
        result.append(lines("Lag", below, waits, axes, marks=marks))
    for title, below, up, figures in (
        (
            "Queue",
            "Committed posts with pending jobs, and posts that wait for their commit.",
            "posts",
            _QUEUES,
        ),
        ("Posts", "Committed and refused posts.", "per second", _POSTS),
    ):
        axes = Axes("seconds", up, "{:g}".format, units.number, log_across=False, log_up=False)
        result.append(lines(title, below, _lines(found, figures), axes, height=300, marks=marks))
    return result


def landmarks(found: SimulatedOutcome, faults: Sequence[AnyFault]) -> list[Landmark]:
    marks = []
    for fault in sorted(faults, key=lambda fault: fault.at):
        kind = kind_of(fault)
        marks.append(Landmark(fault.at, kind))
        if not isinstance(fault, LostTimelines) and fault.end < found.seconds:
            marks.append(Landmark(fault.end, f"{kind} ends"))
    return marks


def _lines(
    found: SimulatedOutcome, figures: Sequence[tuple[str, Color, PlottedFigure]], *, skip_nothing: bool = False
) -> list[PlotLine]:
    """Return a line for each figure, with a point in the middle of each interval. Lines of fewer than two points are left out."""
    result = []
    for name, color, figure in figures:
        points = [((stretch.begin + stretch.end) / 2, figure(stretch)) for stretch in found.series]
        if skip_nothing:
            points = [(at, value) for at, value in points if value > 0]
        if len(points) > 1:
            result.append(PlotLine(name, color, points))
    return result
