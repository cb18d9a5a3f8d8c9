"""Small jobs over RabbitMQ: events of a store, relayed to a quorum queue and processed by one worker, and the bare library.

The events are in a store in memory before the clock starts, and their consumer only counts, so the relay, the broker and the
runner are measured. The bare library publishes as many messages of equal size with confirmations, 256 at a time, and consumes
them with one acknowledgment per 256. The two run in alternating rounds on one node of this machine, which has the other core, and
the median round of each counts. At the end, events are committed at a steady rate, and the time from commit to completion is
measured.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import aiormq
import uvloop

from benchmarks.measure import Report, parser, spread
from shoal.core.events import PostCreated
from shoal.core.ids import now_ms
from shoal.graph.contract import Batch, Job
from shoal.graph.memory import MemoryGraph
from shoal.outbox.rabbitmq import RabbitOutbox, write
from shoal.outbox.relay import Relay
from shoal.outbox.runner import Runner
from shoal_devcluster import rabbitmq

_AT_ONCE = 256
_AUTHOR = 7_123_456_789_012_345_678


class Counter:
    def __init__(self) -> None:
        self.done = 0
        self.seconds: list[float] = []
        self.sent: dict[int, float] = {}
        self.reached = asyncio.Event()
        self.wanted = 0

    async def wait(self, count: int) -> None:
        self.wanted = count
        self.reached.clear()
        if self.done < count:
            await self.reached.wait()


async def count(counter: Counter, event: PostCreated, mark: int) -> None:  # noqa: ARG001  # a consequence's signature
    counter.done += 1
    if (sent := counter.sent.pop(event.post_id, None)) is not None:
        counter.seconds.append(time.perf_counter() - sent)
    if counter.done >= counter.wanted:
        counter.reached.set()


async def emit(graph: MemoryGraph, first: int, events: int) -> None:
    """Commit events, each with an id of the usual size."""
    for start in range(first, first + events, 1_000):
        batch = Batch(0)
        for n in range(start, min(start + 1_000, first + events)):
            batch.emit(PostCreated(post_id=_AUTHOR + n, author_id=_AUTHOR))
        await graph.commit(batch)


async def bare(url: str, queue: str, messages: int) -> tuple[float, float]:
    """Return the messages per second published, and consumed, by the library alone."""
    body = write(Job(1_000_000, PostCreated(post_id=_AUTHOR, author_id=_AUTHOR)), now_ms())
    connection = await aiormq.connect(url)
    channel = await connection.channel()
    await channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    began = time.perf_counter()
    for _ in range(0, messages, _AT_ONCE):
        await asyncio.gather(*[_publish(channel, queue, body) for _ in range(_AT_ONCE)])
    published = messages / (time.perf_counter() - began)
    began = time.perf_counter()
    await _consume(channel, queue, messages)
    consumed = messages / (time.perf_counter() - began)
    await channel.close()
    await (await connection.channel()).queue_delete(queue)
    await connection.close()
    return published, consumed


async def _publish(channel: aiormq.abc.AbstractChannel, queue: str, body: bytes) -> None:
    properties = aiormq.spec.Basic.Properties(delivery_mode=2)
    await channel.basic_publish(body, routing_key=queue, properties=properties)


async def _consume(channel: aiormq.abc.AbstractChannel, queue: str, messages: int) -> None:
    done = asyncio.Event()
    got = 0

    async def take(message: aiormq.abc.DeliveredMessage) -> None:
        nonlocal got
        got += 1
        if got % _AT_ONCE == 0 and message.delivery_tag:
            await channel.basic_ack(message.delivery_tag, multiple=True, wait=False)
        if got >= messages:
            done.set()

    await channel.basic_qos(prefetch_count=2 * _AT_ONCE)
    await channel.basic_consume(queue, take)
    await done.wait()


class Way:
    """A store in memory, the broker, and one worker: relay and runner in this process."""

    def __init__(self, outbox: RabbitOutbox) -> None:
        self.graph = MemoryGraph()
        self.outbox = outbox
        self.counter = Counter()
        self.relay = Relay(self.graph, outbox.send)
        self.emitted = 0

    def runner(self) -> Runner[Counter]:
        return Runner(self.outbox, {PostCreated: (count,)}, self.counter)

    async def emit(self, events: int) -> None:
        await emit(self.graph, self.emitted, events)
        self.emitted += events

    async def relayed(self, events: int) -> float:
        await self.emit(events)
        began = time.perf_counter()
        while await self.relay.run_once():
            pass
        return events / (time.perf_counter() - began)

    async def worked(self, events: int) -> float:
        """Return the jobs per second that the runner alone processes from a filled queue."""
        runner = self.runner()
        began = time.perf_counter()
        runner.start()
        await self.counter.wait(self.emitted)
        await runner.drain()
        seconds = time.perf_counter() - began
        await runner.stop()
        return events / seconds

    async def together(self, events: int) -> float:
        """Return the jobs per second, relayed and processed concurrently by this process."""
        await self.emit(events)
        runner, relay = self.runner(), Relay(self.graph, self.outbox.send)
        began = time.perf_counter()
        runner.start()
        relay.start()
        await self.counter.wait(self.emitted)
        await runner.drain()
        seconds = time.perf_counter() - began
        await relay.stop()
        await runner.stop()
        return events / seconds

    async def paced(self, rate: int, seconds: float) -> list[float]:
        """Return the seconds from the commit of each event to the end of its job, at a steady rate."""
        runner, relay = self.runner(), Relay(self.graph, self.outbox.send)
        runner.start()
        relay.start()
        began = time.perf_counter()
        while (passed := time.perf_counter() - began) < seconds:
            for _ in range(int(passed * rate) - len(self.counter.sent) - len(self.counter.seconds)):
                self.counter.sent[_AUTHOR + self.emitted] = time.perf_counter()
                await self.emit(1)
            await asyncio.sleep(0.001)
        await self.counter.wait(self.emitted)
        await relay.stop()
        await runner.stop()
        return self.counter.seconds


async def run(url: str, events: int, rounds: int, rate: int, seconds: float, report: Report) -> None:
    outbox = await RabbitOutbox.open(url, namespace="bench")
    idle = await RabbitOutbox.open(url, namespace="bench-relay", taking=False)
    way, alone = Way(outbox), Way(idle)
    raw: list[tuple[float, float]] = []
    ours: list[tuple[float, float]] = []
    for turn in range(rounds):
        raw.append(await bare(url, f"bare-{turn}", events))
        relayed = await alone.relayed(events)
        ours.append((relayed, await way.together(events)))
    published, consumed = (statistics.median(side) for side in zip(*raw, strict=True))
    serialized = 1 / (1 / published + 1 / consumed)
    relayed, together = (statistics.median(side) for side in zip(*ours, strict=True))
    report.add("events relayed by a relay alone", relayed, "1/s", raw=published)
    await idle.close()
    taking = await RabbitOutbox.open(url, namespace="bench-relay")
    alone.outbox = taking
    report.add("jobs done by a runner alone", await alone.worked(alone.emitted), "1/s", raw=consumed)
    report.add("jobs relayed and done by one worker", together, "1/s", raw=serialized)
    times = spread([value * 1000 for value in await way.paced(rate, seconds)])
    report.add(f"time from commit to completion at {rate:,}/s, median", times.median, "ms")
    report.add(f"time from commit to completion at {rate:,}/s, p99", times.p99, "ms")
    report.check("jobs done, of a relay and a worker at once", way.counter.done, way.emitted)
    report.check("jobs done, of a relay alone and a runner alone", alone.counter.done, alone.emitted)
    report.check("events that are left in the stores", await way.graph.backlog() + await alone.graph.backlog(), 0)
    await taking.close()
    await outbox.close()


def main() -> None:
    options = parser(
        __doc__,
        quick={"events": 4_096, "rounds": 1, "seconds": 1.0},
        smallest={"events": 1_024, "rounds": 1, "rate": 200, "seconds": 0.2},
    )
    options.add_argument("--events", type=int, default=50 * 1_024, help="number of events per round")
    options.add_argument(
        "--rounds", type=int, default=5, help="number of rounds, each with Shoal and with the bare AMQP library"
    )
    options.add_argument(
        "--rate", type=int, default=1_000, help="events per second in the measurement at a constant rate"
    )
    options.add_argument("--seconds", type=float, default=10.0, help="seconds of the measurement at a constant rate")
    chosen = options.parse_args()
    report = Report("rabbitmq_jobs", chosen.size)
    folder = Path(tempfile.mkdtemp(prefix="shoal-bench-"))
    folder.chmod(0o755)
    try:
        node = rabbitmq.start(folder)
        try:
            uvloop.run(run(node.url, chosen.events, chosen.rounds, chosen.rate, chosen.seconds, report))
        finally:
            node.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.show()


if __name__ == "__main__":
    main()
