"""Notifications to the service manager that started a process, by the protocol of sd_notify(3): readiness and watchdog.

Without a service manager, nothing is sent.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from shoal.tasks import running

_SOCKET = "NOTIFY_SOCKET"
_READY_SECONDS = 5.0
"""Maximum wait for room in the queue of the service manager. A lost readiness message would fail the start."""


def ready(environ: Mapping[str, str] = os.environ) -> None:
    _tell("READY=1", environ, timeout=_READY_SECONDS)


def lives(environ: Mapping[str, str] = os.environ) -> None:
    _tell("WATCHDOG=1", environ)


def pause(environ: Mapping[str, str] = os.environ) -> float | None:
    """Return the interval of watchdog heartbeats in seconds; None if the service manager expects none.

    The interval is a third of the watchdog timeout. Child processes of the service send no heartbeats.
    """
    if _SOCKET not in environ or environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    microseconds = environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 3_000_000 if microseconds.isdecimal() and int(microseconds) else None


@asynccontextmanager
async def watched(environ: Mapping[str, str] = os.environ) -> AsyncIterator[None]:
    """Send watchdog heartbeats from the event loop until the block ends."""
    seconds = pause(environ)
    if seconds is None:
        yield
        return
    async with running(_beat(seconds, environ), "shoal-watchdog"):
        yield


async def _beat(seconds: float, environ: Mapping[str, str]) -> None:
    while True:
        lives(environ)
        await asyncio.sleep(seconds)


def _tell(state: str, environ: Mapping[str, str], timeout: float = 0.0) -> None:
    path = environ.get(_SOCKET, "")
    if not path.startswith(("/", "@")):
        return
    # Ignore errors: the service continues if its service manager is gone or busy.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
        sending.settimeout(timeout)
        sending.connect(f"\0{path[1:]}" if path.startswith("@") else path)
        sending.send(state.encode())
