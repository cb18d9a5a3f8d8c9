"""Networks and stores for the planner's measurements, tuned as `shoal serve` is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from shoal.admin.contract import AnyNetwork
from shoal.core.errors import InvalidInput
from shoal.graph.bulk import Movable
from shoal.settings import Settings
from shoal.wiring import process
from shoal.wiring.network import open_network
from shoal.wiring.stores import open_store


class Measured:
    """Opens what is measured."""

    def __init__(self) -> None:
        process.prepare()

    @asynccontextmanager
    async def network(self, settings: Settings, *, background: bool) -> AsyncIterator[AnyNetwork]:
        """Open a whole network, with what runs in the background or without."""
        async with open_network(settings, background=background) as network:
            process.settle()
            yield network

    @asynccontextmanager
    async def store(self, settings: Settings) -> AsyncIterator[Movable]:
        """Open a store alone, to put rows in; it is made when it is not there. Raises `InvalidInput` if it takes none."""
        async with AsyncExitStack() as stack:
            store = await open_store(settings, stack, read_only=False, sole=True)
            if not isinstance(store, Movable):
                raise InvalidInput("rows cannot be put into a store of this kind")
            yield store
