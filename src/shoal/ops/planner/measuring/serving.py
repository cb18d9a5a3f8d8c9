"""The costs of a server of ours as a process of its own: its memory, and what HTTP adds to a page."""

from __future__ import annotations

import asyncio
import http.client
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from shoal.admin.contract import AnyNetwork
from shoal.commands import oauth
from shoal.core.errors import Unavailable
from shoal.ops.engines.program import free_port
from shoal.ops.planner.measuring.meters import cpu_of, memory_of
from shoal.settings import Settings, environment

_PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 0.02
_SCOPES = ("read", "write")
_PATH = "/api/v1/timelines/home"


async def token_of(network: AnyNetwork, member: int) -> str:
    """Return a token with which a client reads the member's home."""
    app = (await oauth.register(network.writes, "calibration", scopes=_SCOPES)).app
    return (await oauth.issue_token(network.writes, app.id, member, _SCOPES)).text


@asynccontextmanager
async def running(settings: Settings, *words: str) -> AsyncIterator[int]:
    """Run a command of ours until the block ends; gives the number of its process. It is not awaited until it is ready."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "shoal.cli",
        *words,
        env={**os.environ, **environment(settings)},
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process.pid
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), 20)
            except TimeoutError:
                process.kill()
                await process.wait()


async def measure(settings: Settings, token: str, requests: int) -> dict[str, float]:
    """Memory of a server that has just begun, and processor seconds of a page over HTTP."""
    port = free_port()
    async with running(settings, "serve", "--port", str(port)) as pid:
        await asyncio.to_thread(_awaited, port, token)
        memory = memory_of(pid)
        await asyncio.to_thread(_asked, port, token, requests)
        before = cpu_of(pid)
        await asyncio.to_thread(_asked, port, token, requests)
        page = (cpu_of(pid) - before) / requests
    return {"memory": float(memory), "page_over_http": page}


def _awaited(port: int, token: str) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end:
        with suppress(OSError):
            _asked(port, token, 1)
            return
        time.sleep(_LOOK_SECONDS)
    raise Unavailable("the server that was to be measured does not answer")


def _asked(port: int, token: str, requests: int) -> None:
    """Ask for the member's home so often, on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_SECONDS)
    try:
        for _ in range(requests):
            connection.request("GET", _PATH, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.client.OK:
                raise Unavailable(f"the server that was to be measured answered {answer.status}")
    finally:
        connection.close()
