"""`shoal jobs`: show pending and parked jobs, and retry parked ones."""

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
    """List pending and parked jobs, and retry parked ones."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, as_json=False)


@jobs.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, for monitoring.")
@pass_settings
def list_(settings: Settings, as_json: bool) -> None:
    """Show the number and age of pending jobs, and list parked jobs. Works while a server is running."""
    status = asyncio.run(_surveyed(existing(settings)))
    if as_json:
        click.echo(msgspec.json.encode(status))
    else:
        _tell(status)


async def _surveyed(settings: Settings) -> work.Work:
    async with open_outboxes(settings, read_only=True) as outboxes:
        return await work.survey(outboxes, refusal_limit(settings))


def _tell(status: work.Work) -> None:
    bound = "at least " if status.silent_workers else ""
    known = status.waiting and status.oldest_seconds is not None
    since = f", oldest {bound}{status.oldest_seconds:.1f} s" if known else ""
    click.echo(f"pending: {bound}{status.waiting:,}{since}")
    if status.most_seconds:
        click.echo(f"new posts are refused while deliveries are more than {status.most_seconds:g} s behind")
    if status.workers is not None:
        if status.silent_workers:
            click.echo(
                f"workers: {status.workers}, {status.silent_workers} not responding: "
                "the number of running jobs is unknown"
            )
        else:
            click.echo(f"workers: {status.workers}, {status.in_hand:,} running jobs")
        click.echo(f"throughput: {status.done_per_second:,} jobs/s")
    click.echo(f"parked: {len(status.parked):,}")
    for job in status.parked:
        click.echo(f"  {job.job}\t{job.event}\tstep {job.step}\t{job.attempts} attempts\t{job.error}")


@jobs.command()
@click.argument("names", nargs=-1, metavar="[JOB ...]")
@click.option("--all", "everything", is_flag=True, help="Retry all parked jobs.")
@pass_settings
def replay(settings: Settings, names: tuple[str, ...], everything: bool) -> None:
    """Retry parked jobs from where they stopped. JOB is the name that `shoal jobs` shows, such as 0:57."""
    if bool(names) == everything:
        raise click.UsageError("name at least one JOB, or use --all, but not both")
    chosen = None if everything else work.check_names(names)
    given = asyncio.run(_replayed(existing(settings), chosen))
    if chosen and not given:
        raise NotFound(f"{', '.join(chosen)}: no such parked job; list parked jobs with `shoal jobs list`")
    click.echo(f"replayed {given:,} {'job' if given == 1 else 'jobs'}")


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
        raise Unavailable(f"no parked job was retried: {error}") from error
