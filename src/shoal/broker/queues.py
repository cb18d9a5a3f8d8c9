"""The queues of a network on the broker, and what travels in them.

`work` holds the jobs; `again` those whose workers died twice: a worker takes them one at a time, so that one which kills its
worker is told from those that only were at hand. `wait.<ms>` gives what it gets to `work` after so long, and `buried` keeps
what was given up. All are quorum queues: what is confirmed is on disk, on most nodes of a cluster.
"""

from __future__ import annotations

import time

import msgspec
from aiormq.abc import AbstractChannel
from pamqp.common import FieldValue

from shoal.core.events import decode, encode
from shoal.graph.contract import Job

DELAYS_MS = (100, 400, 1_600, 6_400, 60_000, 600_000)
"""How long the waiting queues keep a job. Any delay is made of these, to within the first of them."""


class Message(msgspec.Struct, array_like=True):
    """A job on its way. `at`: Unix ms of when it came to the broker; `rest`: ms that it has to wait after this queue."""

    store: int
    seq: int
    event: bytes
    step: int
    mark: int
    attempt: int
    at: int
    rest: int = 0
    error: str = ""

    def job(self) -> Job:
        """The job."""
        return Job(self.seq, decode(self.event), self.step, self.mark, self.attempt, self.store)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)
read = _decoder.decode


def write(job: Job, at: int, *, rest: int = 0, error: str = "") -> bytes:
    """A job as the body of a message."""
    event = encode(job.event)
    return _encoder.encode(Message(job.store, job.seq, event, job.step, job.mark, job.attempt, at, rest, error))


def now_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


class Queues:
    """The names of the queues of one network; `namespace` tells networks on one broker apart."""

    def __init__(self, namespace: str) -> None:
        self.work = f"{namespace}.work"
        self.again = f"{namespace}.again"
        self.buried = f"{namespace}.buried"
        self.waiting = {delay: f"{namespace}.wait.{delay}" for delay in DELAYS_MS}
        self.census = f"{namespace}.census"

    def after(self, delay_ms: int) -> tuple[str, int]:
        """Where a job goes that is to come in so long, and how long it has to wait after that queue."""
        if delay_ms <= 0:
            return self.work, 0
        step = max((delay for delay in DELAYS_MS if delay <= delay_ms), default=DELAYS_MS[0])
        return self.waiting[step], max(0, delay_ms - step)

    async def declare(self, channel: AbstractChannel) -> None:
        """Make those that are not there."""
        for name in (self.work, self.again, self.buried):
            await channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
        for delay, name in self.waiting.items():
            await channel.queue_declare(name, durable=True, arguments=self._waiting(delay))
        await channel.exchange_declare(self.census, exchange_type="fanout", durable=True)

    def _waiting(self, delay_ms: int) -> dict[str, FieldValue]:
        return {
            "x-queue-type": "quorum",
            "x-message-ttl": delay_ms,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": self.work,
            # What has waited is forgotten here only when the work queue has it; that goes with refusing what is too much.
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        }
