"""Streams of named feeds: new posts of each source, edits and deletions, changes of the feed, ranked feeds and resumption."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import Handle, Shoal, Visibility
from shoal.commands import filters
from shoal.commands.filters import FilterChange, KeywordChange
from shoal.consumers import streaming as streaming_consumers
from shoal.core.errors import NotFound, TooMany
from shoal.core.filters import FilterAction, FilterContext
from shoal.core.kinds import KindDraft
from shoal.core.model import Post
from shoal.core.places import Place
from shoal.graph.contract import find_object
from shoal.queries.streaming import Arrived, Edited, Newer, Removed, updates_for_viewer
from shoal.streaming import subscriptions
from shoal.streaming.history import PlacedUpdate
from shoal.streaming.hub import Hub
from shoal.streaming.subscriptions import FeedInterest
from shoal.streaming.updates import FiltersChanged, PostCreated
from tests.async_runner import eventually, in_loop, run
from tests.flows.members import register
from tests.flows.notifications.home_listener import listening
from tests.flows.notifications.test_home_streams import network, on_each_kind
from tests.flows.test_multiprocess import seen_by

BREAD = {"from": "tag", "tag": "bread"}
HARBOUR = Place(54.1, -0.2)
BY_LIKES: dict[str, Any] = {"order": {"by": "expression", "expression": "likes"}}


async def declared(shoal: Shoal, *sources: dict[str, Any], name: str = "some", **fields: Any) -> str:
    """Create a feed of the server, and return its name."""
    await shoal.server_feeds.create(name, {"sources": list(sources), **fields})
    return name


@on_each_kind
@in_loop
async def test_feed_stream_delivers_each_post_of_a_source_once_and_no_others(kind: str) -> None:
    async with network(kind) as (here, there):
        ann, ben, cyd = await register(here, "ann", "ben", "cyd")
        schema = {"type": "object", "properties": {"minutes": {"type": "integer"}}}
        await here.kinds.declare(KindDraft(name="recipe", schema=schema, index={"minutes": "number"}))
        await ben.follow(ann)
        held = await ben.lists.create("close")
        await ben.lists.put_on(held, ann)
        await here.settle()
        await declared(here, BREAD, name="inner", filters={"media": "without"})
        place = {"latitude": HARBOUR.latitude, "longitude": HARBOUR.longitude, "radius_km": 5}
        sources: dict[str, dict[str, Any]] = {
            "followees": {"from": "followees"},
            "list": {"from": "list", "list": str(held.id)},
            "tag": BREAD,
            "author": {"from": "author", "author": "cyd"},
            "nearby": {"from": "nearby", **place},
            "kind": {"from": "kind", "kind": "recipe", "where": {"minutes": "10..30"}},
            "everybody": {"from": "everybody"},
            "feed": {"from": "feed", "feed": "inner"},
            "popular": {"from": "popular"},
        }
        feeds = {name: await ben.feeds.create(name, {"sources": [source]}) for name, source in sources.items()}
        feeds["all"] = await ben.feeds.create("all", {"sources": [*sources.values()]})
        at = await seen_by(there, ben)
        expected = {
            "followees": ["by ann"],
            "list": ["by ann"],
            "tag": ["#bread"],
            "author": ["by cyd"],
            "nearby": ["here"],
            "kind": ["quick"],
            "everybody": ["#bread", "by ann", "by cyd", "here", "quick", "slow"],
            "feed": ["#bread"],
            "popular": [],
            "all": ["#bread", "by ann", "by cyd", "here", "quick", "slow"],
        }
        async with asyncio.TaskGroup() as group, asyncio.timeout(60):
            heard: dict[str, list[str]] = {name: [] for name in feeds}

            async def hear(name: str) -> None:
                async for update in at.live_feed(feeds[name]):
                    assert isinstance(update, Arrived)
                    heard[name].append(update.entry.post.text)

            listeners = [group.create_task(hear(name)) for name in feeds]

            async def connected() -> int:
                return there.network.hub.connected

            await eventually(connected, len(feeds))
            dan = await here.register("dan")
            await ann.create("by ann")
            await cyd.create("by cyd")
            await dan.create("#bread")
            await dan.create("here", place=HARBOUR)
            await dan.create("elsewhere", place=Place(10.0, 10.0), visibility=Visibility.UNLISTED)
            await dan.create("quick", kind="recipe", data={"minutes": 20})
            await dan.create("slow", kind="recipe", data={"minutes": 90})
            await dan.create("direct @ben #bread", visibility=Visibility.DIRECT)
            await dan.share(await dan.create("quiet", visibility=Visibility.UNLISTED))

            async def all_heard() -> dict[str, list[str]]:
                return {name: sorted(texts) for name, texts in heard.items()}

            await eventually(all_heard, expected)
            await here.settle()
            for name, feed in feeds.items():
                page = await ben.read_feed(feed)
                assert sorted(shown.entry.post.text for shown in page.entries) == (await all_heard())[name] or (
                    name == "popular"
                )
            for listener in listeners:
                listener.cancel()


@on_each_kind
@in_loop
async def test_feed_stream_reports_edits_that_leave_the_feed_and_deletions(kind: str) -> None:
    async with network(kind) as (here, there):
        ann, ben = await register(here, "ann", "ben")
        feed = await declared(here, {"from": "everybody"}, filters={"tags_any": ["bread"]})
        async with listening(await seen_by(there, ben), feed=feed) as at_ben:
            await ann.create("no tag")
            post = await ann.create("one #bread")
            await at_ben.hears("+one #bread")
            await ben.react(post, "👍")
            await at_ben.hears("~one #bread")
            await ann.update(post, "two #bread")
            await at_ben.hears("~two #bread")
            await ann.update(post, "three")
            await at_ben.hears(f"-{post.id}")
            # A reaction to a post outside the feed sends nothing.
            await ben.react(post, "🎉")
            await here.settle()
            await ann.create("after it #bread")
            await at_ben.hears("+after it #bread")
            await ann.update(post, "four #bread")
            await at_ben.hears("~four #bread")
            await ann.delete(post)
            await at_ben.hears(f"-{post.id}")
            placed = await ann.create("five #bread", place=HARBOUR)
            await at_ben.hears("+five #bread")
            await here.hide(placed)
            await at_ben.hears(f"-{placed.id}")


@pytest.mark.parametrize(
    "declaration",
    [
        {"sources": [{"from": "tag", "tag": "bread"}]},
        {"sources": [{"from": "everybody"}], "filters": {"tags_any": ["bread"]}},
    ],
    ids=["source", "filter"],
)
@in_loop
async def test_feed_stream_reports_a_post_that_lost_its_tag_and_was_deleted_before_the_edit_was_published(
    monkeypatch: pytest.MonkeyPatch, declaration: dict[str, Any]
) -> None:
    deleted = asyncio.Event()

    async def find_later(*arguments: Any) -> Any:
        await deleted.wait()
        return await find_object(*arguments)

    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        feed = await ben.feeds.create("bread", declaration)
        async with listening(ben, feed=feed) as at_ben:
            post = await ann.create("rye #bread")
            await at_ben.hears("+rye #bread")
            monkeypatch.setattr(streaming_consumers, "find_object", find_later)
            await ann.update(post, "rye")
            await ann.delete(post)
            deleted.set()

            async def heard() -> set[str]:
                return set(await at_ben.heard())

            await eventually(heard, {f"-{post.id}"})


@in_loop
async def test_feed_stream_of_a_place_reports_a_post_that_is_moved_away() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        place = {"latitude": HARBOUR.latitude, "longitude": HARBOUR.longitude, "radius_km": 5}
        async with listening(ben, feed=await declared(shoal, {"from": "nearby", **place})) as at_ben:
            post = await ann.create("here", place=HARBOUR)
            await at_ben.hears("+here")
            await ann.update(post, place=Place(10.0, 10.0))
            await at_ben.hears(f"-{post.id}")


@in_loop
async def test_feed_stream_sends_nothing_about_posts_that_the_viewer_may_not_see() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        feed = await declared(shoal, {"from": "author", "author": "ann"}, BREAD)
        async with listening(ben, feed=feed) as at_ben:
            secret = await ann.create("secret", visibility=Visibility.FOLLOWERS)
            await ann.update(secret, "still secret")
            await ann.delete(secret)
            await ben.mute(cyd)
            muted = await cyd.create("#bread")
            await cyd.delete(muted)
            word = FilterChange(
                title="rye",
                contexts=(FilterContext.HOME,),
                action=FilterAction.HIDE,
                irreversible=True,
                words=(KeywordChange(keyword="rye"),),
            )
            await filters.create(shoal.network.writes, ben.id, word)
            await ann.create("rye #bread")
            await ann.create("the last")
            await at_ben.hears("+the last")
            await ben.follow(ann)
            mine = await ann.create("for followers", visibility=Visibility.FOLLOWERS)
            await at_ben.hears("+for followers")
            await ann.delete(mine)
            await at_ben.hears(f"-{mine.id}")


@on_each_kind
@in_loop
async def test_feed_stream_follows_changes_of_the_feed_its_lists_and_the_follows_of_the_viewer(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All processes of this test have one clock.
    monkeypatch.setattr(subscriptions, "_CLOCKS_MS", 0)
    async with network(kind) as (here, there):
        ann, ben, cyd = await register(here, "ann", "ben", "cyd")
        inner = await cyd.feeds.create("inner", {"sources": [BREAD]}, shared=True)
        sources = [{"from": "followees"}, {"from": "feed", "feed": str(inner.id)}]
        feed = await ben.feeds.create("mine", {"sources": sources})
        async with listening(await seen_by(there, ben), feed=feed) as at_ben:

            async def follows(source: int) -> bool:
                (connection,) = there.network.hub._matching.of(ben.id)
                return source in connection.sources

            await ben.follow(ann)
            await eventually(lambda: follows(ann.id), True)
            await ann.create("a followee")
            await at_ben.hears("+a followee")
            await cyd.feeds.update(inner, declaration={"sources": [{"from": "author", "author": "cyd"}]})
            await eventually(lambda: follows(cyd.id), True)
            await cyd.create("an author")
            await at_ben.hears("changed", "+an author")
            await cyd.feeds.update(inner, shared=False)
            await eventually(lambda: follows(cyd.id), False)
            await cyd.create("not shared")
            await cyd.feeds.update(inner, shared=True)
            await eventually(lambda: follows(cyd.id), True)
            await ben.unfollow(ann)
            await eventually(lambda: follows(ann.id), False)
            await ann.create("no longer")
            await cyd.create("shared again")
            await at_ben.hears("changed", "changed", "+shared again")
            await ben.feeds.delete(feed)
            await at_ben.hears("deleted")
            await at_ben.ended()


@in_loop
async def test_ranked_feed_stream_reports_newer_posts_at_most_once_per_spacing() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        feed = await declared(shoal, BREAD, **BY_LIKES)
        hub = shoal.network.hub
        hub.spacing = 3_600.0
        async with listening(ben, feed=feed) as at_ben:
            await ann.create("no tag")
            await ann.create("secret #bread", visibility=Visibility.FOLLOWERS)
            await ann.create("one #bread")
            await at_ben.hears("*")
            for number in range(20):
                await ann.create(f"{number} #bread")
            await shoal.settle()
            await at_ben.hears()
        hub.spacing = 0.01
        async with listening(ben, feed=feed) as at_ben:
            for number in range(20):
                await ann.create(f"{number} #bread")

            async def newest() -> bool:
                return bool(at_ben.news) and {"*"} == set(await at_ben.heard())

            await eventually(newest, True)


@in_loop
async def test_ranked_feed_stream_resumes_with_newer_posts_that_were_not_reported() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        feed = await declared(shoal, BREAD, **BY_LIKES)
        shoal.network.hub.spacing = 3_600.0
        async with listening(ben, feed=feed) as at_ben:
            await ann.create("one #bread")

            async def heard() -> int:
                return len(at_ben.news)

            await eventually(heard, 1)
            position = at_ben.position
            await ann.create("two #bread")
            await shoal.settle()
            assert await heard() == 1
        async with listening(ben, position, feed=feed) as at_ben:
            await at_ben.hears("*")


@in_loop
async def test_ranked_feed_stream_with_more_updates_than_its_capacity_reports_newer_posts_once() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        feed = await shoal.server_feeds.create("bread", {"sources": [BREAD], **BY_LIKES})
        hub = Hub(shoal.network.effects.channel, shoal.network.store, capacity=3, spacing=0.0)
        async with hub.connect(ben.id, to=FeedInterest(feed.id)) as connection:
            for number in range(10):
                await ann.create(f"{number} #bread")
            await shoal.settle()
            told = await updates_for_viewer(shoal.network.reads, connection, await connection.take())
            assert [type(update) for update in told] == [Newer]
        await hub.close()


@in_loop
async def test_feed_stream_resumes_after_a_position_without_loss() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        feed = await declared(shoal, BREAD)
        async with listening(ben, feed=feed) as at_ben:
            await ann.create("1 #bread")

            async def heard() -> int:
                return len(at_ben.news)

            await eventually(heard, 1)
            position = at_ben.position
        for number in range(2, 5):
            await ann.create(f"{number} #bread")
        async with listening(ben, position, feed=feed) as at_ben:
            await at_ben.hears("+2 #bread", "+3 #bread", "+4 #bread")
        async with listening(ben, "unknown", feed=feed) as at_ben:
            await at_ben.hears("?")


@in_loop
async def test_feed_stream_is_offered_only_posts_in_the_lists_of_its_sources() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        feed = await shoal.server_feeds.create("bread", {"sources": [BREAD]})
        hub = Hub(shoal.network.effects.channel, shoal.network.store)
        async with hub.connect(ben.id, to=FeedInterest(feed.id)) as connection:
            for number in range(50):
                await ann.create(f"{number} #cake")
            last = await ann.create("#bread")
            (received,) = await connection.take()
            assert isinstance(received, PlacedUpdate)
            assert isinstance(received.update, PostCreated)
            assert received.update.post_id == last.id
        await hub.close()


@in_loop
async def test_feed_streams_are_refused_above_the_maximum_of_the_process() -> None:
    async with Shoal.open("memory://") as shoal:
        (ben,) = await register(shoal, "ben")
        feed = await shoal.server_feeds.create("bread", {"sources": [BREAD]})
        hub = Hub(shoal.network.effects.channel, shoal.network.store, most_feeds=1)
        async with hub.connect(ben.id, to=FeedInterest(feed.id)):
            with pytest.raises(TooMany, match="has 1 streams of named feeds, which is the maximum"):
                await hub.connect(ben.id, to=FeedInterest(feed.id)).__aenter__()
            async with hub.connect(ben.id):
                pass
        async with hub.connect(ben.id, to=FeedInterest(feed.id)):
            pass
        await hub.close()


@in_loop
async def test_feed_stream_of_an_unreadable_feed_raises_not_found() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        own = await ann.feeds.create("own", {"sources": [BREAD]})
        for which in (own, "missing", 12_345):
            with pytest.raises(NotFound):
                await anext(ben.live_feed(which))


_steps = st.lists(
    st.tuples(st.sampled_from(["create", "edit", "delete", "follow", "mute"]), st.integers(0, 2), st.integers(0, 3)),
    max_size=12,
)
_WORDS = ("plain", "#bread", "#bread #rye", "#rye")


@given(steps=_steps)
def test_feed_stream_applied_in_order_gives_the_posts_of_the_feed(steps: list[tuple[str, int, int]]) -> None:
    """Follows and mutes happen first, because a stream does not report posts that they reveal or hide later."""
    run(_check_stream(sorted(steps, key=lambda step: step[0] in ("create", "edit", "delete"))))


async def _check_stream(steps: list[tuple[str, int, int]]) -> None:
    async with Shoal.open("memory://") as shoal:
        *authors, ben = await register(shoal, "ann", "cyd", "dan", "ben")
        sources = [BREAD, {"from": "followees"}, {"from": "author", "author": "dan"}]
        feed = await ben.feeds.create("all", {"sources": sources, "filters": {"tags_none": ["rye"]}})
        hub = Hub(shoal.network.effects.channel, shoal.network.store, capacity=1_000)
        start = await shoal.network.effects.channel.end()
        posts: list[tuple[Handle, Post]] = []
        for action, number, choice in steps:
            await _act(ben, authors, posts, action, number, choice)
            await shoal.settle()
        async with hub.connect(ben.id, start, to=FeedInterest(feed.id)) as connection:
            connection.offer(PlacedUpdate(start, FiltersChanged(ben.id)))
            shown: set[int] = set()
            for update in await updates_for_viewer(shoal.network.reads, connection, await connection.take()):
                if isinstance(update, Arrived | Edited):
                    shown.add(update.entry.id)
                elif isinstance(update, Removed):
                    shown.discard(update.id)
        await hub.close()
        page = await ben.read_feed(feed, limit=40)
        assert shown == {each.entry.id for each in page.entries}


async def _act(
    ben: Handle, authors: list[Handle], posts: list[tuple[Handle, Post]], action: str, number: int, choice: int
) -> None:
    author = authors[number]
    if action == "create":
        visibility = (Visibility.FOLLOWERS, Visibility.UNLISTED)[choice % 2] if choice == 0 else Visibility.PUBLIC
        posts.append((author, await author.create(_WORDS[choice], visibility=visibility)))
    elif action == "follow":
        await ben.follow(author)
    elif action == "mute" and choice == 0:
        await ben.mute(author)
    elif posts and action in ("edit", "delete"):
        owner, post = posts[number % len(posts)]
        if action == "edit":
            await owner.update(post, f"{_WORDS[choice]} again")
        else:
            posts.remove((owner, post))
            await owner.delete(post)


@in_loop
async def test_feed_stream_of_a_viewer_who_lost_access_ends_without_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Shoal.open("memory://") as shoal:
        own, ben = await register(shoal, "own", "ben")
        feed = await own.feeds.create("all", {"sources": [{"from": "everybody"}]}, shared=True)
        async with listening(ben, feed=feed) as listener:
            await own.block(ben)
            await listener.hears("deleted")
            await listener.ended()
            await asyncio.sleep(0)
        assert "reading the followees of a viewer failed" not in caplog.text
