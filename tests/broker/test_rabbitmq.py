"""The outbox on a real RabbitMQ node: worker deaths, closed connections, duplicates and unresponsive peers."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing

import pytest

from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.events import FutureEvent, PostCreated, encode
from shoal.core.ids import now_ms, shard_of
from shoal.graph.contract import Batch, Job
from shoal.graph.memory import MemoryGraph
from shoal.outbox.rabbitmq import RabbitOutbox, write
from shoal.outbox.relay import Relay
from shoal.outbox.runner import Runner
from shoal_devcluster.program import Program
from tests.async_runner import eventually, in_loop
from tests.broker.relayed_store import claim
from tests.engines import rabbitmq
from tests.faults.proxy import Link, moved, port_of
from tests.stores import ANN


@pytest.fixture(autouse=True)
def _no_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL + 1):
        yield


@pytest.fixture(scope="module")
def spare() -> Iterator[Program]:
    """A node that tests may stop or kill, one test after the other."""
    rabbitmq.node()
    program = rabbitmq.start_another()
    yield program
    rabbitmq.stop(program)


@pytest.fixture
def node(spare: Program) -> Program:
    """The spare node, restarted if the previous test stopped it."""
    if not spare.running:
        spare.start()
    return spare


@asynccontextmanager
async def outbox(
    namespace: str, *, url: str = "", taking: bool = True, prefetch: int = 512, deaths: int = 8, queues: int = 1
) -> AsyncIterator[RabbitOutbox]:
    opened = await RabbitOutbox.open(
        url or rabbitmq.node().url, namespace=namespace, taking=taking, prefetch=prefetch, deaths=deaths, queues=queues
    )
    try:
        yield opened
    finally:
        await opened.close()


def jobs(*numbers: int, store: int = 0) -> list[Job]:
    return [Job(n, PostCreated(post_id=n, author_id=ANN), store=store) for n in numbers]


def posts(claimed: list[Job]) -> list[int]:
    return [job.event.post_id for job in claimed if isinstance(job.event, PostCreated)]


async def claimed(work: RabbitOutbox, count: int) -> list[Job]:
    """Claim until `count` jobs have arrived, in any number of deliveries."""
    taken: list[Job] = []
    deadline = time.monotonic() + 60
    while len(taken) < count:
        assert time.monotonic() < deadline, f"{len(taken)} of {count} jobs were delivered: {taken}"
        taken += await claim(work)
    return taken


async def emit(graph: MemoryGraph, *posts: int) -> None:
    batch = Batch(shard_of(ANN))
    for post in posts:
        batch.emit(PostCreated(post_id=post, author_id=ANN))
    await graph.commit(batch)


@in_loop
async def test_rabbitmq_outbox_waiting_worker_is_woken_by_new_job() -> None:
    async with outbox(rabbitmq.namespace()) as work:
        woken = asyncio.Event()
        work.on_event(woken.set)
        await work.send(jobs(1))
        async with asyncio.timeout(60):
            await woken.wait()
        assert posts(await work.claim(10, 60.0)) == [1]


@in_loop
async def test_rabbitmq_outbox_with_several_queues_delivers_each_job_to_exactly_one_worker() -> None:
    namespace = rabbitmq.namespace()
    numbers = list(range(1, 61))
    async with outbox(namespace, taking=False, queues=3) as sending:
        await sending.send(jobs(*numbers))
        assert (await sending.backlog(), await sending.ready()) == (60, 60)
        assert await sending.lag() > 0
        async with outbox(namespace, queues=3, prefetch=30) as one, outbox(namespace, queues=3, prefetch=30) as other:
            taken: list[Job] = []
            while len(taken) < 60:
                for work in (one, other):
                    claimed_now = await claim(work)
                    await work.ack(claimed_now)
                    taken += claimed_now
                    assert len(claimed_now) <= 30
            assert sorted(posts(taken)) == numbers
            assert (await one.figures()).workers == 2
        assert await sending.backlog() == 0


@in_loop
async def test_rabbitmq_outbox_unacknowledged_job_of_closed_worker_is_delivered_to_another_worker() -> None:
    namespace = rabbitmq.namespace()
    async with outbox(namespace) as dying:
        await dying.send(jobs(1, 2, 3))
        taken = await claimed(dying, 3)
        await dying.ack(taken[1:2])
    async with outbox(namespace) as other:
        assert sorted(posts(await claimed(other, 2))) == [1, 3]


@in_loop
async def test_rabbitmq_outbox_distributes_jobs_between_two_workers_without_duplicates() -> None:
    namespace = rabbitmq.namespace()
    async with outbox(namespace, prefetch=10) as one, outbox(namespace, prefetch=10) as two:
        await one.send(jobs(*range(200)))
        given: list[int] = []
        shares = [0, 0]
        deadline = time.monotonic() + 60
        while len(given) < 200:
            assert time.monotonic() < deadline, f"{len(given)} of 200 jobs were delivered"
            for at, worker in enumerate((one, two)):
                taken = await worker.claim(10, 60.0)
                given += posts(taken)
                shares[at] += len(taken)
                await worker.ack(taken)
            await asyncio.sleep(0.001)
        assert sorted(given) == list(range(200))
        assert min(shares) > 0
        await eventually(one.backlog, 0)


@in_loop
async def test_rabbitmq_outbox_job_sent_twice_is_claimed_once() -> None:
    async with outbox(rabbitmq.namespace()) as work:
        await work.send(jobs(1, 2, 1))
        # A copy that arrives after the acknowledgment would count as a new job.
        await eventually(work.ready, 0)
        taken = await claim(work)
        assert posts(taken) == [1, 2]
        await work.ack(taken)
        await eventually(work.backlog, 0)


@in_loop
async def test_rabbitmq_outbox_jobs_with_same_number_are_distinguished_by_store_and_event() -> None:
    """A shard map may change while jobs are queued, and a store's number may then refer to a different store."""
    async with outbox(rabbitmq.namespace()) as work:
        others = [Job(1, PostCreated(post_id=2, author_id=ANN)), *jobs(1, store=1)]
        await work.send([*jobs(1), *others])
        assert await claimed(work, 3) == [*jobs(1), *others]


