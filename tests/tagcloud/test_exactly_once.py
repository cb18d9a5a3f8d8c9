"""Exactly-once counting: after crashes, duplicates and delays each use counts once, and the cloud equals a recount (I4).

Emitters, collectors and the transport run under a seeded scheduler: a process may die at each step,
increments are delivered twice or late, and unconfirmed jobs are given to another emitter.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, cast
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.graph.schema import tag_id
from shoal.tagcloud import cloud as clouds
from shoal.tagcloud.cloud import ORDERS
from shoal.tagcloud.collection import Collector, Emitter
from shoal.tagcloud.contract import DAY_MS, CloudStore, Parcel, TagChange, Transport, Use
from shoal.tagcloud.memory import MemoryCloud
from shoal.tagcloud.merger import Sizes
from shoal.tagcloud.sqlite import SqliteCloud
from tests.async_runner import TurnClock, run
from tests.example_counts import examples
from tests.flows.simulation.faults import Between, Crash, Dice
from tests.tagcloud.recount import differences, first_of, horizon_at, recounted, stored_rows

NOW = 20_500 * DAY_MS + 5_000_000
NAMES = ("dawn", "reef", "surf", "tide", "wind", "salt")
SIZES = Sizes(shown=2, reserve=3)


class Unsafe:
    """An in-memory transport: each collector receives each increment, possibly repeatedly, until one confirms it."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self.sent: dict[bytes, bytes] = {}
        self.gone: set[bytes] = set()

    async def send(self, id_: bytes, body: bytes) -> None:
        await self._dice.crash_later("send")
        self.sent[id_] = body
        # The increment is stored, but the sender may not receive the confirmation.
        await self._dice.crash_later("sent")

    async def arrivals(self) -> AsyncIterator[Sequence[Parcel]]:
        while True:
            await self._dice.pause()
            yield [Parcel(id_, self.sent[id_]) for id_ in self._dice.some(self.sent) if self._comes(id_)]

    def _comes(self, id_: bytes) -> bool:
        return id_ not in self.gone or self._dice.happens(0.2)

    def hurry(self) -> None:
        """Do nothing: batches arrive immediately."""

    async def done(self, parcels: Sequence[Parcel]) -> None:
        await self._dice.crash_later("done")
        self.gone.update(parcel.id for parcel in parcels)

    async def waiting(self) -> int:
        return len(self.sent.keys() - self.gone)

    async def close(self) -> None:
        """Do nothing: there are no resources to release."""


class TagCloudSimulation:
    """Pending jobs, emitters that process them, and collectors; each of these processes may die."""

    def __init__(self, seed: int, uses: Sequence[Use], store: CloudStore | None = None) -> None:
        self.dice = Dice(seed)
        self.store: CloudStore = store or MemoryCloud(clock=self._seconds)
        self.transport = Unsafe(self.dice)
        self._left = list(uses)
        self._ticks = 0.0

    def _seconds(self) -> float:
        """Advance the clock so that the lock of a dead collector expires soon; sometimes it is stepped."""
        self._ticks += 1.0 + self.dice.random.choice((0.0,) * 18 + (-3_600.0, 3_600.0))
        return self._ticks

    async def emit(self) -> None:
        """Run emitters: they take jobs, some twice concurrently, and finish them when their increment is stored."""
        while self._left:
            emitter = Emitter(self.transport.send, changes=self.dice.random.randint(1, 9), clock=lambda: NOW)
            jobs = self.dice.some(self._left) or self._left[:1]
            safe = [(job, emitter.count(job)) for job in jobs]
            await emitter.flush()
            for job, future in safe:
                # A dead emitter confirms no jobs; unconfirmed jobs are given out again.
                if not isinstance(future.exception(), Crash) and not self.dice.happens(0.1) and job in self._left:
                    self._left.remove(job)

    async def collect(self) -> None:
        """Run collectors in sequence; each runs until it dies or all increments are merged."""
        while self._left or await self.transport.waiting():
            flaky = cast("CloudStore", Between(self.store, self.dice.crash_later, self.dice.crash_later))
            collector = Collector(
                flaky,
                cast("Transport", self.transport),
                changes=self.dice.random.choice((1, 5, 5_000)),
                seconds=0.0,
                sizes=SIZES,
                clock=lambda: NOW,
            )
            try:
                async for parcels in self.transport.arrivals():
                    collector.take(parcels)
                    if collector.due() and self.dice.random.random() < 0.7:
                        await collector.merge()
                    if not self._left and not await self.transport.waiting():
                        return
                    await asyncio.sleep(0)
            except Crash:
                await asyncio.sleep(0)

    async def run(self) -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(self.emit())
            for _ in range(3):
                group.create_task(self.collect())


