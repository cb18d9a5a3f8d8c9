"""A store whose outbox is relayed to RabbitMQ, for the outbox contract suite."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

from shoal.graph.contract import Batch, Job, Store, WakeUp
from shoal.graph.sqlite import SqliteGraph
from shoal.outbox.rabbitmq import RabbitOutbox
from shoal.outbox.relay import Relay
from tests.async_runner import eventually
from tests.engines import rabbitmq

_SHORTEST_DELAY_SECONDS = 0.1


class Relayed:
    """A store that relays each commit to RabbitMQ at once and claims its jobs from there."""

    def __init__(self, store: Store, broker: RabbitOutbox) -> None:
        self._store = store
        self._broker = broker
        self._relay = Relay(store, broker.send)
        self.ack = broker.ack
        self.put_back = broker.put_back
        self.park = broker.park
        self.lag = broker.lag
        self.parked = broker.parked
        self.unpark = broker.unpark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, batch: Batch) -> None:
        await self._store.commit(batch)
        while await self._relay.run_once():
            pass
        # The store removes acknowledged events with a delay.
        await eventually(self._store.backlog, 0)

    async def claim(self, limit: int, lease: float) -> list[Job]:
        """Claim all jobs, waiting up to a second for their delivery.

        The broker delivers some jobs only after this process has acknowledged others.
        """
        with suppress(AssertionError):
            await eventually(self._broker.ready, 0, 1.0)
        return await claim(self._broker, limit, lease)

    async def backlog(self) -> int:
        return await self._store.backlog() + await self._broker.backlog()

    def on_event(self, wake: WakeUp) -> None:
        self._broker.on_event(wake)

    async def close(self) -> None:
        await self._broker.close()
        await self._store.close()


async def claim(broker: RabbitOutbox, limit: int = 256, lease: float = 60.0) -> list[Job]:
    """Claim the delivered jobs. Waits while messages are ready, so the result is empty only if the broker has none."""
    deadline = time.monotonic() + 60
    while True:
        ready = await broker.ready()
        assert time.monotonic() < deadline, f"none of {ready} ready jobs was delivered"
        if (jobs := await broker.claim(limit, lease)) or ready == 0:
            return jobs
        await asyncio.sleep(0.001)


class RelayedBackend:
    """A counterpart of `tests.stores.Backend`, which can be opened repeatedly."""

    owners: Sequence[int] = (0,) * 64

    def __init__(self, folder: Path) -> None:
        self._file = folder / "relayed.db"
        self._url = rabbitmq.node().url
        self._namespace = rabbitmq.namespace()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        broker = await RabbitOutbox.open(self._url, namespace=self._namespace)
        relayed = Relayed(await SqliteGraph.open(self._file), broker)
        try:
            yield cast("Store", relayed)
        finally:
            await relayed.close()

    async def pass_time(self, seconds: float) -> None:
        """Wait for `seconds` plus the shortest delay of the broker, because it rounds delays up."""
        await asyncio.sleep(seconds + _SHORTEST_DELAY_SECONDS)
