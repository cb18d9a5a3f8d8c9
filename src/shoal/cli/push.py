"""`shoal push`: web push."""

from __future__ import annotations

import click

from shoal.push.server_key import new_key


@click.group()
def push() -> None:
    """Make a key for web push."""


@push.command()
def key() -> None:
    """Print a new private key, for the setting `push_key` of all processes of a network.

    With another key all subscriptions of apps and browsers are worth nothing: keep it, and keep it secret.
    """
    click.echo(new_key())