@in_loop
async def test_rabbitmq_outbox_delayed_job_is_delivered_after_its_worker_disconnected() -> None:
    namespace = rabbitmq.namespace()
    async with outbox(namespace) as work:
        await work.send(jobs(1, 2))
        first, second = await claimed(work, 2)
        put_back_at = time.monotonic()
        await work.put_back(first._replace(step=1, mark=5, attempt=2), 0.3)
        await work.ack([second])
        await eventually(work.backlog, 1)
    async with outbox(namespace) as other:
        await eventually(lambda: claim(other), [first._replace(step=1, mark=5, attempt=2)])
        assert time.monotonic() - put_back_at >= 0.3


@in_loop
async def test_rabbitmq_outbox_job_that_kills_workers_is_dead_lettered_after_eight_deaths() -> None:
    """All jobs in flight at a worker that dies count as delivered. Delivering them one by one isolates the fatal job."""
    namespace = rabbitmq.namespace()
    done: set[int] = set()
    deaths = 0
    async with outbox(namespace, taking=False) as watcher:
        await watcher.send(jobs(*range(20)))
        while await watcher.backlog():
            async with outbox(namespace) as worker:
                while taken := await claim(worker):
                    if 7 in posts(taken):
                        # For the broker, the process has exited here: its jobs in flight are never acknowledged.
                        deaths += 1
                        break
                    done.update(posts(taken))
                    await worker.ack(taken)
        assert deaths == 8
        assert done == set(range(20)) - {7}
        assert [(posts([job]), error) for job, error in await watcher.parked()] == [
            ([7], "its worker died or hung 8 times")
        ]


@in_loop
async def test_rabbitmq_outbox_dead_letters_can_be_listed_repeatedly_and_replayed_selectively() -> None:
    async with outbox(rabbitmq.namespace()) as work:
        await work.send(jobs(1, 2, 3))
        for job in await claimed(work, 3):
            await work.park(job._replace(step=1, mark=9, attempt=8), f"error {job.seq}")
        for _ in range(3):
            assert sorted((job.seq, job.attempt, error) for job, error in await work.parked()) == [
                (n, 8, f"error {n}") for n in (1, 2, 3)
            ]
        assert await work.unpark(jobs(2, 5)) == 1
        assert sorted(job.seq for job, _ in await work.parked()) == [1, 3]
        assert await claim(work) == [job._replace(step=1, mark=9) for job in jobs(2)]


