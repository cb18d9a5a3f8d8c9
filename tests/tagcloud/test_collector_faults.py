"""A collector's handling of unreadable increments, unexpected errors, and a transport with a delivery limit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import cast

import pytest

from shoal.graph.schema import tag_id
from shoal.tagcloud.collection import Collector
from shoal.tagcloud.contract import DAY_MS, Head, Increment, Merge, Parcel, TagChange, Transport, Use, encode
from shoal.tagcloud.memory import MemoryCloud
from tests.async_runner import eventually, in_loop

NOW = 20_500 * DAY_MS
STRANGE = Parcel(b"of a newer version", b"\xc1")


@pytest.fixture(autouse=True)
def _no_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL + 1):
        yield


class Scripted:
    """A transport with scripted parcels and failures."""

    def __init__(self, parcels: Sequence[Parcel] = (), failures: int = 0) -> None:
        self._parcels = parcels
        self._failures = failures
        self.gone: list[bytes] = []

    async def arrivals(self) -> AsyncIterator[Sequence[Parcel]]:
        if self._failures:
            self._failures -= 1
            raise RuntimeError
        while True:
            await asyncio.sleep(0)
            yield [parcel for parcel in self._parcels if parcel.id not in self.gone]

    def hurry(self) -> None:
        """Do nothing: batches arrive immediately."""

    async def done(self, parcels: Sequence[Parcel]) -> None:
        self.gone += [parcel.id for parcel in parcels]


def parcel(number: int) -> Parcel:
    id_ = number.to_bytes(16, "big")
    use = Use(number, 1, 7, NOW, NOW, (TagChange("dawn", "dawn", 1),))
    return Parcel(id_, encode(Increment(id_, b"emitter", NOW, (use,))))


def collector(store: MemoryCloud, transport: Scripted, *, increments: int = 500, seconds: float = 0.0) -> Collector:
    return Collector(store, cast("Transport", transport), increments=increments, seconds=seconds, clock=lambda: NOW)


@in_loop
async def test_tag_collector_unreadable_increment_is_kept_until_merged_by_newer_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shoal.tagcloud.collection._LOOK_AGAIN_SECONDS", 0.0)
    store, transport = MemoryCloud(), Scripted()
    old = collector(store, transport)
    old.take([STRANGE, parcel(1)])
    assert old.due()
    assert await old.merge()
    assert transport.gone == [parcel(1).id]
    head = await store.head()
    newer = Head(head.version + 1, NOW)
    await store.write(Merge(newer, [STRANGE.id], {}, [], {}, 0))
    # The increment no longer blocks later ones, although no new increment has arrived.
    assert old.due()
    assert await old.merge()
    assert transport.gone == [parcel(1).id, STRANGE.id]
    assert not old.due()


@in_loop
async def test_tag_collector_unreadable_increment_is_not_requested_again_immediately() -> None:
    old = collector(MemoryCloud(), Scripted())
    old.take([STRANGE])
    assert old.due()
    assert await old.merge()
    assert not old.due()


@in_loop
async def test_tag_collector_continues_after_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.tagcloud.collection._AWAY_SECONDS", 0.001)
    store, transport = MemoryCloud(), Scripted([parcel(1)], failures=2)
    working = collector(store, transport)
    working.start()
    try:
        await eventually(lambda: _uses(store), 1)
    finally:
        await working.stop()


async def _uses(store: MemoryCloud) -> int:
    rows = await store.tags([tag_id("dawn")])
    return sum(row.n for row in rows.values())


@in_loop
async def test_tag_collector_merges_when_increment_count_reaches_limit() -> None:
    """The transport delivers no further increments until some are confirmed."""
    waiting = collector(MemoryCloud(), Scripted(), increments=3, seconds=3600.0)
    waiting.take([parcel(1), parcel(2)])
    assert not waiting.due()
    waiting.take([parcel(3)])
    assert waiting.due()
