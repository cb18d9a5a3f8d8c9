"""RabbitMQ: the queues of this network, and how many workers take from them."""

from __future__ import annotations

import asyncio
from typing import Any

import aiormq

from shoal.amqp.depth import depth_of
from shoal.broker.queues import Queues
from shoal.ops.vitals.contract import EngineVitals, Vital

_SECONDS = 2.0


async def look(url: str, place: str, namespace: str = "shoal") -> list[EngineVitals]:
    """Return the figures of a broker. Raises what the client raises when it cannot be asked."""
    queues = Queues(namespace)
    async with asyncio.timeout(_SECONDS):
        connection: Any = await aiormq.connect(url)
    try:
        channel = await connection.channel()

        work, aside = await depth_of(channel, queues.work), await depth_of(channel, queues.buried)
        delayed = [await depth_of(channel, name) for name in (queues.again, *queues.waiting.values())]
    finally:
        await connection.close()
    said = connection.server_properties.get("version", "")
    version = said.decode() if isinstance(said, bytes) else str(said)
    return [
        EngineVitals(
            "RabbitMQ",
            place,
            version,
            (
                Vital("jobs_waiting", work.messages),
                Vital("jobs_delayed", sum(one.messages for one in delayed)),
                Vital("jobs_set_aside", aside.messages, aside.messages > 0),
                Vital("workers", work.consumers, work.consumers == 0),
            ),
        )
    ]
