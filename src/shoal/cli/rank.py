"""`shoal rank`: try another recipe of the ranked feed before it is the server's."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import click
import msgspec

from shoal.admin.feeds import MOST_DAYS, MOST_MEMBERS, MOST_SEED, MOST_TOP, ReplayOptions
from shoal.admin.operations import ReplayRecipe
from shoal.admin.replay_chart import chart
from shoal.charts.surfaces import surface_of
from shoal.cli.group import pass_settings
from shoal.cli.stores import existing, perform
from shoal.cli.words.bars import bars
from shoal.cli.words.replays import tell
from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.ranking.recipes import PRESETS, Recipe, recipe_of, recipe_of_link
from shoal.settings import Settings

_MOST_BYTES = 65_536
_DEFAULTS = ReplayOptions()


@click.group()
def rank() -> None:
    """Try another recipe of the ranked feed before it is the server's."""


@rank.command()
@click.option("--weights", type=click.Path(path_type=Path), metavar="FILE", help="A recipe in TOML.")
@click.option("--preset", type=click.Choice(list(PRESETS)), help="Or one of the presets.")
@click.option("--link", metavar="URL", help="Or a recipe that somebody shared.")
@click.option(
    "--days",
    type=click.IntRange(1, MOST_DAYS),
    default=_DEFAULTS.days,
    show_default=True,
    help="Posts of so many days, and members who were active in them.",
)
@click.option(
    "--members",
    type=click.IntRange(1, MOST_MEMBERS),
    default=_DEFAULTS.members,
    show_default=True,
    help="How many of those members, drawn by lot.",
)
@click.option(
    "--top",
    type=click.IntRange(1, MOST_TOP),
    default=_DEFAULTS.top,
    show_default=True,
    help="How many places of each feed.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, MOST_SEED),
    default=_DEFAULTS.seed,
    show_default=True,
    help="Another number, other members.",
)
@click.option("--json", "as_json", is_flag=True, help="As one JSON object, with every number.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw an .svg or .png.")
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
    """Say what would change in members' ranked feeds if the recipe of the server became another one.

    Feeds of active members are ranked by both recipes as of now, and compared. Nothing is written. Works beside a running
    server.
    """
    recipe, name = _recipe_named(weights, preset, link)
    draw = surface_of(str(plot)) if plot is not None else None
    with bars() as progress:
        report = perform(existing(settings), ReplayRecipe(recipe, ReplayOptions(**options)), progress)
    if plot is not None and draw is not None:
        plot.write_bytes(draw(chart(report, name)))
        click.echo(f"drawn into {plot}", err=True)
    if as_json:
        click.echo(msgspec.json.encode(report))
    else:
        tell(report, name)


def _recipe_named(weights: Path | None, preset: str | None, link: str | None) -> tuple[Recipe, str]:
    """Return the recipe that was asked for, and its name."""
    if [weights, preset, link].count(None) != 2:
        raise click.UsageError("one of --weights FILE, --preset NAME and --link URL")
    if preset is not None:
        return PRESETS[preset], preset
    return (
        (_recipe_in(weights), weights.name)
        if weights is not None
        else (recipe_of_link(link or ""), "the shared recipe")
    )


def _recipe_in(path: Path) -> Recipe:
    """Return the recipe in a file. It may stand below `[recipe]`, as in the settings."""
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise TooLarge(f"{path} is not a recipe: more than {_MOST_BYTES:,} bytes")
    try:
        document: dict[str, Any] = tomllib.loads(data.decode())
        inner = document["recipe"] if list(document) == ["recipe"] else document
        return recipe_of(inner)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not TOML: {error}") from error
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error
