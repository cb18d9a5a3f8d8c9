"""`shoal key`: create, list, rotate and delete server keys."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import click

from shoal.admin.server_keys import CreateKey, DeleteKey, ListKeys, RotateKey
from shoal.cli.group import pass_settings
from shoal.cli.stores import perform
from shoal.commands.server_keys import DEFAULT_GRACE_SECONDS, MAX_GRACE_SECONDS, NewKey
from shoal.settings import Settings

_HOUR = 3_600


@click.group()
def key() -> None:
    """Create, list, rotate and delete the server keys of other products."""


@key.command()
@click.argument("name")
@click.option(
    "--scopes",
    required=True,
    metavar="SCOPES",
    help="Scopes, separated by spaces or commas, such as 'server:members server:act read write'.",
)
@pass_settings
def create(settings: Settings, /, name: str, scopes: str) -> None:
    """Create the server key NAME and print its secret, which cannot be shown again. Works while a server is running.

    NAME is public: posts that the key creates show it as their application.
    """
    _print(perform(settings, CreateKey(name, re.split(r"[\s,]+", scopes.strip()))))


@key.command("list")
@pass_settings
def list_(settings: Settings) -> None:
    """List server keys: name, dates of creation and last use, address of the last use, scopes. Works while a server is running."""
    keys = perform(settings, ListKeys())
    click.echo("name\tcreated\tlast used\taddress\tscopes\told secret until")
    for found in keys:
        cells = (
            found.name,
            _day(found.created_at),
            _day(found.used_at),
            found.used_from or "-",
            " ".join(found.scopes),
        )
        click.echo("\t".join((*cells, _minute(found.replaced_until))))


@key.command()
@click.argument("name")
@click.option(
    "--grace-hours",
    type=click.IntRange(0, MAX_GRACE_SECONDS // _HOUR),
    default=DEFAULT_GRACE_SECONDS // _HOUR,
    show_default=True,
    help="Hours for which the current secret stays valid.",
)
@pass_settings
def rotate(settings: Settings, /, name: str, grace_hours: int) -> None:
    """Print a new secret of the server key NAME, which cannot be shown again. Works while a server is running."""
    _print(perform(settings, RotateKey(name, grace_hours * _HOUR)))


@key.command()
@click.argument("name")
@pass_settings
def delete(settings: Settings, /, name: str) -> None:
    """Delete the server key NAME. Its secrets become invalid immediately. Works while a server is running."""
    perform(settings, DeleteKey(name))
    click.echo(f"deleted the server key {name}")


def _print(made: NewKey) -> None:
    """Print only the secret to standard output, so that a script can store it."""
    click.echo(f"secret of the server key {made.name}, shown only once:", err=True)
    click.echo(made.secret)


def _day(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d}" if moment else "-"


def _minute(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d %H:%M} UTC" if moment else "-"
