"""`shoal feeds`: the named feeds of the server."""

from __future__ import annotations

from typing import BinaryIO

import click
import msgspec
from rich.console import Console

from shoal.admin.feeds import ReplayOptions
from shoal.admin.named_feeds import DeleteFeed, FeedWithCost, ListFeeds, PutFeed, ReplayFeed, ShowNamedFeed, TryFeed
from shoal.cli.feed import print_line
from shoal.cli.group import pass_settings
from shoal.cli.progress import bars
from shoal.cli.rank import sample_options, tell_figures
from shoal.cli.stores import perform
from shoal.core.feeds.declarations import MAX_BYTES, Cost
from shoal.settings import Settings

_TITLE = click.option("--title", help="The title that clients show.")


@click.group()
def feeds() -> None:
    """Manage the named feeds of the server."""


@feeds.command()
@click.argument("name")
@click.argument("file", type=click.File("rb"))
@_TITLE
@pass_settings
def add(settings: Settings, /, name: str, file: BinaryIO, title: str | None) -> None:
    """Create the feed NAME from the JSON declaration in FILE (- for standard input). Works while a server is running."""
    _print_cost(perform(settings, PutFeed(name, _text_of(file), title)))


@feeds.command()
@click.argument("name")
@click.argument("file", type=click.File("rb"), required=False)
@_TITLE
@pass_settings
def change(settings: Settings, /, name: str, file: BinaryIO | None, title: str | None) -> None:
    """Change the declaration of the feed NAME to that in FILE, or its title. Works while a server is running."""
    if file is None and title is None:
        raise click.ClickException("nothing to change: give a file or --title")
    declaration = None if file is None else _text_of(file)
    _print_cost(perform(settings, PutFeed(name, declaration, title, new=False)))


def _text_of(file: BinaryIO) -> str:
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise click.ClickException(f"the declaration has more than {MAX_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise click.ClickException("the declaration is not valid UTF-8") from None


def _print_cost(made: FeedWithCost) -> None:
    _print_total(f"feed {made.feed.name}: a page", made.cost)


def _print_total(what: str, cost: Cost) -> None:
    considered = f" and {cost.candidates} candidates" if cost.candidates else ""
    click.echo(f"{what} takes up to {cost.reads} reads{considered}")


@feeds.command("list")
@pass_settings
def list_(settings: Settings) -> None:
    """List feeds: name, order, most reads and candidates of a page, title. Works while a server is running."""
    click.echo("name\torder\treads\tcandidates\ttitle")
    for each in perform(settings, ListFeeds()):
        order = msgspec.to_builtins(each.feed.declaration.order)["by"]
        cells = (each.feed.name, order, each.cost.reads, each.cost.candidates, each.feed.title)
        click.echo("\t".join(map(str, cells)))


@feeds.command()
@click.argument("name")
@pass_settings
def show(settings: Settings, /, name: str) -> None:
    """Print the declaration of the feed NAME as JSON. Works while a server is running."""
    shown = perform(settings, ShowNamedFeed(name))
    click.echo(msgspec.json.format(msgspec.json.encode(shown.feed.declaration.document()), indent=2).decode())


@feeds.command("try")
@click.argument("file", type=click.File("rb"))
@click.option("--as", "member", required=True, metavar="NAME", help="The member who reads the feed.")
@click.option("--against", "feed", default="", metavar="NAME", help="A feed of the server to compare with.")
@click.option("--limit", type=click.IntRange(1, 40), default=10, show_default=True, help="Maximum number of posts.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with all values.")
@pass_settings
def try_(settings: Settings, /, file: BinaryIO, member: str, feed: str, limit: int, *, as_json: bool) -> None:
    """Show what the declaration in FILE would show to a member now. Works while a server is running. Nothing is stored."""
    shown = perform(settings, TryFeed(_text_of(file), member, limit, feed))
    if as_json:
        click.echo(msgspec.json.encode(shown))
        return
    console = Console(highlight=False)
    _print_total("a page", shown.cost)
    for position, (line, before) in enumerate(zip(shown.lines, shown.positions, strict=True), 1):
        print_line(console, position, line)
        if feed:
            console.print(f"     in {feed}: {'not shown' if before is None else f'position {before}'}", style="dim")
    if shown.overlap is not None:
        console.print(f"{shown.overlap:.0%} of the posts are in both feeds", style="green")


@feeds.command()
@click.argument("name")
@click.argument("file", type=click.File("rb"))
@sample_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with all values.")
@pass_settings
def compare(settings: Settings, /, name: str, file: BinaryIO, *, as_json: bool, **options: int) -> None:
    """Show how the feed NAME would change for active members with the declaration in FILE.

    Reads both for a random sample of active members, like `shoal rank replay`. Nothing is written. Works while a server is running.
    """
    with bars() as progress:
        report = perform(settings, ReplayFeed(name, _text_of(file), ReplayOptions(**options)), progress)
    if as_json:
        click.echo(msgspec.json.encode(report))
        return
    console = Console(highlight=False)
    least = "" if report.all_found else "at least "
    console.print(
        f"{report.figures.members:,} with posts, of {report.sampled:,} sampled and {least}{report.active:,} active members",
        style="dim",
    )
    if not report.figures.members:
        console.print("no member sees a post in either feed: try more --days", style="yellow")
        return
    tell_figures(console, report.figures, report.options.top)


@feeds.command()
@click.argument("name")
@pass_settings
def delete(settings: Settings, /, name: str) -> None:
    """Delete the feed NAME. Works while a server is running."""
    perform(settings, DeleteFeed(name))
    click.echo(f"deleted feed {name}")
