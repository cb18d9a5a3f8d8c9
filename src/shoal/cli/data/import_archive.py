"""`shoal member import-archive`: the archive of another network becomes a member's own posts and follows."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.admin.archives.importer import ImportArchive
from shoal.cli.group import pass_settings
from shoal.cli.stores import existing, perform
from shoal.cli.words.archives import told
from shoal.cli.words.bars import bars
from shoal.core.model import Visibility
from shoal.settings import Settings

_WIDEST = (Visibility.PUBLIC, Visibility.UNLISTED, Visibility.FOLLOWERS)


@click.command("import-archive")
@click.argument("name")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only say what would be taken in, and what would be left out.")
@click.option(
    "--visible-to",
    "widest",
    type=click.Choice([one.value for one in _WIDEST]),
    default=Visibility.PUBLIC.value,
    show_default=True,
    help="Make no post visible to more people than this, whatever the archive says.",
)
@pass_settings
def import_archive(settings: Settings, /, name: str, file: Path, widest: str, *, dry_run: bool) -> None:
    """Take the archive FILE of another network into the account of the member NAME. Works beside a running server.

    FILE is the ZIP of Mastodon (or its tar.gz), Instagram (JSON), X or Shoal, pixelfed-statuses.json of Pixelfed, or the CAR file
    of Bluesky. It may be interrupted at any moment and run again: what is there is recognised.
    """
    existing(settings)
    operation = ImportArchive(name, file.absolute(), dry_run, Visibility(widest))
    try:
        with bars() as progress:
            report = perform(settings, operation, progress)
    except KeyboardInterrupt:
        click.echo("interrupted; the same command again goes on where it was", err=True)
        raise SystemExit(130) from None
    for line in told(report):
        click.echo(line)
