"""Connections of a named feed that handle the same update share one reading of the feed, which is never older than the update."""

from __future__ import annotations

import asyncio
import gc
import traceback
import weakref
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

from shoal import Shoal
from shoal.core.errors import NotFound, Unavailable
from shoal.core.feeds.declarations import NamedFeed, declaration_of
from shoal.graph.feed_lookup import FeedReading, read_feed
from shoal.queries.streaming import Arrived, FeedChanged, updates_for_viewer
from shoal.streaming import connections
from shoal.streaming.connections import SharedFeed
from shoal.streaming.subscriptions import FeedInterest
from tests.async_runner import eventually, in_loop
from tests.flows.members import register
from tests.flows.notifications.home_listener import listening

DECLARED = {"sources": [{"from": "everybody"}]}


def counted_reads(monkeypatch: pytest.MonkeyPatch) -> list[FeedReading]:
    """Return a list to which each later reading of a feed for its streams is appended."""
    readings: list[FeedReading] = []

    async def counted(*arguments: Any) -> FeedReading:
        readings.append(await read_feed(*arguments))
        return readings[-1]

    monkeypatch.setattr(connections, "read_feed", counted)
    return readings


class Store:
    """Reads of a feed that wait until the test releases them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads: list[asyncio.Future[FeedReading]] = []
        self.received = 0
        self.shared = SharedFeed(7, lambda: self.received)
        monkeypatch.setattr(connections, "read_feed", self._read)

    async def _read(self, _graph: Any, feed_id: int) -> FeedReading:
        self.reads.append(asyncio.get_running_loop().create_future())
        return await self.reads[-1]

    async def connection(self) -> asyncio.Task[FeedReading]:
        """Read the feed for a connection, as far as possible."""
        task = asyncio.create_task(self.shared.read(None))  # type: ignore[arg-type]  # the read is replaced
        for _ in range(5):
            await asyncio.sleep(0)
        return task


def reading(version: int) -> FeedReading:
    feed = NamedFeed(id=7, version=version, owner_id=0, title="", declaration=declaration_of(DECLARED))
    return FeedReading(feed, {})


@in_loop
async def test_shared_feed_is_read_once_for_connections_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(monkeypatch)
    connections = [await store.connection() for _ in range(3)]
    store.reads[0].set_result(reading(1))
    assert [(await each).feed.version for each in connections] == [1, 1, 1]
    assert len(store.reads) == 1


@in_loop
async def test_shared_feed_is_read_once_for_connections_that_the_event_loop_woke_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = 0

    async def read_at_once(_graph: Any, _feed_id: int) -> FeedReading:
        nonlocal reads
        reads += 1
        return reading(reads)

    monkeypatch.setattr(connections, "read_feed", read_at_once)
    shared = SharedFeed(7, lambda: 0)
    found = await asyncio.gather(*(shared.read(None) for _ in range(3)))  # type: ignore[arg-type]  # the read is replaced
    assert [each.feed.version for each in found] == [1, 1, 1]


@in_loop
async def test_shared_feed_reading_that_has_ended_is_not_used_by_later_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store(monkeypatch)
    for number in range(2):
        task = await store.connection()
        store.reads[number].set_result(reading(number))
        assert (await task).feed.version == number
        await asyncio.sleep(0)


@in_loop
async def test_shared_feed_reading_that_began_before_an_update_is_not_used_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store(monkeypatch)
    earlier = await store.connection()
    store.received += 1
    later = await store.connection()
    assert len(store.reads) == 2
    store.reads[1].set_result(reading(2))
    assert (await later).feed.version == 2
    store.reads[0].set_result(reading(1))
    assert (await earlier).feed.version == 1


@in_loop
async def test_shared_feed_reading_that_was_slow_does_not_replace_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(monkeypatch)
    earlier = await store.connection()
    store.received += 1
    later = await store.connection()
    store.reads[0].set_result(reading(1))
    assert (await earlier).feed.version == 1
    last = await store.connection()
    store.reads[1].set_result(reading(2))
    assert [(await each).feed.version for each in (later, last)] == [2, 2]
    assert len(store.reads) == 2


@in_loop
async def test_shared_feed_is_read_by_another_connection_if_the_reading_one_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store(monkeypatch)
    first, second, third = [await store.connection() for _ in range(3)]
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)

    async def reads() -> int:
        return len(store.reads)

    await eventually(reads, 2)
    store.reads[1].set_result(reading(1))
    assert [(await each).feed.version for each in (second, third)] == [1, 1]
    assert await reads() == 2


@in_loop
async def test_shared_feed_that_was_deleted_is_not_found_by_waiting_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store(monkeypatch)
    waiting = [await store.connection() for _ in range(3)]
    store.reads[0].set_exception(NotFound("deleted"))
    errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(error) for error in errors] == [NotFound] * 3
    assert len(set(map(id, errors))) == 3
    assert len(store.reads) == 1


@pytest.mark.parametrize("error", [Unavailable, RuntimeError])
@in_loop
async def test_shared_feed_is_read_again_by_one_waiting_connection_after_an_error(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    store = Store(monkeypatch)
    first, *others = [await store.connection() for _ in range(4)]
    store.reads[0].set_exception(error("away"))
    with pytest.raises(error):
        await first

    async def reads() -> int:
        return len(store.reads)

    await eventually(reads, 2)
    store.reads[1].set_result(reading(1))
    assert [(await each).feed.version for each in others] == [1, 1, 1]
    assert await reads() == 2


@in_loop
async def test_shared_feed_that_fails_twice_ends_waiting_connections_with_errors_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store(monkeypatch)
    first, second, *others = [await store.connection() for _ in range(20)]
    store.reads[0].set_exception(RuntimeError("first"))
    await asyncio.gather(first, return_exceptions=True)

    async def reads() -> int:
        return len(store.reads)

    await eventually(reads, 2)
    store.reads[1].set_exception(RuntimeError("second"))
    with pytest.raises(RuntimeError, match="second"):
        await second
    errors = await asyncio.gather(*others, return_exceptions=True)
    assert [type(error) for error in errors] == [Unavailable] * 18
    depths = {len(traceback.extract_tb(error.__traceback__)) for error in errors if isinstance(error, Exception)}
    assert depths == {1}
    later = await store.connection()
    store.reads[2].set_result(reading(1))
    assert (await later).feed.version == 1


@in_loop
async def test_shared_feed_reading_that_failed_is_freed_without_the_garbage_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[weakref.ref[Any]] = []

    class Recorded(connections._SharedReading):
        def __init__(self, number: int) -> None:
            super().__init__(number)
            made.append(weakref.ref(self))

    async def fail(_graph: Any, _feed_id: int) -> FeedReading:
        raise Unavailable("away")

    monkeypatch.setattr(connections, "_SharedReading", Recorded)
    monkeypatch.setattr(connections, "read_feed", fail)
    gc.disable()
    try:
        with suppress(Unavailable):
            await SharedFeed(7, lambda: 0).read(None)  # type: ignore[arg-type]  # the read is replaced
        assert [reference() for reference in made] == [None]
    finally:
        gc.enable()


@in_loop
async def test_feed_streams_read_the_feed_and_its_contained_feeds_once_per_update(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Shoal.open("memory://") as shoal, AsyncExitStack() as stack:
        ann, *viewers = await register(shoal, "ann", *(f"viewer{number}" for number in range(10)))
        await shoal.server_feeds.create("inner", {"sources": [{"from": "tag", "tag": "bread"}]})
        sources = [{"from": "author", "author": "ann"}, {"from": "feed", "feed": "inner"}]
        await shoal.server_feeds.create("outer", {"sources": sources, "filters": {"languages": ["fr"]}})
        listeners = [await stack.enter_async_context(listening(viewer, feed="outer")) for viewer in viewers]
        await shoal.settle()
        reads = counted_reads(monkeypatch)
        received = shoal.network.hub._received
        await ann.create("not in the feed #bread", language="en")
        await ann.create("dans le flux", language="fr")
        for listener in listeners:
            await listener.hears("+dans le flux")
        assert len(reads) <= shoal.network.hub._received - received


@in_loop
async def test_feed_streams_share_the_reading_of_a_changed_feed_for_their_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Shoal.open("memory://") as shoal, AsyncExitStack() as stack:
        ann, *viewers = await register(shoal, "ann", *(f"viewer{number}" for number in range(10)))
        feed = await ann.feeds.create("mine", DECLARED, shared=True)
        listeners = [await stack.enter_async_context(listening(viewer, feed=feed)) for viewer in viewers]
        await shoal.settle()
        reads = counted_reads(monkeypatch)
        await ann.feeds.update(feed, declaration={"sources": [{"from": "tag", "tag": "bread"}]})
        for listener in listeners:
            await listener.hears("changed")
        await ann.create("#bread")
        for listener in listeners:
            await listener.hears("+#bread")
        # The streams and the hub read the changed feed, and the streams read it for the post.
        assert len(reads) <= 4


@in_loop
async def test_feed_stream_ends_for_the_viewer_who_loses_access_and_not_for_others() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        feed = await ann.feeds.create("mine", DECLARED, shared=True)
        async with listening(ben, feed=feed) as at_ben, listening(cyd, feed=feed) as at_cyd:
            await ann.block(ben)
            await at_ben.hears("deleted")
            await at_ben.ended()
            await ann.create("hello")
            await at_cyd.hears("+hello")


@in_loop
async def test_feed_stream_that_delivers_after_the_feed_was_unshared_ends_before_the_update_on_it() -> None:
    async with Shoal.open("memory://") as shoal, AsyncExitStack() as stack:
        ann, *viewers = await register(shoal, "ann", "ben", "cyd")
        feed = await ann.feeds.create("mine", DECLARED, shared=True)
        hub, reads = shoal.network.hub, shoal.network.reads
        early, late = [
            await stack.enter_async_context(hub.connect(viewer.id, to=FeedInterest(feed.id))) for viewer in viewers
        ]
        await ann.create("hello")
        received = await late.take()
        assert [type(event) for event in await updates_for_viewer(reads, early, await early.take())] == [Arrived]
        await ann.feeds.update(feed, shared=False)
        (event,) = await updates_for_viewer(reads, late, received)
        assert isinstance(event, FeedChanged)
        assert event.deleted
