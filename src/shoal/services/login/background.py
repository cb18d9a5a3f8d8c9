"""Work that no answer waits for, so that its time tells nobody anything: a bounded number of tasks, over before the server is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine

_log = logging.getLogger("shoal.background")

MOST = 64
"""Tasks at a time; whoever begins another one waits for it."""
_CLOSING_SECONDS = 5.0


class Background:
    """Runs work beside the answers of a server. It needs no start."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, work: Coroutine[None, None, None]) -> None:
        """Begin some work, and return at once; after it, where there is too much of it. What it raises is logged."""
        if len(self._tasks) >= MOST:
            await _quietly(work)
            return
        task = asyncio.create_task(_quietly(work), name="shoal-background")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait for what was begun, and give up what takes too long."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(set(self._tasks), timeout=_CLOSING_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


async def _quietly(work: Coroutine[None, None, None]) -> None:
    try:
        await work
    except Exception:  # noqa: BLE001  # nobody is there to be told, and the server goes on
        _log.exception("something beside an answer failed")
