"""Collectors: how much they merge together, and what they say of how far the cloud is complete."""

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
from tests.running import eventually, in_loop
from tests.tagcloud.stores import AT, increment_id

EMITTER = b"emitter"


def increment(number: int, uses: int = 6) -> Increment:
    """The n-th increment of an emitter, sent a second after the one before; its uses happened in that second."""
    at = AT + number * 1_000
    made = (
        Use(number * 100 + use + 1, 1, 7, at + use, at + use, (TagChange("dawn", "dawn", 1),)) for use in range(uses)
    )
    return Increment(increment_id(number), EMITTER, at + 1_000, tuple(made))


def collector_of(store: MemoryCloud, *, changes: int, pause: float = 0.0) -> Collector:
    inbox = cast("Transport", Inbox(store, 0.001))
    return Collector(store, inbox, changes=changes, seconds=0.0, pause=pause, clock=lambda: AT + 9_000)


@in_loop
async def test_however_much_has_come_a_merge_is_small() -> None:
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
async def test_the_cloud_is_complete_up_to_what_has_come_and_is_not_merged_yet() -> None:
    store = MemoryCloud()
    collector = collector_of(store, changes=10)
    collector.take([Parcel(increment_id(number), encode(increment(number))) for number in range(5)])
    complete = []
    while collector.due():
        assert await collector.merge()
        complete.append((await store.head()).complete_to - AT)
    assert complete == [2_000, 4_000, 5_000]


@in_loop
async def test_what_others_have_merged_is_dropped() -> None:
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
async def test_between_two_merges_a_collector_rests_unless_somebody_waits_for_it() -> None:
    store = MemoryCloud()
    for number in range(5):
        await store.put(increment_id(number), encode(increment(number)))
    collector = collector_of(store, changes=10, pause=3_600.0)
    collector.start()
    try:
        await eventually(store.version, 1)
        # Two more would be due, for as many turns as two merges take and more.
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert collector.merges == 1
        await collector.settle()
        assert (collector.merges, await store.waiting()) == (3, 0)
        # What comes when it has nothing more to do is not made to wait.
        await store.put(increment_id(5), encode(increment(5)))
        await eventually(store.waiting, 0)
    finally:
        await collector.stop()


def parcel(number: int, uses: int = 1) -> Parcel:
    return Parcel(increment_id(number), encode(increment(number, uses)))


@pytest.mark.parametrize("role", ProcessRole)
@in_loop
async def test_a_collector_merges_when_the_settings_say(role: ProcessRole) -> None:
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
async def test_the_pause_of_the_settings_is_that_of_the_collector() -> None:
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
def test_thresholds_that_are_out_of_bounds_are_refused(name: str, value: object, said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)) as refusal:
        load({f"SHOAL_{name.upper()}": str(value)})
    assert f"$.{name}" in str(refusal.value)
