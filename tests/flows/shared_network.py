"""Networks shared by several processes, simulated in one: two PostgreSQL stores, and Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from shoal import Shoal
from shoal.app.network import open_network
from shoal.settings import Settings, build
from tests.engines import postgres, redis


class SharedDatabases:
    """The owner of a network's databases, which exist as long as this object."""

    def __init__(self) -> None:
        self.timelines = ""

    async def settings(self, **more: object) -> Settings:
        """Return the settings of a new, empty network."""
        stores = {"0-31": await postgres.database(self), "32-63": await postgres.database(self)}
        chosen = {"timelines": self.timelines or redis.single(), **more}
        return build(store=stores, media="memory://", **chosen)


@asynccontextmanager
async def processes(count: int, settings: Settings) -> AsyncIterator[list[Shoal]]:
    """Open a network `count` times, each with separate caches."""
    async with AsyncExitStack() as stack:
        yield [Shoal(await stack.enter_async_context(open_network(settings))) for _ in range(count)]
