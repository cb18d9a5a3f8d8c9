"""The tables and curves of docs/explanation/complexity.md, from the stored run of `complexity`.

The text of the page is benchmarks/complexity.md. A block `costs NAME` in it becomes a table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import REPOSITORY, Figure
from benchmarks.results import Result, Results
from shoal.charts import Chart, Color
from shoal_planner.plots import Axes, PlotLine, lines, stacked

BENCHMARK = "complexity"
PAGE = REPOSITORY / "docs" / "explanation" / "complexity.md"
CALLS_CHART, FEED_CHART = (PAGE.with_name(f"complexity-{name}.svg") for name in ("calls", "feed"))
_BLOCK = re.compile(r"```costs (\w+)\n```\n")
_PARTS = re.compile(r"(?P<curve>.+): (?P<metric>[^:,]+), (?P<size>[\d,]+)")


class Row(NamedTuple):
    """A row of a table: a curve with the cost in a source document, and the cost in Shoal."""

    call: str
    grows: str
    curve: str
    document: str
    shoal: str


class Table(NamedTuple):
    rows: Sequence[Row]
    work: str = "steps"


_RECENT, _HEAD, _DEEP = "list_recent(n/2, n/2 + 19)", "list_public_feed(0, 19)", "list_public_feed(n/2, n/2 + 19)"

TABLES = {
    "online": Table(
        (
            Row("`create`", "own content", "create by content, online", "O(log M)", "O(log G)"),
            Row("`create`", "followers", "create by followers, online", "O(log M)", "O(log G)"),
            Row("`read`", "content", "read by content, online", "O(1)", "O(log G)"),
            Row("`update`", "content", "update by content, online", "O(1)", "O(log G)"),
            Row("`delete`", "own content", "delete by content, online", "O(log M)", "O(log G)"),
            Row("`follow`", "content of the followee", "follow by content, online", "O(1)", "O(log G)"),
            Row("`follow`", "followers of the followee", "follow by followers, online", "O(1)", "O(log G)"),
            Row("`follow`", "own followees", "follow by followees, online", "O(1)", "O(log G)"),
            Row("`unfollow`", "content of the followee", "unfollow by content, online", "O(1)", "O(log G)"),
            Row("`unfollow`", "own followees", "unfollow by followees, online", "O(1)", "O(log G)"),
            Row(f"`{_RECENT}`", "own content", f"{_RECENT} by content, online", "O(log M)", "O(log G + k)"),
            Row(f"`{_HEAD}`", "content of 100 followees", f"{_HEAD} by content, online", "O(log P)", "O(f + k)"),
            Row(f"`{_DEEP}`", "content of 100 followees", f"{_DEEP} by content, online", "O(log P)", "O(f log G + k)"),
            Row(f"`{_HEAD}`", "followees", f"{_HEAD} by followees, online", "O(log P)", "O(f + k)"),
            Row(f"`{_DEEP}`", "followees", f"{_DEEP} by followees, online", "O(log P)", "O(f log G + k)"),
        )
    ),
    "offline": Table(
        (
            Row("`create`", "own content", "create by content, offline", "O(F log P)", "O(F)"),
            Row("`create`", "followers", "create by followers, offline", "O(F log P)", "O(F)"),
            Row("`update`", "content", "update by content, offline", "", "O(log G)"),
            Row("`delete`", "own content", "delete by content, offline", "O(F log P)", "O(F T)"),
            Row("`delete`", "followers", "delete by followers, offline", "O(F log P)", "O(F T)"),
            Row("`follow`", "content of the followee", "follow by content, offline", "O(M log P)", "O(T)"),
            Row("`follow`", "own followees", "follow by followees, offline", "O(M log P)", "O(T)"),
            Row("`unfollow`", "content of the followee", "unfollow by content, offline", "O(M log P)", "O(T log G)"),
            Row("`unfollow`", "own followees", "unfollow by followees, offline", "O(M log P)", "O(T log G)"),
        )
    ),
    "first": Table(
        (
            Row(f"`{_RECENT}`", "own content", f"{_RECENT} by content, first", "", "O(M)"),
            Row(f"`{_DEEP}`", "content of 100 followees", f"{_DEEP} by content, first", "", "O(P)"),
        ),
    ),
    "newest": Table(
        (
            Row("home timeline", "content", "newest 10 by content, online", "O(1)", "O(T + k)"),
            Row("home timeline", "followees", "newest 10 by followees, online", "O(1)", "O(T + k)"),
            Row("merge on read", "content", "newest 10 by merge by content, online", "O(f k)", "O(f + k)"),
            Row("merge on read", "followees", "newest 10 by merge by followees, online", "O(f k)", "O(f + k)"),
            Row("the document's query", "content", "newest 10 by query by content, online", "", "O(f + k)"),
            Row(
                "the document's query",
                "followees",
                "newest 10 by query by followees, online",
                "",
                "O(f + k)",
            ),
        )
    ),
    "top": Table(
        (
            Row("bounded reads (Shoal)", "lists", "top 10 by bounded reads", "", "O((f + k) log (f + k))"),
            Row("bucket sort in batches of 1,000", "lists", "top 10 by bucket sort", "O(f k)", "not used"),
            Row("heap", "lists", "top 10 by heap", "", "not used"),
        ),
        "entries read",
    ),
    "totals": Table(
        (
            Row("total of the author, stored (Shoal)", "content", "totals, stored by content, online", "O(1)", "O(1)"),
            Row("summed over the author's posts", "content", "totals, summed by content, online", "", "not used"),
            Row("likes of one post, counted", "likes", "likes, counted by likes, online", "O(N)", "not used"),
            Row("`like`, which keeps both totals", "likes", "like by followers, online", "", "O(log G)"),
            Row("`unlike`", "likes", "unlike by followers, online", "", "O(log G)"),
        )
    ),
}

Curve = dict[int, float]


class Curves:
    def __init__(self, figures: Sequence[Figure]) -> None:
        self._points: dict[tuple[str, str], Curve] = {}
        for figure in figures:
            if parts := _PARTS.fullmatch(figure.what):
                curve = self._points.setdefault((parts["curve"], parts["metric"]), {})
                curve[int(parts["size"].replace(",", ""))] = figure.value

    def of(self, curve: str, metric: str) -> Curve:
        return self._points[curve, metric]

    @property
    def sizes(self) -> list[int]:
        return sorted({size for points in self._points.values() for size in points})


def run_of(long: Sequence[Results]) -> tuple[Results, Result] | None:
    return next(((run, held) for run in long for held in run.results if held.benchmark == BENCHMARK), None)


def rendered(prose: str, long: Sequence[Results]) -> str:
    found = run_of(long)
    if found is None:
        return _BLOCK.sub("`shoal bench complexity` was not measured.\n", prose).replace("{facts}\n", "")
    run, result = found
    curves = Curves(result.figures)
    busy = f" Other processes used {result.busy:.0%} of the machine." if result.busy >= 0.01 else ""
    facts = f"`{result.command}`, {run.day}, commit {run.commit}, {run.machine.shown()}.{busy}\n"
    return _BLOCK.sub(lambda block: _table(TABLES[block[1]], curves), prose).replace("{facts}\n", facts)


def _table(table: Table, curves: Curves) -> str:
    head = ["", "grows", "document", "Shoal", *(f"{size:,}" for size in curves.sizes)]
    rows = [head, ["---"] * len(head)]
    for row in table.rows:
        work = curves.of(row.curve, table.work)
        times = curves.of(row.curve, "rows changed" if row.curve.endswith("first") else "processor time")
        cells = [f"{_short(work[size])} / {_short(times[size])}" for size in curves.sizes]
        rows.append([row.call, row.grows, row.document, row.shoal, *cells])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def _short(number: float) -> str:
    """Return a number with at most three significant digits, such as 12.3 k."""
    for size, letter in ((1e9, "\u00a0G"), (1e6, "\u00a0M"), (1e3, "\u00a0k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


def charts(long: Sequence[Results]) -> dict[Path, Chart]:
    found = run_of(long)
    if found is None:
        return {}
    curves = Curves(found[1].figures)
    return {
        CALLS_CHART: stacked(
            "Cost of the eight calls as one part of the network grows",
            [
                _chart(curves, "Eight calls: work before the call returns", "online", "size"),
                _chart(curves, "Their consequences, processed later", "offline", "size"),
            ],
        ),
        FEED_CHART: stacked(
            "Cost of a feed, of its newest entries and of totals",
            [
                _chart(
                    curves, "The newest 10 posts of all followees", "newest", "posts, or followees with a post each"
                ),
                _chart(curves, "The newest 10 of many lists of 10", "top", "lists"),
                _chart(curves, "Totals of likes", "totals", "posts of the author, or likes of one post"),
            ],
        ),
    }


def _brief(call: str) -> str:
    """Return the name of a call with its first position only."""
    return re.sub(r"\((\S+), .*\)", r" at \1", call).replace("`", "")


_COLORS: tuple[Color, ...] = ("after", "loss", "gain", "violet", "amber", "rose", "ink", "before")


def _chart(curves: Curves, title: str, name: str, across: str) -> Chart:
    rows = TABLES[name].rows
    calls = list(dict.fromkeys(row.call for row in rows))
    drawn = [
        PlotLine(
            f"{_brief(row.call)}, {row.grows}",
            _COLORS[calls.index(row.call) % len(_COLORS)],
            sorted((size, max(value, 1.0)) for size, value in curves.of(row.curve, "processor time").items()),
            dashed=row.call in {before.call for before in rows[:at]},
        )
        for at, row in enumerate(rows)
    ]
    axes = Axes(across, "processor time, microseconds", _short, _short)
    return lines(title, "logarithmic scales", drawn, axes, height=300 + 22 * len(drawn))
