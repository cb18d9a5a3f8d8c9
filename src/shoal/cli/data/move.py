"""`shoal move`: a whole network taken to other stores."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import click

from shoal.admin.consistency.derived import count_all
from shoal.admin.move import MovedNetwork, move_network, told
from shoal.admin.report import Progress
from shoal.cli.group import pass_settings
from shoal.cli.stores import existing
from shoal.cli.words.bars import bars
from shoal.graph.sharding.shard_map import first_map, shown_url
from shoal.settings import Settings, build
from shoal.wiring import media_url, open_network
from shoal.wiring.stores import open_store


@click.command()
@click.option("--from", "source", metavar="URL", help="Where the network is.  [default: as set]")
@click.option("--to", "target", metavar="URL", required=True, help="Empty stores: a URL, or a shard map as JSON.")
@pass_settings
def move(settings: Settings, source: str | None, target: str) -> None:
    """Take everything to other stores: members, posts, lists, names, and events that wait.

    Nothing else may have either open, so stop the server first. The old store stays as it is. A move that was interrupted
    goes on when it is run again. At the end both sides are compared, row by row in counts and hashes.
    """
    here = build(store=source, media=settings.media or None) if source else settings
    there = build(store=target)
    with bars() as progress:
        moved = asyncio.run(_move(existing(here), there, progress))
        tags = asyncio.run(_count_tags(there, progress))
    for line in told(moved):
        click.echo(line)
    click.echo(f"{tags:,} tags are counted there")
    click.echo(f"the network is at {', '.join(map(shown_url, first_map(there.store).stores))}: set `store` to it")
    click.echo(f"pictures stay where they are: set `media` to {shown_url(media_url(here))}")


async def _move(here: Settings, there: Settings, progress: Progress) -> MovedNetwork:
    async with AsyncExitStack() as stack:
        source = await open_store(here, stack, read_only=False, sole=True)
        target = await open_store(there, stack, read_only=False, sole=True)
        return await move_network(source, target, progress)


async def _count_tags(there: Settings, progress: Progress) -> int:
    """The tag cloud is no part of the stores: it is counted from the posts, when what waited is done."""
    async with open_network(there) as network:
        return await count_all(network, progress)
