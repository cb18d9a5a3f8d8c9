"""How full a queue is, and who empties it, as its broker says."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from aiormq.abc import AbstractChannel

from shoal.core.errors import Unavailable

_BROKER_PATIENCE_SECONDS = 0.25
"""RabbitMQ waits so long for a quorum queue; then it answers that the queue is empty (`rabbit_quorum_queue:stat/1`)."""
_TRIES = 40
"""Ten seconds, at a broker that is too busy to know."""


class Depth(NamedTuple):
    """Messages that wait in a queue, and consumers that it has."""

    messages: int
    consumers: int


async def depth_of(channel: AbstractChannel, queue: str) -> Depth:
    """Return how full a queue is. Raises `Unavailable` if the broker cannot say.

    A queue that is busy is told as empty, without messages and without consumers. An empty answer that took as long as the
    broker waits for a queue is therefore none, and the question is put again.
    """
    loop = asyncio.get_running_loop()
    for _ in range(_TRIES):
        asked_at = loop.time()
        declared = await channel.queue_declare(queue, passive=True)
        depth = Depth(declared.message_count or 0, declared.consumer_count or 0)
        if any(depth) or loop.time() - asked_at < _BROKER_PATIENCE_SECONDS:
            return depth
    raise Unavailable(f"the message broker is too busy to say how full {queue} is")
