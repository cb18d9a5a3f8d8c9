"""`shoal jobs`: show pending and parked jobs, and replay parked ones."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import click
import msgspec

from shoal.admin import jobs as work
from shoal.admin.control import ask
from shoal.admin.operations import Replay
from shoal.app.outboxes import open_outboxes, refusal_limit
from shoal.app.paths import control_path
from shoal.cli.group import pass_settings
from shoal.cli.stores import existing
from shoal.core.errors import NotFound, OutcomeUnknown, Unavailable
from shoal.core.ids import IdMaker
from shoal.multiprocess.link import NotListening
from shoal.settings import Settings


@click.group(invoke_without_command=True)
@click.pass_context
def jobs(ctx: click.Context) -> None:
    """List pending jobs, and retry failed ones."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, as_json=False)


@jobs.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, for monitoring.")
@pass_settings
def list_(settings: Settings, as_json: bool) -> None:
    """Show the number and age of pending jobs, and list failed jobs. Works next to a running server."""
    standing = asyncio.run(_surveyed(existing(settings)))
    if as_json:
        click.echo(msgspec.json.encode(standing))
    else:
        _tell(standing)


async def _surveyed(settings: Settings) -> work.Work:
    async with open_outboxes(settings, read_only=True) as outboxes:
        return await work.survey(outboxes, refusal_limit(settings))


def _tell(standing: work.Work) -> None:
    bound = "at least " if standing.silent_workers else ""
    known = standing.waiting and standing.oldest_seconds is not None
    since = f", the oldest for {bound}{standing.oldest_seconds:.1f} s" if known else ""
    click.echo(f"waiting: {bound}{standing.waiting:,}{since}")
    if standing.most_seconds:
        click.echo(f"new posts are refused while deliveries are over {standing.most_seconds:g} s behind")
    if standing.workers is not None:
        if standing.silent_workers:
            click.echo(
                f"workers: {standing.workers}, {standing.silent_workers} of them do not answer: "
                "how many jobs they have in hand is unknown"
            )
        else:
            click.echo(f"workers: {standing.workers}, {standing.in_hand:,} jobs in hand")
        click.echo(f"done: {standing.done_per_second:,} a second")
    click.echo(f"set aside: {len(standing.buried):,}")
    for job in standing.buried:
        click.echo(f"  {job.job}\t{job.event}\tstep {job.step}\t{job.attempts} attempts\t{job.error}")


@jobs.command()
@click.argument("names", nargs=-1, metavar="[JOB ...]")
@click.option("--all", "everything", is_flag=True, help="Retry all failed jobs.")
@pass_settings
def replay(settings: Settings, names: tuple[str, ...], everything: bool) -> None:
    """Retry failed jobs from where they stopped. JOB is as shown by `shoal jobs`, such as 0:57."""
    if bool(names) == everything:
        raise click.UsageError("name the jobs, or say --all")
    chosen = None if everything else work.check_names(names)
    given = asyncio.run(_replayed(existing(settings), chosen))
    if chosen and not given:
        raise NotFound(f"{', '.join(chosen)}: no such job was set aside; `shoal jobs list` shows those that were")
    click.echo(f"{given:,} replayed")


async def _replayed(settings: Settings, names: list[str] | None) -> int:
    path = control_path(settings)
    if path is not None and not settings.broker:
        with suppress(NotListening):
            return await ask(path, Replay(names))
    try:
        async with open_outboxes(settings, read_only=False) as outboxes:
            return await work.replay(outboxes, names, outboxes.graph, IdMaker())
    except OutcomeUnknown:
        raise
    except Unavailable as error:
        raise Unavailable(f"nothing was replayed: {error}") from error
