"""A collector's handling of unreadable increments, unforeseen errors, and a transport that holds back."""

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
from tests.running import eventually, in_loop

NOW = 20_500 * DAY_MS
STRANGE = Parcel(b"of a newer version", b"\xc1")


@pytest.fixture(autouse=True)
def _no_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL + 1):
        yield


class Scripted:
    """A transport that gives what it is told to, and fails as often as it is told to."""

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
        """Batches come at once anyway."""

    async def done(self, parcels: Sequence[Parcel]) -> None:
        self.gone += [parcel.id for parcel in parcels]


def parcel(number: int) -> Parcel:
    id_ = number.to_bytes(16, "big")
    use = Use(number, 1, 7, NOW, NOW, (TagChange("dawn", "dawn", 1),))
    return Parcel(id_, encode(Increment(id_, b"emitter", NOW, (use,))))


def collector(store: MemoryCloud, transport: Scripted, *, increments: int = 500, seconds: float = 0.0) -> Collector:
    return Collector(store, cast("Transport", transport), increments=increments, seconds=seconds, clock=lambda: NOW)


@in_loop
async def test_what_cannot_be_read_is_kept_until_another_has_merged_it(monkeypatch: pytest.MonkeyPatch) -> None:
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
    # It holds up none of those behind it any longer, although nothing else has come.
    assert old.due()
    assert await old.merge()
    assert transport.gone == [parcel(1).id, STRANGE.id]
    assert not old.due()


@in_loop
async def test_what_cannot_be_read_is_asked_for_now_and_then_only() -> None:
    old = collector(MemoryCloud(), Scripted())
    old.take([STRANGE])
    assert old.due()
    assert await old.merge()
    assert not old.due()


@in_loop
async def test_an_error_that_nobody_foresaw_does_not_end_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
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
async def test_many_small_increments_are_merged_though_they_are_neither_old_nor_many_tags() -> None:
    """A transport gives no more until some are done."""
    waiting = collector(MemoryCloud(), Scripted(), increments=3, seconds=3600.0)
    waiting.take([parcel(1), parcel(2)])
    assert not waiting.due()
    waiting.take([parcel(3)])
    assert waiting.due()
