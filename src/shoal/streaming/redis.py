"""A channel on Redis: one stream, in one key, on one server.

The ids of its entries are `<log>-<number>`: numbers are consecutive, so missing messages are detected; `log` is the time at which
the log was created (microseconds of the server's clock). A new log is created if the key is missing (after a flush or an
eviction), or if the id of the server's history differs from the one at the log's creation, which is stored as the name of the
stream's only (otherwise unused) consumer group. Losses by a failover or a restart are therefore always detected. Followers read by
a script that makes these checks; a blocking command on a separate connection notifies them of new messages.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Any

import numpy as np

from shoal.core.errors import Unavailable
from shoal.graph.redis.client import Batching, Nodes, Script, ShardConnection, keys_of, shards_of
from shoal.streaming.contract import ChannelMessage, Gap, Position

_AT = np.zeros(1, np.int64)
"""The id, on shard 0, from which the key of the stream is built."""
_KEY = keys_of("l", _AT).tobytes()
_PAGE = 500
_BLOCK_SECONDS = 2.0
"""Seconds after which a follower of the channel polls, because a server that was cut off or emptied does not notify it."""
_BACKOFF_SECONDS = 0.5
_POSITION = re.compile(r"(\d{1,19})-(\d{1,15})", re.ASCII)

# It is published even if the server's memory is full: the log has a bounded length.
_PUBLISH = Script.load(__package__, "channel.publish", common="log", grows=False)
_END = Script.load(__package__, "channel.end", common="log", grows=False)
_READ = Script.load(__package__, "channel.read", common="log", grows=False)


class RedisChannel:
    """An update log in Redis that keeps `length` messages, and about a hundred more, because Redis trims in blocks."""

    def __init__(self, nodes: Nodes, length: int = 50_000, *, block_seconds: float = _BLOCK_SECONDS) -> None:
        self._nodes = nodes
        self._length = length
        self._block_seconds = block_seconds
        self._publishing = Batching("channel.publish", self._publish)

    async def publish(self, message: bytes) -> None:
        await self._publishing.ask(message)

    async def _publish(self, messages: list[bytes]) -> list[None]:
        for first in range(0, len(messages), _PAGE):
            await self._run(_PUBLISH, self._length, *messages[first : first + _PAGE])
        return [None] * len(messages)

    async def end(self, back: int = 0) -> Position:
        log, newest, oldest = await self._run(_END)
        return Position(f"{log.decode()}-{max(int(newest) - back, int(oldest) - 1)}")

    def reached(self, mark: Position, at: Position) -> bool:
        marked, reached = _POSITION.fullmatch(mark), _POSITION.fullmatch(at)
        return bool(marked and reached and marked[1] == reached[1] and int(marked[2]) <= int(reached[2]))

    async def follow(self, after: Position) -> AsyncGenerator[ChannelMessage, None]:
        if (found := _POSITION.fullmatch(after)) is None:
            raise _gap()
        log, at = found[1], int(found[2])
        line = ShardConnection(self._nodes, 0, self._block_seconds)
        try:
            while True:
                messages = await self._run(_READ, log, at, _PAGE)
                if messages is None:
                    raise _gap()
                for message in messages:
                    at += 1
                    yield ChannelMessage(Position(f"{log}-{at}"), message)
                if not messages:
                    await self._wait(line, f"{log}-{at}")
        finally:
            await line.close()

    async def _wait(self, line: ShardConnection, after: str) -> None:
        milliseconds = int(self._block_seconds * 1000)
        try:
            await line.ask("XREAD", "BLOCK", milliseconds, "COUNT", 1, "STREAMS", _KEY, after)
        except Unavailable:
            # Retry after a pause: the next read finds the log, possibly on another server, or raises `Unavailable`.
            await asyncio.sleep(_BACKOFF_SECONDS)

    async def _run(self, script: Script, *arguments: bytes | str | int) -> Any:
        words = [word.encode() if isinstance(word, str) else word for word in arguments]
        parts = await self._nodes.each(script, shards_of(_AT), lambda _: (_KEY, *words), batch=1)
        return parts[-1].result

    async def close(self) -> None:
        await self._publishing.close()


def _gap() -> Gap:
    return Gap("some messages after this position have expired")
