"""The home timeline: fan-out, pull of high fan-out sources, rebuild, merge, and paging past the materialised part."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from shoal import Handle, Shoal
from shoal.app.network import Network, open_network
from shoal.consumers import home as fanout
from shoal.consumers.context import Effects
from shoal.consumers.follower_sets import PackedFollowers
from shoal.core.errors import Unavailable
from shoal.core.events import FollowChanged, InverseOp
from shoal.core.placement import SHARDS
from shoal.graph.contract import Batch, Cursor, Job
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import EVERYBODY, HIGH_FAN_OUT, tag_id
from shoal.graph.sharding.sharded_graph import ShardedGraph
from shoal.queries import home
from shoal.settings import Settings
from shoal.timelines.follower_sets import FollowerSet, FollowerSetCache
from tests.async_runner import in_loop
from tests.flows.members import home_texts, register, texts


async def warm(*handles: Handle) -> None:
    for handle in handles:
        await handle.home()


async def loud(shoal: Shoal) -> set[int]:
    return {source.id2 for source in await shoal.network.store.assoc_range(EVERYBODY, HIGH_FAN_OUT, Cursor(limit=9))}


def packed(network: Network) -> PackedFollowers:
    assert isinstance(network.effects.followers, PackedFollowers)
    return network.effects.followers


async def same_as_defined(handle: Handle) -> bool:
    """Return whether pages of any length match the definition."""
    network = handle._network
    for limit in (1, 3, 100):
        page = await home.page(network.reads, handle.id, Cursor(limit=limit))
        if page != await home.definition(network.reads, handle.id, Cursor(limit=limit)):
            return False
    return True


@pytest.mark.parametrize("backend", ["memory", "sqlite", "two stores"])
@in_loop
async def test_home_timeline_post_appears_for_followers_and_author(backend: str, tmp_path: Path) -> None:
    urls: dict[str, str | dict[str, str]] = {
        "memory": "memory://",
        "sqlite": f"sqlite:///{tmp_path}/shoal.db",
        "two stores": {"0-31": f"sqlite:///{tmp_path}/one.db", "32-63": f"sqlite:///{tmp_path}/two.db"},
    }
    async with Shoal.open(urls[backend]) as shoal:
        ann, dan, eve, gus = await register(shoal, "ann", "dan", "eve", "gus")
        await dan.follow(ann)
        await gus.follow("ann")
        await warm(ann, dan, eve)
        await ann.create("hello")
        assert await home_texts(ann) == ["hello"]
        await shoal.settle()
        assert await home_texts(dan) == await home_texts(gus) == ["hello"]
        assert await home_texts(eve) == []


@in_loop
async def test_home_timeline_own_post_appears_before_fanout() -> None:
    async with open_network(Settings(store="memory://"), background=False) as network:
        shoal = Shoal(network)
        (ann,) = await register(shoal, "ann")
        await warm(ann)
        waiting = await network.store.backlog()
        post = await ann.create("hello")
        assert await network.store.backlog() == waiting + 1
        assert texts(await ann.home()) == texts(await ann.posts()) == ["hello"]
        await ann.delete(post)
        assert texts(await ann.home()) == texts(await ann.posts()) == []


@in_loop
async def test_home_timeline_fanout_writes_materialized_timelines_and_others_are_rebuilt_on_read() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ben.follow(ann)
        await cyd.follow(ann)
        await warm(ben)
        await ann.create("hello")
        await shoal.settle()
        timelines = shoal.network.timelines
        assert await timelines.floor(ben.id) is not None
        assert await timelines.floor(cyd.id) is None
        window = await timelines.read(ben.id, Cursor(limit=9))
        assert window is not None
        assert len(window.ids) == 1
        assert await home_texts(cyd) == ["hello"]
        assert await timelines.floor(cyd.id) is not None


@in_loop
async def test_home_timeline_dropped_cache_is_rebuilt_with_equal_content() -> None:
    async with Shoal.open("memory://", timeline_length=4) as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        for n in range(9):
            await ann.create(f"post {n}")
        await shoal.settle()
        before = await home_texts(ben)
        await shoal.network.timelines.drop([ben.id])
        assert await home_texts(ben) == before == [f"post {n}" for n in reversed(range(9))]


@in_loop
async def test_home_timeline_concurrent_reads_of_unmaterialized_timeline_share_one_rebuild() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        await ann.create("hello")
        with patch.object(home, "_rebuild", wraps=home._rebuild) as rebuild:
            pages = await asyncio.gather(*[ben.home() for _ in range(20)])
        assert {tuple(texts(page)) for page in pages} == {("hello",)}
        assert rebuild.call_count == 1


@in_loop
async def test_home_timeline_failed_rebuild_does_not_mark_timeline_materialized() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        await ann.create("hello")
        with patch.object(home, "pull", side_effect=Unavailable("away")), pytest.raises(Unavailable):
            await ben.home()
        assert await shoal.network.timelines.floor(ben.id) is None
        assert await home_texts(ben) == ["hello"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
@in_loop
async def test_home_timeline_pages_continue_below_materialised_part(limit: int) -> None:
    async with Shoal.open("memory://", timeline_length=4) as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await cyd.follow(ann)
        await cyd.follow(ben)
        await warm(cyd)
        for n in range(15):
            await (ann, ben, cyd)[n % 3].create(f"post {n}")
        await shoal.settle()
        assert await home_texts(cyd, limit) == [f"post {n}" for n in reversed(range(15))]
        assert await same_as_defined(cyd)


@in_loop
async def test_home_timeline_pulls_posts_of_high_fanout_members() -> None:
    async with Shoal.open("memory://", high_fan_out_from=2) as shoal:
        star, ann, *fans = await register(shoal, "star", "ann", "fan1", "fan2", "fan3")
        for fan in fans:
            await fan.follow(star)
            await fan.follow(ann)
        await warm(*fans[:2])
        await star.create("quiet yet")
        await shoal.settle()
        await warm(*fans)
        await star.create("loud now #tide")
        await ann.create("not less")
        await shoal.settle()
        assert await loud(shoal) == {star.id, ann.id}
        for fan in fans:
            assert await home_texts(fan) == ["not less", "loud now #tide", "quiet yet"]
            assert await same_as_defined(fan)
        await fans[0].unfollow(star)
        assert await home_texts(fans[0]) == ["not less"]


@in_loop
async def test_home_timeline_pulls_posts_of_high_fanout_tag() -> None:
    async with Shoal.open("memory://", high_fan_out_from=1) as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        for fan in (ben, cyd):
            await fan.follow_tag("tide")
        await warm(ben, cyd)
        await ann.create("low #tide")
        await shoal.settle()
        assert await loud(shoal) == {tag_id("tide")}
        assert await home_texts(ben) == await home_texts(cyd) == ["low #tide"]


@in_loop
async def test_fanout_with_partially_read_follower_set_reaches_remaining_followers() -> None:
    """The follower set exceeds the push limit, and some followers leave right after they are counted."""
    async with Shoal.open("memory://", high_fan_out_from=2) as shoal:
        star, *fans = await register(shoal, "star", *(f"fan{n}" for n in range(6)))
        for fan in fans:
            await fan.follow(star)
        await shoal.settle()
        await warm(*fans)
        network = shoal.network
        followers = packed(network)
        touch_up = followers._touch_up

        async def some_leave(source: int, follower_set: FollowerSet) -> None:
            if source == star.id:
                for fan in fans[3:]:
                    await fan.unfollow(star)
                    followers.left(star.id, fan.id)
            await touch_up(source, follower_set)

        object.__setattr__(network.effects, "page", 1)
        followers._read = 1
        with patch.object(followers, "_touch_up", some_leave):
            await star.create("hello")
            await shoal.settle()
        for fan in fans[:3]:
            assert await home_texts(fan) == ["hello"]


@in_loop
async def test_fanout_with_evicted_follower_sets_completes() -> None:
    async with open_network(Settings(store="memory://"), background=False) as network:
        shoal = Shoal(network)
        ann, ben, *fans = await register(shoal, "ann", "ben", *(f"fan{n}" for n in range(6)))
        for fan in fans:
            await fan.follow(ann)
            await fan.follow(ben)
        await warm(*fans)
        object.__setattr__(network.effects, "page", 1)
        packed(network).follower_set_cache = FollowerSetCache(budget=1)
        await ann.create("one")
        await ben.create("two")
        await network.runner.drain(20.0)
        assert await home_texts(fans[0]) == await home_texts(fans[5]) == ["two", "one"]


@in_loop
async def test_home_timeline_follow_merges_posts_and_unfollow_removes_them() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ann.create("one")
        await cyd.follow(ben)
        await warm(cyd)
        await ben.create("two")
        await ann.create("three")
        await cyd.follow(ann)
        await shoal.settle()
        assert await home_texts(cyd) == ["three", "two", "one"]
        window = await shoal.network.timelines.read(cyd.id, Cursor(limit=9))
        assert window is not None
        assert len(window.ids) == 3
        await cyd.unfollow(ann)
        assert await home_texts(cyd) == ["two"]
        await shoal.settle()
        window = await shoal.network.timelines.read(cyd.id, Cursor(limit=9))
        assert window is not None
        assert len(window.ids) == 1
        assert await same_as_defined(cyd)


@in_loop
async def test_home_timeline_followed_tag_shows_public_posts_of_strangers() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        assert await ben.follow_tag("#Tide") == "tide"
        await warm(ben)
        for visibility in ("public", "unlisted", "followers"):
            await ann.create(f"{visibility} #tide", visibility=visibility)
        post = await ann.create("nothing yet")
        await shoal.settle()
        assert await home_texts(ben) == ["public #tide"]
        await ann.update(post, "a #TIDE comes in")
        await shoal.settle()
        assert await home_texts(ben) == ["a #TIDE comes in", "public #tide"]
        await ann.update(post, "it is gone")
        assert await home_texts(ben) == ["public #tide"]
        await ben.unfollow_tag("tide")
        assert await home_texts(ben) == []


@in_loop
async def test_home_timeline_post_of_two_sources_stays_until_both_are_unfollowed() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await warm(ben)
        await ben.follow(ann)
        await ben.follow_tag("tide")
        await ben.follow_tag("sea")
        await ann.create("low #tide at #sea")
        await shoal.settle()
        for leave in (ben.unfollow_tag("tide"), ben.unfollow(ann)):
            await leave
            await shoal.settle()
            assert await home_texts(ben) == ["low #tide at #sea"]
            assert await same_as_defined(ben)
        await ben.follow(ann)
        await ben.unfollow_tag("sea")
        await shoal.settle()
        assert await home_texts(ben) == ["low #tide at #sea"]
        await ben.unfollow(ann)
        await shoal.settle()
        assert await home_texts(ben) == []
        assert await same_as_defined(ben)


@in_loop
async def test_home_timeline_after_follow_of_prolific_author_has_no_gap() -> None:
    async with Shoal.open("memory://", timeline_length=4) as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await cyd.follow(ben)
        for n in range(10):
            await (ann if n % 5 else ben).create(f"post {n}")
        await shoal.settle()
        await warm(cyd)
        await cyd.follow(ann)
        await shoal.settle()
        assert await home_texts(cyd, 3) == [f"post {n}" for n in reversed(range(10))]
        assert await same_as_defined(cyd)


@in_loop
async def test_home_timeline_share_appears_next_to_post_and_is_removed_on_unshare() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await cyd.follow(ann)
        await cyd.follow(ben)
        await cyd.update_profile(folds_shares=False)
        await warm(cyd)
        post = await ann.create("hello")
        share = await ben.share(post)
        await shoal.settle()
        assert await home_texts(cyd) == ["> hello", "hello"]
        entry = (await cyd.home()).entries[0]
        assert (entry.id, entry.post.id, entry.sharer and entry.sharer.member.name) == (share.id, post.id, "ben")
        await ben.unshare(post)
        assert await home_texts(cyd) == ["hello"]
        await ben.share(share.post_id)
        await ann.delete(post)
        assert await home_texts(cyd) == await home_texts(ben) == []


@in_loop
async def test_home_timeline_comment_appears_to_followers_of_both_authors() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, both, one, other = await register(shoal, "ann", "ben", "both", "one", "other")
        for fan, follows in ((both, (ann, ben)), (one, (ann,)), (other, (ben,))):
            for followee in follows:
                await fan.follow(followee)
        await warm(ann, ben, both, one, other)
        post = await ann.create("question")
        await ben.comment(post, "answer")
        await ann.comment(post, "and another thing")
        await shoal.settle()
        assert await home_texts(both) == ["and another thing", "answer", "question"]
        assert await home_texts(one) == ["and another thing", "question"]
        assert await home_texts(other) == []
        assert await home_texts(ben) == ["answer"]
        await ann.follow(ben)
        await shoal.settle()
        assert await home_texts(ann) == ["and another thing", "answer", "question"]
        await one.follow(ben)
        await shoal.settle()
        assert await home_texts(one) == ["and another thing", "answer", "question"]


@in_loop
async def test_home_timeline_direct_post_appears_to_mentioned_followers() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd, eve = await register(shoal, "ann", "ben", "cyd", "eve")
        for fan in (ben, eve):
            await fan.follow(ann)
        await warm(ann, ben, cyd, eve)
        post = await ann.create("psst @ben @cyd", visibility="direct")
        await shoal.settle()
        assert await home_texts(ben) == await home_texts(ann) == ["psst @ben @cyd"]
        assert await home_texts(cyd) == await home_texts(eve) == []
        await ann.update(post, "psst @eve")
        await shoal.settle()
        assert await home_texts(eve) == ["psst @eve"]
        assert await home_texts(ben) == []


@pytest.mark.parametrize("length", [4, 400])
@in_loop
async def test_home_timeline_without_direct_posts_has_full_pages_and_matches_definition(length: int) -> None:
    async with Shoal.open("memory://", timeline_length=length) as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        await warm(ann, ben)
        reads = ben._network.reads
        for n in range(12):
            await ann.create(f"post {n}")
            await ann.create(f"@ben secret {n}", visibility="direct")
            await ben.create(f"@ann secret {n}", visibility="direct")
        await shoal.settle()
        at, found = Cursor(limit=5), []
        while True:
            page = await home.page(reads, ben.id, at, direct=False)
            assert page == await home.definition(reads, ben.id, at, direct=False)
            found.append(texts(page))
            if page.next is None:
                break
            at = at._replace(before=page.next)
        expected = [f"post {n}" for n in reversed(range(12))]
        assert found == [expected[:5], expected[5:10], expected[10:]]


@in_loop
async def test_home_timeline_positions_count_from_newest_and_are_inclusive() -> None:
    async with Shoal.open("memory://", timeline_length=4) as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        for n in range(10):
            await ann.create(f"post {n}")
        await shoal.settle()
        newest_first = [f"post {n}" for n in reversed(range(10))]
        for a, b in [(0, 0), (0, 3), (3, 6), (9, 9), (8, 20), (10, 12)]:
            assert texts(await ben.list_public_feed(a, b)) == newest_first[a : b + 1]
            assert texts(await ann.list_recent(a, b)) == newest_first[a : b + 1]


@in_loop
async def test_home_timeline_refollow_during_unfollow_keeps_posts() -> None:
    """One worker removes the posts and another merges them; the first worker finishes last."""
    async with open_network(Settings(store="memory://"), background=False) as network:
        shoal = Shoal(network)
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        await warm(ben)
        await ann.create("one")
        await shoal.settle()
        changed = FollowChanged(follower_id=ben.id, source_id=ann.id)
        subtract = fanout._subtract

        async def overtaken(effects: Effects, member: int, source: int) -> None:
            await ben.follow(ann)
            await fanout.reconcile_follow(effects, changed, 0)
            await subtract(effects, member, source)

        await ben.unfollow(ann)
        with patch.object(fanout, "_subtract", overtaken):
            await fanout.reconcile_follow(network.effects, changed, 0)
        await network.store.ack(await network.store.claim(10, 60.0))
        await ann.create("two")
        await shoal.settle()
        assert await home_texts(ben) == ["two", "one"]


@in_loop
async def test_home_timeline_follows_and_unfollows_during_follower_set_read_are_applied() -> None:
    async with open_network(Settings(store="memory://"), background=False) as network:
        shoal = Shoal(network)
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ben.follow(ann)
        await warm(ben, cyd)
        await shoal.settle()
        followers = packed(network)
        touch_up = followers._touch_up

        async def they_come_and_go(source: int, follower_set: FollowerSet) -> None:
            if source == ann.id:
                await cyd.follow(ann)
                await ben.unfollow(ann)
                for fan in (ben, cyd):
                    changed = FollowChanged(follower_id=fan.id, source_id=ann.id)
                    await fanout.reconcile_follow(network.effects, changed, 0)
            await touch_up(source, follower_set)

        await ann.create("one")
        with patch.object(followers, "_touch_up", they_come_and_go):
            await network.runner.run_once()
        await network.store.ack(await network.store.claim(10, 60.0))
        follower_set = followers.follower_set_cache.get(ann.id)
        assert follower_set is not None
        assert follower_set.slots(0, len(follower_set)).tolist() == network.timelines.slots([cyd.id]).tolist()
        await ann.create("two")
        await shoal.settle()
        assert await home_texts(cyd) == ["two", "one"]


class Away(MemoryGraph):
    """A store that temporarily rejects writes from other stores."""

    away = False

    async def commit_owing(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        if self.away and any(op.plain for op in batch.assocs):
            raise Unavailable("away")
        return await super().commit_owing(batch)


def two_stores(*_: object, **__: object) -> tuple[ShardedGraph, Sequence[Away]]:
    owners = [shard * 2 // SHARDS for shard in range(SHARDS)]
    first = Away(lambda shard: owners[shard] == 0)
    second = Away(lambda shard: owners[shard] == 1)
    return ShardedGraph([first, second], owners), (first, second)


@pytest.mark.parametrize("what", ["follow", "tag"])
@in_loop
async def test_home_timeline_follow_with_late_inverse_misses_no_post(what: str) -> None:
    """Dan (first store) follows Ann or a tag (second store); Ann posts before her store has the follow."""
    graph, (_, second) = two_stores()

    async def opened(*_: object, **__: object) -> ShardedGraph:
        return graph

    with patch("shoal.app.network.open_store", opened):
        async with open_network(Settings(store="memory://"), background=False) as network:
            ann, dan = await register(Shoal(network), "ann", "dan")
            await warm(dan)
            second.away = True
            await (dan.follow(ann) if what == "follow" else dan.follow_tag("surf"))
            for _ in range(3):
                await network.runner.run_once()
            await ann.create("hello #surf")
            second.away = False
            # The first job in the outbox of the first store waits for its next attempt.
            await network.runner.run_once()
            await Shoal(network).settle()
            assert await home_texts(dan) == ["hello #surf"]
            await ann.create("again #surf")
            await Shoal(network).settle()
            assert await home_texts(dan) == ["again #surf", "hello #surf"]


@in_loop
async def test_home_timeline_followed_tag_with_late_inverse_shows_post() -> None:
    """Dan's post reaches the list of its tag after Ann's home timeline was rebuilt from that list."""
    graph, (_, second) = two_stores()

    async def opened(*_: object, **__: object) -> ShardedGraph:
        return graph

    with (
        patch("shoal.app.network.open_store", opened),
        patch("shoal.app.network.spans_stores", return_value=True),
    ):
        async with open_network(Settings(store="memory://"), background=False) as network:
            ann, dan = await register(Shoal(network), "ann", "dan")
            await ann.follow_tag("surf")
            await Shoal(network).settle()
            second.away = True
            await dan.create("hello #surf")
            await network.runner.run_once()
            await warm(ann)
            second.away = False
            await Shoal(network).settle()
            assert await home_texts(ann) == ["hello #surf"]


@in_loop
async def test_fanout_reads_small_follower_set_without_yielding_to_event_loop() -> None:
    # Under load each turn takes milliseconds, and jobs run one after the other.
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        await shoal.network.settle()
        reading = packed(shoal.network)._read_follower_set(ann.id)
        with pytest.raises(StopIteration):
            reading.send(None)
