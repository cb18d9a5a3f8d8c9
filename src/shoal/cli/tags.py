"""`shoal tags`: show the tag cloud in the terminal or as a picture, and edit the tag rules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import click
import msgspec
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from shoal.admin.operations import RuleTag
from shoal.app.indexes import open_cloud
from shoal.app.network import open_network
from shoal.app.paths import base_url
from shoal.cli.group import pass_settings
from shoal.cli.stores import existing, perform
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.text import check_tag
from shoal.mastodon_api.entities.serializers import Addresses
from shoal.mastodon_api.tag_cloud_image import draw
from shoal.queries import tags as tag_queries
from shoal.settings import Settings
from shoal.tagcloud.cloud import MAX_WORDS, ORDERS, Counted, RelatedTag, Shown, Trend, Word, trend
from shoal.tagcloud.contract import TagRule
from shoal.tagcloud.reader import TagCloud

_STYLES = (
    "bright_black",
    "bright_black",
    "dim",
    "dim",
    "cyan",
    "cyan",
    "bold cyan",
    "bold bright_cyan",
    "bold reverse bright_cyan",
)
"""Styles by level. A terminal has a single font size, so brightness represents the weight."""
_WIDEST = 100
_SPARKS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"
_ARROWS = {
    Trend.UP: ("↑", "bold green"),
    Trend.MORE: ("↗", "green"),
    Trend.STEADY: ("→", "bright_black"),
    Trend.LESS: ("↘", "yellow"),
    Trend.DOWN: ("↓", "red"),
}
_UNITS = {"all": "uses", "rising": "surprise"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cloud_block(shown: Shown, width: int) -> RenderableType:
    """Lay out the tag cloud for a terminal: in alphabetical order, wrapped and centered. Heavier tags are brighter."""
    columns = min(width - 4, _WIDEST)
    lines: list[Text] = []
    line, filled = Text(justify="center"), 0
    for word in sorted(shown.words, key=lambda word: word.name):
        text = _shown(word)
        if filled and filled + 2 + text.cell_len > columns:
            lines.append(line)
            line, filled = Text(justify="center"), 0
        line.append("  " if filled else "").append_text(text)
        filled += text.cell_len + (2 if filled else 0)
    return Padding(Group(*lines, line), (1, 2), expand=False)


def _shown(word: Word) -> Text:
    form = f"\u00a0{word.form}\u00a0" if word.level == len(_STYLES) else word.form
    return Text(form, style=_STYLES[word.level - 1])


def bar_lines(shown: Shown, most: int, width: int) -> Iterator[Text]:
    """Yield a header, then a line for each of the first `most` tags, with its weight, its trend and a bar."""
    first = shown.words[:most]
    names = min(max(cell_len(word.form) for word in first) + 1, 30)
    columns = max(10, min(width, _WIDEST) - names - 20)
    greatest = max(word.weight for word in first)
    yield Text(f"  {'':{names}}  {_UNITS.get(shown.order, 'warmth'):>10}", style="bright_black")
    for word in first:
        form = Text(f"#{word.form}")
        form.truncate(names, overflow="ellipsis", pad=True)
        number = f"{word.weight:,.0f}" if shown.order == "all" else f"{word.weight:,.1f}"
        arrow, color = _trend(word)
        line = Text("  ").append_text(form).append(f"  {number:>10} ").append(arrow, style=color)
        yield line.append(" ").append(_bar(word.weight / greatest, columns), style=_STYLES[word.level - 1].split()[-1])


def _bar(share: float, columns: int) -> str:
    whole, eighth = divmod(round(share * columns * 8), 8)
    return ("█" * whole + _EIGHTHS[eighth].strip()) or "▏"


def _trend(tag: Counted) -> tuple[str, str]:
    """Return an arrow and its style. The arrow compares the uses of a tag today with its uses in the last week."""
    return _ARROWS[trend(tag)]


def tag_lines(tag: Counted, alike: Sequence[RelatedTag]) -> Iterator[Text]:
    arrow, color = _trend(tag)
    yield Text()
    title = Text("  ").append(f"#{tag.form}", style="bold bright_cyan").append(f"  {_uses(tag.uses)}  ")
    yield title.append(arrow, style=color)
    if tag.merged:
        yield Text("  with " + ", ".join(f"#{name}" for name in tag.merged), style="bright_black")
    yield Text()
    yield from _day_lines(tag)
    yield Text()
    yield from _reason_lines(tag)
    if alike:
        yield Text()
        yield Text("  goes with", style="bright_black")
        widest = max(cell_len(related.form) for related in alike)
        for related in alike:
            gap = " " * (widest - cell_len(related.form))
            line = Text("  ").append(f"#{related.form}", style="cyan").append(f"{gap}  {related.likeness:4.0%}  ")
            yield line.append(_bar(related.likeness, 24), style="blue").append(
                f"  {_uses(related.uses)}", style="bright_black"
            )
    yield Text()


def _day_lines(tag: Counted) -> Iterator[Text]:
    days = tag.days[::-1]
    most = max(1, *(day.uses for day in days))
    cells = [_SPARKS[min(len(_SPARKS) - 1, len(_SPARKS) * day.uses // (most + 1))] * 5 for day in days]
    names = [f"{_EPOCH + timedelta(days=day.day):%a}" for day in days]
    yield Text("  " + " ".join(f"{cell:^6}" for cell in cells).rstrip(), style="cyan")
    yield Text("  " + " ".join(f"{day.uses:^6,}" for day in days).rstrip())
    yield Text("  " + " ".join(f"{name:^6}" for name in names).rstrip(), style="bright_black")


def _reason_lines(tag: Counted) -> Iterator[Text]:
    why = tag.reasons
    warm = ", ".join(f"{warmth:,.1f} by the {window}" for window, warmth in why.warmth.items())
    members = "1 member" if why.members == 1 else f"{why.members:,} members"
    more = "more" if why.surprise > 0.0 else "no more"
    for name, first, then in (
        ("warmth", warm, "its uses, each weighted by age; a use now counts as 1"),
        (
            "recently",
            f"{_uses(why.today)} by {members}, today and yesterday",
            f"{why.loudest:.0%} of them by the loudest",
        ),
        ("surprise", f"{why.surprise:,.1f}", f"{more} than its own week lets one expect"),
    ):
        yield Text(f"  {name:8}  {first}")
        yield Text(f"  {'':8}  {then}", style="bright_black")


def rule_line(rule: TagRule) -> str:
    if rule.target:
        return f"#{rule.name}\tcounts as #{rule.target}"
    return f"#{rule.name}\t{'is denied' if rule.denied else 'is shown, and counts for itself'}"


def _uses(number: int) -> str:
    return f"{number:,} {'use' if number == 1 else 'uses'}"


T = TypeVar("T")

_BARS = 12
_RELATED = 12


class CloudFirst(click.Group):
    """A group that shows the cloud if no command is given: `shoal tags --order day` is `shoal tags cloud --order day`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `cloud` if no command is given."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["cloud", *args]
        return super().parse_args(ctx, args)


