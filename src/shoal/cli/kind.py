"""`shoal kind`: declare, list and show kinds of posts."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from shoal.admin.kinds import DeclareKind, IndexKind, ListKindPosts, ListKinds, ShowKind
from shoal.cli.group import pass_settings
from shoal.cli.stores import perform
from shoal.core.errors import InvalidInput
from shoal.core.kinds import MAX_FILE_BYTES, parse_file
from shoal.graph.contract import MAX_TIME
from shoal.settings import Settings


@click.group()
def kind() -> None:
    """Declare kinds of posts with data of their own, such as recipes."""


@kind.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@pass_settings
def declare(settings: Settings, /, file: Path) -> None:
    """Declare the kind in FILE (TOML or JSON), or change it to the next version. Works while a server is running.

    A change is refused unless all data that is valid now stays valid.
    """
    with file.open("rb") as content:
        declaration = content.read(MAX_FILE_BYTES + 1)
    try:
        draft = parse_file(declaration, toml=file.suffix == ".toml")
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from error
    found = perform(settings, DeclareKind(draft))
    click.echo(f"{found.name}: version {found.schema_version}")


@kind.command("list")
@pass_settings
def list_(settings: Settings) -> None:
    """List kinds: name, version, indexed paths, and paths whose index is being built. Works while a server is running."""
    click.echo("name\tversion\tindexed\tbeing built")
    for found in perform(settings, ListKinds()):
        indexed, building = ", ".join(path for path, _ in found.index), ", ".join(found.building)
        click.echo(f"{found.name}\t{found.schema_version}\t{indexed or '-'}\t{building or '-'}")


@kind.command()
@click.argument("name")
@pass_settings
def show(settings: Settings, /, name: str) -> None:
    """Print the declaration of the kind NAME as JSON. Works while a server is running."""
    declaration = msgspec.json.encode(perform(settings, ShowKind(name)).draft)
    click.echo(msgspec.json.format(declaration, indent=2).decode())


@kind.command()
@click.argument("name")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="PATH=VALUE",
    help="Values of an indexed path, such as cuisine=thai or minutes=10..30. May be given twice, for a declared pair.",
)
@click.option(
    "--before", type=click.IntRange(1, MAX_TIME), default=MAX_TIME, help="List posts with ids below this one."
)
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, help="Number of posts.")
@pass_settings
def posts(settings: Settings, /, name: str, filters: tuple[str, ...], before: int, limit: int) -> None:
    """List public posts of the kind NAME, newest first: id, author, title. Works while a server is running."""
    given: dict[str, str] = {}
    for each in filters:
        path, equals, value = each.partition("=")
        if not equals or path in given:
            raise InvalidInput(f"--filter: must be PATH=VALUE, once for each path (got {each[:100]!r})")
        given[path] = value
    page = perform(settings, ListKindPosts(name, given, before, limit))
    for post in page.posts:
        click.echo(f"{post.id}\t@{post.author}\t{post.title}")
    if page.next:
        click.echo(f"more with --before {page.next}")


@kind.command()
@click.argument("name")
@pass_settings
def reindex(settings: Settings, /, name: str) -> None:
    """Index all posts of the kind NAME again, in the background. Works while a server is running."""
    perform(settings, IndexKind(name))
    click.echo(f"indexing the posts of {name}")