@in_loop
async def test_rabbitmq_outbox_backlog_includes_in_flight_and_delayed_jobs() -> None:
    namespace = rabbitmq.namespace()
    async with outbox(namespace, taking=False) as watcher, outbox(namespace) as worker:
        await watcher.send(jobs(1, 2, 3))
        await eventually(watcher.backlog, 3)
        taken = await claimed(worker, 3)
        await worker.ack(taken[:1])
        await eventually(watcher.backlog, 2)
        await worker.put_back(taken[1], 3600.0)
        await eventually(watcher.backlog, 2)
        await worker.ack(taken[2:])
        await eventually(watcher.backlog, 1)
        figures = await watcher.figures()
        assert (figures.workers, figures.in_hand) == (1, 0)
        assert figures.rate > 0


@in_loop
async def test_rabbitmq_outbox_lag_is_age_of_oldest_waiting_in_flight_or_delayed_job() -> None:
    namespace = rabbitmq.namespace()
    async with outbox(namespace, taking=False) as watcher:
        assert await watcher.lag() == 0
        await watcher.send(jobs(1))
        await asyncio.sleep(0.05)
        waiting = await watcher.lag()
        assert waiting >= 0.05
        async with outbox(namespace) as worker:
            taken = await claim(worker)
            in_hand = await watcher.lag()
            assert in_hand >= waiting
            await worker.put_back(taken[0], 3600.0)
            assert await watcher.lag() >= in_hand
        assert await watcher.backlog() == 1


@in_loop
async def test_rabbitmq_outbox_backlog_counts_unresponsive_worker_as_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.amqp._REPLY_SECONDS", 0.05)
    namespace = rabbitmq.namespace()
    async with outbox(namespace, taking=False) as watcher, outbox(namespace) as stuck:
        # It consumes on one connection and would answer on the other, which is closed.
        await stuck._putting.close()
        # The broker confirms a consumer before the queue counts it.
        await eventually(lambda: _silent(watcher), 1)
        assert await watcher.backlog() == 1


async def _silent(work: RabbitOutbox) -> int:
    return (await work.figures()).silent


@in_loop
async def test_rabbitmq_outbox_backlog_of_unresponsive_queue_is_not_reported_as_empty() -> None:
    node, namespace = rabbitmq.node(), rabbitmq.namespace()
    async with outbox(namespace, url=node.url, taking=False) as watcher:
        await watcher.send(jobs(1, 2, 3))
        await eventually(watcher.backlog, 3)
        busy = f"P = whereis('%2F_{namespace}.work'), ok = sys:suspend(P), timer:sleep(1500), ok = sys:resume(P)"
        evaluating = asyncio.create_task(asyncio.to_thread(rabbitmq.evaluate, node, busy))
        answers = set[int]()
        while not evaluating.done():
            answers.add(await watcher.backlog())
        await evaluating
        assert answers == {3}


@in_loop
async def test_rabbitmq_outbox_without_broker_claims_no_jobs_and_refuses_to_send() -> None:
    url = rabbitmq.node().url
    with closing(Link(port_of(url))) as between:
        between.cut()
        await _claims_and_sends_once_there_is_a_broker(moved(url, between.at), between)


async def _claims_and_sends_once_there_is_a_broker(url: str, between: Link) -> None:
    async with outbox(rabbitmq.namespace(), url=url) as work:
        assert await work.claim(10, 60.0) == []
        with pytest.raises(Unavailable):
            await work.send(jobs(1))
        with pytest.raises(Unavailable):
            await work.backlog()
        between.heal()
        await eventually(lambda: _sent(work), True)
        # Consuming has a separate connection, which may recover later than the publishing connection.
        await eventually(lambda: _counts(work), True)
        assert set(posts(await claim(work))) == {1}


async def _sent(work: RabbitOutbox) -> bool:
    try:
        await work.send(jobs(1))
    except Unavailable:
        return False
    return True


async def _counts(work: RabbitOutbox) -> bool:
    try:
        await work.ready()
    except Unavailable:
        return False
    return True


