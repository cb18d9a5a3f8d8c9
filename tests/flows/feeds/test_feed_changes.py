"""Streams of named feeds whose sources change: posts are neither lost nor repeated, and clients learn of the change."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shoal import Handle, Shoal, Visibility
from shoal.core.errors import InvalidInput, NotFound, Taken, TooMany
from shoal.core.model import Post
from shoal.graph import feed_lookup
from shoal.graph.feed_lookup import called_feeds
from shoal.queries import streaming as shoal_streaming
from shoal.queries.streaming import FeedChanged, Newer, Removed
from shoal.streaming import subscriptions
from shoal.streaming.hub import Hub
from shoal.streaming.subscriptions import FeedInterest
from tests.async_runner import eventually, in_loop, run
from tests.flows.members import register
from tests.flows.notifications.home_listener import Listener, listening

EVERYBODY = {"from": "everybody"}
FOLLOWEES = {"from": "followees"}
BREAD = {"from": "tag", "tag": "bread"}
BY_ANN = {"from": "author", "author": "ann"}
RANKED = {"sources": [BREAD], "order": {"by": "expression", "expression": "likes"}}


async def ends_with(listener: Listener, text: str, *others: str) -> None:
    """Wait for these updates and the post with this text, in this order."""

    async def heard() -> bool:
        return f"+{text}" in await listener.heard()

    await eventually(heard, True)
    assert await listener.heard() == [*others, f"+{text}"]
    listener.news.clear()


@in_loop
async def test_feed_stream_does_not_repeat_posts_when_the_feed_gets_sources() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        feed = await ben.feeds.create("mine", {"sources": [EVERYBODY]})
        async with listening(ben, feed=feed) as at_ben:
            for number in range(3):
                await ann.create(f"{number} #bread")
            await at_ben.hears("+0 #bread", "+1 #bread", "+2 #bread")
            sources = [EVERYBODY]
            for added in (FOLLOWEES, BREAD, BY_ANN):
                sources.append(added)
                await ben.feeds.update(feed, declaration={"sources": sources})
                await ann.create(f"after {added['from']}")
                await ends_with(at_ben, f"after {added['from']}", "changed")


@in_loop
async def test_feed_stream_does_not_repeat_posts_when_a_source_is_removed_and_added_again() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        feed = await ben.feeds.create("mine", {"sources": [BREAD]})
        async with listening(ben, feed=feed) as at_ben:
            await ann.create("one #bread")
            await at_ben.hears("+one #bread")
            for tag in ("rye", "bread"):
                await ben.feeds.update(feed, declaration={"sources": [{"from": "tag", "tag": tag}]})
                await ann.create(f"new #{tag}")
                await ends_with(at_ben, f"new #{tag}", "changed")


@in_loop
async def test_feed_stream_does_not_repeat_a_post_of_another_source_after_a_follow() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        feed = await ben.feeds.create("mine", {"sources": [EVERYBODY, FOLLOWEES]})
        async with listening(ben, feed=feed) as at_ben:
            await ann.create("before")
            await at_ben.hears("+before")
            await ben.follow(ann)
            await ann.create("after", visibility=Visibility.FOLLOWERS)
            await ends_with(at_ben, "after")


@in_loop
async def test_feed_stream_omits_posts_before_the_change_that_adds_their_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # All processes of this test have one clock.
    monkeypatch.setattr(subscriptions, "_CLOCKS_MS", 0)
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        held = await ben.lists.create("close")
        await ben.lists.put_on(held, ann)
        await shoal.settle()
        for added in (FOLLOWEES, {"from": "list", "list": str(held.id)}, BY_ANN):
            feed = await ben.feeds.create("mine", {"sources": [BREAD]})
            async with listening(ben, feed=feed) as at_ben:
                await ann.create("before")
                await shoal.settle()
                await ben.feeds.update(feed, declaration={"sources": [BREAD, added]})
                await ann.create("after")
                await ends_with(at_ben, "after", "changed")


@in_loop
async def test_feed_stream_has_the_posts_of_sources_from_each_of_several_changes_on() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        feed = await ben.feeds.create("mine", {"sources": [BREAD]})
        async with listening(ben, feed=feed) as at_ben:
            sources: list[dict[str, Any]] = [BREAD]
            for author in (ann, cyd):
                sources.append({"from": "author", "author": author.name})
                await ben.feeds.update(feed, declaration={"sources": sources})
                await author.create(f"by {author.name}")
            await at_ben.hears("changed", "changed", "+by ann", "+by cyd")


@in_loop
async def test_feed_stream_has_posts_of_a_contained_feed_that_was_created_again() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await shoal.server_feeds.create("inner", {"sources": [BREAD]})
        feed = await ben.feeds.create("outer", {"sources": [{"from": "feed", "feed": "inner"}]})
        async with listening(ben, feed=feed) as at_outer, listening(ben, feed="inner") as at_inner:
            await shoal.server_feeds.delete("inner")
            await at_inner.hears("deleted")
            await at_inner.ended()
            await at_outer.hears("changed")
            await shoal.server_feeds.create("inner", {"sources": [BREAD]})
            await ann.create("#bread")
            await ends_with(at_outer, "#bread", "changed")


@in_loop
async def test_feed_stream_has_posts_of_a_contained_feed_that_became_readable() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        inner = await cyd.feeds.create("inner", {"sources": [BREAD]}, shared=True)
        feed = await ben.feeds.create("outer", {"sources": [{"from": "feed", "feed": str(inner.id)}]})
        await ben.block(cyd)
        async with listening(ben, feed=feed) as at_ben:
            await ben.unblock(cyd)
            await ann.create("unblocked #bread")
            await ends_with(at_ben, "unblocked #bread", "changed")
            await cyd.block(ben)
            await at_ben.hears("changed")
            await cyd.unblock(ben)
            await at_ben.hears("changed")
            await shoal.suspend(cyd)
            await at_ben.hears("changed")
            await shoal.restore(cyd)
            await ann.create("reinstated #bread")
            await ends_with(at_ben, "reinstated #bread", "changed")


@in_loop
async def test_feed_stream_has_posts_of_an_author_who_registers_later() -> None:
    async with Shoal.open("memory://") as shoal:
        (ben,) = await register(shoal, "ben")
        await shoal.server_feeds.create("zoe", {"sources": [{"from": "author", "author": "zoe"}]})
        async with listening(ben, feed="zoe") as at_ben:
            zoe = await shoal.register("zoe")
            await zoe.create("hello")
            await ends_with(at_ben, "hello", "changed")


@pytest.mark.parametrize("end", ["delete", "unshare", "block", "suspend"])
@in_loop
async def test_feed_stream_ends_when_the_feed_is_no_longer_readable(end: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        feed = await ann.feeds.create("mine", {"sources": [BREAD]}, shared=True)
        ends: dict[str, Callable[[], Any]] = {
            "delete": lambda: ann.feeds.delete(feed),
            "unshare": lambda: ann.feeds.update(feed, shared=False),
            "block": lambda: ann.block(ben),
            "suspend": lambda: shoal.suspend(ann),
        }
        async with listening(ben, feed=feed) as at_ben:
            await ends[end]()
            await at_ben.ended()
            assert at_ben.news == [FeedChanged(at_ben.position, feed.id, deleted=True)]
            assert not shoal.network.hub.connected
        with pytest.raises(NotFound):
            await anext(ben.live_feed(feed))


@in_loop
async def test_feed_stream_resumes_with_a_change_of_the_feed() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        feed = await ben.feeds.create("mine", {"sources": [BREAD]})
        async with listening(ben, feed=feed) as at_ben:
            await ann.create("#bread")
            await eventually(at_ben.heard, ["+#bread"])
            position = at_ben.position
        await ben.feeds.update(feed, declaration={"sources": [BREAD, BY_ANN]})
        async with listening(ben, position, feed=feed) as at_ben:
            await at_ben.hears("changed")


@in_loop
async def test_feed_stream_reports_deletion_of_a_restricted_post_to_a_mentioned_viewer() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        feed = await shoal.server_feeds.create("ann", {"sources": [BY_ANN]})
        async with listening(ben, feed=feed) as at_ben, listening(cyd, feed=feed) as at_cyd:
            post = await ann.create("hello @ben", visibility=Visibility.FOLLOWERS)
            await at_ben.hears("+hello @ben")
            await ann.delete(post)
            await at_ben.hears(f"-{post.id}")
            await ann.create("public")
            await ends_with(at_cyd, "public")


@in_loop
async def test_ranked_feed_stream_reports_newer_posts_before_other_updates() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        feed = await ben.feeds.create("ranked", RANKED)
        hub = shoal.network.hub
        hub.spacing = 0.5
        old = await ann.create("old #bread")
        await shoal.settle()
        async with listening(ben, feed=feed) as at_ben:
            await ann.create("one #bread")
            await eventually(at_ben.heard, ["*"])
            await ann.create("two #bread")
            await ann.delete(old)
            await eventually(at_ben.heard, ["*", "*", f"-{old.id}"])
            _, newer, removed = at_ben.news
            assert isinstance(newer, Newer)
            assert isinstance(removed, Removed)
        async with listening(ben, newer.position, feed=feed) as at_ben:
            await at_ben.hears(f"-{old.id}")


@in_loop
async def test_ranked_feed_stream_reports_a_post_that_an_edit_adds_as_newer() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        feed = await ben.feeds.create("ranked", RANKED)
        post = await ann.create("plain")
        await shoal.settle()
        async with listening(ben, feed=feed) as at_ben:
            await ann.update(post, "now #bread")
            await eventually(at_ben.heard, ["*", "~now #bread"])
            position = at_ben.news[0].position
        # A stream that resumes between the two has both.
        async with listening(ben, position, feed=feed) as at_ben:
            await eventually(at_ben.heard, ["*", "~now #bread"])


@in_loop
async def test_feed_streams_of_a_member_are_limited() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        feed = await shoal.server_feeds.create("bread", {"sources": [BREAD]})
        hub = Hub(shoal.network.effects.channel, shoal.network.store, most_feeds_of_viewer=1)
        async with hub.connect(ben.id, to=FeedInterest(feed.id)):
            with pytest.raises(TooMany, match=r"at most 1 streams of named feeds per account \(got 2\)"):
                await hub.connect(ben.id, to=FeedInterest(feed.id)).__aenter__()
            async with hub.connect(ann.id, to=FeedInterest(feed.id)):
                pass
        async with hub.connect(ben.id, to=FeedInterest(feed.id)):
            pass
        await hub.close()


@in_loop
async def test_feed_streams_read_followees_only_after_changes_that_concern_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        declared = {"sources": [{**FOLLOWEES, "most": 10}, {"from": "tag", "tag": "cake", "most": 10}]}
        inner = [await ben.feeds.create(f"{number}", declared) for number in range(5)]
        contained = [{"from": "feed", "feed": str(each.id)} for each in inner]
        feed = await ben.feeds.create("outer", {"sources": [FOLLOWEES, *contained]})
        plain = await ben.feeds.create("plain", {"sources": [BREAD]})
        hub, reads = shoal.network.hub, Counter[str]()
        members_of = subscriptions._members_of

        async def counted(*arguments: Any) -> dict[int, int]:
            reads["point" if len(arguments) == 4 and arguments[3] is not None else "list"] += 1
            return await members_of(*arguments)

        monkeypatch.setattr(subscriptions, "_members_of", counted)
        async with AsyncExitStack() as stack:
            connection = await stack.enter_async_context(hub.connect(ben.id, to=FeedInterest(feed.id)))
            await stack.enter_async_context(hub.connect(ben.id, to=FeedInterest(plain.id)))
            assert reads == {"list": 1}
            reads.clear()
            await ben.follow(ann)

            async def follows() -> bool:
                return ann.id in connection.sources

            await eventually(follows, True)
            held = await ben.lists.create("close")
            await ben.lists.put_on(held, ann)
            await shoal.settle()
            await asyncio.sleep(0)
            assert reads == {"point": 1}


@in_loop
async def test_feed_stream_reads_no_posts_without_the_tags_of_the_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        filters = {"tags_any": ["rare", "rarer"], "tags_all": ["bread"]}
        feed = await ben.feeds.create("rare", {"sources": [EVERYBODY], "filters": filters})
        read: list[int] = []
        among = shoal_streaming.among

        async def counted(*arguments: Any) -> Any:
            read.extend(arguments[3])
            return await among(*arguments)

        monkeypatch.setattr(shoal_streaming, "among", counted)
        async with listening(ben, feed=feed) as at_ben:
            await ann.create("plain")
            await ann.create("#rare")
            edited = await ann.create("#bread")
            last = await ann.create("#rare #bread")
            await ends_with(at_ben, "#rare #bread")
            assert read == [last.id]
            await ann.update(edited, "#bread #rarer")
            await at_ben.hears("~#bread #rarer")


_steps = st.lists(
    st.tuples(st.sampled_from(["post", "change", "follow", "list", "share", "block", "settle"]), st.integers(0, 62)),
    max_size=25,
)


@given(steps=_steps)
def test_feed_stream_repeats_no_post_and_has_all_after_the_last_change(steps: list[tuple[str, int]]) -> None:
    run(_check_changes(steps))


async def _check_changes(steps: list[tuple[str, int]]) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        held = await ben.lists.create("close")
        await ben.follow(ann)
        inner = await cyd.feeds.create("inner", {"sources": [BREAD]}, shared=True)
        contained = {"from": "feed", "feed": str(inner.id)}
        possible = [EVERYBODY, FOLLOWEES, BREAD, BY_ANN, {"from": "list", "list": str(held.id)}, contained]
        feed = await ben.feeds.create("mine", {"sources": possible})
        async with listening(ben, feed=feed) as at_ben:
            for number, (action, choice) in enumerate(steps):
                first = choice % 2 == 0
                if action == "post":
                    await (ann if first else cyd).create(f"{number}{' #bread' if choice % 3 else ''}")
                elif action == "change":
                    sources = [source for at, source in enumerate(possible) if choice + 1 >> at & 1]
                    # While cyd's feed is not readable, a change that adds it is refused.
                    with suppress(InvalidInput):
                        await ben.feeds.update(feed, declaration={"sources": sources})
                elif action == "follow":
                    await (ben.follow if first else ben.unfollow)(ann)
                elif action == "list":
                    with suppress(NotFound, Taken):
                        await (ben.lists.put_on if first else ben.lists.take_off)(held, ann)
                elif action == "share":
                    await cyd.feeds.update(inner, shared=first)
                elif action == "block":
                    await (ben.block if first else ben.unblock)(cyd)
                else:
                    await shoal.settle()
            await ben.unblock(cyd)
            await cyd.feeds.update(inner, shared=True)
            await ben.feeds.update(feed, declaration={"sources": [contained]})
            await ann.create("the last #bread")

            async def finished() -> bool:
                return "+the last #bread" in await at_ben.heard()

            await eventually(finished, True)
            heard = Counter(text for text in await at_ben.heard() if text.startswith("+"))
            assert set(heard.values()) == {1}


_TAGS = ("bread", "rye")
_FILTERS: list[dict[str, Any]] = [
    {},
    {"tags_any": ["bread"]},
    {"tags_any": ["rye"]},
    {"tags_any": ["bread", "rye"]},
    {"tags_all": ["bread", "rye"]},
    {"tags_any": ["bread"], "tags_all": ["rye"]},
]
_SOURCES: list[list[dict[str, Any]]] = [[EVERYBODY], [BREAD], [BY_ANN], [EVERYBODY, BY_ANN]]


@dataclass
class _Posted:
    """A post of the test, and whether the feed has it by each declaration since its last version."""

    post: Post
    text: str
    tags: tuple[str, ...]
    by_ann: bool
    public: bool
    shown: list[bool]
    ever: bool
    """Whether the feed had it at any time."""
    edited: bool = False
    deleted: bool = False
    removed: bool = False
    """Whether it was deleted while the feed had it."""

    def belongs(self, sources: list[dict[str, Any]], filters: dict[str, Any]) -> bool:
        """Return whether a feed with these sources and filters has the post, by the reference of feeds."""
        has_source = (
            (EVERYBODY in sources and self.public)
            or (BREAD in sources and self.public and "bread" in self.tags)
            or (BY_ANN in sources and self.by_ann)
        )
        any_of, all_of = filters.get("tags_any", ()), filters.get("tags_all", ())
        return has_source and (not any_of or any(tag in self.tags for tag in any_of)) and set(all_of) <= set(self.tags)

    def judge(self, sources: list[dict[str, Any]], filters: dict[str, Any]) -> None:
        """Record whether the feed has the post now."""
        self.shown.append(not self.deleted and self.belongs(sources, filters))
        self.ever |= self.shown[-1]

    async def change(self, author: Handle, number: int, tags: tuple[str, ...] | None) -> None:
        """Edit the post so that it has these tags, or delete it if they are None."""
        if tags is None:
            self.deleted, self.removed = True, self.shown[-1]
            await author.delete(self.post)
        else:
            self.edited, self.tags, self.text = True, tags, f"{_text(number, tags)} {len(self.text)}"
            await author.update(self.post, self.text)
        self.shown.clear()

    def expected(self) -> str | None:
        """Return an update that the stream delivers whatever the order of the changes; None if there may be none."""
        if self.removed:
            return f"-{self.post.id}"
        if self.deleted or not all(self.shown):
            return None
        return f"{'~' if self.edited else '+'}{self.text}"


def _text(number: int, tags: tuple[str, ...]) -> str:
    return f"{number} {' '.join(f'#{tag}' for tag in tags)}".strip()


def _chosen_tags(choice: int) -> tuple[str, ...]:
    return tuple(tag for at, tag in enumerate(_TAGS) if choice >> at & 1)


async def _idle(shoal: Shoal, viewer: Handle) -> None:
    """Wait until the stream of a viewer has received all updates and has read its feed, and until later ids have a later time."""
    hub, channel = shoal.network.hub, shoal.network.effects.channel
    await shoal.settle()

    async def idle() -> bool:
        (connection,) = hub._matching.of(viewer.id)
        return hub._at == await channel.end() and not hub._outdated and not connection.loading.locked()

    await eventually(idle, True)
    await asyncio.sleep(0.002)


_filtered_steps = st.lists(
    st.one_of(
        st.tuples(st.just("post"), st.integers(0, 3), st.booleans(), st.booleans()),
        st.tuples(st.just("sources"), st.integers(0, len(_SOURCES) - 1), st.booleans(), st.booleans()),
        st.tuples(st.just("filters"), st.integers(0, len(_FILTERS) - 1), st.booleans(), st.booleans()),
        st.tuples(st.just("edit"), st.integers(0, 39), st.booleans(), st.booleans()),
        st.tuples(st.just("delete"), st.integers(0, 9), st.booleans(), st.booleans()),
    ),
    max_size=25,
)


@given(steps=_filtered_steps, clocks_ms=st.sampled_from([0, 2_000]), pause=st.sampled_from([0, 5, 50, 200]))
@example(
    [("post", 1, True, True), ("filters", 1, True, True), ("filters", 2, True, True), ("delete", 0, True, True)],
    0,
    200,
)
@example(
    [("post", 2, True, True), ("filters", 1, True, True), ("filters", 2, True, True), ("delete", 0, True, True)],
    0,
    200,
)
@example(
    [("post", 2, True, True), ("filters", 1, True, True), ("filters", 2, True, True), ("edit", 20, True, True)], 0, 200
)
@example(
    [("sources", 1, True, True), ("post", 1, True, True), ("edit", 0, True, True), ("delete", 0, True, True)], 0, 0
)
def test_feed_stream_shows_the_posts_of_the_feed_page_whatever_tags_its_filter_gets(
    steps: list[tuple[str, int, bool, bool]], clocks_ms: int, pause: int
) -> None:
    run(_check_filters(steps, clocks_ms, pause))


async def _check_filters(steps: list[tuple[str, int, bool, bool]], clocks_ms: int, pause: int) -> None:
    """Change the filter while the hub takes `pause` iterations of the event loop to read the feed."""
    read = called_feeds

    async def slow(*arguments: Any) -> Any:
        for _ in range(pause):
            await asyncio.sleep(0)
        return await read(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subscriptions, "_CLOCKS_MS", clocks_ms)
        patch.setattr(feed_lookup, "called_feeds", slow)
        async with Shoal.open("memory://") as shoal:
            ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
            sources, filters = _SOURCES[0], _FILTERS[0]
            feed = await ben.feeds.create("mine", {"sources": sources})
            posted: list[_Posted] = []
            # Posts from before a change, which it does not add.
            passed: set[int] = set()
            # A stream may miss edits and deletions of older posts while the hub reads new sources.
            moved, touched = False, False
            async with listening(ben, feed=feed) as at_ben:
                for action, choice, first, second in [*steps, ("post", 3, True, True)]:
                    if action == "post":
                        tags = _chosen_tags(choice)
                        text = _text(len(posted), tags)
                        visibility = Visibility.PUBLIC if second else Visibility.UNLISTED
                        post = await (ann if first else cyd).create(text, visibility=visibility)
                        posted.append(_Posted(post, text, tags, first, second, [], ever=False))
                        posted[-1].judge(sources, filters)
                        continue
                    if action in {"edit", "delete"}:
                        at = choice % 10
                        if at >= len(posted) or posted[at].deleted:
                            continue
                        if moved:
                            await _idle(shoal, ben)
                            moved = False
                        touched, one = True, posted[at]
                        edited = _chosen_tags(choice // 10) if action == "edit" else None
                        await one.change(ann if one.by_ann else cyd, at, edited)
                        one.judge(sources, filters)
                        continue
                    if first or (touched and action == "sources"):
                        await _idle(shoal, ben)
                        moved = touched = False
                        if not clocks_ms:
                            passed.update(number for number, one in enumerate(posted) if not one.ever)
                    if action == "sources":
                        sources, moved = _SOURCES[choice], True
                    else:
                        filters = _FILTERS[choice]
                    await ben.feeds.update(feed, declaration={"sources": sources, "filters": filters})
                    for one in posted:
                        one.judge(sources, filters)

                await _idle(shoal, ben)
                await _check_heard(at_ben, posted, passed)
            page = await ben.read_feed(feed, limit=40)
            assert {shown.entry.post.text for shown in page.entries} == {one.text for one in posted if one.shown[-1]}


async def _check_heard(listener: Listener, posted: list[_Posted], passed: set[int]) -> None:
    """Check the updates of a stream. `passed` are the numbers of posts that it must not show as new.

    After a change, a stream may show older posts of the new declaration, and may omit older posts of the former one.
    """
    expected = {text for text in (one.expected() for one in posted) if text is not None}

    async def missing() -> set[str]:
        return expected.difference(await listener.heard())

    await eventually(missing, set[str]())
    heard = Counter(int(text[1:].split()[0]) for text in await listener.heard() if text.startswith("+"))
    assert set(heard.values()) <= {1}
    assert heard.keys() <= {number for number, one in enumerate(posted) if one.ever} - passed
