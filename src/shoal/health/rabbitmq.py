"""RabbitMQ: the queues of this network, and their number of consumers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import aiormq
from aiormq.abc import AbstractChannel
from aiormq.exceptions import AMQPError, ChannelNotFoundEntity

from shoal.amqp import depth_of, url_of_each
from shoal.health.probes import EngineHealth, Measurement
from shoal.outbox.rabbitmq import Queues

_SECONDS = 2.0


async def look(url: str, address: str, namespace: str = "shoal") -> list[EngineHealth]:
    queues = Queues(namespace)
    async with asyncio.timeout(_SECONDS):
        connection = await _connection(url)
    reported = connection.server_properties.get("version", "")
    version = reported.decode() if isinstance(reported, bytes) else str(reported)
    try:
        measurements = await _figures(await connection.channel(), queues)
    except ChannelNotFoundEntity:
        # The queues do not exist before the network is opened for the first time.
        measurements = ()
    finally:
        await connection.close()
    return [EngineHealth("RabbitMQ", address, version, measurements)]


async def _figures(channel: AbstractChannel, queues: Queues) -> tuple[Measurement, ...]:
    work, parked = await depth_of(channel, queues.work), await depth_of(channel, queues.parked)
    delayed = [await depth_of(channel, name) for name in (queues.again, *queues.waiting.values())]
    return (
        Measurement("jobs_waiting", work.messages),
        Measurement("jobs_delayed", sum(queue.messages for queue in delayed)),
        Measurement("jobs_set_aside", parked.messages, parked.messages > 0),
        Measurement("workers", work.consumers, work.consumers == 0),
    )


async def _connection(url: str) -> Any:
    *others, last = url_of_each(url, heartbeat=0)
    for other in others:
        with suppress(AMQPError, OSError):
            return await aiormq.connect(other)
    return await aiormq.connect(last)
