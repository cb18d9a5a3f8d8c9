"""A connection to one of the servers that nobody else uses: a command may block on it."""

from __future__ import annotations

import asyncio
from typing import Any

from redis.exceptions import RedisError

from shoal.core.errors import Unavailable
from shoal.graph.redis.nodes import Nodes
from shoal.graph.redis.topology import Client


class ShardConnection:
    """Connected when it is first used, and anew after each failure, to the server that has the shard by then.

    It asks one thing at a time, of which the server may think for `seconds`.
    """

    def __init__(self, nodes: Nodes, shard: int, seconds: float) -> None:
        self._nodes = nodes
        self._shard = shard
        self._seconds = seconds
        self._client: Client | None = None

    async def ask(self, *words: bytes | str | int) -> Any:
        """The answer to a command. Raises `Unavailable`, also when the server refuses it: it may not be the right one any more."""
        if self._client is None:
            self._client = await self._nodes.apart(self._shard, self._seconds)
        try:
            answer = await self._client.execute_command(*words)
        except (RedisError, OSError, TimeoutError) as error:
            await self.close()
            raise Unavailable("the cache cannot be reached", retry_after=1.0) from error
        # The client sends under `asyncio.wait_for`, which loses a cancellation that comes as it ends (before Python 3.12).
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise asyncio.CancelledError
        return answer

    async def close(self) -> None:
        """Let go of the connection."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