@pytest.mark.parametrize("how", ["stop", "kill"])
@in_loop
async def test_rabbitmq_outbox_broker_restart_under_load_loses_no_jobs(node: Program, how: str) -> None:
    graph, done = MemoryGraph(), set[int]()

    async def note(done: set[int], event: PostCreated, mark: int) -> int | None:
        await asyncio.sleep(0)
        done.add(event.post_id)
        return mark + 1 if event.post_id % 10 == 0 and mark < 2 else None

    async with outbox(rabbitmq.namespace(), url=node.url) as work:
        runner, relay = Runner(work, {PostCreated: (note,)}, done), Relay(graph, work.send)
        runner.start()
        relay.start()
        numbers = itertools.count()
        # When the broker stops, some of these are being sent, some are queued and some are in flight.
        await emit(graph, *itertools.islice(numbers, 500))
        stopping = asyncio.create_task(asyncio.to_thread(getattr(node, how)))
        while not stopping.done():
            # A node takes seconds to stop: jobs emitted during this time must be processed after the restart.
            await emit(graph, *itertools.islice(numbers, 20))
            await asyncio.sleep(0.02)
        await emit(graph, *itertools.islice(numbers, 20))
        await asyncio.to_thread(node.start)
        emitted = next(numbers)
        await eventually(graph.backlog, 0)
        await eventually(lambda: _count(done), emitted)
        await runner.drain()
        await relay.stop()
        await runner.stop()
        assert await work.parked() == []


async def _count(done: set[int]) -> int:
    return len(done)


@in_loop
async def test_rabbitmq_outbox_job_whose_requeue_failed_is_kept_and_delivered_again() -> None:
    async with outbox(rabbitmq.namespace()) as work:
        await work.send(jobs(1))
        (job,) = await claim(work)
        await work._putting.close()
        await work.put_back(job._replace(mark=5))
        assert await work.claim(10, 60.0) == []
        await eventually(lambda: work.claim(10, 60.0), [job._replace(mark=5)])


@in_loop
async def test_rabbitmq_outbox_channel_closed_by_broker_is_reopened() -> None:
    """The broker also closes the channel of a consumer that exceeds the delivery acknowledgment timeout."""
    async with outbox(rabbitmq.namespace()) as work:
        await work.send(jobs(1))
        assert posts(await claim(work)) == [1]
        assert work._work is not None
        with pytest.raises(Exception, match="no queue"):
            await work._work.queue_declare("nothing-of-ours", passive=True)
        await eventually(lambda: _claimed(work), [1])


async def _claimed(work: RabbitOutbox) -> list[int]:
    return posts(await work.claim(10, 60.0))


@in_loop
async def test_rabbitmq_outbox_deleted_queues_are_recreated() -> None:
    async with outbox(rabbitmq.namespace()) as work:
        assert work._work is not None
        await work._work.queue_delete(work._queues.work)
        await eventually(lambda: _sent(work), True)
        await eventually(lambda: _claimed(work), [1])


@in_loop
async def test_rabbitmq_outbox_job_of_unknown_event_type_is_requeued_unchanged_and_does_not_block_queue() -> None:
    async with outbox(rabbitmq.namespace()) as work:
        (job,) = jobs(1)
        unknown = write(job, now_ms()).replace(b"post_created", b"post_praised")
        unknown_event = encode(job.event).replace(b"post_created", b"post_praised")
        await work._putting.publish(work._queues.work, [unknown, write(job, now_ms()), b"nonsense"])
        future, known = await claimed(work, 2)
        assert isinstance(future.event, FutureEvent)
        assert known == job
        await work.ack([known])
        # The runner requeues an event of unknown type; it is redelivered byte for byte.
        await work.put_back(future, 0.1)
        (again,) = await claimed(work, 1)
        assert encode(again.event) == unknown_event
        await work.put_back(again, 60.0)
        assert await claim(work) == []
        await eventually(work.backlog, 2)
        assert (await work.figures()).in_hand == 0


@in_loop
async def test_rabbitmq_outbox_url_with_unsupported_scheme_is_refused() -> None:
    with pytest.raises(InvalidInput):
        await RabbitOutbox.open("redis://localhost")
