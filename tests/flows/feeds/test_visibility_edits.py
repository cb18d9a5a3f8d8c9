"""Edits that reduce the visibility of a post: it is removed for members who may no longer see it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import combinations
from pathlib import Path

import pytest

from shoal import Handle, Shoal, Visibility
from shoal.admin.consistency.check import check
from shoal.consumers import cleanup
from shoal.consumers.table import TABLE
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.events import PostNarrowed
from shoal.graph.contract import Cursor
from shoal.graph.payloads.notifications import Kind
from shoal.graph.schema import ACTIVE, PUBLIC_LISTS
from shoal.queries.posts import pinned
from tests.async_runner import in_loop
from tests.flows.members import home_texts, register, texts
from tests.flows.notifications.home_listener import listening

PUBLIC, UNLISTED, FOLLOWERS, DIRECT = Visibility


@pytest.fixture(params=["one store", "two stores"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str | dict[str, str]:
    """The stores of a network: with two stores, ann and ben are in the first, dan and joe in the second."""
    if request.param == "one store":
        return "memory://"
    return {"0-31": f"sqlite:///{tmp_path}/one.db", "32-63": f"sqlite:///{tmp_path}/two.db"}


@asynccontextmanager
async def network(url: str | dict[str, str] = "memory://") -> AsyncIterator[tuple[Shoal, list[Handle]]]:
    """Ben follows ann, dan follows a tag, and joe has no followees."""
    async with Shoal.open(url) as shoal:
        people = await register(shoal, "ann", "ben", "dan", "joe")
        await people[1].follow(people[0])
        await people[2].follow_tag("tide")
        yield shoal, people


async def lists(who: Handle) -> dict[str, list[str]]:
    return {
        "home": await home_texts(who),
        "public": texts(await who.public()),
        "tag": texts(await who.tagged("tide")),
        "search": texts(await who.search_posts("low")),
    }


async def run(shoal: Shoal, event: PostNarrowed) -> None:
    for consequence in TABLE[PostNarrowed]:
        done = await consequence(shoal.network.effects, event, 0)
        if done is not None and not isinstance(done, int):
            await done


@in_loop
async def test_post_edit_to_followers_removes_post_from_public_timelines_search_and_strangers(
    url: str | dict[str, str],
) -> None:
    async with network(url) as (shoal, (ann, ben, dan, joe)):
        post = await ann.create("low #tide")
        await shoal.settle()
        everywhere = {name: ["low #tide"] for name in ("home", "public", "tag", "search")}
        nowhere = {name: list[str]() for name in everywhere}
        assert [await lists(who) for who in (ben, dan)] == [everywhere] * 2
        narrow = await ann.update(post, visibility="followers")
        assert (narrow.visibility, narrow.edited_at, narrow.version) == (FOLLOWERS, 0, 2)
        # Reads exclude it immediately, before the consumers have run.
        assert (await lists(dan))["home"] == []
        await shoal.settle()
        assert await lists(dan) == await lists(joe) == nowhere
        assert (await lists(ben))["home"] == ["low #tide"]
        assert (await lists(ben))["public"] == []
        assert texts(await joe.posts(ann)) == []
        with pytest.raises(NotFound):
            await joe.read(post)
        assert not (await shoal.tags.cloud()).words
        assert (await ann.history(post)) == []
        assert (await check(shoal.network)).clean


@in_loop
async def test_post_edit_to_unlisted_keeps_post_on_profile_and_shareable() -> None:
    async with network() as (shoal, (ann, ben, dan, joe)):
        post = await ann.create("low #tide")
        await joe.share(post)
        await shoal.settle()
        await ann.update(post, visibility=UNLISTED)
        await shoal.settle()
        assert texts(await joe.posts(ann)) == ["low #tide"]
        assert await home_texts(ben) == ["low #tide"]
        assert await home_texts(dan) == []
        assert (await ben.read(post)).shares == 1
        assert (await check(shoal.network)).clean


@in_loop
async def test_post_edit_to_direct_becomes_conversation_and_is_unpinned(
    url: str | dict[str, str],
) -> None:
    async with network(url) as (shoal, (ann, ben, _dan, joe)):
        post = await ann.create("low tide, @joe")
        await ann.pin(post)
        await shoal.settle()
        await ann.update(post, visibility=DIRECT)
        await shoal.settle()
        assert await home_texts(ben) == []
        assert await home_texts(ann) == ["low tide, @joe"]
        assert await pinned(shoal.network.reads, ann.id, ann.id) == []
        (talk,) = (await joe.conversations.page()).items
        assert talk.last.post.id == post.id
        assert not (await ben.conversations.page()).items
        assert (await check(shoal.network)).clean


@in_loop
async def test_post_edit_to_followers_deletes_shares_and_notifications_of_other_members(
    url: str | dict[str, str],
) -> None:
    async with network(url) as (shoal, (ann, _ben, dan, joe)):
        await joe.follow(dan)
        post = await ann.create("low tide")
        await dan.share(post)
        await ann.share(post)
        await shoal.settle()
        assert await home_texts(joe) == ["> low tide"]
        assert Kind.SHARE in [one.notice.kind for one in (await ann.notifications.page()).items]
        await ann.update(post, visibility="followers")
        await shoal.settle()
        assert await home_texts(joe) == []
        assert (await ann.read(post)).shares == 0
        assert Kind.SHARE not in [one.notice.kind for one in (await ann.notifications.page()).items]
        assert texts(await dan.posts(dan)) == []
        assert (await check(shoal.network)).clean


@in_loop
async def test_post_edit_to_followers_deletes_concurrent_share_and_keeps_authors_own() -> None:
    async with network() as (shoal, (ann, _ben, dan, _joe)):
        post = await ann.create("low tide")
        await shoal.settle()
        await dan.share(post)
        # The event of the share is processed last.
        await ann.update(post, visibility="followers")
        await shoal.settle()
        assert (await ann.read(post)).shares == 0
        narrowed = PostNarrowed(post_id=post.id, author_id=ann.id, visibility=FOLLOWERS)
        # The author may share it with their followers, and that share is kept.
        await ann.share(post)
        await cleanup.end_shares_of_narrowed(shoal.network.effects, narrowed, 0)
        assert (await ann.read(post)).shares == 1
        assert (await check(shoal.network)).clean


@in_loop
async def test_comment_edit_to_followers_is_not_counted() -> None:
    async with network() as (shoal, (ann, ben, _dan, joe)):
        post = await ben.create("low tide")
        comment = await ann.comment(post, "so low")
        assert (await ben.read(post)).comments == 1
        await ann.update(comment, visibility="followers")
        await shoal.settle()
        assert (await joe.read(post)).comments == 0
        assert texts((await joe.thread(post)).below) == []
        assert texts((await ben.thread(post)).below) == ["so low"]
        assert (await check(shoal.network)).clean


@in_loop
async def test_post_edit_of_text_and_visibility_keeps_only_text_in_history() -> None:
    async with network() as (shoal, (ann, ben, _dan, joe)):
        post = await ann.create("low #tide")
        narrow = await ann.update(post, "high #water", visibility="followers")
        assert (narrow.visibility, narrow.text) == (FOLLOWERS, "high #water")
        assert narrow.edited_at
        await shoal.settle()
        assert [one.text for one in await ann.history(post)] == ["low #tide"]
        assert texts(await ben.tagged("water")) == texts(await joe.tagged("water")) == []
        assert await home_texts(ben) == ["high #water"]
        assert (await check(shoal.network)).clean


@pytest.mark.parametrize(("narrow", "wide"), [(two, one) for one, two in combinations(Visibility, 2)])
@in_loop
async def test_post_edit_that_widens_visibility_is_refused(narrow: Visibility, wide: Visibility) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        post = await ann.create("low tide", visibility=narrow)
        with pytest.raises(
            InvalidInput, match=f"an edit can only reduce the visibility, and this post is {narrow} already"
        ) as refused:
            await ann.update(post, visibility=wide)
        assert refused.value.field == "visibility"
        assert (await ann.update(post, visibility=narrow)).version == 1


@in_loop
async def test_post_edit_to_unlisted_removes_post_from_trends() -> None:
    async with network() as (shoal, (ann, ben, _dan, joe)):
        post = await ann.create("low tide")
        await ben.like(post)
        await shoal.settle()
        assert texts(await joe.trending_posts()) == ["low tide"]
        await ann.update(post, visibility=UNLISTED)
        await joe.like(post)
        await shoal.settle()
        active = await shoal.network.store.assoc_ranges(PUBLIC_LISTS, ACTIVE, Cursor(limit=9))
        assert not any(active.values())


@in_loop
async def test_streaming_post_edit_to_followers_sends_update_or_delete_event() -> None:
    async with network() as (shoal, (ann, ben, dan, _joe)):
        post = await ann.create("low #tide")
        await shoal.settle()
        async with listening(ben) as follower, listening(dan) as stranger:
            await ann.update(post, visibility="followers")
            await shoal.settle()
            await follower.hears("~low #tide")
            await stranger.hears(f"-{post.id}")


@in_loop
async def test_post_edit_visibility_consumers_are_idempotent_and_tolerate_deleted_post() -> None:
    async with network() as (shoal, (ann, ben, dan, _joe)):
        post = await ann.create("low #tide")
        await shoal.settle()
        assert await home_texts(ben) == await home_texts(dan) == ["low #tide"]
        await ann.update(post, visibility="unlisted")
        await ann.update(post, visibility="direct")
        await shoal.settle()
        early = PostNarrowed(post_id=post.id, author_id=ann.id, visibility=UNLISTED)
        await run(shoal, early)
        await run(shoal, early)
        assert await home_texts(ben) == []
        await ann.delete(post)
        await run(shoal, early)
        assert await home_texts(ann) == []
        assert (await check(shoal.network)).clean
