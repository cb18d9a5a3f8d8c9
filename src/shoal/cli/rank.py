"""`shoal rank replay`: compare another recipe of the ranked feed with the current one."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from rich.console import Console
from rich.table import Column, Table

from shoal.admin.feeds import MOST_DAYS, MOST_MEMBERS, MOST_SEED, MOST_TOP, ReplayOptions, ReplayReport
from shoal.admin.operations import ReplayRecipe
from shoal.admin.replay_chart import chart, points
from shoal.charts import surface_of
from shoal.cli.group import pass_settings
from shoal.cli.progress import bars
from shoal.cli.stores import perform
from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.ranking.comparison import AuthorChange, BeforeAfter, ExposureBucket, ReplayFigures
from shoal.core.ranking.recipes import PRESETS, Recipe, recipe_of, recipe_of_link
from shoal.settings import Settings


def tell(report: ReplayReport, name: str) -> None:
    """Print a replay report. `name` is the name of the other recipe."""
    console = Console(highlight=False)
    found = report.figures
    console.print(f"What the recipe {name} would change", style="bold", markup=False)
    for line in _sample_lines(report):
        console.print(line, style="dim")
    if not found.members:
        console.print("no member has posts to rank: try more --days", style="yellow")
        return
    tell_figures(console, found, report.options.top)


def tell_figures(console: Console, found: ReplayFigures, top: int) -> None:
    """Print the figures of a comparison of first entries, `top` of each feed."""
    console.print()
    console.print(
        f"{found.overlap:.0%} of the posts in tops of {top} stay; "
        f"{found.unchanged:,} of {_members(found.members)} see the same posts in the same order"
    )
    console.print()
    for table in (_figures(found), _exposure(found.exposure)):
        console.print(table)
        console.print()
    for title, changes in (("Who gains most exposure", found.gains), ("Who loses most exposure", found.losses)):
        console.print(_authors(title, changes) if changes else f"{title}: no author")


def _sample_lines(report: ReplayReport) -> list[str]:
    options = report.options
    at = datetime.fromtimestamp(report.at / 1000, UTC)
    least = "" if report.all_found else "at least "
    lines = [
        f"{report.figures.members:,} ranked of {least}{_members(report.active)} active in {options.days} days; "
        f"posts of those days, ranked as of {at:%Y-%m-%d %H:%M} UTC"
    ]
    for number, reason in (
        (report.own_recipe, "own recipe"),
        (report.ranking_off, "ranking turned off"),
        (report.nothing_to_rank, "no posts to rank"),
    ):
        if number:
            lines.append(f"{number:,} of {report.sampled:,} sampled members omitted: {reason}")
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
    for author in changes:
        style = "green" if author.share.change > 0 else "red"
        change = f"[{style}]{points(author.share.change)}[/{style}]"
        table.add_row(f"@{author.name}", *_both(author.share, "{:.2%}".format), change, f"{author.followers:,}")
    return table


def _table(first: str, *numbers: str) -> Table:
    return Table(Column(first, min_width=36), *(Column(name, justify="right") for name in numbers), box=None)


def _both(figure: BeforeAfter, words: Callable[[float], str]) -> tuple[str, str]:
    return words(figure.before), words(figure.after)


_MOST_BYTES = 65_536
_DEFAULTS = ReplayOptions()


F = TypeVar("F", bound=Callable[..., Any])


def sample_options(command: F) -> F:
    """Add the options of `ReplayOptions` to a command."""
    options = (
        click.option(
            "--days",
            type=click.IntRange(1, MOST_DAYS),
            default=_DEFAULTS.days,
            show_default=True,
            help="Number of past days whose posts are ranked, for members who were active in these days.",
        ),
        click.option(
            "--members",
            type=click.IntRange(1, MOST_MEMBERS),
            default=_DEFAULTS.members,
            show_default=True,
            help="Maximum number of random active members.",
        ),
        click.option(
            "--top",
            type=click.IntRange(1, MOST_TOP),
            default=_DEFAULTS.top,
            show_default=True,
            help="Number of entries compared, from the top of each feed.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, MOST_SEED),
            default=_DEFAULTS.seed,
            show_default=True,
            help="Seed of the random choice of members.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
def rank() -> None:
    """Evaluate another recipe for the ranked feed."""


@rank.command()
@click.option(
    "--weights", type=click.Path(path_type=Path), metavar="FILE", help="File with the recipe to compare, in TOML."
)
@click.option("--preset", type=click.Choice(list(PRESETS)), help="Preset to compare, instead of a recipe file.")
@click.option("--link", metavar="URL", help="Link to a shared recipe to compare, instead of a recipe file.")
@sample_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with all values.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a chart to this .svg or .png file.",
)
@pass_settings
def replay(
    settings: Settings,
    /,
    weights: Path | None,
    preset: str | None,
    link: str | None,
    as_json: bool,
    plot: Path | None,
    **options: int,
) -> None:
    """Show how members' ranked feeds would change with another recipe for the server.

    Ranks the current feeds of active members by both recipes and compares them. Nothing is written. Works while a server
    is running.
    """
    recipe, name = _recipe_named(weights, preset, link)
    draw = surface_of(str(plot)) if plot is not None else None
    with bars() as progress:
        report = perform(settings, ReplayRecipe(recipe, ReplayOptions(**options)), progress)
    if plot is not None and draw is not None:
        plot.write_bytes(draw(chart(report, name)))
        click.echo(f"wrote {plot}", err=True)
    if as_json:
        click.echo(msgspec.json.encode(report))
    else:
        tell(report, name)


def _recipe_named(weights: Path | None, preset: str | None, link: str | None) -> tuple[Recipe, str]:
    """Return the recipe that the options select, and its name."""
    if [weights, preset, link].count(None) != 2:
        raise click.UsageError("give exactly one of --weights FILE, --preset NAME and --link URL")
    if preset is not None:
        return PRESETS[preset], preset
    return (
        (_recipe_in(weights), weights.name)
        if weights is not None
        else (recipe_of_link(link or ""), "the shared recipe")
    )


def _recipe_in(path: Path) -> Recipe:
    """Return the recipe in a TOML file, where it is at the top level or, as in the settings, below `[recipe]`."""
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise TooLarge(f"{path}: a recipe file has at most {_MOST_BYTES:,} bytes")
    try:
        document: dict[str, Any] = tomllib.loads(data.decode())
        inner = document["recipe"] if list(document) == ["recipe"] else document
        return recipe_of(inner)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}") from error
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error
