"""`shoal restore`: a backup brought back into an empty store."""

from __future__ import annotations

import asyncio

import click

from shoal.admin.backups import restore as restoring
from shoal.admin.backups.repository import BackupRepository, Manifest
from shoal.admin.backups.restore import RestoredNetwork
from shoal.admin.report import CheckReport, Progress
from shoal.admin.throttling import Throttle
from shoal.cli.data.backup import throttle_option
from shoal.cli.data.check import tell
from shoal.cli.group import pass_settings
from shoal.cli.words.bars import bars
from shoal.settings import Settings
from shoal.wiring import open_network
from shoal.wiring.backups import open_target, repository_url


@click.command()
@click.option("--from", "place", required=True, metavar="PLACE", help="Where the backup is: a directory, or s3://...")
@click.option("--generation", default="", help="Which one: see `shoal backup list`.  [default: the newest]")
@click.option(
    "--check/--no-check",
    "checking",
    default=True,
    show_default=True,
    help="Count tags anew and run `shoal check --repair` at the end.",
)
@throttle_option
@pass_settings
def restore(settings: Settings, place: str, generation: str, checking: bool, mb_per_second: float | None) -> None:
    """Bring a backup back into the store and the media of the settings, which --store and --media name as for every command.

    The store must be empty, and no server may have it open. It may be of another kind than the one that was backed up. Rows are
    compared with their hashes before anything is written. Interrupted, it goes on when it is run again. Exit status 1
    when something is not as it was.
    """
    throttle = Throttle(mb_per_second * 1e6 if mb_per_second else None)
    with bars() as progress:
        manifest, done = asyncio.run(_restored(settings, place, generation, throttle, progress))
    _tell(manifest, done)
    wrong = bool(done.faults)
    with bars() as progress:
        report = asyncio.run(_completed(settings, manifest, progress, checking=checking))
    if report is not None:
        tell(report)
        wrong = wrong or sum(line.found for line in report.invariants) > report.repaired
    else:
        click.echo("run `shoal check --repair` before a server starts")
    if wrong:
        raise SystemExit(1)


async def _restored(
    settings: Settings, place: str, generation: str, throttle: Throttle, progress: Progress
) -> tuple[Manifest, RestoredNetwork]:
    repository = BackupRepository.open(repository_url(place), make=False)
    manifest = await repository.manifest(generation)
    async with open_target(settings) as target:
        return manifest, await restoring.restore(repository, manifest, target, throttle, progress)


async def _completed(
    settings: Settings, manifest: Manifest, progress: Progress, *, checking: bool
) -> CheckReport | None:
    async with open_network(settings, background=False) as network:
        await restoring.restore_tag_rules(network, manifest)
        report = await restoring.make_whole(network, progress) if checking else None
    async with open_target(settings) as target:
        await restoring.finish(target, manifest)
    return report


def _tell(manifest: Manifest, done: RestoredNetwork) -> None:
    click.echo(f"the network is as it was at {manifest.at:%Y-%m-%d %H:%M:%S} UTC: {manifest.generation}")
    click.echo(f"{done.rows:,} rows, {done.events:,} events that wait, {done.buried:,} set aside")
    there = f", {done.media_there:,} were there" if done.media_there else ""
    click.echo(f"{done.media_files:,} files of media{there}")
    for words in done.faults[:10]:
        click.echo(words, err=True)
    if done.faults:
        click.echo(f"{len(done.faults):,} files of media are missing: the rest is there", err=True)
    if manifest.lacks:
        click.echo(f"{manifest.lacks:,} files of media were deleted before the backup had copied them")
