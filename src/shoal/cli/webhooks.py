"""`shoal webhooks`: send events to the URLs of other products."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from shoal.admin.webhooks import (
    AddWebhook,
    ChangeWebhook,
    ListDeliveries,
    ListWebhooks,
    ReplayWebhook,
    RotateWebhook,
    TestWebhook,
    UpdateWebhook,
)
from shoal.app.paths import base_url
from shoal.cli.group import pass_settings
from shoal.cli.stores import perform
from shoal.core.webhooks import MAX_GRACE_SECONDS, USUAL_GRACE_SECONDS, Delivery, WebhookFormat
from shoal.settings import Settings
from shoal.webhooks.endpoints import NewSecret

_HOUR = 3_600
_MAX_TYPES = 1_000
_TYPES = click.option("--types", help="Types, separated by commas, such as 'post.created,member'.  [default: all]")
_FILTER = click.option(
    "--filter",
    "filter_",
    help="Conditions on the data, separated by commas, such as 'author_id=123,tags=dawn'.  [default: none]",
)


@click.group()
def webhooks() -> None:
    """Send events to the URLs of other products."""


@webhooks.command()
@click.argument("url")
@_TYPES
@_FILTER
@click.option(
    "--private", is_flag=True, help="Send everything, private data and moderation too; needed for the format mastodon."
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["standard", "mastodon"]),
    default="standard",
    show_default=True,
    help="Events of Shoal, or those of Mastodon's admin webhooks.",
)
@pass_settings
def add(
    settings: Settings, /, url: str, types: str | None, filter_: str | None, *, private: bool, format_: WebhookFormat
) -> None:
    """Send events to URL from now on, and print the secret that signs them. Works while a server is running.

    The secret cannot be shown again.
    """
    _check_types(types)
    _print(perform(settings, AddWebhook(url, types or "", private, format_, filter_ or "")))


def _check_types(types: str | None) -> None:
    if types and len(types) > _MAX_TYPES:
        raise click.ClickException(f"types: at most {_MAX_TYPES} characters (got {len(types)})")


@webhooks.command()
@click.argument("id_", metavar="ID", type=int)
@click.option("--url", help="The new URL.")
@_TYPES
@_FILTER
@pass_settings
def update(settings: Settings, /, id_: int, url: str | None, types: str | None, filter_: str | None) -> None:
    """Change the URL, the types or the filter of the webhook ID. Works while a server is running.

    Its secrets stay, and events that are not delivered yet are sent to the new URL. '' means all types, or no filter.
    """
    if url is types is filter_ is None:
        raise click.ClickException("nothing to change: use --url, --types or --filter")
    _check_types(types)
    perform(settings, UpdateWebhook(id_, url, types, filter_))


@webhooks.command("list")
@pass_settings
def list_(settings: Settings) -> None:
    """List webhooks. Works while a server is running.

    The columns are id, state, number of parked events, number and age of the events that wait, format, access, URL, types, filter.
    """
    click.echo("id\tstate\tparked\tbehind\tformat\treceives\turl\ttypes\tfilter")
    for row in perform(settings, ListWebhooks()):
        state = (
            f"paused ({row.paused})"
            if row.paused
            else f"{row.failed_attempts} failed"
            if row.failed_attempts
            else "active"
        )
        receives = "private" if row.private else "public"
        behind = f"{row.lag.events} ({row.lag.seconds:.0f} s)" if row.lag else "unknown"
        counts = str(row.id), state, str(row.parked), behind
        click.echo("\t".join((*counts, row.format, receives, row.url, row.types or "all", row.filter or "none")))


@webhooks.command()
@click.argument("id_", metavar="ID", type=int)
@pass_settings
def pause(settings: Settings, /, id_: int) -> None:
    """Pause the webhook ID. Its events wait in the event log. Works while a server is running."""
    perform(settings, ChangeWebhook("pause", id_))


@webhooks.command()
@click.argument("id_", metavar="ID", type=int)
@pass_settings
def resume(settings: Settings, /, id_: int) -> None:
    """Resume the webhook ID, from the event at which it stopped. Works while a server is running."""
    perform(settings, ChangeWebhook("resume", id_))


@webhooks.command()
@click.argument("id_", metavar="ID", type=int)
@pass_settings
def delete(settings: Settings, /, id_: int) -> None:
    """Delete the webhook ID, its parked events and its delivery log. Works while a server is running."""
    perform(settings, ChangeWebhook("delete", id_))


@webhooks.command()
@click.argument("id_", metavar="ID", type=int)
@pass_settings
def test(settings: Settings, /, id_: int) -> None:
    """Send an event of the type webhook.test to the webhook ID, and print the result. Works while a server is running."""
    networks = list(settings.webhook_networks)
    made = perform(settings, TestWebhook(id_, base_url(settings), networks))
    click.echo(_line(made))
    if not made.succeeded:
        raise click.ClickException("the test failed")


@webhooks.command()
@click.argument("id_", metavar="ID", type=int)
@pass_settings
def replay(settings: Settings, /, id_: int) -> None:
    """Deliver the parked events of the webhook ID again, oldest first, until one fails. Works while a server is running."""
    click.echo(f"parked events: {perform(settings, ReplayWebhook(id_))}")


@webhooks.command()
@click.argument("id_", metavar="ID", type=int)
@click.option(
    "--grace-hours",
    type=click.IntRange(0, MAX_GRACE_SECONDS // _HOUR),
    default=USUAL_GRACE_SECONDS // _HOUR,
    show_default=True,
    help="Hours for which requests are signed with the current secret too; 0 ends all former ones.",
)
@pass_settings
def rotate(settings: Settings, /, id_: int, grace_hours: int) -> None:
    """Print a new secret of the webhook ID, which cannot be shown again. Works while a server is running."""
    _print(perform(settings, RotateWebhook(id_, grace_hours * _HOUR)))


@webhooks.command()
@click.argument("id_", metavar="ID", type=int)
@pass_settings
def deliveries(settings: Settings, /, id_: int) -> None:
    """List the newest deliveries of the webhook ID: time, status, latency, type, event, response.

    Works while a server is running.
    """
    for made in perform(settings, ListDeliveries(id_)):
        click.echo(_line(made))


def _line(made: Delivery) -> str:
    at = f"{datetime.fromtimestamp(made.at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    status = str(made.status or "failed")
    return "\t".join((at, status, f"{made.milliseconds} ms", made.type, made.event_id, made.excerpt))


def _print(made: NewSecret) -> None:
    """Print only the secret to standard output, so that a script can store it."""
    click.echo(f"secret of the webhook {made.id}, shown only once:", err=True)
    click.echo(made.secret)
