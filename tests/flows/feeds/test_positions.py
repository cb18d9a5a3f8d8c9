"""Timelines by position, compared with the definition: the visible entries among the stored entries, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast
from unittest.mock import patch

import pytest

from shoal import Handle, Shoal
from shoal.core.errors import InvalidInput
from shoal.core.ids import compose, shard_of
from shoal.core.model import Post, Visibility
from shoal.graph.contract import Assoc, Batch, Cursor, Reader
from shoal.graph.schema import POSTED, TAG_OF, AssocType, tag_id
from shoal.queries import home, positions, posts
from tests.async_runner import in_loop
from tests.flows.members import register, texts

_ALL = Cursor(limit=1_000)


@pytest.fixture(autouse=True)
def near() -> Iterator[None]:
    """Lower the limits so that almost every position is found by counting."""
    with patch.multiple(positions, NEAR=2, NEAR_PER_LIST=0, NEWEST_PER_LIST=0):
        yield


async def stored(shoal: Shoal, lists: dict[int, bool]) -> list[int]:
    """Return the entries of these members and tags, newest first, with duplicates."""
    store = shoal.network.store
    found: list[int] = []
    for source, is_tag in lists.items():
        found += [entry.time for entry in await store.assoc_range(source, TAG_OF if is_tag else POSTED, _ALL)]
    return sorted(found, reverse=True)


async def busy(shoal: Shoal, random: Random) -> tuple[Handle, dict[int, bool]]:
    """Create a viewer and posts of every visibility, with tags, shares, deletions, blocks, mutes and hidden posts."""
    ann, ben, cyd, eve = await register(shoal, "ann", "ben", "cyd", "eve")
    await ann.follow(ben)
    await ann.follow(cyd)
    await ann.follow_tag("tea")
    for number in range(60):
        who = random.choice([ann, ben, cyd, eve])
        follower_set = random.choice([*Visibility, Visibility.PUBLIC])
        post = await who.create(f"{number} {random.choice(['#tea', '', ''])} @eve", visibility=follower_set)
        act = random.randrange(8)
        if act == 0:
            await who.delete(post)
        elif act == 1:
            await shoal.hide(post)
        elif act == 2 and follower_set is Visibility.PUBLIC:
            await random.choice([ann, ben, cyd]).share(post)
        elif act == 3 and who is not eve and follower_set is Visibility.PUBLIC:
            await eve.comment(post, "an answer #tea")
    await ann.block(eve)
    await ann.mute(cyd)
    await shoal.settle()
    return ann, {ann.id: False, ben.id: False, cyd.id: False, tag_id("tea"): True}


def cut(every: list[int], shown: set[int], a: int, b: int) -> list[int]:
    """Apply the definition: an entry has the first of its positions."""
    return [id_ for place, id_ in enumerate(every) if a <= place <= b and id_ in shown and id_ not in every[:place]]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("backend", ["memory", "sqlite", "two stores"])
@in_loop
async def test_timeline_positions_count_stored_entries_including_hidden_ones(
    backend: str, seed: int, tmp_path: Path
) -> None:
    urls: dict[str, str | dict[str, str]] = {
        "memory": "memory://",
        "sqlite": f"sqlite:///{tmp_path}/shoal.db",
        "two stores": {"0-31": f"sqlite:///{tmp_path}/one.db", "32-63": f"sqlite:///{tmp_path}/two.db"},
    }
    async with Shoal.open(urls[backend], timeline_length=10) as shoal:
        ann, sources = await busy(shoal, Random(seed))
        every, mine = await stored(shoal, sources), await stored(shoal, {ann.id: False})
        reads = shoal.network.reads
        shown = {entry.id for entry in (await home.page(reads, ann.id, _ALL)).entries}
        own = {entry.id for entry in (await posts.authored_page(reads, ann.id, ann.id, _ALL)).entries}
        assert len(shown) < len(set(every)) < len(every)
        for a in range(len(every) + 2):
            for b in (a, a + 4, len(every) + 9):
                assert [entry.id for entry in await ann.list_public_feed(a, b)] == cut(every, shown, a, b)
                assert [entry.id for entry in await ann.list_recent(a, b)] == cut(mine, own, a, b)


@in_loop
async def test_timeline_positions_beyond_end_return_empty_and_invalid_ones_are_rejected() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        for number in range(4):
            await ann.create(f"post {number}")
        assert await ann.list_recent(10**12, 10**12 + 5) == await ann.list_public_feed(10**12, 10**12 + 5) == []
        assert texts(await ann.list_recent(3, 2_002)) == ["post 0"]
        outside: list[tuple[Any, Any]] = [
            (-1, 3),
            (3, 2),
            (0, 2_000),
            (2**64, 2**64 + 3),
            (10**30, 10**30),
            ("1", 2),
            (0.5, 3),
            (True, 2),
        ]
        for a, b in outside:
            with pytest.raises(InvalidInput, match="positions"):
                await ann.list_recent(a, b)
            with pytest.raises(InvalidInput, match="positions"):
                await ann.list_public_feed(a, b)


async def _fill(shoal: Shoal, who: Handle, times: Sequence[int]) -> list[int]:
    """Commit posts of a member at these times (Unix ms)."""
    ids = [compose(time, shard_of(who.id)) for time in times]
    batch = Batch(shard_of(who.id))
    for id_ in ids:
        batch.obj_add(Post(id=id_, author_id=who.id, text="a post"))
        batch.assoc_add(who.id, POSTED, id_, id_)
    await shoal.network.store.commit(batch)
    return ids


BEGAN, HOUR = 1_750_000_000_000, 3_600_000
DISTRIBUTIONS: dict[str, Callable[[Random, int], list[int]]] = {
    "even": lambda random, member: random.sample(range(1_000 * HOUR), 200),
    "members who joined one after the other": lambda random, member: random.sample(
        range(member * 100 * HOUR, 1_000 * HOUR), 200 - 20 * member
    ),
    "bursts": lambda random, member: [burst * 200 * HOUR + n for burst in range(5) for n in range(member, 600, 15)],
    "two moments": lambda random, member: [far * 100_000 * HOUR + n * 15 + member for far in (0, 1) for n in range(90)],
}


@pytest.mark.parametrize(("distribution", "counts"), list(zip(DISTRIBUTIONS, (1, 1, 14, 18), strict=True)))
@in_loop
async def test_home_timeline_entry_at_any_position_is_found_with_few_counts_and_reads(
    distribution: str, counts: int
) -> None:
    random = Random(4)
    async with Shoal.open("memory://") as shoal:
        ann, *others = await register(shoal, "ann", *(f"member{n}" for n in range(8)))
        every: list[int] = []
        for number, other in enumerate(others):
            await ann.follow(other)
            times = [BEGAN + time for time in DISTRIBUTIONS[distribution](random, number)]
            every += await _fill(shoal, other, times)
        await shoal.settle()
        every.sort(reverse=True)
        most = reads = 0
        with patch.multiple(positions, NEAR=64):
            for at in range(70, len(every), 97):
                sources = {POSTED: [other.id for other in others]}
                graph = Counting(shoal.network.store)
                assert await positions.stored(cast("Reader", graph), sources, at, at + 4) == every[at : at + 5], at
                most, reads = max(most, graph.counts), max(reads, graph.entries)
        assert most <= counts
        # The wanted entries and those that are near, up to twice, and the ends of each list.
        assert reads <= 3 * (64 + 5) + 4 * len(others)


class Counting:
    """A graph that records the number of its counts, and of the entries that it returns."""

    def __init__(self, graph: Reader) -> None:
        self.counts = self.entries = 0
        self.assoc_count = graph.assoc_count
        self._graph = graph

    async def assoc_ranks(self, id1s: Sequence[int], atype: AssocType, times: Sequence[int]) -> dict[int, list[int]]:
        self.counts += 1
        return await self._graph.assoc_ranks(id1s, atype, times)

    async def assoc_ranges(self, id1s: Sequence[int], atype: AssocType, at: Cursor) -> dict[int, list[Assoc]]:
        found = await self._graph.assoc_ranges(id1s, atype, at)
        self.entries += sum(map(len, found.values()))
        return found
