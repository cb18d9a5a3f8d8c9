"""The outcome of a simulation in words: sentences, and tables for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from shoal.ops.planner import words
from shoal.ops.planner.simulation.faults import AnyFault, LostTimelines
from shoal.ops.planner.simulation.outcome import SimulatedOutcome, Stretch
from shoal.ops.planner.tables import WordTable

Figure = Callable[[Stretch], str]


def summary(found: SimulatedOutcome, faults: Sequence[AnyFault]) -> list[str]:
    """Return what was simulated, what went wrong, and what became of the posts, in sentences."""
    return [
        f"{words.people(found.members)} members for {found.seconds:g} s: {found.shape}.",
        *(f"{_when(fault)} {fault.said()}." for fault in sorted(faults, key=lambda fault: fault.at)),
        _posts(found),
    ]


def _when(fault: AnyFault) -> str:
    if isinstance(fault, LostTimelines):
        return f"At {fault.at:g} s"
    return f"From {fault.at:g} s to {fault.end:g} s"


def _posts(found: SimulatedOutcome) -> str:
    told = f"Of {found.came:,.0f} posts {_were(found.delivered)} in all home timelines by the end"
    if round(found.refused):
        told += f", {_were(found.refused)} refused"
    if not round(found.left):
        return f"{told}, and none was left."
    if found.drained is None:
        return f"{told}, and {_were(found.left)} left: not everything was delivered even an hour later."
    return f"{told}, and {_were(found.left)} left: delivered {words.seconds(found.drained)} later."


def _were(posts: float) -> str:
    number = round(posts)
    return f"{number:,} {'was' if number == 1 else 'were'}"


def tables(found: SimulatedOutcome) -> list[WordTable]:
    """Return all tables of a simulation."""
    return [_posts_by_time(found), _waits_by_time(found), _together(found), _busy(found)]


def _posts_by_time(found: SimulatedOutcome) -> WordTable:
    figures: dict[str, Figure] = {"committed": lambda one: words.number(one.posts)}
    if found.refused:
        figures["refused"] = lambda one: words.number(one.refused)
    figures |= {
        "deliveries": lambda one: words.number(one.deliveries),
        "uncommitted": lambda one: words.number(one.uncommitted),
        "queue": lambda one: words.number(one.queue),
        "most": lambda one: f"{one.queue_most:,.0f}",
    }
    return _by_time("Posts: those of a second, those that wait, and the queue of consequences", figures, found)


def _waits_by_time(found: SimulatedOutcome) -> WordTable:
    figures: dict[str, Figure] = {
        "post to timelines": lambda one: _time(one.lag),
        "p99": lambda one: _time(one.lag_p99),
        "home page": lambda one: _time(one.page),
        "p99 ": lambda one: _time(one.page_p99),
    }
    return _by_time("How long members wait", figures, found)


def _by_time(title: str, figures: dict[str, Figure], found: SimulatedOutcome) -> WordTable:
    """Return a table with a row for each phase; faults have a column if there are any."""
    columns: dict[str, Figure] = {"seconds": lambda one: f"{one.begin:g} to {one.end:g}"}
    if any(phase.faults for phase in found.phases):
        columns["fault"] = lambda one: ", ".join(one.faults)
    columns |= figures
    rows = [tuple(tell(phase) for tell in columns.values()) for phase in found.phases]
    return WordTable(title, tuple(columns), rows)


def _time(seconds: float) -> str:
    return words.seconds(seconds) if seconds else ""


def _together(found: SimulatedOutcome) -> WordTable:
    return WordTable("Together", ("", "number"), list(_totals(found)))


def _totals(found: SimulatedOutcome) -> Iterator[tuple[str, str]]:
    yield "deliveries", words.number(found.deliveries)
    yield "post to home timelines, median", words.seconds(found.lag)
    yield "post to home timelines, p99", words.seconds(found.lag_p99)
    yield "post to home timelines, the longest", words.seconds(found.lag_most)
    yield "posts that had consequences left, mean", words.number(found.queue)
    yield "posts that had consequences left, most", f"{found.queue_most:,.0f}"
    yield "home pages", words.number(found.pages)
    yield "home pages refused", words.number(found.pages_refused)
    yield "home page in the server, median", words.seconds(found.page)
    yield "home page in the server, p99", words.seconds(found.page_p99)
    yield "memory of our processes and of Redis", words.size(found.memory)


def _busy(found: SimulatedOutcome) -> WordTable:
    rows = [(part, f"{share:.1%}") for part, share in found.busy.items()]
    return WordTable("How busy it was", ("part", "of its time"), rows)
