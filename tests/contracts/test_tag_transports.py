"""The contract of increment transports, and the behavior of the RabbitMQ transport when connections and nodes fail."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import pytest

from shoal.core.errors import InvalidInput, TooLarge, Unavailable
from shoal.tagcloud.collection import Inbox
from shoal.tagcloud.contract import Parcel, Transport
from shoal.tagcloud.memory import MemoryCloud
from shoal.tagcloud.rabbitmq import MOST_BYTES, QUEUES, RabbitTransport
from shoal_devcluster.program import Program
from tests.async_runner import eventually, in_loop
from tests.engines import rabbitmq
from tests.faults.proxy import Link, moved, port_of
from tests.tiers import deep

TURN = 0.02
PATIENCE = 60.0


class Carrier:
    """Opens any number of transports of a test network."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._store = MemoryCloud()
        self._namespace = "" if kind == "inbox" else rabbitmq.namespace()
        self.look_seconds = TURN
        """Poll interval of an idle collector, for a transport that polls."""

    async def emitting(self) -> Transport:
        """Open the transport of an emitter."""
        return await self._open(collecting=False)

    async def collecting(self) -> Transport:
        """Open the transport of a collector."""
        return await self._open(collecting=True)

    async def _open(self, *, collecting: bool) -> Transport:
        if self._kind == "inbox":
            return Inbox(self._store, self.look_seconds)
        return await opened(self._namespace, collecting=collecting)


@pytest.fixture(autouse=True)
def _no_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL + 1):
        yield


@pytest.fixture(params=["inbox", "rabbitmq"])
def carrier(request: pytest.FixtureRequest) -> Carrier:
    """Each transport in turn, empty."""
    return Carrier(request.param)


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


async def opened(namespace: str, *, collecting: bool, url: str = "", prefetch: int = 1_000) -> RabbitTransport:
    url = url or rabbitmq.node().url
    return await RabbitTransport.open(url, namespace, collecting=collecting, prefetch=prefetch, check_seconds=TURN)


@asynccontextmanager
async def closing(*opening: Awaitable[Transport]) -> AsyncIterator[list[Transport]]:
    async with AsyncExitStack() as stack:
        transports = []
        for one in opening:
            transport = await one
            stack.push_async_callback(transport.close)
            transports.append(transport)
        yield transports


def names(*numbers: int) -> dict[bytes, bytes]:
    """Increments: bodies by id."""
    return {b"increment-%06d" % number: b"body %d" % number for number in numbers}


async def send(transport: Transport, *numbers: int) -> None:
    await asyncio.gather(*[transport.send(id_, body) for id_, body in names(*numbers).items()])


async def sent(transport: Transport, *numbers: int) -> bool:
    try:
        await send(transport, *numbers)
    except Unavailable:
        return False
    return True


async def told(transport: Transport, *numbers: int) -> list[Parcel]:
    """Collect until all of these increments have arrived, and check that there are no others."""
    wanted, found = names(*numbers), dict[bytes, bytes]()
    async with asyncio.timeout(PATIENCE), aclosing(arrivals(transport)) as batches:
        async for parcels in batches:
            found.update(parcels)
            if found.keys() >= wanted.keys():
                break
    assert found == wanted
    return [Parcel(id_, body) for id_, body in found.items()]


async def heard(transport: Transport, looks: int = 3) -> set[Parcel]:
    """Return the parcels of `looks` batches; a batch is empty after a fraction of a second without parcels."""
    found: set[Parcel] = set()
    async with asyncio.timeout(PATIENCE), aclosing(arrivals(transport)) as batches:
        async for parcels in batches:
            found.update(parcels)
            looks -= 1
            if not looks:
                break
    return found


async def arrivals(transport: Transport) -> AsyncGenerator[list[Parcel], None]:
    async for parcels in transport.arrivals():
        yield list(parcels)


@in_loop
async def test_tag_transport_increments_sent_before_first_collector_are_delivered(carrier: Carrier) -> None:
    async with closing(carrier.emitting()) as (emitter,):
        await send(emitter, 1, 2, 3)
        await eventually(emitter.waiting, 3)
    async with closing(carrier.collecting()) as (collector,):
        await told(collector, 1, 2, 3)


