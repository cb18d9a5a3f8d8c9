"""The outboxes of a network without the rest of it: for commands that show waiting jobs, or replay them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from shoal.graph.contract import Graph, Outbox, Store
from shoal.settings import Settings
from shoal.wiring.sharing import open_broker
from shoal.wiring.stores import open_store


class OpenOutboxes(dict[str, Outbox]):
    """Outboxes by name, and the graph of the store, where the audit log is."""

    def __init__(self, store: Store) -> None:
        super().__init__(store=store)
        self.graph: Graph = store


@asynccontextmanager
async def open_outboxes(settings: Settings, *, read_only: bool) -> AsyncIterator[OpenOutboxes]:
    """Open the outboxes, by name: `store`, and `broker` if there is one. Raises `Unavailable` if one cannot be opened."""
    async with AsyncExitStack() as stack:
        outboxes = OpenOutboxes(await open_store(settings, stack, read_only=read_only, sole=False))
        if (broker := await open_broker(settings, stack, taking=False)) is not None:
            outboxes["broker"] = broker
        yield outboxes