def uses_of(random: Random, count: int) -> list[Use]:
    """Generate posts that gain, change and lose tags; removals may arrive before additions."""
    uses: list[Use] = []
    for number in range(count):
        tags: dict[str, str] = {}
        author, written = random.randint(1, 4), NOW - random.choice((0, 60_000, DAY_MS, 20 * DAY_MS))
        for version in range(1, random.randint(2, 4)):
            after = {name: random.choice((name, name.title())) for name in random.sample(NAMES, random.randint(0, 4))}
            changes = [TagChange(name, form, 1) for name, form in after.items() if name not in tags]
            changes += [TagChange(name, form, -1) for name, form in tags.items() if name not in after]
            after |= {name: form for name, form in tags.items() if name in after}
            uses.append(Use(1_000 + number, version, author, written, NOW + version * 600_000, tuple(changes)))
            tags = after
    random.shuffle(uses)
    return uses


@settings(deadline=None, max_examples=examples(75, full=150))
@given(seed=st.integers(0, 2**32), count=st.integers(1, 25))
def test_tag_counts_after_crashes_and_duplicates_equal_recount(seed: int, count: int) -> None:
    uses = uses_of(Random(seed), count)
    simulation = TagCloudSimulation(seed, uses)
    logging.disable(logging.CRITICAL)
    try:
        # Collectors wait for the lock of a dead collector. With this clock that takes no time, and a seed is deterministic.
        run(simulation.run(), TurnClock)
    finally:
        logging.disable(logging.NOTSET)
    run(_as_recounted(simulation.store, uses))


class SteppedClock:
    """Replaces the `time` of a store: each call may step the clock by up to an hour."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._ahead = 0.0

    def time(self) -> float:
        if self._random.random() < 0.1:
            self._ahead += self._random.choice((-3_600.0, -0.01, 0.01, 3_600.0))
        return time.time() + self._ahead


class Hasty(SqliteCloud):
    """Locks of dead or slow collectors expire soon."""

    async def lock(self, holder: bytes, seconds: float = 0.02) -> bool:
        return await super().lock(holder, min(seconds, 0.02))


@settings(deadline=None, max_examples=examples(8))
@given(seed=st.integers(0, 2**32), count=st.integers(1, 25))
def test_tag_counts_in_sqlite_after_crashes_and_duplicates_equal_recount(seed: int, count: int) -> None:
    uses = uses_of(Random(seed), count)

    async def story(path: Path) -> None:
        store = await Hasty.open(path)
        try:
            await TagCloudSimulation(seed, uses, store).run()
            await _as_recounted(store, uses)
        finally:
            await store.close()

    logging.disable(logging.CRITICAL)
    try:
        with TemporaryDirectory() as folder, patch("shoal.tagcloud.sqlite.time", SteppedClock(seed)):
            run(story(Path(folder) / "shoal.db.tags"))
    finally:
        logging.disable(logging.NOTSET)


async def _as_recounted(store: Any, uses: Sequence[Use]) -> None:
    stored = await stored_rows(store)
    assert not differences(stored, recounted(uses, horizon_at(NOW)), NOW)
    shown = clouds.decode((await store.head()).cloud)
    for order in ORDERS[:-1]:
        assert shown.orders.get(order, []) == first_of(stored.values(), order, SIZES.shown, NOW), order
    for id_, entry in shown.entries.items():
        assert (entry.n, entry.heats, entry.days) == (stored[id_].n, stored[id_].heats, stored[id_].days)


def test_tag_cloud_shows_most_used_spelling_of_tag() -> None:
    async def story() -> None:
        store = MemoryCloud()
        transport = Unsafe(Dice(1))
        transport._dice.calm = True
        emitter = Emitter(transport.send, changes=2, clock=lambda: NOW)
        for number, form in enumerate(("Dawn", "DAWN", "Dawn", "dawn")):
            emitter.count(Use(number + 1, 1, 7, NOW, NOW, (TagChange("dawn", form, 1),)))
        await emitter.flush()
        assert len(transport.sent) == 2
        collector = Collector(cast("CloudStore", store), cast("Transport", transport), seconds=0.0, clock=lambda: NOW)
        collector.take([Parcel(id_, body) for id_, body in transport.sent.items()])
        assert await collector.merge()
        shown = clouds.decode((await store.head()).cloud)
        assert shown.entries[tag_id("dawn")].form == "Dawn"

    run(story())
