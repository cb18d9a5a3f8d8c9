"""`shoal export`: a member's own data."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from shoal.admin import export as exports
from shoal.admin.report import Progress
from shoal.cli.group import pass_settings
from shoal.cli.stores import existing
from shoal.cli.words.bars import bars
from shoal.settings import Settings
from shoal.wiring import open_network


@click.command()
@click.argument("name")
@click.option("--to", required=True, type=click.Path(path_type=Path), help="A new directory, or a file ending in .zip.")
@pass_settings
def export(settings: Settings, name: str, to: Path) -> None:
    """Write all data of the member NAME: what they wrote, uploaded, reacted to and set up, and their lists of people.

    It works beside a running server. Exit status 1 when pictures could not be found.
    """
    with bars() as progress:
        lost = asyncio.run(_export(existing(settings), name, to, progress))
    click.echo(f"the data of {name} is in {to}")
    if lost:
        click.echo(f"{lost:,} {'picture' if lost == 1 else 'pictures'} could not be found: the rest is there", err=True)
        raise SystemExit(1)


async def _export(settings: Settings, name: str, to: Path, progress: Progress) -> int:
    async with open_network(settings, read_only=True) as network:
        return await exports.export(network, name, to, progress)
