"""Servers as child processes: started on a free port, awaited until they respond, and stopped at the end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from benchmarks.http_client import Server, ask
from benchmarks.measure import REPOSITORY
from shoal_devcluster.program import free_port


class Child(NamedTuple):
    """A running server. `seconds` is the time from its start to its first response with status 200."""

    server: Server
    pid: int
    seconds: float


@asynccontextmanager
async def serving(
    command: Sequence[str], port: int, first: str, environ: Mapping[str, str] | None = None, patience: float = 30.0
) -> AsyncIterator[Child]:
    """Run a command until the block ends. A request of the path `first` must get status 200 within `patience` seconds."""
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=REPOSITORY,
        env={**os.environ, **(environ or {})},
        stdout=asyncio.subprocess.DEVNULL,
    )
    server = Server(f"http://127.0.0.1:{port}")
    try:
        await _answering(process, server, first, started + patience)
        yield Child(server, process.pid, time.perf_counter() - started)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), 20)
            except TimeoutError:
                process.kill()
                await process.wait()


async def _answering(process: asyncio.subprocess.Process, server: Server, path: str, end: float) -> None:
    request = server.request("GET", path)
    while True:
        try:
            if (await ask(server, request))[0] == 200:
                return
        except OSError:
            pass
        if process.returncode is not None or time.perf_counter() > end:
            raise SystemExit(f"the server did not answer GET {path} (exit status {process.returncode})")
        await asyncio.sleep(0.005)


@asynccontextmanager
async def bare_server(kind: str) -> AsyncIterator[Server]:
    """Run a server without logic (see `benchmarks.bare`): `asgi` or `protocol`."""
    port = free_port()
    async with serving([sys.executable, "-m", "benchmarks.bare", kind, str(port)], port, "/") as child:
        yield child.server