@in_loop
async def test_tag_transport_after_hurry_call_returns_next_batch_without_waiting(
    carrier: Carrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    carrier.look_seconds = 10 * PATIENCE
    monkeypatch.setattr("shoal.tagcloud.rabbitmq._LOOK_SECONDS", 10 * PATIENCE)
    async with closing(carrier.collecting()) as (collector,), aclosing(arrivals(collector)) as batches:
        async with asyncio.timeout(PATIENCE):
            for _ in range(3):
                collector.hurry()
                assert await anext(batches) == []


@pytest.mark.parametrize("count", [1, 2, QUEUES, QUEUES - 1])
@in_loop
async def test_tag_transport_delivers_every_increment_to_every_collector(carrier: Carrier, count: int) -> None:
    async with closing(carrier.emitting(), *[carrier.collecting() for _ in range(count)]) as (emitter, *collectors):
        numbers = range(100)
        await send(emitter, *numbers)
        for collector in collectors:
            await told(collector, *numbers)


@in_loop
async def test_tag_transport_late_collector_receives_increments(carrier: Carrier) -> None:
    """Increments that the first collector has acknowledged need not reach the others."""
    async with closing(carrier.emitting(), carrier.collecting()) as (emitter, first):
        await send(emitter, *range(10))
        await first.done(await told(first, *range(10)))
        async with closing(carrier.collecting(), carrier.collecting()) as others:
            # Send increments while the collectors divide the queues among themselves.
            for number in range(10, 40):
                await send(emitter, number)
                await asyncio.sleep(TURN)
            for other in others:
                await eventually(lambda: _hears(other), True)  # noqa: B023  # called within this iteration


async def _hears(transport: Transport) -> bool:
    return bool(await heard(transport, 2))


@in_loop
async def test_tag_transport_with_more_collectors_than_queues_delivers_all_increments(carrier: Carrier) -> None:
    found: set[bytes] = set()

    async def collect(transport: Transport) -> None:
        async for parcels in transport.arrivals():
            found.update(parcel.id for parcel in parcels)
            await transport.done(parcels)

    opening = [carrier.collecting() for _ in range(QUEUES + 2)]
    async with closing(carrier.emitting(), *opening) as (emitter, *collectors):
        async with asyncio.timeout(PATIENCE):
            tasks = [asyncio.create_task(collect(collector)) for collector in collectors]
            for number in range(0, 100, 10):
                await send(emitter, *range(number, number + 10))
            await eventually(emitter.waiting, 0)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        assert found == names(*range(100)).keys()


@in_loop
async def test_tag_transport_redelivers_increments_until_acknowledged(carrier: Carrier) -> None:
    async with closing(carrier.emitting()) as (emitter,):
        await send(emitter, *range(20))
        async with closing(carrier.collecting()) as (first,):
            parcels = await told(first, *range(20))
            await first.done(parcels[::2])
            assert await heard(first) == set(parcels[1::2])
            await eventually(emitter.waiting, 10)
        async with closing(carrier.collecting()) as (second,):
            again = await told(second, *[number for number in range(20) if number % 2])
            await second.done(again)
            await eventually(emitter.waiting, 0)
        async with closing(carrier.collecting()) as (third,):
            assert await heard(third) == set()


@in_loop
async def test_tag_transport_increment_sent_twice_is_acknowledged_with_one_call(carrier: Carrier) -> None:
    """An emitter sends again if it received no confirmation."""
    async with closing(carrier.emitting(), carrier.collecting()) as (emitter, collector):
        await send(emitter, 1, 2)
        await send(emitter, 1)
        await collector.done(await told(collector, 1, 2))
        await eventually(emitter.waiting, 0)


@in_loop
async def test_tag_transport_without_increments_yields_empty_batches(carrier: Carrier) -> None:
    async with closing(carrier.collecting()) as (collector,):
        assert await heard(collector) == set()


@in_loop
async def test_tag_transport_acknowledgment_of_unknown_increment_is_ignored(carrier: Carrier) -> None:
    async with closing(carrier.emitting(), carrier.collecting()) as (emitter, collector):
        await collector.done([])
        await collector.done([Parcel(b"nobody's", b"")])
        await send(emitter, 1)
        await told(collector, 1)


@in_loop
async def test_tag_transport_waiting_count_includes_increments_not_acknowledged(carrier: Carrier) -> None:
    async with closing(carrier.emitting(), carrier.collecting()) as (emitter, collector):
        assert await emitter.waiting() == 0
        await send(emitter, *range(7))
        await eventually(emitter.waiting, 7)
        parcels = await told(collector, *range(7))
        assert await emitter.waiting() == 7
        await collector.done(parcels[:3])
        await eventually(emitter.waiting, 4)


# --- RabbitMQ ---


@in_loop
async def test_rabbitmq_tag_transport_redelivers_unfinished_increments_after_reconnect() -> None:
    namespace = rabbitmq.namespace()
    emitter, collector = [await opened(namespace, collecting=collecting) for collecting in (False, True)]
    async with closing(_given(emitter), _given(collector)):
        await send(emitter, *range(10))
        parcels = await told(collector, *range(10))
        old = list(collector._positions)
        # The connection breaks while the first acknowledgments are in flight and before the others.
        await collector.done(parcels[:3])
        await old[0].channel.connection.close(ConnectionError("cut"))
        await collector.done(parcels[3:5])
        await eventually(lambda: _places(collector), QUEUES)
        # Redelivered increments that are already done are acknowledged immediately.
        await told(collector, *range(5, 10))
        await eventually(emitter.waiting, 5)


async def _given(transport: RabbitTransport) -> Transport:
    return transport


async def _places(transport: RabbitTransport) -> int:
    return len(transport._positions)


@in_loop
async def test_rabbitmq_tag_transport_queue_of_closed_collector_is_taken_over_by_other_collector() -> None:
    namespace = rabbitmq.namespace()
    async with closing(opened(namespace, collecting=False), opened(namespace, collecting=True)) as (emitter, first):
        async with closing(opened(namespace, collecting=True)) as (second,):
            await send(emitter, *range(10))
            for collector in (first, second):
                await told(collector, *range(10))
        await first.done(await told(first, *range(10)))
        # The first collector has taken over the queue of the closed one, with its increments.
        await eventually(emitter.waiting, 0)


@in_loop
async def test_rabbitmq_tag_transport_collector_with_small_prefetch_drains_queue() -> None:
    namespace = rabbitmq.namespace()
    async with closing(opened(namespace, collecting=False), opened(namespace, collecting=True, prefetch=5)) as (
        emitter,
        collector,
    ):
        await send(emitter, *range(200))
        seen: set[bytes] = set()
        async with asyncio.timeout(PATIENCE), aclosing(arrivals(collector)) as batches:
            async for parcels in batches:
                assert len(parcels) <= 5 * QUEUES
                seen.update(parcel.id for parcel in parcels)
                await collector.done(parcels)
                if len(seen) == 200:
                    break
        await eventually(emitter.waiting, 0)


@in_loop
async def test_rabbitmq_tag_transport_stuck_collector_reconnects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    namespace = rabbitmq.namespace()
    async with closing(opened(namespace, collecting=False)) as (emitter,):
        collector = await opened(namespace, collecting=True)
        async with closing(_given(collector)):
            for place in collector._positions:
                # Simulate a broker that has lost its consumers.
                await place.channel.basic_cancel(place._ticket)
            await send(emitter, *range(10))
            assert await heard(collector) == set()
            monkeypatch.setattr("shoal.tagcloud.rabbitmq._STUCK_SECONDS", 0.2)
            await collector.done(await told(collector, *range(10)))
            await eventually(emitter.waiting, 0)


@in_loop
async def test_rabbitmq_tag_transport_three_collectors_get_one_queue_each() -> None:
    namespace = rabbitmq.namespace()
    async with AsyncExitStack() as stack:
        emitter = await opened(namespace, collecting=False)
        stack.push_async_callback(emitter.close)
        collectors: list[RabbitTransport] = []
        numbers = iter(range(1_000_000))

        async def shares() -> list[int]:
            # The active consumer of a queue is known only after a delivery.
            await send(emitter, next(numbers))
            return sorted(len([place for place in one._positions if place.first_since]) for one in collectors)

        for wanted in ([3], [1, 2], [1, 1, 1], [0, 1, 1, 1]):
            collectors.append(await opened(namespace, collecting=True))
            stack.push_async_callback(collectors[-1].close)
            await eventually(shares, wanted, PATIENCE)


@in_loop
async def test_rabbitmq_tag_transport_unresponsive_collector_is_counted_as_one_waiting_increment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shoal.amqp._REPLY_SECONDS", 0.05)
    namespace = rabbitmq.namespace()
    emitter, stuck = [await opened(namespace, collecting=collecting) for collecting in (False, True)]
    async with closing(_given(emitter), _given(stuck)):
        # It consumes on one connection and would answer on the other, which is closed.
        await stuck._putting.close()
        # The broker confirms a consumer before the queue counts it.
        await eventually(emitter.waiting, 1)


@in_loop
async def test_rabbitmq_tag_transport_oversized_increment_is_refused() -> None:
    async with closing(opened(rabbitmq.namespace(), collecting=True)) as (transport,):
        with pytest.raises(TooLarge, match="at most 1000000 bytes"):
            await transport.send(b"1", bytes(MOST_BYTES + 1))
        await transport.send(b"1", bytes(MOST_BYTES))
        await eventually(transport.waiting, 1)


@in_loop
async def test_rabbitmq_tag_transport_deleted_queues_and_exchanges_are_recreated() -> None:
    namespace = rabbitmq.namespace()
    emitter, collector = [await opened(namespace, collecting=collecting) for collecting in (False, True)]
    async with closing(_given(emitter), _given(collector)):
        assert emitter._counting is not None
        for queue in emitter._names.queues:
            await emitter._counting.queue_delete(queue)
        await eventually(lambda: sent(emitter, 1), True)
        await told(collector, 1)
        assert emitter._counting is not None
        await emitter._counting.exchange_delete(emitter._names.exchange)
        await eventually(lambda: sent(emitter, 2), True)
        await told(collector, 1, 2)


@in_loop
async def test_rabbitmq_tag_transport_malformed_messages_do_not_block_collector() -> None:
    namespace = rabbitmq.namespace()
    emitter, collector = [await opened(namespace, collecting=collecting) for collecting in (False, True)]
    async with closing(_given(emitter), _given(collector)):
        await emitter._putting.publish("", [b"", b"\xffshort"], exchange=emitter._names.exchange)
        await send(emitter, 1)
        wanted = {(b"", b""), (b"short", b""), *names(1).items()}

        async def came() -> set[tuple[bytes, bytes]]:
            return {(parcel.id, parcel.body) for parcel in await heard(collector, 2)}

        await eventually(came, wanted)


@pytest.mark.parametrize("how", ["kill", *deep("stop")])
@in_loop
async def test_rabbitmq_tag_transport_broker_restart_loses_no_sent_increments(node: Program, how: str) -> None:
    namespace = rabbitmq.namespace()
    emitter, collector = [await opened(namespace, collecting=one, url=node.url) for one in (False, True)]
    async with closing(_given(emitter), _given(collector)):
        await send(emitter, *range(50))
        parcels = await told(collector, *range(50))
        await collector.done(parcels[:25])
        await eventually(emitter.waiting, 25)
        stopping: Callable[[], None] = getattr(node, how)
        safe = {parcel.id for parcel in parcels[25:]}
        # RabbitMQ 3.10 persists a new queue a second later: a younger queue never responds after a kill.
        await asyncio.sleep(1.5)
        going = asyncio.create_task(asyncio.to_thread(stopping))
        number = 50
        while not going.done():
            if await sent(emitter, number):
                safe.update(names(number))
            number += 1
            await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            await emitter.waiting()
        await heard(collector)
        await asyncio.to_thread(node.start)
        await eventually(lambda: sent(emitter, 1_000_000), True, PATIENCE)
        found: set[bytes] = set()
        wanted = safe | names(1_000_000).keys()
        for _ in range(30):
            if found >= wanted:
                break
            found.update(parcel.id for parcel in await heard(collector))
        assert found >= wanted


@in_loop
async def test_rabbitmq_tag_transport_without_broker_refuses_to_send_and_recovers() -> None:
    url, namespace = rabbitmq.node().url, rabbitmq.namespace()
    with contextlib.closing(Link(port_of(url))) as between:
        between.cut()
        async with closing(opened(namespace, collecting=True, url=moved(url, between.at))) as (transport,):
            with pytest.raises(Unavailable):
                await transport.send(b"1", b"")
            with pytest.raises(Unavailable):
                await transport.waiting()
            assert await heard(transport) == set()
            between.heal()
            await eventually(lambda: sent(transport, 1), True, PATIENCE)
            await told(transport, 1)


@in_loop
async def test_rabbitmq_tag_transport_url_with_unsupported_scheme_is_refused() -> None:
    with pytest.raises(InvalidInput):
        await RabbitTransport.open("redis://localhost", collecting=False)
