"""`shoal backup` and `shoal restore`: copy a network to a directory or bucket, and restore it into an empty store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from shoal.admin.backups import prune as pruning
from shoal.admin.backups import restore as restoring
from shoal.admin.backups import verify as verifying
from shoal.admin.backups.backup import back_up
from shoal.admin.backups.prune import Keeping, Pruned
from shoal.admin.backups.repository import BackupRepository, Manifest, plain
from shoal.admin.backups.restore import RestoredNetwork
from shoal.admin.backups.verify import VerifiedBackup
from shoal.admin.report import CheckReport, Progress
from shoal.admin.throttling import Throttle
from shoal.app.backups import open_backed, open_target, repository_url
from shoal.app.network import open_network
from shoal.cli.group import pass_settings
from shoal.cli.maintenance import tell
from shoal.cli.progress import bars
from shoal.cli.stores import existing
from shoal.core.errors import ShoalError
from shoal.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
throttle_option = click.option(
    "--mb-per-second",
    type=click.FloatRange(0, min_open=True),
    help="Maximum megabytes read and written per second.  [default: unlimited]",
)
_AMOUNT = click.IntRange(0)


def keeping_options(function: F) -> F:
    for name, words in (
        ("--keep-weekly", "Keep the newest generation of each of the last N weeks."),
        ("--keep-daily", "Keep the newest generation of each of the last N days."),
        ("--keep", "Keep the newest N generations."),
    ):
        function = click.option(name, type=_AMOUNT, default=0, metavar="N", help=words)(function)
    return function


@click.group(invoke_without_command=True)
@click.option(
    "--to",
    "destination",
    metavar="DESTINATION",
    help="A directory, or s3://bucket/prefix?endpoint=... as in media URLs.",
)
@keeping_options
@throttle_option
@_json
@click.pass_context
def backup(
    context: click.Context,
    destination: str | None,
    keep: int,
    keep_daily: int,
    keep_weekly: int,
    mb_per_second: float | None,
    as_json: bool,
) -> None:
    """Write a consistent backup of the network to DESTINATION, as a new generation.

    Works whether or not a server is running, on SQLite and PostgreSQL. Each backup is a generation. Generations share
    media: only new files are copied. With --keep options, generations that none of them selects are deleted at the end.
    """
    if context.invoked_subcommand is not None:
        return
    if destination is None:
        raise click.UsageError("missing --to: name a directory or s3://bucket/prefix")
    settings: Settings = context.obj
    keeping = Keeping(keep, keep_daily, keep_weekly)
    with bars() as progress:
        made, pruned = asyncio.run(_made(existing(settings), destination, keeping, _throttle(mb_per_second), progress))
    if as_json:
        click.echo(msgspec.json.encode(plain(made) | _plain(pruned)))
        return
    click.echo(f"{made.generation} written to {_shown(destination)}, state of {made.at:%Y-%m-%d %H:%M:%S} UTC")
    click.echo(f"{sum(part.rows for part in made.parts):,} rows in {made.stored:,} bytes")
    media = made.media
    click.echo(
        f"{media.files:,} media files ({media.bytes:,} bytes), {media.new_files:,} new ({media.new_bytes:,} bytes)"
    )
    if len(made.stores) > 1:
        click.echo(f"commits were blocked for at most {made.held_ms:.0f} ms")
    if made.lacks:
        click.echo(f"{made.lacks:,} media files were deleted before they were copied; the manifest lists them")
    if pruned is not None:
        _tell_pruned(pruned)


async def _made(
    settings: Settings, destination: str, keeping: Keeping, throttle: Throttle, progress: Progress
) -> tuple[Manifest, Pruned | None]:
    repository = BackupRepository.open(repository_url(destination), make=True)
    async with open_backed(settings) as network:
        made = await back_up(network, repository, throttle, progress)
    if not keeping.asks:
        return made, None
    try:
        return made, await _pruned(repository, keeping, progress)
    except ShoalError as error:
        raise ShoalError(f"{made.generation} is complete, but pruning older generations failed: {error}") from error


@backup.command("list")
@click.argument("destination")
@_json
def list_(destination: str, as_json: bool) -> None:
    """List the generations at DESTINATION, oldest first."""
    repository = BackupRepository.open(repository_url(destination), make=False)
    manifests = asyncio.run(repository.manifests())
    if as_json:
        click.echo(msgspec.json.encode([plain(each) for each in manifests]))
        return
    if not manifests:
        click.echo("no backups found")
    for each in manifests:
        lacks = f", {each.lacks:,} files lacking" if each.lacks else ""
        click.echo(
            f"{each.generation}  {each.at:%Y-%m-%d %H:%M:%S} UTC  {sum(part.rows for part in each.parts):,} rows, "
            f"{each.stored:,} bytes; {each.media.files:,} media files, {each.media.bytes:,} bytes{lacks}"
        )


@backup.command()
@click.argument("destination")
@click.argument("generation", required=False, default="")
@click.option("--quick", is_flag=True, help="Compare only the sizes of media, not their hashes.")
@throttle_option
@_json
def verify(destination: str, generation: str, quick: bool, mb_per_second: float | None, as_json: bool) -> None:
    """Read a whole generation at DESTINATION (by default the newest) and compare it with its hashes.

    Exit status 1 if anything differs.
    """
    repository = BackupRepository.open(repository_url(destination), make=False)
    with bars() as progress:
        found = asyncio.run(verifying.verify(repository, generation, _throttle(mb_per_second), progress, quick=quick))
    if as_json:
        click.echo(msgspec.json.encode(found))
    else:
        _tell_verified(found)
    if found.faults:
        raise SystemExit(1)


@backup.command()
@click.argument("destination")
@keeping_options
@_json
def prune(destination: str, keep: int, keep_daily: int, keep_weekly: int, as_json: bool) -> None:
    """Delete the generations at DESTINATION that no --keep option selects, with their media. The newest is always kept."""
    keeping = Keeping(keep, keep_daily, keep_weekly)
    if not keeping.asks:
        raise click.UsageError("no retention given: use --keep, --keep-daily or --keep-weekly")
    repository = BackupRepository.open(repository_url(destination), make=False)
    with bars() as progress:
        pruned = asyncio.run(_pruned(repository, keeping, progress))
    if as_json:
        click.echo(msgspec.json.encode(_plain(pruned)))
    else:
        _tell_pruned(pruned)


async def _pruned(repository: BackupRepository, keeping: Keeping, progress: Progress) -> Pruned:
    async with repository.writing():
        return await pruning.prune(repository, keeping, progress)


def _throttle(mb_per_second: float | None) -> Throttle:
    return Throttle(mb_per_second * 1e6 if mb_per_second else None)


def _shown(destination: str) -> str:
    """Return the location of backups without the query of its URL, which may contain secrets."""
    return destination.partition("?")[0]


def _plain(pruned: Pruned | None) -> dict[str, Any]:
    if pruned is None:
        return {}
    return {
        "pruned": list(pruned.generations),
        "pruned_media_files": pruned.media_files,
        "pruned_media_bytes": pruned.media_bytes,
    }


def _tell_pruned(pruned: Pruned) -> None:
    for name in pruned.generations:
        click.echo(f"deleted {name}")
    click.echo(f"{pruned.media_files:,} unreferenced media files deleted ({pruned.media_bytes:,} bytes)")


def _tell_verified(found: VerifiedBackup) -> None:
    for words in found.examples:
        click.echo(words)
    outcome = f"{found.faults:,} damaged" if found.faults else "all intact"
    click.echo(f"{found.generation}: {found.rows:,} rows, {found.media_files:,} media files, {outcome}")


@click.command()
@click.option(
    "--from", "source", required=True, metavar="SOURCE", help="Location of the backup: a directory, or s3://..."
)
@click.option(
    "--generation", default="", help="Generation to restore, as in `shoal backup list`.  [default: the newest]"
)
@click.option(
    "--check/--no-check",
    "checking",
    default=True,
    show_default=True,
    help="Recount tags and run `shoal check --repair` at the end.",
)
@throttle_option
@pass_settings
def restore(settings: Settings, source: str, generation: str, checking: bool, mb_per_second: float | None) -> None:
    """Restore a backup into the store and the media of the settings (or --store and --media).

    The store must be empty, must not be in use, and may be of another kind than the original. Rows are compared with their hashes
    before anything is written. An interrupted restore resumes when run again. Exit status 1 if something could not be restored.
    """
    throttle = Throttle(mb_per_second * 1e6 if mb_per_second else None)
    with bars() as progress:
        manifest, done = asyncio.run(_restored(settings, source, generation, throttle, progress))
    _tell(manifest, done)
    wrong = bool(done.faults)
    with bars() as progress:
        report = asyncio.run(_completed(settings, manifest, progress, checking=checking))
    if report is not None:
        tell(report)
        wrong = wrong or sum(line.found for line in report.invariants) > report.repaired
    else:
        click.echo("run `shoal check --repair` before starting a server")
    if wrong:
        raise SystemExit(1)


async def _restored(
    settings: Settings, source: str, generation: str, throttle: Throttle, progress: Progress
) -> tuple[Manifest, RestoredNetwork]:
    repository = BackupRepository.open(repository_url(source), make=False)
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
    click.echo(f"restored generation {manifest.generation}, state of {manifest.at:%Y-%m-%d %H:%M:%S} UTC")
    click.echo(f"{done.rows:,} rows, {done.events:,} pending events, {done.parked:,} parked jobs")
    there = f", {done.media_there:,} already present" if done.media_there else ""
    click.echo(f"{done.media_files:,} media files{there}")
    for words in done.faults[:10]:
        click.echo(words, err=True)
    if done.faults:
        click.echo(f"{len(done.faults):,} media files are missing; all others were restored", err=True)
    if manifest.lacks:
        click.echo(f"{manifest.lacks:,} media files were deleted before the backup copied them")
