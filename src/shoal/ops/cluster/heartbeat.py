"""A child's side of a supervisor: it says every moment that its event loop turns, and ends when its supervisor does."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

VARIABLE = "SHOAL_HEARTBEAT"
"""In the environment of a child: the number of the file that it writes its heartbeat to, the id of its supervisor, and its
place among the children, from 0 on."""

_BEAT_SECONDS = 0.25
_SET_PARENT_DEATH_SIGNAL = 1


def is_child(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a supervisor started this process."""
    return VARIABLE in environ


def place(environ: Mapping[str, str] = os.environ) -> int:
    """Return the place of this process among the children of its supervisor, from 0 on; 0 without a supervisor.

    A child that is started again has the place of the one that it replaces.
    """
    return int(environ[VARIABLE].split(":")[2]) if is_child(environ) else 0


@asynccontextmanager
async def beating(environ: Mapping[str, str] = os.environ) -> AsyncIterator[None]:
    """Beat for as long as the block runs; nothing happens in a process that has no supervisor."""
    if not is_child(environ):
        yield
        return
    heartbeat, parent = map(int, environ[VARIABLE].split(":")[:2])
    os.set_inheritable(heartbeat, False)
    _end_with(parent)
    task = asyncio.create_task(_beat(heartbeat), name="shoal-heartbeat")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        os.close(heartbeat)


async def until_told() -> None:
    """Return when this process is told to end: SIGTERM, or Ctrl-C."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    try:
        await told.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _beat(heartbeat: int) -> None:
    while True:
        # A supervisor that does not read for a while has enough of it in the pipe.
        with contextlib.suppress(BlockingIOError):
            os.write(heartbeat, b".")
        await asyncio.sleep(_BEAT_SECONDS)


def _end_with(parent: int) -> None:
    """Have the kernel kill this process when its supervisor ends, however that ends: nobody else watches it."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        # It had ended before.
        os.kill(os.getpid(), signal.SIGKILL)
