"""A store whose events go over RabbitMQ, as one outbox: for the suite that all outboxes pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

from shoal.graph.contract import Batch, Job, Store, WakeUp
from shoal.graph.sqlite import SqliteGraph
from shoal.outbox.rabbitmq import RabbitOutbox
from shoal.outbox.relay import Relay
from tests.engines import rabbitmq
from tests.running import eventually

_SHORTEST_DELAY_SECONDS = 0.1


class Relayed:
    """Commits go to the store and are relayed at once; jobs come from the broker. Everything else is the store's."""

    def __init__(self, store: Store, broker: RabbitOutbox) -> None:
        self._store = store
        self._broker = broker
        self._relay = Relay(store, broker.send)
        self.ack = broker.ack
        self.put_back = broker.put_back
        self.bury = broker.bury
        self.lag = broker.lag
        self.buried = broker.buried
        self.unbury = broker.unbury

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, batch: Batch) -> None:
        await self._store.commit(batch)
        while await self._relay.run_once():
            pass
        # The store forgets what was acknowledged a little later.
        await eventually(self._store.backlog, 0)

    async def claim(self, limit: int, lease: float) -> list[Job]:
        """All jobs that are there: deliveries take a moment. Some wait until this process has acknowledged others."""
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
    """Claim what the broker had given by now, waiting while any are ready; empty only when the broker has none."""
    while True:
        ready = await broker.ready()
        if (jobs := await broker.claim(limit, lease)) or ready == 0:
            return jobs
        await asyncio.sleep(0.001)


class RelayedBackend:
    """As `tests.stores.Backend`: opens, closes and opens again."""

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
        """Let so much time go by, and as much as the broker rounds up."""
        await asyncio.sleep(seconds + _SHORTEST_DELAY_SECONDS)
