"""A replay in the terminal: what stays, what changes, and who gains or loses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Column, Table

from shoal.admin.feeds import ReplayReport
from shoal.admin.replay_chart import points
from shoal.core.ranking.comparison import AuthorChange, BeforeAfter, ExposureBucket, ReplayFigures


def tell(report: ReplayReport, name: str) -> None:
    """Print a replay of the recipe of this name."""
    console = Console(highlight=False)
    found = report.figures
    console.print(f"What the recipe {name} would change", style="bold", markup=False)
    for line in _sample_lines(report):
        console.print(line, style="dim")
    if not found.members:
        console.print("nobody has anything to rank: try more --days", style="yellow")
        return
    console.print()
    console.print(
        f"{found.overlap:.0%} of the posts in tops of {report.options.top} stay; "
        f"{found.unchanged:,} of {_members(found.members)} see what they saw before, place by place"
    )
    console.print()
    for table in (_figures(found), _exposure(found.exposure)):
        console.print(table)
        console.print()
    for title, changes in (("Who gains most exposure", found.gains), ("Who loses most exposure", found.losses)):
        console.print(_authors(title, changes) if changes else f"{title}: nobody")


def _sample_lines(report: ReplayReport) -> list[str]:
    options = report.options
    at = datetime.fromtimestamp(report.at / 1000, UTC)
    least = "" if report.all_found else "at least "
    lines = [
        f"{report.figures.members:,} ranked of {least}{_members(report.active)} active in {options.days} days; "
        f"posts of those days, ranked as of {at:%Y-%m-%d %H:%M} UTC"
    ]
    for number, reason in (
        (report.own_recipe, "chose a recipe themselves"),
        (report.ranking_off, "turned ranking off"),
        (report.nothing_to_rank, "have nothing to rank"),
    ):
        if number:
            lines.append(f"left out, of {report.sampled:,} drawn by lot: {number:,} who {reason}")
    return lines


def _members(number: int) -> str:
    return f"{number:,} member{'' if number == 1 else 's'}"


def _figures(found: ReplayFigures) -> Table:
    table = _table("", "before", "after")
    for label, figure, words in (
        ("median age of a post, hours", found.age_hours, "{:.1f}"),
        ("authors in a top", found.authors, "{:.1f}"),
        ("tags in a top", found.tags, "{:.1f}"),
        ("authors in all tops", found.authors_shown, "{:,.0f}"),
        ("inequality of exposure (Gini)", found.gini, "{:.3f}"),
    ):
        table.add_row(label, *_both(figure, words.format))
    table.add_row("rank-biased overlap", "", f"{found.rank_biased_overlap:.3f}")
    return table


def _exposure(buckets: Sequence[ExposureBucket]) -> Table:
    table = _table("exposure by followers of the author", "before", "after", "authors")
    for bucket in buckets:
        table.add_row(bucket.words, *_both(bucket.share, "{:.1%}".format), f"{bucket.authors:,}")
    return table


def _authors(title: str, changes: Sequence[AuthorChange]) -> Table:
    table = _table(title, "before", "after", "points", "followers")
    for one in changes:
        style = "green" if one.share.change > 0 else "red"
        change = f"[{style}]{points(one.share.change)}[/{style}]"
        table.add_row(f"@{one.name}", *_both(one.share, "{:.2%}".format), change, f"{one.followers:,}")
    return table


def _table(first: str, *numbers: str) -> Table:
    return Table(Column(first, min_width=36), *(Column(name, justify="right") for name in numbers), box=None)


def _both(figure: BeforeAfter, words: Callable[[float], str]) -> tuple[str, str]:
    return words(figure.before), words(figure.after)
