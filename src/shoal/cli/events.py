"""`shoal events`: follow the event log."""

from __future__ import annotations

import asyncio

import click
import msgspec

from shoal.admin.events import EventLines, ReadEvents
from shoal.app.paths import base_url
from shoal.cli.group import pass_settings
from shoal.cli.stores import existing, is_shared, performing
from shoal.queries.events import END, CloudEvent
from shoal.settings import Settings

_WAIT_SECONDS = 5


@click.group()
def events() -> None:
    """Follow the event log of the network."""


@events.command()
@click.option("--after", default=END, show_default=True, help="A position, or 'start' for the oldest stored event.")
@click.option("--types", default="", help="Types, separated by commas, such as 'post.created,member'.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON, with its position.")
@pass_settings
def tail(settings: Settings, /, after: str, types: str, as_json: bool) -> None:
    """Print events as they are committed, private ones too, until interrupted. Works while a server is running.

    Without a server, a store that only one process can open has no new events, so the command stops at the end.
    """
    asyncio.run(_tail(existing(settings), after, types, as_json=as_json))


async def _tail(settings: Settings, after: str, types: str, *, as_json: bool) -> None:
    async with performing(settings) as run:
        while True:
            page: EventLines = await run(ReadEvents(base_url(settings), after, types, _WAIT_SECONDS))
            for line in page.lines:
                click.echo(line.decode() if as_json else _brief(line))
            after = page.position
            if not page.more and run.alone and not is_shared(settings):
                return


def _brief(line: bytes) -> str:
    event = msgspec.json.decode(line, type=CloudEvent)
    return f"{event.time}\t{event.type}\t{event.subject}"
