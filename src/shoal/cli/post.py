"""`shoal post`: take posts out of sight, and show them again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import click

from shoal.cli.group import pass_settings
from shoal.cli.stores import existing
from shoal.core.model import Post
from shoal.services import moderation
from shoal.services.writes import Writes
from shoal.settings import Settings
from shoal.wiring import open_network

_post_id = click.argument("post_id", type=click.IntRange(min=1))


@click.group()
def post() -> None:
    """Take posts out of sight, and show them again."""


@post.command()
@_post_id
@pass_settings
def hide(settings: Settings, /, post_id: int) -> None:
    """Nobody but its author sees the post POST_ID any more. On SQLite the server must not be running."""
    asyncio.run(_moderate(existing(settings), post_id, moderation.hide))
    click.echo(f"{post_id} is out of sight")


@post.command()
@_post_id
@pass_settings
def reveal(settings: Settings, /, post_id: int) -> None:
    """Show the post POST_ID again. On SQLite the server must not be running."""
    asyncio.run(_moderate(existing(settings), post_id, moderation.reveal))
    click.echo(f"{post_id} is in sight")


async def _moderate(settings: Settings, post_id: int, verb: Callable[[Writes, int], Awaitable[Post]]) -> None:
    async with open_network(settings, background=False) as network:
        await verb(network.writes, post_id)
