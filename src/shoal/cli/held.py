"""`shoal held`: list, approve and reject content that waits for approval."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from shoal.admin.held_content import ApproveHeld, ListHeld, RejectHeld
from shoal.cli.group import pass_settings
from shoal.cli.stores import perform
from shoal.core.ids import milliseconds_of
from shoal.settings import Settings

_EXCERPT = 80

_id = click.argument("held_id", type=click.IntRange(1, 2**63 - 1), metavar="ID")


@click.group()
def held() -> None:
    """List, approve and reject content that waits for approval."""


@held.command("list")
@pass_settings
def list_(settings: Settings) -> None:
    """List the newest 1,000 items: id, time, kind, member, reason, beginning of the text. Works while a server is running."""
    click.echo("id\ttime\tkind\tmember\treason\ttext")
    for found in perform(settings, ListHeld()):
        time = f"{datetime.fromtimestamp(milliseconds_of(found.id) / 1_000, UTC):%Y-%m-%d %H:%M}"
        reason = " ".join(filter(None, (found.rule, found.reason))) or "-"
        cells = (str(found.id), time, found.kind, str(found.owner_id), reason, found.text[:_EXCERPT])
        click.echo("\t".join(" ".join(cell.split()) for cell in cells))


@held.command()
@_id
@pass_settings
def approve(settings: Settings, /, held_id: int) -> None:
    """Publish the content ID. Works while a server is running."""
    published = perform(settings, ApproveHeld(held_id))
    click.echo(f"approved {held_id}: it is public as {published}")


@held.command()
@_id
@click.option("--reason", default="", help="Reason, shown to the author.")
@pass_settings
def reject(settings: Settings, /, held_id: int, reason: str) -> None:
    """Reject the content ID. Works while a server is running."""
    perform(settings, RejectHeld(held_id, reason))
    click.echo(f"rejected {held_id}")
