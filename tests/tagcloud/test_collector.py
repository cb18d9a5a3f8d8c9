"""Tag cloud collectors: the size of merges, and the completeness that they report."""

from __future__ import annotations

import asyncio
import re
from typing import Any, cast

import pytest

from shoal.app.network import ProcessRole, open_network
from shoal.graph.schema import tag_id
from shoal.settings import Settings, SettingsError, load
from shoal.tagcloud.collection import Collector, Inbox
from shoal.tagcloud.contract import Increment, Parcel, TagChange, Transport, Use, encode
from shoal.tagcloud.memory import MemoryCloud
from tests.async_runner import eventually, in_loop
from tests.tagcloud.stores import AT, increment_id

EMITTER = b"emitter"


def increment(number: int, uses: int = 6) -> Increment:
    """Return the n-th increment of an emitter, sent one second after the previous one, with the uses of that second."""
    at = AT + number * 1_000
    made = (
        Use(number * 100 + use + 1, 1, 7, at + use, at + use, (TagChange("dawn", "dawn", 1),)) for use in range(uses)
    )
    return Increment(increment_id(number), EMITTER, at + 1_000, tuple(made))


def collector_of(store: MemoryCloud, *, changes: int, pause: float = 0.0) -> Collector:
    inbox = cast("Transport", Inbox(store, 0.001))
    return Collector(store, inbox, changes=changes, seconds=0.0, pause=pause, clock=lambda: AT + 9_000)


@in_loop
async def test_tag_collector_backlog_is_merged_in_small_merges() -> None:
    store = MemoryCloud()
    for number in range(5):
        await store.put(increment_id(number), encode(increment(number)))
    collector = collector_of(store, changes=10)
    collector.start()
    try:
        await eventually(store.waiting, 0)
    finally:
        await collector.stop()
    # Two increments are enough for a merge, and the last one is old enough.
    assert collector.merges == 3
    assert (await store.tags([tag_id("dawn")]))[tag_id("dawn")].n == 30


@in_loop
async def test_tag_cloud_completeness_advances_with_each_merge() -> None:
    store = MemoryCloud()
    collector = collector_of(store, changes=10)
    collector.take([Parcel(increment_id(number), encode(increment(number))) for number in range(5)])
    complete = []
    while collector.due():
        assert await collector.merge()
        complete.append((await store.head()).complete_to - AT)
    assert complete == [2_000, 4_000, 5_000]


@in_loop
async def test_tag_collector_drops_increments_merged_by_others() -> None:
    store = MemoryCloud()
    parcels = [Parcel(increment_id(number), encode(increment(number))) for number in range(5)]
    one, other = collector_of(store, changes=10), collector_of(store, changes=10)
    for collector in (one, other):
        collector.take(parcels)
    while one.due():
        assert await one.merge()
    while other.due():
        assert await other.merge()
    assert (other.merges, other.dropped) == (0, 5)
    assert await store.version() == one.merges


@in_loop
async def test_tag_collector_pauses_between_merges_unless_settle_is_requested() -> None:
    store = MemoryCloud()
    for number in range(5):
        await store.put(increment_id(number), encode(increment(number)))
    collector = collector_of(store, changes=10, pause=3_600.0)
    collector.start()
    try:
        await eventually(store.version, 1)
        # Two more merges would be due; these loop iterations are more than enough for them.
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert collector.merges == 1
        await collector.settle()
        assert (collector.merges, await store.waiting()) == (3, 0)
        # An increment that arrives at an idle collector is merged immediately.
        await store.put(increment_id(5), encode(increment(5)))
        await eventually(store.waiting, 0)
    finally:
        await collector.stop()


def parcel(number: int, uses: int = 1) -> Parcel:
    return Parcel(increment_id(number), encode(increment(number, uses)))


@pytest.mark.parametrize("role", ProcessRole)
@in_loop
async def test_tag_collector_merges_at_configured_thresholds(role: ProcessRole) -> None:
    def settings(**more: Any) -> Settings:
        return load({}, store="memory://", media="memory://", tag_merge_seconds=60.0, **more)

    for chosen, too_few in (
        (settings(tag_merge_increments=3), [parcel(1), parcel(2)]),
        (settings(tag_merge_tags=4), [parcel(1, 3)]),
        (settings(), [parcel(number) for number in range(1, 500)]),
        (settings(), [parcel(1, 4_999)]),
        (load({}, store="memory://", media="memory://", tag_merge_seconds=0.0), []),
    ):
        async with open_network(chosen, background=False, role=role) as network:
            collector = network.counting.collector
            collector.take(too_few)
            assert not collector.due()
            collector.take([parcel(0)])
            assert collector.due()


@in_loop
async def test_tag_collector_uses_configured_merge_pause() -> None:
    waits = load({}, store="memory://", media="memory://", tag_merge_tags=10, tag_merge_pause_seconds=60.0)
    async with open_network(waits, background=False) as network:
        store = network.counting.store
        for number in range(4):
            await store.put(increment_id(number), encode(increment(number)))
        network.counting.collector.start()
        try:
            await eventually(store.version, 1)
            for _ in range(1_000):
                await asyncio.sleep(0)
            assert await store.version() == 1
            await network.counting.collector.settle()
            assert await store.version() == 2
        finally:
            await network.counting.collector.stop()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("tag_merge_tags", 0, ">= 1"),
        ("tag_merge_tags", 50_001, "<= 50000"),
        ("tag_merge_increments", 0, ">= 1"),
        ("tag_merge_increments", 1_001, "<= 1000"),
        ("tag_merge_seconds", -0.1, ">= 0"),
        ("tag_merge_seconds", 60.1, "<= 60"),
        ("tag_merge_pause_seconds", -1, ">= 0"),
        ("tag_merge_pause_seconds", 61, "<= 60"),
        ("tag_merge_seconds", "soon", "Expected `float`"),
    ],
)
def test_tag_merge_settings_out_of_bounds_are_refused(name: str, value: object, said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)) as refusal:
        load({f"SHOAL_{name.upper()}": str(value)})
    assert f"$.{name}" in str(refusal.value)
