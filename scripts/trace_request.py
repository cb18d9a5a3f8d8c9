"""Count the source files that a request visits until it is answered.

    python -m scripts.trace_request [--files]

Each request is sent to the server in this process, on a store in memory. A file counts if one of its functions is called for the
request, on any thread. A similar warm-up request comes first, so that imports and lazily filled tables are not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import httpx

import shoal
from shoal import settings as configuration
from shoal.admin.archives.storage import ArchiveStorage
from shoal.app.network import Network, open_network
from shoal.commands import members, oauth, posts, relationships
from shoal.commands.posts import Draft
from shoal.server import AppParts, build

SOURCE = str(Path(shoal.__file__).parent) + os.sep
TARGETS = {
    "POST /api/v1/statuses": 60,
    "POST /api/v1/statuses/:id/favourite": 40,
    "GET /api/v1/timelines/home, cold": 40,
    "GET /api/v1/timelines/home, remembered": 25,
}
"""Maximum number of files for each request."""
_SCOPES = ("read", "write", "follow", "push")


class Trace(NamedTuple):
    """The functions of the package that were called for a request."""

    request: str
    functions: frozenset[CodeType]

    @property
    def files(self) -> list[str]:
        """Return the visited files, relative to the package."""
        return sorted({code.co_filename.removeprefix(SOURCE) for code in self.functions})

    @property
    def packages(self) -> set[str]:
        """Return the folders of the visited files."""
        return {str(Path(file).parent) for file in self.files}


async def traces() -> list[Trace]:
    """Send the four requests to a small network and return what each visits."""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            chosen = configuration.load({}, store="memory://", rate_limits=False, archives=folder)
            network = await stack.enter_async_context(open_network(chosen))
            client = await stack.enter_async_context(_client(network, Path(folder)))
            return await _traced(network, client)


async def _traced(network: Network, client: httpx.AsyncClient) -> list[Trace]:
    writes = network.writes
    ann, ben = [await members.register(writes, name) for name in ("ann", "ben")]
    app = (await oauth.register(writes, "Trace", redirect_uris=("urn:x",), scopes=_SCOPES)).app
    token = (await oauth.issue_token(writes, app.id, ann.id, _SCOPES)).text
    client.headers["Authorization"] = f"Bearer {token}"
    await relationships.follow(writes, ann.id, ben.id)
    made = [await posts.create(writes, ben.id, Draft(text=f"Low tide at #dawn {number}")) for number in range(5)]
    await network.settle()

    async def post() -> None:
        (await client.post("/api/v1/statuses", json={"status": "Low tide"})).raise_for_status()

    liked = iter(made)

    async def like() -> None:
        (await client.post(f"/api/v1/statuses/{next(liked).id}/favourite")).raise_for_status()

    async def home() -> None:
        (await client.get("/api/v1/timelines/home")).raise_for_status()

    requests: list[Callable[[], Awaitable[None]]] = [post, like, home]
    found = []
    names = iter(TARGETS)
    for request in requests:
        await request()
        if request is home:
            # A new post, so that the page is not cached by the warm-up.
            await posts.create(writes, ben.id, Draft(text="High tide"))
        await network.settle()
        found.append(await _trace(next(names), request))
    found.append(await _trace(next(names), home))
    return found


def _client(network: Network, folder: Path) -> httpx.AsyncClient:
    app_parts = AppParts(
        network.settings,
        network.store,
        network.writes,
        network.reads,
        network.media,
        network.hub,
        network.limiter,
        "http://shoal.test",
        engines=network.engines,
        server_key=network.server_key,
        recorder=network.recorder,
        archives=ArchiveStorage(folder, network.settings.max_archive_bytes),
    )
    return httpx.AsyncClient(transport=httpx.ASGITransport(build(app_parts)), base_url="http://shoal.test")


async def _trace(name: str, request: Callable[[], Awaitable[None]]) -> Trace:
    """Return the functions that are called until the request is answered."""
    called: set[CodeType] = set()

    def profile(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            called.add(frame.f_code)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        await request()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Trace(name, frozenset(called))


def main() -> None:
    """Print the counts; exit with an error if one exceeds its target."""
    parser = argparse.ArgumentParser(description="Count the source files that a request visits until it is answered.")
    parser.add_argument("--files", action="store_true", help="also list the source files that each request visits")
    listed = parser.parse_args().files
    over = False
    for trace in asyncio.run(traces()):
        most = TARGETS[trace.request]
        over |= len(trace.files) > most
        counts = f"{len(trace.packages)} packages, {len(trace.functions)} functions"
        print(f"{trace.request}: {len(trace.files)} files (at most {most}), {counts}")
        if listed:
            print(*(f"  {file}" for file in trace.files), sep="\n")
    sys.exit(1 if over else 0)


if __name__ == "__main__":
    main()
