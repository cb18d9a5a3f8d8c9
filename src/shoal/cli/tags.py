"""`shoal tags`: the tag cloud in the terminal and as a picture, and what an admin says of tags."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click
import msgspec
from rich.console import Console

from shoal.admin.operations import RuleTag
from shoal.cli.group import pass_settings
from shoal.cli.stores import existing, perform
from shoal.cli.words.tags import bar_lines, cloud_block, rule_line, tag_lines
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.text import check_tag
from shoal.mastodon_api.entities.serializers import Addresses
from shoal.mastodon_api.tag_cloud_image import draw
from shoal.queries import tags as tag_queries
from shoal.settings import Settings
from shoal.tagcloud.cloud import MAX_WORDS, ORDERS, Counted, RelatedTag
from shoal.tagcloud.reader import TagCloud
from shoal.wiring import base_url, open_network
from shoal.wiring.tags import open_cloud

T = TypeVar("T")

_BARS = 12
_RELATED = 12


class CloudFirst(click.Group):
    """A group that shows the cloud when no command is named: `shoal tags --order day` is `shoal tags cloud --order day`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Click's own, with the command put in where it is left out."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["cloud", *args]
        return super().parse_args(ctx, args)


@click.group(cls=CloudFirst)
def tags() -> None:
    """Show the tag cloud, and say what is not to be in it.

    Without a command, as `cloud`.
    """


def _chosen(command: Callable[..., None]) -> Callable[..., None]:
    """The options that choose a cloud."""
    order = click.option(
        "--order", type=click.Choice(ORDERS), default="all", show_default=True, help="By uses, by heat, or by surprise."
    )
    limit = click.option(
        "--limit", type=click.IntRange(1, MAX_WORDS), default=80, show_default=True, help="How many tags."
    )
    return order(limit(command))


@tags.command()
@_chosen
@click.option("--json", "as_json", is_flag=True, help="As one JSON object, with every number.")
@pass_settings
def cloud(settings: Settings, order: str, limit: int, as_json: bool) -> None:
    """Show the tag cloud, and its first tags as bars. Works beside a running server."""
    shown = asyncio.run(_clouds(settings, lambda clouds: clouds.cloud(order, limit)))
    if as_json:
        click.echo(msgspec.json.encode(shown))
        return
    console = Console(highlight=False)
    if not shown.words:
        console.print("no tags yet" if order == "all" else f"no tags in this order: {order}")
        return
    console.print(cloud_block(shown, console.width))
    for line in bar_lines(shown, min(_BARS, len(shown.words)), console.width):
        console.print(line, no_wrap=True)


@tags.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
@pass_settings
def show(settings: Settings, name: str, as_json: bool) -> None:
    """Show the tag NAME: its last days, why it is where it is, and the tags that go with it."""
    counted, alike = asyncio.run(_look(existing(settings), check_tag(name)))
    if counted is None:
        raise NotFound(f"#{check_tag(name)} is not in the tag cloud")
    if as_json:
        click.echo(msgspec.json.encode({"tag": counted, "related": alike}))
        return
    console = Console(highlight=False)
    for line in tag_lines(counted, alike):
        console.print(line)


@tags.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_chosen
@pass_settings
def picture(settings: Settings, file: Path, order: str, limit: int) -> None:
    """Draw the tag cloud into FILE, an SVG whose words are links."""
    if file.suffix.lower() != ".svg":
        raise InvalidInput(f"{file} is not the name of an SVG: end it in .svg")
    shown = asyncio.run(_clouds(settings, lambda clouds: clouds.cloud(order, limit)))
    at = Addresses(base_url(settings), "")
    file.write_text(draw(shown.words, at.tag, f"Tags of {settings.title}"), encoding="utf-8")
    click.echo(f"{len(shown.words)} tags drawn into {file}")


@tags.command()
@click.argument("name")
@pass_settings
def deny(settings: Settings, name: str) -> None:
    """Show the tag NAME in no cloud and no trend, nor tags that count as it. Posts keep it."""
    _say(settings, RuleTag("deny", name))


@tags.command()
@click.argument("name")
@pass_settings
def allow(settings: Settings, name: str) -> None:
    """Show the tag NAME again."""
    _say(settings, RuleTag("allow", name))


@tags.command()
@click.argument("name")
@click.argument("target")
@pass_settings
def merge(settings: Settings, name: str, target: str) -> None:
    """Count the tag NAME as the tag TARGET from now on, with all its uses so far."""
    _say(settings, RuleTag("merge", name, target))


@tags.command()
@click.argument("name")
@pass_settings
def unmerge(settings: Settings, name: str) -> None:
    """Count the tag NAME for itself again."""
    _say(settings, RuleTag("unmerge", name))


@tags.command()
@pass_settings
def rules(settings: Settings) -> None:
    """List the tags that are denied, and those that count as others."""
    found = asyncio.run(_clouds(settings, lambda clouds: clouds.rules()))
    click.echo("\n".join(map(rule_line, found)) if found else "no rules")


def _say(settings: Settings, rule: RuleTag) -> None:
    click.echo(rule_line(perform(existing(settings), rule)))


async def _clouds(settings: Settings, what: Callable[[TagCloud], Awaitable[T]]) -> T:
    async with open_cloud(existing(settings)) as clouds:
        return await what(clouds)


async def _look(settings: Settings, name: str) -> tuple[Counted | None, list[RelatedTag]]:
    async with open_network(settings, read_only=True) as network:
        counted = await network.tags.tag(name)
        return counted, await tag_queries.related(network.reads, name, _RELATED) if counted else []
