"""`EventReader` on a store whose reads are delayed, or that has applied only a part of a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import pytest

from shoal import Shoal
from shoal.core.errors import Unavailable
from shoal.core.model import Node, Visibility
from shoal.graph.contract import LogPlace, LogSource, Store, StorePage
from shoal.queries.events import END, PUBLIC, START, EventReader
from tests.async_runner import eventually, in_loop

SOURCE = "https://social.example"


class Wrapped:
    """A store, without its cache, some of whose methods a test replaces."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


class LateStore(Wrapped):
    """A store that still returns `old` objects."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.old: dict[int, Node] = {}

    async def obj_get(self, ids: Iterable[int]) -> Mapping[int, Node]:
        found = await self.store.obj_get(list(ids))
        return found | {id_: node for id_, node in self.old.items() if id_ in found}


class SlowLog:
    """A log whose pages wait until `go` is set."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self.go = asyncio.Event()
        self.running = self.most = 0

    async def log_page(self, places: Mapping[int, LogPlace] | None, limit: int) -> StorePage:
        self.running += 1
        self.most = max(self.most, self.running)
        await self.go.wait()
        self.running -= 1
        return await self._source.log_page(places, limit)


class SlowStore(Wrapped):
    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.log = SlowLog(store.log_sources[0])

    @property
    def log_sources(self) -> Sequence[LogSource]:
        return cast("Sequence[LogSource]", [self.log])

    async def running(self) -> int:
        return self.log.running


@in_loop
async def test_event_of_post_that_is_older_than_its_entry_waits_until_it_is_applied() -> None:
    async with Shoal.open("memory://", event_log="on") as shoal:
        store = LateStore(shoal.network.store)
        reader = EventReader(cast("Store", store), SOURCE)
        ann = await shoal.register("ann")
        before = await ann.create("the treasure")
        end = await reader.position(END)
        other = await ann.create("other")
        await ann.update(before, visibility=Visibility.FOLLOWERS)
        await ann.create("later")
        store.old = {before.id: before}
        page = await reader.read(end, "post", PUBLIC)
        assert ([event.subject for event in page.events], page.more) == ([f"post/{other.id}"], False)
        assert (await reader.read(page.position, "post", PUBLIC)).events == []
        store.old = {}
        for after in (page.position, page.log):
            withdrawn, later = (await reader.read(after, "post", PUBLIC)).events
            assert (withdrawn.type, withdrawn.version) == ("post.deleted", "2")
            assert getattr(later.data, "text", "") == "later"


@in_loop
async def test_event_of_post_that_stays_older_than_its_entry_has_its_own_version() -> None:
    async with Shoal.open("memory://", event_log="on") as shoal:
        store = LateStore(shoal.network.store)
        ann = await shoal.register("ann")
        before = await ann.create("first")
        await ann.update(before, "second")
        store.old = {before.id: before}
        reader = EventReader(cast("Store", store), SOURCE, apply_seconds=-1.0)
        events = (await reader.read(START, "post")).events
        assert [(event.type, event.version) for event in events] == [("post.created", "1"), ("post.updated", "1")]


@in_loop
async def test_event_log_reads_are_limited_and_wait_for_each_other() -> None:
    async with Shoal.open("memory://", event_log="on") as shoal:
        await shoal.register("ann")
        store = SlowStore(shoal.network.store)
        reader = EventReader(cast("Store", store), SOURCE, at_once=2)
        reads = [asyncio.create_task(reader.read(START)) for _ in range(6)]
        await eventually(store.running, 2)
        store.log.go.set()
        assert [len(page.events) for page in await asyncio.gather(*reads)] == [1] * 6
        assert store.log.most == 2


@in_loop
async def test_event_log_read_that_waits_too_long_is_refused() -> None:
    async with Shoal.open("memory://", event_log="on") as shoal:
        store = SlowStore(shoal.network.store)
        reader = EventReader(cast("Store", store), SOURCE, at_once=1, patience=0.01)
        first = asyncio.create_task(reader.read(START))
        await eventually(store.running, 1)
        with pytest.raises(Unavailable, match="too many readers"):
            await reader.read(START)
        store.log.go.set()
        await first
