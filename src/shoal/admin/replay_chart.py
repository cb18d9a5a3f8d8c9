"""Draw a replay report as a chart (`shoal.charts`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from shoal.admin.feeds import ReplayReport
from shoal.charts import Box, Chart, Shape, TextLine
from shoal.core.ranking.comparison import OVERLAP_BINS, AuthorChange, BeforeAfter

WIDTH = 960
_MARGIN = 32
_GAP = 20
_HALF = (WIDTH - 2 * _MARGIN - _GAP) / 2
_TILE = (WIDTH - 2 * _MARGIN - 3 * _GAP) / 4
_TILE_HEIGHT = 92
_PANEL_HEIGHT = 268
_BARS_HEIGHT = 150
_ROW_HEIGHT = 24
_LONGEST_BAR = 190
_NAMES = 360
"""Width in pixels of a user name of 30 characters and a number of followers."""


def chart(report: ReplayReport, name: str) -> Chart:
    title = f"What the recipe {name} would change"
    changes = [*report.figures.gains, *reversed(report.figures.losses)]
    top = _MARGIN + 56
    panels = top + _TILE_HEIGHT + _GAP
    authors = panels + _PANEL_HEIGHT + _GAP
    height = authors + 64 + _ROW_HEIGHT * max(1, len(changes)) + _MARGIN
    page = Box(0, 0, WIDTH, height, "page", 16)
    shapes = [
        page,
        *_head(report, title),
        *_tiles(report, top),
        *_overlaps(report.figures.overlaps, panels),
        *_exposure(report, panels),
        *_authors(changes, authors, height - _MARGIN - authors),
    ]
    description = (
        f"{report.figures.overlap:.0%} of the posts in tops of {report.options.top} stay, on average over "
        f"{report.figures.members:,} members."
    )
    return Chart(title, description, WIDTH, int(height), shapes)


def _head(report: ReplayReport, title: str) -> Iterator[Shape]:
    options = report.options
    at = datetime.fromtimestamp(report.at / 1000, UTC)
    yield TextLine(_MARGIN, _MARGIN + 18, title, 22, bold=True)
    yield TextLine(
        _MARGIN,
        _MARGIN + 40,
        f"{report.figures.members:,} members, tops of {options.top}, posts of {options.days} days, "
        f"ranked as of {at:%Y-%m-%d %H:%M} UTC",
        color="soft",
    )


def _tiles(report: ReplayReport, y: float) -> Iterator[Shape]:
    found = report.figures
    tiles = (
        ("posts that stay", f"{found.overlap:.0%}", f"rank-biased overlap {found.rank_biased_overlap:.2f}"),
        ("median age", *_two(found.age_hours, lambda hours: f"{hours:.1f} h")),
        ("authors in a top", *_two(found.authors, lambda number: f"{number:.1f}")),
        ("inequality of exposure", *_two(found.gini, lambda number: f"{number:.2f}")),
    )
    for at, (label, large, small) in enumerate(tiles):
        x = _MARGIN + at * (_TILE + _GAP)
        yield Box(x, y, _TILE, _TILE_HEIGHT, "panel", 10)
        yield TextLine(x + 16, y + 26, label, color="soft")
        yield TextLine(x + 16, y + 56, large, 24, bold=True)
        yield TextLine(x + 16, y + 78, small, 12, "soft")


def _two(figure: BeforeAfter, words: Callable[[float], str]) -> tuple[str, str]:
    return words(figure.after), f"before: {words(figure.before)}"


def _panel(x: float, y: float, width: float, height: float, title: str) -> Iterator[Shape]:
    yield Box(x, y, width, height, "panel", 10)
    yield TextLine(x + 16, y + 28, title, 14, bold=True)


def _overlaps(bins: Sequence[int], y: float) -> Iterator[Shape]:
    """Draw a histogram of members by the fraction of posts that their two feeds have in common."""
    x, floor = float(_MARGIN), y + _PANEL_HEIGHT - 52
    yield from _panel(x, y, _HALF, _PANEL_HEIGHT, "Members by the share of posts that stay")
    step = (_HALF - 32) / OVERLAP_BINS
    most = max(*bins, 1)
    for at, number in enumerate(bins):
        tall = number / most * _BARS_HEIGHT
        left = x + 16 + at * step
        if number:
            yield Box(left + 3, floor - tall, step - 6, tall, "after", 3)
            yield TextLine(left + step / 2, floor - tall - 6, f"{number:,}", 12, "soft", "middle")
    yield Box(x + 16, floor, _HALF - 32, 1, "line")
    for tenth in range(0, OVERLAP_BINS + 1, 2):
        yield TextLine(x + 16 + tenth * step, floor + 20, f"{tenth / OVERLAP_BINS:.0%}", 12, "soft", "middle")


def _exposure(report: ReplayReport, y: float) -> Iterator[Shape]:
    """Draw the fraction of exposure that authors in each range of follower numbers get, before and after."""
    x, floor = _MARGIN + _HALF + _GAP, y + _PANEL_HEIGHT - 52
    yield from _panel(x, y, _HALF, _PANEL_HEIGHT, "Exposure by followers of the author")
    yield from _legend(x + _HALF - 16, y + 28)
    buckets = report.figures.exposure
    step = (_HALF - 32) / len(buckets)
    most = max(*(share for bucket in buckets for share in (bucket.share.before, bucket.share.after)), 0.01)
    for at, bucket in enumerate(buckets):
        middle = x + 16 + (at + 0.5) * step
        for side, share in enumerate((bucket.share.before, bucket.share.after)):
            tall = share / most * _BARS_HEIGHT
            left = middle - 38 + side * 39
            yield Box(left, floor - max(tall, 1), 37, max(tall, 1), "after" if side else "before", 3)
            yield TextLine(left + 18.5, floor - tall - 6, f"{share:.0%}", 12, "soft", "middle")
        yield TextLine(middle, floor + 20, bucket.words, 12, "ink", "middle")
        authors = f"{bucket.authors:,} author{'' if bucket.authors == 1 else 's'}"
        yield TextLine(middle, floor + 37, authors, 11, "soft", "middle")
    yield Box(x + 16, floor, _HALF - 32, 1, "line")


def _legend(right: float, y: float) -> Iterator[Shape]:
    yield TextLine(right, y, "after", 12, "soft", "end")
    yield Box(right - 46, y - 10, 11, 11, "after", 2)
    yield TextLine(right - 56, y, "before", 12, "soft", "end")
    yield Box(right - 112, y - 10, 11, 11, "before", 2)


def _authors(changes: Sequence[AuthorChange], y: float, height: float) -> Iterator[Shape]:
    """Draw the authors who gain and lose the most exposure, one row each. Bars of gains are right of the middle."""
    x, width = float(_MARGIN), WIDTH - 2 * _MARGIN
    yield from _panel(x, y, width, height, "Authors whose share of exposure changes most, in percentage points")
    if not changes:
        yield TextLine(x + 16, y + 58, "no member gains or loses", color="soft")
        return
    middle = x + (_NAMES + width) / 2
    most = max(abs(change.share.change) for change in changes)
    for at, author in enumerate(changes):
        line = y + 60 + at * _ROW_HEIGHT
        yield TextLine(x + 16, line, f"@{author.name}")
        followers = f"{author.followers:,} follower{'' if author.followers == 1 else 's'}"
        yield TextLine(x + _NAMES, line, followers, 12, "soft", "end")
        long = max(abs(author.share.change) / most * _LONGEST_BAR, 1)
        gains = author.share.change > 0
        left = middle if gains else middle - long
        yield Box(left, line - 12, long, 15, "gain" if gains else "loss", 3)
        end = middle + long + 6 if gains else middle - long - 6
        yield TextLine(end, line, points(author.share.change), 12, "soft", "start" if gains else "end")
    yield Box(middle, y + 44, 1, _ROW_HEIGHT * len(changes), "line")


def points(change: float) -> str:
    """Return a change of a fraction in percentage points, such as `+1.25`."""
    return f"{100 * change:+.2f}"
