"""`shoal import`: members, follows, posts and photos of another network become ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from msgspec import structs
from rich.console import Console
from rich.table import Column, Table

from shoal.admin.imports.files import BEST_CONNECTED, MATCH, Sources, in_directory
from shoal.admin.imports.records import ImportReport
from shoal.admin.operations import Import
from shoal.cli.group import pass_settings
from shoal.cli.stores import perform
from shoal.cli.words.bars import bars
from shoal.core.errors import InvalidInput
from shoal.settings import Settings

_FILE = click.Path(path_type=Path)


@click.command("import")
@click.argument("folder", required=False, type=_FILE)
@click.option("--members", type=_FILE, metavar="FILE", help="CSV or JSONL: id, name, and perhaps display_name, note.")
@click.option("--follows", type=_FILE, metavar="FILE", help="CSV or JSONL: follower, followee (or id_1, id_2), since.")
@click.option("--mutual/--one-way", default=None, help="Each row of follows is two, one each way; or one.")
@click.option("--posts", type=_FILE, metavar="FILE", help="CSV or JSONL: id, author, created_at, title, text, tags.")
@click.option(
    "--authors",
    type=click.Choice([MATCH, BEST_CONNECTED]),
    help="Authors are members by id or name; or who posted most is the best-connected member, and so on.",
)
@click.option("--photos", type=_FILE, metavar="FOLDER", help="Pictures, attached in turn to the newest posts.")
@click.option("--photos-newest", type=click.IntRange(0), help="How many posts get a picture.  [default: 500]")
@click.option(
    "--column", "columns", multiple=True, metavar="FIELD=COLUMN", help="Where a field is, as in posts.title=name."
)
@click.option(
    "--bulk/--one-by-one",
    default=None,
    help="Write straight into the store, which must be empty; or through the services.  [default: in bulk if it is empty]",
)
@click.option("--refused", type=_FILE, metavar="FILE", help="Write every record that is not taken to this file.")
@pass_settings
def import_(
    settings: Settings, /, folder: Path | None, columns: tuple[str, ...], refused: Path | None, **files: Any
) -> None:
    """Import a network, beside a running server or without one.

    It may be interrupted at any moment and run again: what is there is recognised.

    FOLDER holds graph/nodes.csv, graph/edges.csv, posts/*.jsonl.gz and photos/; the options name other files.
    """
    # A server that does it has another working directory.
    given = {
        name: value.absolute() if isinstance(value, Path) else value
        for name, value in files.items()
        if value is not None
    }
    found = in_directory(folder.absolute()) if folder else Sources()
    sources = structs.replace(found, columns=_named(columns), **given)
    if not (sources.members or sources.follows or sources.posts):
        raise click.UsageError("nothing to import: name a FOLDER, or files with --members, --follows, --posts")
    try:
        with bars() as progress:
            report = perform(settings, Import(sources, refused.absolute() if refused else None), progress)
    except KeyboardInterrupt:
        click.echo("interrupted; the same command again goes on where it was", err=True)
        raise SystemExit(130) from None
    _tell(report)


def _named(columns: tuple[str, ...]) -> dict[str, str]:
    named = dict(column.split("=", 1) for column in columns if "=" in column)
    if len(named) < len(columns):
        raise InvalidInput("--column takes FIELD=COLUMN, each field once, as in posts.title=name")
    return named


def _tell(summary: ImportReport) -> None:
    click.echo(f"imported {summary.way}")
    numbers = (Column(name, justify="right") for name in ("taken", "already there", "refused"))
    table = Table("", *numbers, box=None)
    for kind, tally in summary.tallies.items():
        table.add_row(kind, f"{tally.taken:,}", f"{tally.there:,}", f"{tally.refusals:,}")
    Console().print(table)
    for kind, tally in summary.tallies.items():
        for reason, found in tally.refused.items():
            examples = ", ".join(filter(None, found.examples))
            click.echo(f"{kind} refused, {found.count:,}: {reason}{f' ({examples})' if examples else ''}")
    for count, one, many in summary.notes:
        click.echo(f"{count:,} {one if count == 1 else many}")
    told = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in summary.phases.items())
    click.echo(f"in {summary.seconds:.1f} s ({told})")
