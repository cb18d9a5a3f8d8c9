"""`shoal project`: keep SQL tables of a network up to date."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

import click

from shoal.cli.group import pass_settings
from shoal.core.errors import Gone, Unavailable, with_cause
from shoal.settings import Settings
from shoal_project.changes import INCLUDES
from shoal_project.projection import REBUILD, Projection
from shoal_project.sources import ServerSource, StoreSource, opened_server, opened_store, refuse_store
from shoal_project.targets import KINDS, Target, opened

_WAIT_SECONDS = 20
PUBLISH_SECONDS = 60.0
"""Interval at which Parquet files are written while events arrive."""
_FIRST_BACKOFF, _LONGEST_BACKOFF = 1.0, 60.0


@click.command()
@click.option("--to", required=True, metavar="TARGET", help=f"{KINDS}.")
@click.option("--server", metavar="URL", help="Read a server over HTTP; the default is the network of the settings.")
@click.option(
    "--key",
    envvar="SHOAL_PROJECT_KEY",
    show_envvar=True,
    metavar="SECRET",
    default="",
    help="Server key for --server, with the scope server:events.",
)
@click.option(
    "--include",
    multiple=True,
    type=click.Choice(INCLUDES),
    help="Include private data: posts for followers, direct posts, or hidden follows. May be repeated.",
)
@click.option("--rebuild", is_flag=True, help="Delete the tables, and read the current state again.")
@click.option("--once", is_flag=True, help="Stop when all events have been read.")
@pass_settings
def project(
    settings: Settings, /, to: str, server: str | None, key: str, include: tuple[str, ...], *, rebuild: bool, once: bool
) -> None:
    """Keep SQL tables of a network up to date from its event log: members, posts, likes and so on, until interrupted.

    Needs the setting event_log. Private data are left out. The program may be stopped at any moment, and continues there.
    """
    refuse_store(settings, to, "--to")
    asyncio.run(_project(settings, to, server, key, include, rebuild=rebuild, once=once))


async def _project(
    settings: Settings, to: str, server: str | None, key: str, include: tuple[str, ...], *, rebuild: bool, once: bool
) -> None:
    backoff = _FIRST_BACKOFF
    while True:
        began = time.monotonic()
        try:
            async with AsyncExitStack() as stack:
                source: ServerSource | StoreSource
                if server:
                    source = await stack.enter_async_context(opened_server(server, key, private=bool(include)))
                else:
                    source = await stack.enter_async_context(opened_store(settings, private=bool(include)))
                target = await stack.enter_async_context(opened(to))
                projection = Projection(target, source, include)
                await projection.begin(rebuild=rebuild)
                rebuild = False
                await _follow(projection, target, source, once=once)
                return
        except Gone as error:
            raise click.ClickException(f"{error}: {REBUILD}") from error
        except Unavailable as error:
            if once:
                raise
            click.echo(f"{with_cause(error)}; trying again", err=True)
        if time.monotonic() - began > _LONGEST_BACKOFF:
            backoff = _FIRST_BACKOFF
        await asyncio.sleep(backoff)
        backoff = min(2 * backoff, _LONGEST_BACKOFF)


async def _follow(projection: Projection, target: Target, source: ServerSource | StoreSource, *, once: bool) -> None:
    """Store pages until interrupted, or until the end of the log if no more events can come."""
    published = float("-inf")
    more = True
    while True:
        more = await projection.step(0 if once or more else _WAIT_SECONDS)
        is_end = not more and (once or (isinstance(source, StoreSource) and source.is_complete))
        if is_end or (not more and time.monotonic() - published > PUBLISH_SECONDS):
            await target.publish()
            published = time.monotonic()
        if is_end:
            return
