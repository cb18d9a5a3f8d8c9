"""`shoal check`: whether everything that must hold does hold."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress

import click

from shoal.admin.consistency import check as checks
from shoal.admin.control import NoServer, ask
from shoal.admin.operations import Check
from shoal.admin.report import CheckReport, Progress
from shoal.cli.group import pass_settings
from shoal.cli.stores import existing
from shoal.cli.words.bars import bars
from shoal.core.errors import Unavailable
from shoal.settings import Settings
from shoal.wiring import control_path, open_network


@click.command()
@click.option("--repair", is_flag=True, help="Put right what is wrong.")
@click.option("--sample", type=click.IntRange(0), help="Look at so many home timelines.  [default: all that are warm]")
@click.option(
    "--members",
    type=click.IntRange(1),
    metavar="N",
    help="Look at so many members drawn by chance and what is around them, and not at everything.",
)
@pass_settings
def check(settings: Settings, repair: bool, sample: int | None, members: int | None) -> None:
    """Compare what is stored with what is promised: counts, inverses, tags, lists, names and home timelines.

    A server that holds the store checks itself, home timelines included. Exit status 1 when something is wrong and was
    not repaired. It reads everything; with --members it takes the same time in a network of any size.
    """
    if members is not None and (repair or sample is not None):
        raise click.UsageError("--members only looks, also at home timelines: leave --repair and --sample out")
    with bars() as progress:
        report = asyncio.run(_checked(existing(settings), Check(repair, sample, members), progress))
    tell(report)
    found = sum(line.found for line in report.invariants)
    if found > report.repaired:
        raise SystemExit(1)


async def _checked(settings: Settings, asked: Check, progress: Progress) -> CheckReport:
    if (path := control_path(settings)) is not None:
        with suppress(NoServer):
            return await ask(path, asked, progress)
    async with AsyncExitStack() as stack:
        held = False
        try:
            network = await stack.enter_async_context(open_network(settings, background=False))
        except Unavailable:
            if asked.repair or asked.members is not None:
                raise
            # Another process holds the store and does not listen: an import, say.
            held = True
            network = await stack.enter_async_context(open_network(settings, read_only=True))
        if not held:
            return await asked.carry_out(network, progress)
        return await checks.check(network, sample=asked.sample, read_only=True, progress=progress)


def tell(report: CheckReport) -> None:
    """Say what a check found, a line for each promise."""
    for line in report.invariants:
        verdict = f"{line.found:,} wrong" if line.found else "all right"
        looked = f"{line.checked:,} checked, {verdict}" if line.checked or line.found else "nothing to check"
        click.echo(f"{line.promise}: {looked}")
        for example in line.examples:
            click.echo(f"      {example}")
    for note in report.notes:
        click.echo(f"note: {note}")
    if report.repaired:
        click.echo(f"{report.repaired:,} repaired")
    click.echo(f"{'all holds' if report.clean else 'something was wrong'}, in {report.seconds:.1f} s")
