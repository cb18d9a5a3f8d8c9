"""`shoal search`: the search index, looked after by hand."""

from __future__ import annotations

import asyncio

import click

from shoal.cli.group import pass_settings
from shoal.cli.stores import existing
from shoal.cli.words.bars import bars
from shoal.settings import Settings
from shoal.wiring import search as wired


@click.group()
def search() -> None:
    """Look after the search index."""


@search.command()
@pass_settings
def rebuild(settings: Settings) -> None:
    """Fill the search index anew from the store, beside a running server or without one.

    Searches go on meanwhile. There is seldom a reason: a server that finds its index empty fills it by itself.
    """
    with bars() as progress:
        done = asyncio.run(wired.rebuild(existing(settings), progress))
    click.echo(f"{done:,} members and posts can be found")
