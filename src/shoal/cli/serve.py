"""`shoal serve`: the server."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack

import click
import uvloop
from msgspec import structs

from shoal.api.server import Deps
from shoal.api.server import serve as serve_http
from shoal.cli.address import check_address
from shoal.cli.group import pass_settings
from shoal.ops.control import listening
from shoal.settings import Settings
from shoal.wiring import control_path, open_network

_SWITCH_SECONDS = 0.0005
"""How long a thread keeps the interpreter: the writer thread waits so long for its turn, several times a commit."""
_GC_THRESHOLD = 50_000
"""Objects made between two collections: caches hold many that live long, and looking at them again and again is waste."""


@click.command()
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65_535), help="Port to listen on; 0 takes a free one.  [default: 8500]")
@click.option("--base-url", metavar="URL", help="How clients reach the server, when that is another address.")
@pass_settings
def serve(settings: Settings, host: str | None, port: int | None, base_url: str | None) -> None:
    """Serve the network over HTTP, until Ctrl-C."""
    given = {
        name: value for name, value in (("host", host), ("port", port), ("base_url", base_url)) if value is not None
    }
    chosen = structs.replace(settings, **given)
    check_address(chosen.host, chosen.port)
    uvloop.run(run(chosen, _say_where))


def _say_where(url: str) -> None:
    click.echo(f"Shoal is at {url}")
    sys.stdout.flush()


async def run(settings: Settings, ready: Callable[[str], None]) -> None:
    """Open the network and serve it, until a signal ends it."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    async with AsyncExitStack() as stack:
        network = await stack.enter_async_context(open_network(settings))
        if (socket := control_path(settings)) is not None:
            await stack.enter_async_context(listening(network, socket))
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD, 20, 50)
        deps = Deps(settings, network.store, network.writes, network.reads, network.media)
        await serve_http(deps, host=settings.host, port=settings.port, ready=ready)
