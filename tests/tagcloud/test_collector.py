"""Tag cloud collectors: the size of merges, and the completeness that they report."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, cast

import pytest

from shoal.app.network import ProcessRole, open_network
from shoal.graph.schema import tag_id
from shoal.settings import Settings, SettingsError, load
from shoal.tagcloud.collection import Collector, Inbox
from shoal.tagcloud.contract import Increment, Merge, Parcel, TagChange, Transport, Use, encode
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
async def test_tag_collector_merges_backlog_in_several_small_versions() -> None:
    store = MemoryCloud()
    for number in range(5):
        await store.put(increment_id(number), encode(increment(number)))
    collector = collector_of(store, changes=10)
    collector.start()
    try:
        await eventually(store.waiting, 0)
    finally:
        await collector.stop()
    # Each merge takes ten uses.
    assert collector.merges == 3
    assert (await store.tags([tag_id("dawn")]))[tag_id("dawn")].n == 30


@in_loop
async def test_tag_cloud_completeness_time_advances_with_each_merge() -> None:
    store = MemoryCloud()
    collector = collector_of(store, changes=10)
    collector.take([Parcel(increment_id(number), encode(increment(number))) for number in range(5)])
    complete = []
    while collector.due():
        assert await collector.merge()
        complete.append((await store.head()).complete_to - AT)
    # The first merge ends within the second increment, and the second one within the fourth.
    assert complete == [1_004, 3_002, 5_000]


class RecordedMerges(MemoryCloud):
    """Records the names of the tags in each merge, and the number of increments that it completes."""

    def __init__(self) -> None:
        super().__init__()
        self.merges: list[tuple[list[str], int]] = []

    async def write(self, merge: Merge, holder: bytes = b"") -> None:
        await super().write(merge, holder)
        self.merges.append(([row.name for row in merge.rows], len(merge.increments)))


def tagged(number: int, tags: Sequence[str], posts: int) -> Parcel:
    """Return an increment with the uses of these tags, divided among as many posts."""
    each = len(tags) // posts
    uses = tuple(
        Use(number * 1_000 + post, 1, 7, AT, AT, tuple(TagChange(tag, tag, 1) for tag in tags[post * each :][:each]))
        for post in range(posts)
    )
    return Parcel(increment_id(number), encode(Increment(increment_id(number), EMITTER, AT, uses)))


HUNDRED = [f"tag{number}" for number in range(100)]


@in_loop
async def test_tag_collector_large_increment_is_merged_in_parts_of_configured_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shoal.tagcloud.memory.MemoryCloud", RecordedMerges)
    small = load({}, store="memory://", media="memory://", tag_merge_tags=20, tag_merge_seconds=0.0)
    async with open_network(small, background=False) as network:
        store = network.counting.store
        assert isinstance(store, RecordedMerges)
        await store.put(*tagged(1, HUNDRED, posts=100))
        network.counting.collector.start()
        try:
            await eventually(store.waiting, 0)
        finally:
            await network.counting.collector.stop()
        assert [len(tags) for tags, _ in store.merges] == [20] * 5
        assert [done for _, done in store.merges] == [0, 0, 0, 0, 1]
        assert sorted(tag for tags, _ in store.merges for tag in tags) == sorted(HUNDRED)
        assert {row.n for row in await store.scan(-(2**63), 200)} == {1}


@in_loop
async def test_tag_collector_never_divides_tags_of_one_post() -> None:
    store = RecordedMerges()
    collector = collector_of(store, changes=10)
    collector.take([tagged(1, HUNDRED[:18], posts=3), tagged(2, HUNDRED[18:58], posts=2), tagged(3, ["last"], posts=1)])
    while collector.due():
        assert await collector.merge()
    # Each post of the second increment has more tags than a merge takes, and is not cut.
    assert [(len(tags), done) for tags, done in store.merges] == [(6, 0), (6, 0), (6, 1), (20, 0), (20, 1), (1, 1)]


@in_loop
async def test_tag_collector_skips_part_that_another_collector_has_merged() -> None:
    store, parcels = RecordedMerges(), [tagged(1, HUNDRED, posts=100)]
    one, other = collector_of(store, changes=40), collector_of(store, changes=20)
    one.take(parcels)
    other.take(parcels)
    assert await one.merge()
    while other.due():
        assert await other.merge()
    assert [len(tags) for tags, _ in store.merges] == [40, 20, 20, 20]
    assert (one.merges, other.merges) == (1, 3)
    assert await one.merge()
    assert (one.pending, one.dropped, await store.version()) == (0, 1, 4)


@in_loop
async def test_tag_collector_drops_increments_merged_by_another_collector() -> None:
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
            assert await store.version() == 3
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
