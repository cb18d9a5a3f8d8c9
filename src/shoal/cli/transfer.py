"""Import and export: `shoal import`, `shoal export` and `shoal member import-archive`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from msgspec import structs
from rich.console import Console
from rich.table import Column, Table

from shoal.admin import export as exports
from shoal.admin.archives.importer import ImportArchive
from shoal.admin.archives.records import Amounts, ArchiveReport, Omission
from shoal.admin.database_imports.run import ImportMapped
from shoal.admin.database_imports.session import ImportOptions
from shoal.admin.imports.files import BEST_CONNECTED, MATCH, Sources, in_directory
from shoal.admin.imports.records import ImportReport
from shoal.admin.operations import Import
from shoal.admin.report import Progress
from shoal.app.network import open_network
from shoal.app.paths import store_files
from shoal.cli.group import pass_settings
from shoal.cli.progress import bars
from shoal.cli.stores import existing, perform
from shoal.core.errors import InvalidInput
from shoal.core.model import Visibility
from shoal.settings import Settings

REASONS: Mapping[Omission, str] = {
    Omission.BOOST: "shared posts by others",
    Omission.REPLY: "replies to others",
    Omission.THREAD: "replies to posts that are not imported",
    Omission.DIRECT: "direct messages",
    Omission.STORY: "stories",
    Omission.ARCHIVED: "archived by their author",
    Omission.VIDEO: "videos and sounds",
    Omission.MISSING: "file missing from the archive",
    Omission.UNREADABLE: "unsupported or too large pictures",
    Omission.OVER_QUOTA: "over the member's storage limit",
    Omission.EMPTY: "empty without their omitted media",
    Omission.FUTURE: "dated in the future",
    Omission.TWICE: "duplicates",
    Omission.MALFORMED: "malformed",
    Omission.TOO_MANY: "over the limit",
    Omission.DELETED: "imported before and deleted here since",
    Omission.ELSEWHERE: "no matching member found",
    Omission.UNSURE: "same user name as a member, but possibly another person",
    Omission.UNMATCHED: "parent post missing from the archive",
    Omission.NO_ACCOUNT: "entries without an account",
    Omission.REFUSED: "refused",
}


def details(report: ArchiveReport) -> Iterator[str]:
    whose = f" of {report.account}" if report.account else ""
    yield f"{report.kind.network} archive{whose}"
    if report.first:
        yield f"posts from {_day(report.first)} to {_day(report.last)}"
    if report.finished:
        yield f"imported: {_amounts(report.taken)}"
        yield f"already imported: {_amounts(report.there)}"
    else:
        yield f"would be imported: {_amounts(report.found)}; {report.with_photos:,} of the posts have photos"
        for sample in report.samples:
            photos = f" [photos: {sample.photos}]" if sample.photos else ""
            yield f"  {_day(sample.written)} {' '.join(sample.text.split())[:80]}{photos}"
    for omission in report.omitted:
        examples = f" ({', '.join(omission.examples)})" if omission.examples else ""
        yield f"{omission.kind} left out, {omission.count:,}: {REASONS[omission.reason]}{examples}"
    if report.polls:
        yield f"polls converted to text: {report.polls:,}"
    if report.cut:
        yield f"texts and descriptions truncated at the limit: {report.cut:,}"
    if report.continued:
        yield f"posts with further photos in comments: {report.continued:,}"


def _amounts(amounts: Amounts) -> str:
    return f"{amounts.posts:,} posts, {amounts.comments:,} comments, {amounts.photos:,} photos, {amounts.follows:,} follows"


def _day(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d}"


_FILE = click.Path(path_type=Path)


@click.command("import")
@click.argument("folder", required=False, type=_FILE)
@click.option(
    "--members",
    type=_FILE,
    metavar="FILE",
    help="CSV or JSONL file with the fields name and, optionally, id, display_name, note.",
)
@click.option(
    "--follows",
    type=_FILE,
    metavar="FILE",
    help="CSV or JSONL file with the fields follower, followee (or id_1, id_2), and optionally since.",
)
@click.option(
    "--mutual/--one-way",
    default=None,
    help="Treat each row of --follows as a follow in both directions, or in one direction.",
)
@click.option(
    "--posts",
    type=_FILE,
    metavar="FILE",
    help="CSV or JSONL file with the fields id, author, created_at, and optionally title, text, tags.",
)
@click.option(
    "--authors",
    type=click.Choice([MATCH, BEST_CONNECTED]),
    help="Match authors to members by id or name, or by rank: the most active author is the best-connected member, and so on.",
)
@click.option(
    "--photos", type=_FILE, metavar="FOLDER", help="Directory of pictures; each of the newest posts gets one."
)
@click.option("--photos-newest", type=click.IntRange(0), help="Number of posts that get a picture.  [default: 500]")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="FIELD=COLUMN",
    help="Read a field from a column with another name; posts.title=name reads titles from the column `name`.",
)
@click.option(
    "--bulk/--one-by-one",
    default=None,
    help="Write directly into the store, which must be empty, or create each record as a server would.  [default: bulk if empty]",
)
@click.option("--refused", type=_FILE, metavar="FILE", help="Write every rejected record to this file.")
@click.option(
    "--map", "map_name", metavar="MAP", help="TOML file, or ready map, that assigns tables to members, posts and so on."
)
@click.option(
    "--from", "source", metavar="URL", help="With --map: database to import from, or a folder of CSV and JSONL files."
)
@click.option(
    "--issuer", metavar="NAME", help="With --map: product whose ids the rows have.  [default: that of the map]"
)
@click.option("--media", type=_FILE, metavar="FOLDER", help="With --map: directory of the media that have a path.")
@click.option("--fetch-media", is_flag=True, help="With --map: fetch the media that have a URL.")
@click.option("--dry-run", is_flag=True, help="With --map: report what would be imported, and write nothing.")
@click.option("--strict", is_flag=True, help="With --map: abort at the first rejected row.")
@click.option(
    "--overwrite", is_flag=True, help="With --map: apply changes of the source also to objects that were changed here."
)
@click.option("--full", is_flag=True, help="With --map: read all rows, also those before the stored position.")
@pass_settings
def import_(
    settings: Settings, /, folder: Path | None, columns: tuple[str, ...], refused: Path | None, **options: Any
) -> None:
    """Import a network, whether or not a server is running.

    An interrupted import can be run again: existing records are recognized.

    FOLDER contains graph/nodes.csv, graph/edges.csv, posts/*.jsonl.gz and photos/. Options name other files. With --map and
    --from, the rows of a database are imported instead.
    """
    mapping = {name: options.pop(name) for name in _MAPPING}
    if mapping["map_name"] or mapping["source"]:
        if folder or columns or any(value is not None for value in options.values()):
            raise click.UsageError("--map cannot be combined with FOLDER and the options of its files")
        _run(settings, _mapped(settings, refused, **mapping))
        return
    if any(mapping.values()):
        given = next(name for name, value in mapping.items() if value)
        raise click.UsageError(f"--{given.replace('_', '-')} needs --map")
    _run(settings, _files(folder, columns, refused, options))


_MAPPING = ("map_name", "source", "issuer", "media", "fetch_media", "dry_run", "strict", "overwrite", "full")


def _mapped(settings: Settings, refused: Path | None, **options: Any) -> ImportMapped:
    if not options["map_name"] or not options["source"]:
        raise click.UsageError("--map and --from need each other")
    chosen = ImportOptions(
        dry_run=options["dry_run"],
        strict=options["strict"],
        overwrite=options["overwrite"],
        full=options["full"],
        media=options["media"],
        fetch=options["fetch_media"],
        networks=settings.outgoing_networks,
    )
    # Report a wrong map before a store is opened or created.
    return ImportMapped.of(options["map_name"], options["source"], options["issuer"] or "", chosen, refused)


def _files(folder: Path | None, columns: tuple[str, ...], refused: Path | None, files: dict[str, Any]) -> Import:
    # Make the paths absolute: the operation may run in a server, whose working directory differs.
    given = {
        name: value.absolute() if isinstance(value, Path) else value
        for name, value in files.items()
        if value is not None
    }
    found = in_directory(folder.absolute()) if folder else Sources()
    sources = structs.replace(found, columns=_named(columns), **given)
    if not (sources.members or sources.follows or sources.posts):
        raise click.UsageError("nothing to import: name a FOLDER, or files with --members, --follows or --posts")
    return Import(sources, refused.absolute() if refused else None)


def _run(settings: Settings, operation: Import | ImportMapped) -> None:
    if isinstance(operation, ImportMapped) and operation.options.dry_run:
        # A dry run creates no store either.
        missing = not all(path.exists() for path in store_files(settings))
        settings = structs.replace(settings, store="memory://") if missing else settings
    try:
        with bars() as progress:
            report = perform(settings, operation, progress, create=True)
    except KeyboardInterrupt:
        click.echo("interrupted; run the command again to resume", err=True)
        raise SystemExit(130) from None
    _tell(report)


def _named(columns: tuple[str, ...]) -> dict[str, str]:
    named = dict(column.split("=", 1) for column in columns if "=" in column)
    if len(named) < len(columns):
        raise InvalidInput("--column: expected FIELD=COLUMN, each field once, such as posts.title=name")
    return named


def _tell(summary: ImportReport) -> None:
    click.echo(f"imported {summary.way}")
    counts = summary.counts
    columns = {
        "imported": [counted.taken for counted in counts.values()],
        "existing": [counted.there for counted in counts.values()],
        "changed": [counted.changed for counted in counts.values()],
        "deleted": [counted.deleted for counted in counts.values()],
        "rejected": [counted.refusals for counted in counts.values()],
    }
    # Only an import by a map changes and deletes existing objects.
    shown = {name: column for name, column in columns.items() if any(column) or name not in ("changed", "deleted")}
    table = Table("", *(Column(name, justify="right") for name in shown), box=None)
    for kind, *numbers in zip(counts, *shown.values(), strict=True):
        table.add_row(kind, *(f"{number:,}" for number in numbers))
    Console().print(table)
    for kind, counted in summary.counts.items():
        for reason, found in counted.refused.items():
            examples = ", ".join(filter(None, found.examples))
            click.echo(f"{found.count:,} {kind} rejected: {reason}{f' ({examples})' if examples else ''}")
    for count, one, many in summary.notes:
        click.echo(f"{count:,} {one if count == 1 else many}")
    details = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in summary.phases.items())
    click.echo(f"took {summary.seconds:.1f} s ({details})")


_WIDEST = (Visibility.PUBLIC, Visibility.UNLISTED, Visibility.FOLLOWERS)


@click.command("import-archive")
@click.argument("name")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would be imported and omitted, without importing.")
@click.option(
    "--visible-to",
    "widest",
    type=click.Choice([visibility.value for visibility in _WIDEST]),
    default=Visibility.PUBLIC.value,
    show_default=True,
    help="Widest visibility of imported posts.",
)
@pass_settings
def import_archive(settings: Settings, /, name: str, file: Path, widest: str, *, dry_run: bool) -> None:
    """Import the archive FILE of another network into the account of the member NAME. Works while a server is running.

    FILE is the ZIP of Mastodon (or its tar.gz), Instagram (JSON), X or Shoal, pixelfed-statuses.json of Pixelfed, or the CAR file
    of Bluesky. An interrupted import can be run again: existing posts are recognized.
    """
    operation = ImportArchive(name, file.absolute(), dry_run, Visibility(widest))
    try:
        with bars() as progress:
            report = perform(settings, operation, progress)
    except KeyboardInterrupt:
        click.echo("interrupted; run the command again to resume", err=True)
        raise SystemExit(130) from None
    for line in details(report):
        click.echo(line)


@click.command()
@click.argument("name")
@click.option("--to", required=True, type=click.Path(path_type=Path), help="New directory, or a file ending in .zip.")
@pass_settings
def export(settings: Settings, name: str, to: Path) -> None:
    """Export all data of the member NAME: posts, media, reactions, settings and lists of members.

    Works while a server is running. Exit status 1 if pictures are missing.
    """
    with bars() as progress:
        lost = asyncio.run(_export(existing(settings), name, to, progress))
    click.echo(f"exported the data of {name} to {to}")
    if lost:
        click.echo(f"{lost:,} {'picture' if lost == 1 else 'pictures'} missing from the export", err=True)
        raise SystemExit(1)


async def _export(settings: Settings, name: str, to: Path, progress: Progress) -> int:
    async with open_network(settings, read_only=True) as network:
        return await exports.export(network, name, to, progress)
