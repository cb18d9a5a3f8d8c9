"""Daily statistics: one scan of a network matches the recorded events, independent of page size."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import NamedTuple

import pytest

from shoal.admin import statistics
from shoal.admin.statistics import WINDOW_DAYS, Figures, Ledger, Period, by_day, count, summed, uses
from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.ids import compose
from shoal.core.model import DAY_MS, HIDDEN_BY_MODERATION, Member, Post, Report, Share
from shoal.graph.contract import Batch
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import LIKES, TAGGED, AnyNode, tag_id
from tests.async_runner import run

TODAY = 20_700
NOW = TODAY * DAY_MS + DAY_MS // 2
SHARD = 7


class Ids:
    """Generates ids on given days."""

    def __init__(self) -> None:
        self._made = 0

    def on(self, day: int) -> int:
        """Return a new id of a day."""
        self._made += 1
        return compose(day * DAY_MS + self._made, SHARD)


class Told(NamedTuple):
    """A network and the events in it."""

    graph: MemoryGraph
    joined: dict[int, int]
    posted: set[tuple[int, int]]
    """Days and authors."""
    interactions: Counter[int]


async def add(graph: MemoryGraph, *nodes: AnyNode) -> None:
    """Put objects into the graph."""
    batch = Batch(SHARD)
    for node in nodes:
        batch.obj_add(node)
    await graph.commit(batch)


async def told(seed: int, days: int = 40, people: int = 60) -> Told:
    """Build a network of members who join and post at random; some of them are imported."""
    chance, ids, graph = random.Random(seed), Ids(), MemoryGraph()
    joined, posted, interactions = dict[int, int](), set[tuple[int, int]](), Counter[int]()
    for number in range(people):
        day = TODAY - chance.randrange(days)
        # An import: the object is created today and stores the date on which the member joined.
        imported = chance.random() < 0.3
        member = ids.on(TODAY if imported else day)
        joined[member] = day
        await add(graph, Member(id=member, name=f"m{number}", dated=day * DAY_MS if imported else 0, media_bytes=5))
    members = list(joined)
    for _ in range(400):
        author = chance.choice(members)
        day = chance.randrange(joined[author], TODAY + 1)
        other = chance.choice((0, author, chance.choice(members)))
        # The id of an imported post is older than that of its author.
        post = Post(
            id=ids.on(day),
            author_id=author,
            language="en" if author % 2 else "de",
            parent_id=int(other > 0),
            parent_author_id=other,
        )
        await add(graph, post)
        posted.add((day, author))
        interactions[day] += other not in (0, author)
        liker, later = chance.choice(members), chance.randrange(day, TODAY + 1)
        batch = Batch(SHARD)
        batch.assoc_add(liker, LIKES, post.id, ids.on(later))
        await graph.commit(batch)
        interactions[later] += 1
    return Told(graph, joined, posted, interactions)


@pytest.mark.parametrize("seed", range(8))
def test_daily_statistics_equal_recorded_events(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "PAIRS_AT_ONCE", 37)
    network = run(told(seed))
    found = run(count(network.graph, NOW, page_size=23, likes=2))
    month = Period(TODAY - 39, TODAY)
    joined = Counter(network.joined.values())
    assert found.newcomers(month) == [joined[day] for day in month.days]
    assert found.active_by_day(month) == [sum(day == on for on, _ in network.posted) for day in month.days]
    for period in (month, Period(TODAY - 9, TODAY - 3), Period(TODAY, TODAY), month.before):
        here = {author for day, author in network.posted if day in period.days}
        assert found.active_in(period) == len(here)
    assert by_day(found.interactions, month) == [network.interactions[day] for day in month.days]
    assert found.media_bytes == 5 * len(network.joined)
    assert sum(summed(found.languages, month).values()) == sum(by_day(found.posts, month)) == 400
    assert summed(found.apps, month) == Counter({0: 400})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("length", [1, 7])
def test_retention_statistics_count_cohort_members_who_posted_later(seed: int, length: int) -> None:
    network = run(told(seed))
    found = run(count(network.graph, NOW))
    starts = list(range(TODAY - 34, TODAY + 1, length))
    edges = [*starts, starts[-1] + length]

    def cohort(begun: int) -> set[int]:
        return {member for member, day in network.joined.items() if begun <= day < begun + length}

    for place, one in enumerate(found.retention(starts, edges[-1] - 1)):
        there = cohort(starts[place])
        assert one.began == starts[place]
        assert [held.began for held in one.held] == starts[place:]
        for held in one.held:
            here = {who for day, who in network.posted if held.began <= day < held.began + length}
            assert held.members == len(there & here)
            assert held.rate == (held.members / len(there) if there else 0.0)


def test_daily_statistics_exclude_hidden_post_from_languages_but_count_its_author_as_active() -> None:
    async def story() -> Figures:
        graph, ids = MemoryGraph(), Ids()
        ann, ben = ids.on(TODAY), ids.on(TODAY)
        hidden = Post(id=ids.on(TODAY), author_id=ann, language="en", hidden=HIDDEN_BY_MODERATION)
        await add(graph, Member(id=ann, name="ann"), Member(id=ben, name="ben"), hidden)
        await add(graph, Share(id=ids.on(TODAY), author_id=ben, post_id=hidden.id, post_author_id=ann))
        closed = (TODAY - 1) * DAY_MS
        await add(graph, Report(id=ids.on(TODAY - 3), reporter_id=ann, target_id=ben, closed_at=closed))
        await add(graph, Report(id=ids.on(TODAY), reporter_id=ann, target_id=ben))
        return await count(graph, NOW)

    found = run(story())
    week = Period(TODAY - 3, TODAY)
    assert (summed(found.languages, week), by_day(found.posts, week)) == (Counter(), [0, 0, 0, 0])
    assert found.active_by_day(week) == [0, 0, 0, 1]
    assert by_day(found.interactions, week) == [0, 0, 0, 1]
    assert by_day(found.opened, week) == [1, 0, 0, 1]
    assert by_day(found.resolved, week) == [0, 0, 1, 0]


def test_daily_statistics_with_full_memory_drop_oldest_days_and_keep_others_correct() -> None:
    network = run(told(1))
    found = run(count(network.graph, NOW, capacity=10 * 8))
    assert TODAY - 10 <= found.since <= TODAY
    period = Period(found.since, TODAY)
    assert found.active_in(period) == len({author for day, author in network.posted if day >= found.since})
    assert found.knows(period)
    assert not found.knows(Period(found.since - 1, TODAY))


def test_daily_statistics_of_empty_network_are_zero_for_every_period() -> None:
    empty = run(count(MemoryGraph(), NOW))
    assert empty.knows(Period(100, 200))
    assert empty.active_in(Period(100, 200)) == 0
    assert empty.retention([100, 101], 101)[0].held[1] == (101, 0, 0.0)
    young = Figures(first=TODAY - 5, since=TODAY - WINDOW_DAYS)
    old = Figures(first=TODAY - WINDOW_DAYS - 5, since=TODAY - WINDOW_DAYS)
    assert young.knows(Period(0, 10))
    assert not old.knows(Period(0, 10))


def test_tag_use_statistics_are_limited_to_period_and_maximum() -> None:
    async def story() -> tuple[list[int], str]:
        graph, ids = MemoryGraph(), Ids()
        for ago in (5, 3, 3, 0):
            post = Post(id=ids.on(TODAY - ago), author_id=1, tags=("dawn",))
            await add(graph, post)
            batch = Batch(SHARD)
            batch.assoc_add(post.id, TAGGED, tag_id("dawn"), post.id)
            await graph.commit(batch)
        found = await uses(graph, tag_id("dawn"), Period(TODAY - 4, TODAY))
        for _ in range(1_000):
            post = Post(id=ids.on(TODAY), author_id=1, tags=("dawn",))
            batch = Batch(SHARD)
            batch.obj_add(post)
            batch.assoc_add(post.id, TAGGED, tag_id("dawn"), post.id)
            await graph.commit(batch)
        with pytest.raises(InvalidInput) as refused:
            await uses(graph, tag_id("dawn"), Period(TODAY, TODAY), most=999)
        return sorted(TODAY - use.day for use in found), str(refused.value)

    assert run(story()) == ([0, 3, 3], "start_at: the tag was used more than 999 times; choose a shorter period")


class Slow(MemoryGraph):
    """A store whose scans wait for a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.scans = 0
        self.gate = asyncio.Event()
        self.broken = False

    async def obj_scan(self, after: int, limit: int) -> list[AnyNode]:
        """Wait for the gate."""
        self.scans += 1
        if self.broken:
            raise OSError("the disk is gone")
        await self.gate.wait()
        return await super().obj_scan(after, limit)


def test_daily_statistics_concurrent_requests_share_one_scan_and_are_unavailable_until_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statistics, "_PATIENCE_SECONDS", 0.0)

    async def story() -> None:
        store = Slow()
        kept = Ledger(store, fresh=0.0, patience=0.0)
        for _ in range(3):
            with pytest.raises(Unavailable, match="being computed"):
                await kept.figures()
        assert store.scans == 1
        store.gate.set()
        while True:
            try:
                first = await kept.figures()
            except Unavailable:
                continue
            break
        assert store.scans == 1
        store.gate.clear()
        # Figures are available: callers do not wait for newer ones.
        while store.scans == 1:
            assert await kept.figures() is first
            await asyncio.sleep(0)
        assert await kept.figures() is first
        await kept.close()

    run(story())


def test_daily_statistics_failed_scan_is_not_retried_immediately(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> int:
        store = Slow()
        store.broken = True
        kept = Ledger(store)
        for _ in range(3):
            with pytest.raises(Unavailable):
                await kept.figures()
        return store.scans

    assert run(story()) == 1
    assert "computing the daily statistics failed" in caplog.text
