"""Maintenance of stores: `shoal check`, `shoal upgrade`, `shoal move` and `shoal search rebuild`."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress

import click

from shoal.admin.consistency import check as checks
from shoal.admin.consistency.derived import count_all
from shoal.admin.control import ask
from shoal.admin.move import MovedNetwork, describe_move, move_network
from shoal.admin.operations import Check
from shoal.admin.report import CheckReport, Progress
from shoal.app import indexes as wired
from shoal.app.network import open_network
from shoal.app.paths import control_path, media_url
from shoal.app.stores import open_store, upgrades
from shoal.cli.group import pass_settings
from shoal.cli.progress import bars
from shoal.cli.stores import existing
from shoal.core.errors import Unavailable
from shoal.graph.migrations import PendingStep
from shoal.graph.shard_map import first_map, shown_url
from shoal.multiprocess.link import NotListening
from shoal.settings import Settings, build


@click.command()
@click.option("--repair", is_flag=True, help="Repair all violations.")
@click.option(
    "--sample", type=click.IntRange(0), help="Check this many home timelines.  [default: all that are materialized]"
)
@click.option(
    "--members",
    type=click.IntRange(1),
    metavar="N",
    help="Check this many random members and their data instead of everything.",
)
@pass_settings
def check(settings: Settings, repair: bool, sample: int | None, members: int | None) -> None:
    """Check the consistency of the store: counts, inverses, tags, lists, names and home timelines.

    If a server has the store open, the server runs the check and includes its home timelines. Everything is read,
    unless --members limits the check. Exit status 1 if something is wrong and was not repaired.
    """
    if members is not None and (repair or sample is not None):
        raise click.UsageError("--members cannot be combined with --repair or --sample")
    with bars() as progress:
        report = asyncio.run(_checked(existing(settings), Check(repair, sample, members), progress))
    tell(report)
    found = sum(line.found for line in report.invariants)
    if found > report.repaired:
        raise SystemExit(1)


async def _checked(settings: Settings, asked: Check, progress: Progress) -> CheckReport:
    if (path := control_path(settings)) is not None:
        with suppress(NotListening):
            return await ask(path, asked, progress)
    async with AsyncExitStack() as stack:
        checked = False
        try:
            network = await stack.enter_async_context(open_network(settings, background=False))
        except Unavailable:
            if asked.repair or asked.members is not None:
                raise
            # Another process without a control socket, such as an import, has the store open: only read the store.
            checked = True
            network = await stack.enter_async_context(open_network(settings, read_only=True))
        if not checked:
            return await asked.carry_out(network, progress)
        return await checks.check(network, sample=asked.sample, read_only=True, progress=progress)


def tell(report: CheckReport) -> None:
    """Print the result of a check, one line for each invariant."""
    for line in report.invariants:
        outcome = f"{line.found:,} wrong" if line.found else "ok"
        looked = f"{line.checked:,} checked, {outcome}" if line.checked or line.found else "nothing to check"
        click.echo(f"{line.promise}: {looked}")
        for example in line.examples:
            click.echo(f"      {example}")
    for note in report.notes:
        click.echo(f"note: {note}")
    if report.repaired:
        click.echo(f"{report.repaired:,} repaired")
    click.echo(f"{'consistent' if report.clean else 'violations found'}, in {report.seconds:.1f} s")


@click.command()
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only show the steps of the upgrade that still have to run, and their estimated time.",
)
@pass_settings
def upgrade(settings: Settings, dry_run: bool) -> None:
    """Upgrade the stores of an older Shoal in batches, with an estimate of the time.

    Servers run short upgrades themselves when they start. On PostgreSQL, servers of the previous version may keep running; an
    SQLite file must not be in use. An interrupted upgrade resumes when run again.
    """
    asyncio.run(_upgraded(existing(settings), dry_run=dry_run))


async def _upgraded(settings: Settings, *, dry_run: bool) -> None:
    for name, pending_upgrade in upgrades(settings):
        steps = await pending_upgrade.plan()
        _tell(name, steps)
        if steps and not dry_run:
            with bars() as progress:
                await pending_upgrade.upgrade(progress)
            click.echo(f"{name}: done")


def _tell(name: str, steps: list[PendingStep]) -> None:
    if not steps:
        click.echo(f"{name}: up to date")
        return
    for step in steps:
        if step.rows:
            click.echo(f"{name}: {step.what}: {step.rows:,} rows, about {_in_words(step.seconds)}")
    click.echo(f"{name}: about {_in_words(sum(step.seconds for step in steps))} in total")


def _in_words(seconds: float) -> str:
    if seconds < 120:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"


@click.command()
@click.option("--from", "source", metavar="URL", help="Current stores of the network.  [default: from the settings]")
@click.option(
    "--to", "target", metavar="URL", required=True, help="Empty target stores: a URL, or a shard map as JSON."
)
@pass_settings
def move(settings: Settings, source: str | None, target: str) -> None:
    """Copy everything to other stores: members, posts, lists, names, and pending events.

    Stop the server first: no other process may have the old or the new stores open. The old stores are not changed. An interrupted
    move resumes when run again. At the end, counts and hashes of the rows are compared.
    """
    here = build(store=source, media=settings.media or None) if source else settings
    there = build(store=target)
    with bars() as progress:
        moved = asyncio.run(_move(existing(here), there, progress))
        tags = asyncio.run(_count_tags(there, progress))
    for line in describe_move(moved):
        click.echo(line)
    click.echo(f"{tags:,} tags counted in the target store")
    click.echo(f"moved to {', '.join(map(shown_url, first_map(there.store).stores))}: set `store` to this value")
    click.echo(f"media files were not moved: set `media` to {shown_url(media_url(here))}")


async def _move(here: Settings, there: Settings, progress: Progress) -> MovedNetwork:
    async with AsyncExitStack() as stack:
        source = await open_store(here, stack, read_only=False, sole=True)
        target = await open_store(there, stack, read_only=False, sole=True)
        return await move_network(source, target, progress)


async def _count_tags(there: Settings, progress: Progress) -> int:
    """Count tags from the posts, because a move does not copy the tag cloud. First wait until the pending jobs are done."""
    async with open_network(there) as network:
        return await count_all(network, progress)


@click.group()
def search() -> None:
    """Maintain the search index."""


@search.command()
@pass_settings
def rebuild(settings: Settings) -> None:
    """Rebuild the search index from the store, whether or not a server is running.

    Searches keep working. This is rarely necessary: a server with an empty index fills it itself.
    """
    with bars() as progress:
        done = asyncio.run(wired.rebuild(existing(settings), progress))
    click.echo(f"{done:,} members and posts indexed")
