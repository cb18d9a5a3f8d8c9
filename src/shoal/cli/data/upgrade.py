"""`shoal upgrade`: brings stores of an older Shoal to the form that this one wants."""

from __future__ import annotations

import asyncio

import click

from shoal.cli.group import pass_settings
from shoal.cli.stores import existing
from shoal.cli.words.bars import bars
from shoal.graph.migrations import PendingStep
from shoal.settings import Settings
from shoal.wiring.upgrades import upgrades


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what is to be done, and how long that takes.")
@pass_settings
def upgrade(settings: Settings, dry_run: bool) -> None:
    """Upgrade the stores of an older Shoal: say what there is to do and for how long, and do it in batches.

    Short upgrades need no command: a server that starts does them. On PostgreSQL servers of the version before may go on
    working meanwhile; an SQLite file must not be in use. When it is interrupted, run it again: it goes on where it was.
    """
    asyncio.run(_upgraded(existing(settings), dry_run=dry_run))


async def _upgraded(settings: Settings, *, dry_run: bool) -> None:
    for name, one in upgrades(settings):
        steps = await one.plan()
        _tell(name, steps)
        if steps and not dry_run:
            with bars() as progress:
                await one.upgrade(progress)
            click.echo(f"{name}: done")


def _tell(name: str, steps: list[PendingStep]) -> None:
    if not steps:
        click.echo(f"{name}: nothing to do")
        return
    for step in steps:
        if step.rows:
            click.echo(f"{name}: {step.what}: {step.rows:,} rows, about {_in_words(step.seconds)}")
    click.echo(f"{name}: about {_in_words(sum(step.seconds for step in steps))} in all")


def _in_words(seconds: float) -> str:
    """Return a time as people say it; nobody can tell it more exactly."""
    if seconds < 120:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"
