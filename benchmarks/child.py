"""Servers as child processes: started on a free port, awaited until they respond, and stopped at the end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
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
async def bare_server(kind: str) -> AsyncIterator[Child]:
    """Run a server without logic (see `benchmarks.bare`): `asgi` or `protocol`."""
    port = free_port()
    async with serving([sys.executable, "-m", "benchmarks.bare", kind, str(port)], port, "/") as child:
        yield child


@contextmanager
def tls_service(folder: Path, kind: str) -> Iterator[str]:
    """Yield the URL of a bare server with TLS (see `benchmarks.bare`), whose certificate this process trusts until the end."""
    made, key, port = folder / f"{kind}.pem", folder / f"{kind}.key", free_port()
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject]
    subprocess.run([*command, "-keyout", str(key), "-out", str(made)], check=True, capture_output=True)
    os.environ["SSL_CERT_FILE"] = str(made)
    bare = [sys.executable, "-m", "benchmarks.bare", kind, str(port), str(made), str(key)]
    with subprocess.Popen(bare, cwd=REPOSITORY) as service:
        try:
            _await_port(port, time.perf_counter() + 30)
            yield f"https://127.0.0.1:{port}"
        finally:
            service.terminate()
            del os.environ["SSL_CERT_FILE"]


def _await_port(port: int, end: float) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.perf_counter() > end:
                raise
            time.sleep(0.02)
        else:
            return
