"""`shoal feeds`: the named feeds of the server."""

from __future__ import annotations

from typing import BinaryIO

import click
import msgspec

from shoal.admin.named_feeds import DeleteFeed, FeedWithCost, ListFeeds, PutFeed, ShowNamedFeed
from shoal.cli.group import pass_settings
from shoal.cli.stores import perform
from shoal.core.feeds.declarations import MAX_BYTES
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
    try:
        # A longer text is refused by its length.
        return file.read(MAX_BYTES + 1).decode()
    except UnicodeDecodeError:
        raise click.ClickException("the declaration is not valid UTF-8") from None


def _print_cost(made: FeedWithCost) -> None:
    cost = made.cost
    considered = f" and {cost.candidates} candidates" if cost.candidates else ""
    click.echo(f"feed {made.feed.name}: a page takes up to {cost.reads} reads{considered}")


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


@feeds.command()
@click.argument("name")
@pass_settings
def delete(settings: Settings, /, name: str) -> None:
    """Delete the feed NAME. Works while a server is running."""
    perform(settings, DeleteFeed(name))
    click.echo(f"deleted feed {name}")
