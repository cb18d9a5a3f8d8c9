"""`shoal kind`: declare, list and show kinds of posts."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from shoal.admin.kinds import DeclareKind, ListKinds, ShowKind
from shoal.cli.group import pass_settings
from shoal.cli.stores import perform
from shoal.core.kinds import MAX_FILE_BYTES, parse_file
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
        draft = parse_file(content.read(MAX_FILE_BYTES + 1), toml=file.suffix == ".toml")
    found = perform(settings, DeclareKind(draft))
    click.echo(f"{found.name}: version {found.schema_version}")


@kind.command("list")
@pass_settings
def list_(settings: Settings) -> None:
    """List kinds: name and version. Works while a server is running."""
    click.echo("name\tversion")
    for found in perform(settings, ListKinds()):
        click.echo(f"{found.name}\t{found.schema_version}")


@kind.command()
@click.argument("name")
@pass_settings
def show(settings: Settings, /, name: str) -> None:
    """Print the declaration of the kind NAME as JSON. Works while a server is running."""
    declaration = msgspec.json.encode(perform(settings, ShowKind(name)).draft)
    click.echo(msgspec.json.format(declaration, indent=2).decode())
