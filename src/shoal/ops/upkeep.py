"""Upkeep of a running network: idle timelines become cold, loud sources with few followers fade, posts that nobody
reacts to any more are no longer active, old tombstones and expired keys are forgotten.

Glossary (`docs/glossary.md`): loud.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

from shoal.core.ids import floor_at
from shoal.graph.contract import Scanner
from shoal.timelines.contract import Timelines

_log = logging.getLogger(__name__)

_EVERY_SECONDS = 600.0
_DAY_SECONDS = 86_400.0


class Upkeep:
    """Works in the background between `start` and `stop`; `once` does it now.

    `review` makes loud sources fade; `forget` ends what is inactive at a moment (Unix milliseconds).
    """

    def __init__(
        self,
        store: Scanner,
        timelines: Timelines,
        review: Callable[[], Awaitable[None]],
        forget: Callable[[int], Awaitable[None]],
        idle_days: float,
        tombstone_days: float,
    ) -> None:
        self._store = store
        self._timelines = timelines
        self._review = review
        self._forget = forget
        self._idle_days = idle_days
        self._tombstone_days = tombstone_days
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="shoal-upkeep")

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def once(self) -> None:
        """Drop what is idle, have the loud fade that are loud no more, end what is inactive, sweep what is old."""
        await self._timelines.drop_idle(self._idle_days * _DAY_SECONDS)
        await self._review()
        now = time.time_ns() // 1_000_000
        await self._forget(now)
        await self._store.sweep(floor_at(now - int(self._tombstone_days * _DAY_SECONDS * 1000)), now)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            try:
                await self.once()
            except Exception:  # noqa: BLE001  # the next time may go better
                _log.exception("upkeep failed")
