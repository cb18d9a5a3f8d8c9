"""A process that reads the tag cloud of the settings in its environment, for `benchmarks.tag_updates`.

It prints a line when it is ready, starts counting at the first line of input, and prints the counts at the second.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any
from unittest.mock import patch

import msgspec
import uvloop

from shoal.app.network import Network, open_network
from shoal.graph.redis.client import ShardConnection
from shoal.settings import load

_CONNECT_SECONDS = 1.0
READ_SECONDS = 0.002
"""Pause between two reads of the cloud: the precision of delays."""


class Seen(msgspec.Struct):
    """The time at which each version was first read (ns, monotonic clock of the machine), and what the process asked for."""

    at: dict[int, int]
    updates: int
    """Updates received; 0 if the process polls."""
    store: int
    """Requests to the store of the cloud."""
    redis: int
    """Requests to Redis, without the ones that other processes sent."""
    reads: int
    cpu: float


class Waits:
    def __init__(self) -> None:
        self.count = 0

    def counted(self) -> Any:
        ask = ShardConnection.ask

        async def asked(connection: ShardConnection, *words: Any) -> Any:
            self.count += 1
            return await ask(connection, *words)

        return patch.object(ShardConnection, "ask", asked)


def _updates(network: Network) -> int:
    update = network.counting.updates.newest()
    return update.number if update else 0


async def _read(network: Network, waits: Waits, until: asyncio.Future[str]) -> Seen:
    """Read the cloud again and again, until the future is done."""
    at: dict[int, int] = {}
    before, waited, updates = network.statements.sent(), waits.count, _updates(network)
    reads, cpu = 0, time.process_time()
    while not until.done():
        version = (await network.tags.cloud()).version
        at.setdefault(version, time.monotonic_ns())
        reads += 1
        await asyncio.sleep(READ_SECONDS)
    after = network.statements.sent()
    redis = after["shared"] - before["shared"] + waits.count - waited
    spent = time.process_time() - cpu
    return Seen(at, _updates(network) - updates, after["tags"] - before["tags"], redis, reads, spent)


async def main() -> None:
    settings, waits = load(), Waits()
    loop = asyncio.get_running_loop()

    def line() -> asyncio.Future[str]:
        return loop.run_in_executor(None, sys.stdin.readline)

    with waits.counted():
        async with open_network(settings, background=False) as network:
            # From the second read on, the process follows the update log. The pause lets it catch up with the log.
            for _ in range(2):
                await network.tags.cloud()
            await asyncio.sleep(_CONNECT_SECONDS)
            await network.tags.cloud()
            assert (network.counting.updates.newest() is None) == (settings.tag_cloud_refresh == "poll")
            print("ready", flush=True)
            while await line():
                print(msgspec.json.encode(await _read(network, waits, line())).decode(), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
