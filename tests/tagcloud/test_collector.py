"""Collectors: how much they merge together, and what they say of how far the cloud is complete."""

from __future__ import annotations

from typing import cast

from shoal.graph.schema import tag_id
from shoal.tagcloud.collector import Collector
from shoal.tagcloud.contract import Parcel, Transport
from shoal.tagcloud.inbox import Inbox
from shoal.tagcloud.increment import Increment, TagChange, Use, encode
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


def collector_of(store: MemoryCloud, *, changes: int) -> Collector:
    return Collector(
        store, cast("Transport", Inbox(store, 0.001)), changes=changes, seconds=0.0, clock=lambda: AT + 9_000
    )


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
