"""The contract of `streaming/contract.py`, tested on every channel."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis

from shoal.graph.dynamodb.items import ItemKey, address_of, digits
from shoal.graph.memory import MemoryGraph
from shoal.graph.redis.client import Nodes
from shoal.streaming.contract import Channel, ChannelMessage, Gap, MemoryChannel, Position
from shoal.streaming.dynamodb import DynamoChannel
from shoal.streaming.hub import Hub
from shoal.streaming.redis import RedisChannel
from tests.async_runner import eventually, in_loop, run
from tests.channel_followers import following, publish, told
from tests.engines import redis
from tests.example_counts import examples
from tests.stores import Clock
from tests.timelines.on_dynamodb import new_url, timelines_on

Open = Callable[[int], AbstractAsyncContextManager[Channel]]
SLACK = 200
"""Number of messages that a log may keep in excess of its length: Redis trims a stream by whole blocks."""


@asynccontextmanager
async def in_memory(length: int) -> AsyncIterator[Channel]:
    yield MemoryChannel(length)


@asynccontextmanager
async def on_redis(url: str, length: int) -> AsyncIterator[Channel]:
    nodes = Nodes(url, **redis.PATIENT)
    channel = RedisChannel(nodes, length, block_seconds=0.1)
    yield channel
    await channel.close()
    await nodes.close()


@asynccontextmanager
async def on_dynamodb(length: int) -> AsyncIterator[Channel]:
    async with timelines_on(new_url()) as timelines:
        channel = DynamoChannel(timelines.service, length, poll_seconds=0.02)
        yield channel
        await channel.close()


BACKENDS: dict[str, Open] = {
    "memory": in_memory,
    "redis": lambda length: on_redis(redis.single(), length),
    "redis-cluster": lambda length: on_redis(redis.cluster(), length),
    "valkey": lambda length: on_redis(redis.valkey(), length),
    "dynamodb": on_dynamodb,
}
on_every_backend = pytest.mark.parametrize("backend", list(BACKENDS))
on_redis_of_each_kind = pytest.mark.parametrize("backend", ["redis", "redis-cluster"])


def flush(backend: str) -> None:
    """Empty the engine of this backend: requesting its address does this."""
    redis.single() if backend == "redis" else redis.cluster()


async def expire(channel: Channel) -> None:
    """Make a log of length 100 lose its oldest messages: by their age on DynamoDB, or by newer ones."""
    if isinstance(channel, DynamoChannel):
        items = await channel._service.stretch(ItemKey("channel", "message#"), ItemKey("channel", "message$"), 100)
        await channel._service.forget([address_of(item) for item in items])
    else:
        await publish(channel, numbers(0, 100 + 2 * SLACK))


def numbers(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


async def texts(channel: Channel, after: Position, count: int) -> list[str]:
    return [message.decode() for _, message in await told(channel, after, count)]


@on_every_backend
@in_loop
async def test_update_log_readers_receive_every_message_once_in_same_order(backend: str) -> None:
    async with BACKENDS[backend](5_000) as channel, AsyncExitStack() as stack:
        start = await channel.end()
        followers = [await stack.enter_async_context(following(channel, start)) for _ in range(3)]

        async def writer(name: str) -> None:
            for number in range(100):
                await channel.publish(f"{name} {number}".encode())

        await asyncio.gather(*(writer(name) for name in "abcdefgh"))
        for follower in followers:
            await eventually(follower.count, 800)
        assert followers[0].told == followers[1].told == followers[2].told == await texts(channel, start, 800)
        for name in "abcdefgh":
            assert [text for text in followers[0].told if text[0] == name] == [f"{name} {n}" for n in range(100)]


@on_every_backend
@in_loop
async def test_update_log_messages_published_concurrently_keep_their_order(backend: str) -> None:
    async with BACKENDS[backend](5_000) as channel:
        start = await channel.end()
        await asyncio.gather(*(channel.publish(text.encode()) for text in numbers(0, 1_200)))
        assert await texts(channel, start, 1_200) == numbers(0, 1_200)


@on_every_backend
@in_loop
async def test_update_log_reader_from_end_receives_only_new_messages(backend: str) -> None:
    async with BACKENDS[backend](100) as channel:
        await publish(channel, numbers(0, 5))
        end = await channel.end()
        assert end == await channel.end()
        async with following(channel, end) as follower:
            await publish(channel, numbers(5, 8))
            await eventually(follower.count, 3)
        assert follower.told == numbers(5, 8)


@on_every_backend
@in_loop
async def test_update_log_reader_resumes_after_any_previous_position(backend: str) -> None:
    async with BACKENDS[backend](100) as channel:
        positions = [await channel.end()]
        await publish(channel, numbers(0, 20))
        positions += [position for position, _ in await told(channel, positions[0], 20)]
        for place, position in enumerate(positions):
            assert re.fullmatch(r"[A-Za-z0-9-]{1,60}", position)
            assert await texts(channel, position, 20 - place) == numbers(place, 20)
        assert positions[-1] == await channel.end()


@on_every_backend
@in_loop
async def test_update_log_position_n_messages_before_end_never_precedes_start_of_log(backend: str) -> None:
    async with BACKENDS[backend](100) as channel:
        empty = await channel.end()
        assert empty == await channel.end(9)
        await publish(channel, numbers(0, 20))
        assert await texts(channel, await channel.end(3), 3) == numbers(17, 20)
        assert await channel.end(50) == empty


@on_every_backend
@in_loop
async def test_update_log_positions_are_comparable_within_one_log(backend: str) -> None:
    async with BACKENDS[backend](100) as channel:
        await publish(channel, numbers(0, 12))
        start, middle, end = [await channel.end(back) for back in (12, 2, 0)]
        assert channel.reached(start, end)
        assert channel.reached(middle, end)
        assert channel.reached(end, end)
        assert not channel.reached(end, middle)
        assert not channel.reached(Position("x"), end)
        assert not channel.reached(start, Position("elsewhere-99"))


@on_every_backend
@pytest.mark.parametrize("position", ["", "-", "1-1", "0-0", "x-0", "1-²", "9" * 40, "a-b-c", "-1--1", "é"])
@in_loop
async def test_update_log_reader_from_invalid_position_gets_gap(backend: str, position: str) -> None:
    async with BACKENDS[backend](100) as channel:
        await publish(channel, numbers(0, 3))
        with pytest.raises(Gap):
            await told(channel, Position(position), 1)
        ahead = await channel.end()
        name, _, number = ahead.rpartition("-")
        with pytest.raises(Gap):
            await told(channel, Position(f"{name}-{int(number) + 1}"), 1)


@on_every_backend
@in_loop
async def test_update_log_slow_reader_gets_gap_and_does_not_delay_others(backend: str) -> None:
    async with BACKENDS[backend](100) as channel:
        start = await channel.end()
        async with following(channel, start) as quick, aclosing(channel.follow(start)) as slow:
            await publish(channel, ["first"])
            assert (await anext(slow)).message == b"first"
            for first in range(0, 2_000, 50):
                await publish(channel, numbers(first, first + 50))
                await eventually(quick.count, first + 51)
            with pytest.raises(Gap):
                await _exhaust(slow)
        assert quick.told == ["first", *numbers(0, 2_000)]
        assert quick.error is None
        with pytest.raises(Gap):
            await told(channel, start, 1)


async def _exhaust(messages: AsyncIterator[ChannelMessage]) -> None:
    async for _ in messages:
        pass


@on_every_backend
@in_loop
async def test_update_log_is_trimmed_to_its_length(backend: str) -> None:
    async with BACKENDS[backend](100) as channel:
        await publish(channel, numbers(0, 2_000))
        oldest = int(await texts_first(channel))
        assert 2_000 - 100 - SLACK <= oldest <= 2_000 - 100


async def texts_first(channel: Channel) -> str:
    return (await texts(channel, await channel.end(10_000), 1))[0]


@on_every_backend
@in_loop
async def test_update_log_created_again_rejects_old_positions_with_gap(backend: str) -> None:
    async with BACKENDS[backend](100) as channel:
        await publish(channel, numbers(0, 3))
        before = await channel.end(1)
    async with BACKENDS[backend](100) as anew:
        await publish(anew, numbers(0, 3))
        with pytest.raises(Gap):
            await told(anew, before, 1)


@on_redis_of_each_kind
@pytest.mark.parametrize("meanwhile", [0, 2, 5, 9])
@in_loop
async def test_redis_update_log_readers_get_gap_after_redis_flush_with_or_without_new_messages(
    backend: str, meanwhile: int
) -> None:
    async with BACKENDS[backend](100) as channel:
        start = await channel.end()
        async with following(channel, start) as follower:
            await publish(channel, numbers(0, 5))
            await eventually(follower.count, 5)
            flush(backend)
            await publish(channel, numbers(5, 5 + meanwhile))
            await eventually(follower.ended, True)
        assert isinstance(follower.error, Gap)
        assert follower.told == numbers(0, 5)
        with pytest.raises(Gap):
            await told(channel, start, 1)
        end = await channel.end()
        await publish(channel, ["again"])
        assert await texts(channel, end, 1) == ["again"]


@on_redis_of_each_kind
@in_loop
async def test_redis_update_log_is_shared_by_processes(backend: str) -> None:
    async with BACKENDS[backend](100) as one, AsyncExitStack() as stack:
        nodes = Nodes(redis.server().url if backend == "redis" else redis._cluster().url)
        stack.push_async_callback(nodes.close)
        two = RedisChannel(nodes, 100)
        end = await one.end()
        assert end == await two.end()
        await one.publish(b"from one")
        await two.publish(b"from two")
        assert await texts(one, end, 2) == await texts(two, end, 2) == ["from one", "from two"]


@in_loop
async def test_dynamodb_update_log_is_shared_by_processes_and_keeps_every_concurrent_message() -> None:
    url = new_url()
    async with timelines_on(url) as first, timelines_on(url) as second:
        one, two = (DynamoChannel(timelines.service, 100, poll_seconds=0.02) for timelines in (first, second))
        end = await one.end()
        assert end == await two.end()
        async with following(one, end) as follower:
            await asyncio.gather(publish(one, numbers(0, 20)), publish(two, numbers(20, 40)))
            await eventually(follower.count, 40)
        assert sorted(map(int, follower.told)) == list(range(40))
        assert await texts(two, end, 40) == follower.told


@in_loop
async def test_dynamodb_update_log_expired_message_is_reported_as_gap() -> None:
    async with timelines_on(new_url()) as timelines:
        channel = DynamoChannel(timelines.service, 100)
        start = await channel.end()
        await channel.publish(b"expires")
        after = await channel.end()
        await timelines.service.forget([ItemKey("channel", f"message#{digits(1)}")])
        await channel.publish(b"new")
        with pytest.raises(Gap):
            await told(channel, start, 1)
        assert await texts(channel, after, 1) == ["new"]


@on_every_backend
@in_loop
async def test_streaming_hub_started_on_update_log_with_expired_messages_goes_live(backend: str) -> None:
    async with BACKENDS[backend](100) as channel:
        await publish(channel, numbers(0, 40))
        await expire(channel)
        await channel.publish(b"new")
        hub = Hub(channel, MemoryGraph(), retained=100)

        async def is_live() -> bool:
            return hub.follow()

        try:
            hub.follow()
            await eventually(is_live, True)
        finally:
            await hub.close()


@pytest.mark.parametrize("published", [0, 3])
@in_loop
async def test_dynamodb_update_log_skips_expired_messages_that_are_still_stored(published: int) -> None:
    clock = Clock()
    async with timelines_on(new_url()) as timelines:
        channel = DynamoChannel(timelines.service, 500, poll_seconds=0.02, clock=clock)
        old = await channel.end()
        for number in range(130):
            await channel.publish(str(number).encode())
        clock.now = 3_600
        await publish(channel, numbers(130, 130 + published))
        start = await channel.end(500)
        assert start == await channel.end(published)
        assert await texts(channel, start, published) == numbers(130, 130 + published)
        with pytest.raises(Gap):
            await told(channel, old, 1)


@in_loop
async def test_dynamodb_update_log_message_missing_between_others_is_reported_as_gap() -> None:
    async with timelines_on(new_url()) as timelines:
        channel = DynamoChannel(timelines.service, 100)
        start = await channel.end()
        for number in range(3):
            await channel.publish(str(number).encode())
        await timelines.service.forget([ItemKey("channel", f"message#{digits(2)}")])
        assert await texts(channel, start, 1) == ["0"]
        with pytest.raises(Gap):
            await told(channel, start, 2)


@in_loop
async def test_redis_update_log_waiting_reader_sends_no_commands() -> None:
    nodes = Nodes(redis.single(), **redis.PATIENT)
    channel = RedisChannel(nodes, 100, block_seconds=60)
    async with following(channel, await channel.end()) as follower:
        await publish(channel, numbers(0, 3))
        await eventually(follower.count, 3)
        with Redis.from_url(redis.server().url) as client:

            async def blocked() -> int:
                return int(client.info("clients")["blocked_clients"])

            await eventually(blocked, 1)
            before = nodes.calls
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert nodes.calls == before
            await publish(channel, ["more"])
            await eventually(follower.count, 4)
            assert nodes.calls - before <= 3
    await channel.close()
    await nodes.close()


class Modeled:
    """A model of an unbounded log and of followers with their positions."""

    def __init__(self, channel: Channel, length: int) -> None:
        self.channel = channel
        self.length = length
        self.published = 0
        self.places: list[tuple[int, Position]] = []

    async def publish(self, count: int) -> None:
        await publish(self.channel, numbers(self.published, self.published + count))
        self.published += count

    async def come(self, _count: int) -> None:
        self.places.append((self.published, await self.channel.end()))

    async def read(self, count: int) -> None:
        """The follower that has waited longest continues reading."""
        if not self.places:
            return
        place, position = self.places.pop(0)
        count = min(count, self.published - place)
        if not count:
            self.places.append((place, position))
            return
        try:
            found = await told(self.channel, position, count)
        except Gap:
            assert self.published - place > self.length, "unexpected gap within the kept length"
            return
        assert self.published - place <= self.length + SLACK, "the log keeps more messages than allowed"
        assert [message.decode() for _, message in found] == numbers(place, place + count)
        self.places.append((place + count, found[-1].position))


ACTS = st.tuples(st.sampled_from(["publish", "come", "read", "read"]), st.integers(0, 170))


@on_every_backend
@settings(deadline=None, max_examples=examples(30, full=60))
@given(length=st.sampled_from([1, 10, 100]), acts=st.lists(ACTS, max_size=25))
def test_update_log_reader_receives_every_message_in_order_or_gap(
    backend: str, length: int, acts: list[tuple[str, int]]
) -> None:
    async def story() -> None:
        async with BACKENDS[backend](length) as channel:
            modeled = Modeled(channel, length)
            for verb, count in acts:
                await getattr(modeled, verb)(count)

    run(story())