@click.group(cls=CloudFirst)
def tags() -> None:
    """Show the tag cloud, and deny or merge tags.

    Without a command, runs `cloud`.
    """


def _chosen(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the order and the size of the cloud to a command."""
    order = click.option(
        "--order",
        type=click.Choice(ORDERS),
        default="all",
        show_default=True,
        help="Sort by all uses, by uses in the last hour, day or week, or by unexpected recent uses.",
    )
    limit = click.option(
        "--limit", type=click.IntRange(1, MAX_WORDS), default=80, show_default=True, help="Maximum number of tags."
    )
    return order(limit(command))


@tags.command()
@_chosen
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with all values.")
@pass_settings
def cloud(settings: Settings, order: str, limit: int, as_json: bool) -> None:
    """Show the tag cloud, and its first tags as bars. Works while a server is running."""
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
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@pass_settings
def show(settings: Settings, name: str, as_json: bool) -> None:
    """Show the tag NAME: its recent uses, its score, and related tags."""
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
    """Draw the tag cloud as an SVG with links."""
    if file.suffix.lower() != ".svg":
        raise InvalidInput(f"{file}: file name must end in .svg")
    shown = asyncio.run(_clouds(settings, lambda clouds: clouds.cloud(order, limit)))
    at = Addresses(base_url(settings), "")
    file.write_text(draw(shown.words, at.tag, f"Tags of {settings.title}"), encoding="utf-8")
    click.echo(f"{len(shown.words)} tags written to {file}")


@tags.command()
@click.argument("name")
@pass_settings
def deny(settings: Settings, name: str) -> None:
    """Hide the tag NAME in tag clouds and trends, and also tags that are merged into it. Posts keep the tag."""
    _say(settings, RuleTag("deny", name))


@tags.command()
@click.argument("name")
@pass_settings
def allow(settings: Settings, name: str) -> None:
    """Undo `deny` for the tag NAME."""
    _say(settings, RuleTag("allow", name))


@tags.command()
@click.argument("name")
@click.argument("target")
@pass_settings
def merge(settings: Settings, name: str, target: str) -> None:
    """Count the tag NAME as the tag TARGET, including its past uses."""
    _say(settings, RuleTag("merge", name, target))


@tags.command()
@click.argument("name")
@pass_settings
def unmerge(settings: Settings, name: str) -> None:
    """Undo `merge` for the tag NAME."""
    _say(settings, RuleTag("unmerge", name))


@tags.command()
@pass_settings
def rules(settings: Settings) -> None:
    """List denied and merged tags."""
    found = asyncio.run(_clouds(settings, lambda clouds: clouds.rules()))
    click.echo("\n".join(map(rule_line, found)) if found else "no rules")


def _say(settings: Settings, rule: RuleTag) -> None:
    click.echo(rule_line(perform(settings, rule)))


async def _clouds(settings: Settings, what: Callable[[TagCloud], Awaitable[T]]) -> T:
    async with open_cloud(existing(settings)) as clouds:
        return await what(clouds)


async def _look(settings: Settings, name: str) -> tuple[Counted | None, list[RelatedTag]]:
    async with open_network(settings, read_only=True) as network:
        counted = await network.tags.tag(name)
        return counted, await tag_queries.related(network.reads, name, _RELATED) if counted else []
