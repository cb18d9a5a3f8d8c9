"""`shoal reaction`: declare, list and retire reactions."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.admin.declared_reactions import DeclareReactions, ListReactions, RetireReaction
from shoal.cli.group import pass_settings
from shoal.cli.stores import perform
from shoal.core.errors import InvalidInput
from shoal.core.reactions import MAX_FILE_BYTES, parse_reaction_file
from shoal.settings import Settings


@click.group()
def reaction() -> None:
    """Declare reactions to posts, such as cooked or going."""


@reaction.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@pass_settings
def declare(settings: Settings, /, file: Path) -> None:
    """Declare the reactions in FILE (TOML or JSON), or change them. Works while a server is running.

    The file has one reaction, or up to 20 under "reactions", of which all are declared or none. The group cannot be changed.
    """
    with file.open("rb") as content:
        declaration = content.read(MAX_FILE_BYTES + 1)
    try:
        drafts = parse_reaction_file(declaration, toml=file.suffix == ".toml")
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from error
    for each in perform(settings, DeclareReactions(drafts)):
        click.echo(f"{each.name}: {'retired' if each.retired else 'declared'}")


@reaction.command("list")
@pass_settings
def list_(settings: Settings) -> None:
    """List declared reactions. Works while a server is running."""
    declared = perform(settings, ListReactions())
    click.echo("name\ttitle\tgroup\tkinds\tweight\tstate")
    for each in declared:
        state = "retired" if each.retired else "active"
        kinds = ", ".join(each.kinds) or "all"
        click.echo(f"{each.name}\t{each.title}\t{each.group or '-'}\t{kinds}\t{each.weight:g}\t{state}")


@reaction.command()
@click.argument("name")
@pass_settings
def retire(settings: Settings, /, name: str) -> None:
    """Retire the reaction NAME: members can no longer add it, and existing ones stay. Works while a server is running."""
    perform(settings, RetireReaction(name))
    click.echo(f"{name}: retired")
