"""Relays the events of a store's outbox to a broker: claim, send, and acknowledge once the broker has stored them.

Any number of relays may work on one store, each in its process. A relay that dies between sending and acknowledging sends events
twice, which is harmless. While the broker is away the events stay in the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from shoal.core.errors import Unavailable
from shoal.graph.contract import Job, Outbox
from shoal.locks import set_within
from shoal.throttled_log import ThrottledLog

_log = logging.getLogger(__name__)

_AWAY_SECONDS = 0.5
_LONGEST_POLL_SECONDS = 10.0
"""Events of this process wake a relay. It also polls for events of processes that died, less often while there are none."""
_PART_OF_LEASE = 0.75
"""Jobs that could not be sent within this fraction of their lease are abandoned until the lease expires."""

Send = Callable[[Sequence[Job]], Awaitable[None]]
"""Sends jobs to the broker, and returns when they are stored there. Raises `Unavailable`."""


class Relay:
    def __init__(
        self, outbox: Outbox, send: Send, *, batch: int = 512, lease: float = 30.0, poll_seconds: float = 0.05
    ) -> None:
        self._outbox = outbox
        self._send = send
        self._batch = batch
        self._lease = lease
        self._poll_seconds = poll_seconds
        self._work = asyncio.Event()
        self._end = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._outage = ThrottledLog(_log)
        outbox.on_event(self._work.set)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="shoal-relay")

    async def stop(self) -> None:
        """Finish the current batch, then stop; other events stay in the outbox."""
        self._end.set()
        self._work.set()
        if self._task is not None:
            await self._task

    async def run_once(self) -> int:
        """Relay one batch of events to the broker; return their number.

        Raises `Unavailable` if the broker cannot be reached for most of the lease.
        """
        jobs = await self._outbox.claim(self._batch, self._lease)
        if jobs:
            await self._sent(jobs)
            await self._outbox.ack(jobs)
        return len(jobs)

    async def _sent(self, jobs: Sequence[Job]) -> None:
        """Send jobs to the broker, retrying while it is unreachable. If that fails, they stay claimed until their lease expires."""
        loop = asyncio.get_running_loop()
        patience = loop.time() + self._lease * _PART_OF_LEASE
        while True:
            try:
                return await self._send(jobs)
            except Unavailable:
                if self._end.is_set() or loop.time() > patience:
                    raise
            await set_within(self._end, _AWAY_SECONDS)

    async def _run(self) -> None:
        pause = self._poll_seconds
        while not self._end.is_set():
            self._work.clear()
            try:
                claimed = await self.run_once()
                if claimed:
                    pause = self._poll_seconds
                # A batch that is not full has emptied the outbox, so wait for an event of this process or for the next poll.
                if claimed < self._batch and not await set_within(self._work, pause):
                    pause = max(self._poll_seconds, min(2 * pause, _LONGEST_POLL_SECONDS))
            except Unavailable as error:
                self._outage.warning("events stay pending in the store: %s", error)
                await set_within(self._end, _AWAY_SECONDS)
            except Exception:  # noqa: BLE001  # the store may come back; the relay must be there then
                _log.exception("publishing events of the outbox failed")
                await set_within(self._end, _AWAY_SECONDS)
