"""The queues that carry increments, and a collector's place in the line for each.

All queues get every increment. Every collector stands in the line for every queue; the broker gives what is in a queue to the
first in its line, and when that one dies, to the next. So no queue is without a collector while there is one, and none fills up.
When there are several collectors each is to have its share of the queues, so that each is told of every increment: whoever is first
in more lines than that goes back to the end of one. The broker does not tell who is first: the deliveries do.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence

from aiormq.abc import AbstractChannel, DeliveredMessage
from pamqp.common import FieldValue

from shoal.amqp.depth import depth_of

QUEUES = 3
_numbers = itertools.count(1)
_ARGUMENTS: dict[str, FieldValue] = {
    "x-queue-type": "quorum",
    "x-single-active-consumer": True,
    # Half an hour of hard work without any collector; after that events wait in their outbox, and not here.
    "x-max-length": 1_000_000,
    "x-overflow": "reject-publish",
    # Newer brokers throw away what was delivered some twenty times: so many collectors may die, or go to the end of a line.
    "x-delivery-limit": 1_000_000,
}


Deliver = Callable[["QueuePlace", int, bytes], Awaitable[None]]
"""Gets where a delivery came from, its number there, and the message."""


class QueueNames:
    """The names of one network's exchange and queues. `namespace` tells networks on one broker apart."""

    def __init__(self, namespace: str) -> None:
        self.exchange = f"{namespace}.tags"
        self.queues = [f"{namespace}.tags.{number}" for number in range(1, QUEUES + 1)]
        self.census = f"{namespace}.tags.census"
        self.roll = f"{namespace}.tags.collectors"
        """A queue that stays empty. Every collector consumes it: of the others the broker counts only who is first."""

    async def declare(self, channel: AbstractChannel) -> None:
        """Make what is not there. Emitters do so too: an increment must be safe though no collector ever ran."""
        await channel.exchange_declare(self.exchange, exchange_type="fanout", durable=True)
        await channel.exchange_declare(self.census, exchange_type="fanout", durable=True)
        await channel.queue_declare(self.roll, durable=True, arguments={"x-queue-type": "quorum"})
        for queue in self.queues:
            await channel.queue_declare(queue, durable=True, arguments=_ARGUMENTS)
            await channel.queue_bind(queue, self.exchange)

    async def collectors(self, channel: AbstractChannel) -> int:
        """How many collectors there are."""
        return (await depth_of(channel, self.roll)).consumers


class QueuePlace:
    """A place in the line for one queue, on a channel of its own."""

    def __init__(self, queue: str, channel: AbstractChannel, deliver: Deliver) -> None:
        self.queue = queue
        self.channel = channel
        self._deliver = deliver
        self._ticket = ""
        self.first_since = 0
        """The moment, by a count of such moments, from which on this is the first in line; 0 when it may not be."""

    async def stand(self) -> None:
        """Go to the end of the line."""
        self._ticket, self.first_since = f"{self.queue}.{next(_numbers)}", 0
        await self.channel.basic_consume(self.queue, self._came, consumer_tag=self._ticket)

    async def leave(self) -> None:
        """Nothing comes any more when this returns; what came goes to the next at `give_back`."""
        await self.channel.basic_cancel(self._ticket)
        self._ticket = ""

    async def give_back(self) -> None:
        """Have what came and has no receipt delivered to others. The numbers of all that came are void."""
        await self.channel.basic_recover(requeue=True)

    async def _came(self, delivered: DeliveredMessage) -> None:
        tag = getattr(delivered.delivery, "delivery_tag", None)
        # What came just before this collector left is given back with the rest.
        if tag is None or getattr(delivered.delivery, "consumer_tag", None) != self._ticket:
            return
        self.first_since = self.first_since or next(_numbers)
        await self._deliver(self, tag, delivered.body)


def too_many(places: Sequence[QueuePlace], collectors: int) -> QueuePlace | None:
    """The place that one of so many collectors should give up, if any: the one in which it was first last.

    It then goes round among the others until it finds one that has room; with so many queues somebody has.
    """
    first = sorted((place for place in places if place.first_since), key=lambda place: place.first_since)
    return first[-1] if len(first) > -(-QUEUES // max(1, collectors)) else None
