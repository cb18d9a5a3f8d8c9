"""Trending posts: posts to which many different members react at present."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest

from shoal import Handle, Shoal, Visibility
from shoal.commands import posts as post_services
from shoal.consumers.active_posts import forget_inactive
from shoal.core.ids import floor_at, milliseconds_of, shard_of
from shoal.core.model import Post, Review
from shoal.graph.contract import Batch
from shoal.graph.payloads.posts import WINDOW_MS
from shoal.queries import trends
from shoal.queries.context import Reads, Renewed
from shoal.queries.trends import HALF_LIFE_MS, Reactions, reactions_to, threshold
from shoal.tagcloud.memory import MemoryCloud
from shoal.tagcloud.reader import TagCloud
from tests.async_runner import in_loop
from tests.flows.feeds.test_search import change
from tests.flows.members import register, texts
from tests.flows.query_counts import calls

LONG_AGO = 1_705_000_000_000
"""2024-01-11, in Unix milliseconds."""
NAMES = ("ann", "ben", "dan", "joe", "fay")


@pytest.fixture(params=["one store", "two stores"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str | dict[str, str]:
    """The stores of a network: with two stores, ann and ben are in the first, dan and joe in the second."""
    if request.param == "one store":
        return "memory://"
    return {"0-31": f"sqlite:///{tmp_path}/one.db", "32-63": f"sqlite:///{tmp_path}/two.db"}


def fresh(shoal: Shoal, *, later_ms: int = 0) -> Reads:
    """Return reads with empty caches and the clock moved forward."""
    clock = shoal.network.tags.clock
    later = TagCloud(MemoryCloud(), clock=lambda: clock() + later_ms)
    return replace(shoal.network.reads, trending=Renewed(), tags=later)


async def trending(shoal: Shoal, *, limit: int = 40, later_ms: int = 0) -> list[str]:
    await shoal.settle()
    return texts(await trends.page(fresh(shoal, later_ms=later_ms), None, limit))


async def reactors(shoal: Shoal, *posts: Post) -> dict[int, dict[int, int]]:
    """Return the reacting members by post, with the times in Unix milliseconds."""
    found: dict[int, dict[int, int]] = {}
    reads = shoal.network.reads
    reactions = await reactions_to(reads.graph, posts, reads.tags.clock())
    for post, member, time in zip(*(column.tolist() for column in reactions), strict=True):
        assert member not in found.setdefault(post, {})
        found[post][member] = milliseconds_of(time)
    return found


async def old_post(shoal: Shoal, author: Handle, text: str) -> Post:
    """Create a post dated 2024, like an import."""
    batch = Batch(shard_of(author.id))
    made = await post_services.create(
        shoal.network.writes,
        author.id,
        post_services.Draft(text=text),
        id_=(1 << 40) + author.id % (1 << 23),
        created_at=LONG_AGO,
    )
    assert shard_of(made.id) == batch.shard
    return made


async def set_post(shoal: Shoal, post: Post, **values: Any) -> None:
    """Set fields of a post that its author cannot change."""
    node = (await shoal.network.store.obj_get((post.id,)))[post.id]
    assert isinstance(node, Post)
    batch = Batch(shard_of(post.id))
    batch.obj_set(msgspec.structs.replace(node, version=node.version + 1, **values))
    await shoal.network.store.commit(batch)


@in_loop
async def test_trending_posts_include_old_post_with_many_recent_likes(
    url: str | dict[str, str],
) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, *crowd = await register(shoal, "ann", "ben", *(f"fan{n}" for n in range(40)))
        old = await old_post(shoal, ann, "old")
        newer = [await ben.create(str(n)) for n in range(1_001)]
        await asyncio.gather(*(fan.like(old) for fan in crowd))
        await asyncio.gather(*(fan.like(newer[-1]) for fan in crowd[:5]))
        assert await trending(shoal) == ["old", "1000"]


@in_loop
async def test_trending_posts_in_small_network_require_two_members(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, dan, joe, fay = await register(shoal, *NAMES)
        two = await ann.create("two members")
        one = await dan.create("one member, three times")
        await ben.like(two)
        await joe.share(two)
        await fay.like(one)
        await fay.share(one)
        await fay.comment(one, "so it is")
        # Reactions of a single member do not make a trend: the post is only in the fallback, ordered by likes and shares.
        assert await trending(shoal) == ["two members", "one member, three times"]
        with patch.object(trends, "_ENOUGH", 0):
            assert await trending(shoal) == ["two members"]


@in_loop
async def test_trending_posts_count_each_member_once_by_newest_reaction(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, dan, joe, fay = await register(shoal, *NAMES)
        post = await ann.create("a post")
        said = {}
        for member in (ben, ann):
            await member.like(post)
            await member.share(post)
            await member.react(post, "👍")
            await member.react(post, "🎉")
            said[member.id] = await member.comment(post, "so it is")
            await member.comment(said[member.id], "and so on")
        await dan.comment(post, "only for you", visibility=Visibility.DIRECT)
        await joe.react(post, "👍")
        await fay.share(post)
        await shoal.settle()
        # By the clock of the reactions, however long they took.
        now = shoal.network.writes.new_id.now()
        found = await reactors(shoal, post)
        assert found.keys() == {post.id}
        assert found[post.id].keys() == {ben.id, joe.id, fay.id}
        assert found[post.id][ben.id] == said[ben.id].created_at
        weights = (await reactions_to(shoal.network.reads.graph, [post], now)).weights(now + HALF_LIFE_MS)
        assert weights == {post.id: pytest.approx(1.5, abs=1e-3)}
        await fay.unshare(post)
        await shoal.settle()
        assert (await reactors(shoal, post))[post.id].keys() == {ben.id, joe.id}


@in_loop
async def test_trending_posts_reactions_to_comment_count_for_comment_only() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, dan = await register(shoal, "ann", "ben", "dan")
        post = await ann.create("a post")
        comment = await ben.comment(post, "a comment")
        await dan.comment(comment, "a comment on it")
        await shoal.settle()
        found = await reactors(shoal, comment, post)
        assert {id_: list(members) for id_, members in found.items()} == {post.id: [ben.id], comment.id: [dan.id]}


@in_loop
async def test_trending_posts_ignore_reactions_of_suspended_and_silenced_members() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, dan, joe = await register(shoal, "ann", "ben", "dan", "joe")
        post = await ann.create("a post")
        for member in (ben, dan, joe):
            await member.like(post)
        with patch.object(trends, "_ENOUGH", 0):
            assert await trending(shoal) == ["a post"]
            await shoal.suspend(ben)
            assert await trending(shoal) == ["a post"]
            await change(shoal, dan, silenced=True)
            assert await trending(shoal) == []
            await shoal.restore(ben)
            assert await trending(shoal) == ["a post"]


def test_trending_posts_reaction_weight_halves_every_six_hours() -> None:
    ages = {1: (0, HALF_LIFE_MS, 4 * HALF_LIFE_MS), 2: (-5_000,), 3: (HALF_LIFE_MS // 2,)}
    rows = [(post, n, floor_at(LONG_AGO - age)) for post, found in ages.items() for n, age in enumerate(found)]
    made = Reactions(*np.array(rows, np.int64).T)
    assert made.weights(LONG_AGO) == {1: pytest.approx(1.5625), 2: 1.0, 3: pytest.approx(2**-0.5)}
    assert made.members_of() == {1: 3, 2: 1, 3: 1}
    assert made.active() == 3
    assert made.only(made.posts > 3).weights(LONG_AGO) == {}


def test_trending_posts_threshold_grows_with_active_members() -> None:
    limits = {0: 2, 2: 2, 63: 2, 64: 3, 255: 3, 256: 4, 1_023: 4, 1_024: 5, 16_384: 7}
    assert {active: threshold(active) for active in limits} == limits


@in_loop
async def test_trending_posts_recent_reactions_outrank_older_ones() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, *crowd = await register(shoal, "ann", *(f"fan{n}" for n in range(9)))
        morning, evening = await ann.create("morning"), await ann.create("evening")
        new_id = shoal.network.writes.new_id
        for fan in crowd[:6]:
            await fan.like(morning)
        with patch.object(new_id, "_clock", lambda clock=new_id._clock: clock() + 2 * HALF_LIFE_MS):
            for fan in crowd[6:]:
                await fan.like(evening)
        # 6/4 is less than 3.
        assert await trending(shoal, later_ms=2 * HALF_LIFE_MS) == ["evening", "morning"]
        with patch.object(trends, "_ENOUGH", 0):
            assert await trending(shoal, later_ms=WINDOW_MS + HALF_LIFE_MS) == ["evening"]
            assert await trending(shoal, later_ms=WINDOW_MS + 4 * HALF_LIFE_MS) == []


@pytest.mark.parametrize(
    "values", [{"sensitive": True}, {"review": Review.WAITING}, {"untrendable": True}, {"hidden": 1}], ids=str
)
@in_loop
async def test_trending_posts_exclude_sensitive_unreviewed_hidden_and_unlisted_posts(values: dict[str, Any]) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, dan = await register(shoal, "ann", "ben", "dan")
        kept, other = await ann.create("kept"), await ann.create("other")
        unlisted = await ann.create("unlisted", visibility=Visibility.UNLISTED)
        for post in (kept, other, unlisted):
            await ben.like(post)
            await dan.like(post)
        await set_post(shoal, other, **values)
        assert await trending(shoal) == ["kept"]
        reviewed = texts(await trends.reviewed(fresh(shoal), 9))
        assert reviewed == (["other", "kept"] if "untrendable" in values else ["kept"])


@pytest.mark.parametrize("values", [{"discoverable": False}, {"silenced": True}], ids=str)
@in_loop
async def test_trending_posts_exclude_undiscoverable_and_silenced_authors(values: dict[str, Any]) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, dan, joe = await register(shoal, "ann", "ben", "dan", "joe")
        for author in (ann, ben):
            post = await author.create(f"by {author.name}")
            await dan.like(post)
            await joe.like(post)
        await change(shoal, ben, **values)
        assert await trending(shoal) == ["by ann"]


@in_loop
async def test_trending_posts_without_candidate_list_fall_back_to_most_liked(
    url: str | dict[str, str],
) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, dan, joe = await register(shoal, "ann", "ben", "dan", "joe")
        posts = {text: await ann.create(text) for text in ("liked by two", "liked by one", "liked by nobody")}
        for fan in (ben, dan):
            await fan.like(posts["liked by two"])
        await ben.like(posts["liked by one"])
        await shoal.settle()
        # Simulate likes from before the lists of active posts existed.
        await forget_inactive(shoal.network.store, shoal.network.reads.tags.clock() + 2 * WINDOW_MS)
        assert await trending(shoal) == ["liked by two", "liked by one"]
        with patch.object(trends, "_ENOUGH", 0):
            assert await trending(shoal) == []
            with patch.object(shoal.network.writes.new_id, "_clock", lambda: shoal.network.reads.tags.clock() + 90_000):
                await joe.like(posts["liked by one"])
            assert await trending(shoal) == ["liked by one"]


@in_loop
async def test_trending_posts_fallback_is_skipped_when_enough_posts_trend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trends, "_ENOUGH", 3)
    async with Shoal.open("memory://") as shoal:
        ann, ben, dan = await register(shoal, "ann", "ben", "dan")
        lonely = await ann.create("lonely")
        await ben.like(lonely)
        for n in range(3):
            post = await ann.create(str(n))
            await ben.like(post)
            await dan.like(post)
            assert ("lonely" in await trending(shoal)) is (n < 2)


@in_loop
async def test_trending_posts_are_cached_for_one_minute() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, dan = await register(shoal, "ann", "ben", "dan")
        reads = fresh(shoal)
        assert await trends.page(reads, None, 9) == []
        post = await ann.create("a post")
        await ben.like(post)
        await dan.like(post)
        await shoal.settle()
        assert await trends.page(reads, None, 9) == []
        clock = reads.tags.clock
        later = replace(reads, tags=TagCloud(MemoryCloud(), clock=lambda: clock() + 60_000))
        assert texts(await trends.page(later, None, 9)) == ["a post"]


@in_loop
async def test_trending_posts_read_count_is_independent_of_post_count(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, *crowd = await register(shoal, "ann", "ben", *(f"fan{n}" for n in range(6)))
        costs = []
        for part in (1, 59):
            for n in range(part):
                post = await ann.create(f"{part} {n}")
                for fan in crowd:
                    await fan.like(post)
                await crowd[n % 6].comment(post, "so it is")
            await shoal.settle()
            with patch.object(trends, "_ENOUGH", 100):
                cost = await calls(
                    shoal.network, lambda reads: trends.page(replace(reads, trending=Renewed()), ben.id, 20)
                )
            costs.append(cost)
        assert costs[0] == costs[1]
        assert costs[0]["assoc_ranges"] == 6
        without = await calls(shoal.network, lambda reads: trends.page(replace(reads, trending=Renewed()), ben.id, 20))
        assert without.total() == costs[0].total() - 3
        posts = [entry.post for entry in await trends.page(fresh(shoal), None, 40)]
        weighing = await calls(shoal.network, lambda reads: reactions_to(reads.graph, posts, reads.tags.clock()))
        assert weighing.total() == 7


@in_loop
async def test_trending_posts_weigh_only_newest_reactions_to_a_post(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trends, "NEWEST", 3)
    async with Shoal.open("memory://") as shoal:
        ann, *crowd = await register(shoal, "ann", *(f"fan{n}" for n in range(6)))
        post = await ann.create("a post")
        for fan in crowd:
            await fan.like(post)
        await shoal.settle()
        found = await reactors(shoal, post)
        assert found[post.id].keys() == {fan.id for fan in crowd[3:]}
