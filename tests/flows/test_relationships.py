"""Follows, blocks and mutes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shoal import Handle, Shoal
from shoal.commands import relationships
from shoal.core.errors import InvalidInput, NotAllowed, NotFound
from shoal.core.visibility import Relation
from shoal.graph.access import relation
from shoal.library import AnyMember
from tests.async_runner import in_loop
from tests.flows.members import home_texts, register, texts

Verb = Callable[[Handle, AnyMember], Awaitable[Relation]]


async def stands(one: Handle, other: Handle) -> Relation:
    """Return the relationship of `one` to `other`."""
    return await relation(one._network.store, one.id, other.id)


@in_loop
async def test_follow_is_visible_from_both_members() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        assert await ann.follow(ben) == Relation(following=True)
        assert await stands(ben, ann) == Relation(followed_by=True)
        assert await ben.follow("ann") == Relation(following=True, followed_by=True)
        assert await ann.unfollow(ben.id) == Relation(followed_by=True)


@pytest.mark.parametrize(
    ("verb", "undo"),
    [
        (Handle.follow, Handle.unfollow),
        (Handle.block, Handle.unblock),
        (Handle.mute, Handle.unmute),
    ],
    ids=["follow", "block", "mute"],
)
@in_loop
async def test_relationship_actions_are_idempotent(verb: Verb, undo: Verb) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        before = await stands(ann, ben)
        assert await undo(ann, ben) == before
        done = await verb(ann, ben)
        assert done != before
        assert await verb(ann, ben) == done
        assert len(set(await asyncio.gather(*[_told(verb, ann, ben) for _ in range(10)]))) == 1
        await shoal.settle()
        assert (await ben.profile()).followers == int(done.following)
        assert await undo(ann, ben) == before
        assert await undo(ann, ben) == before
        await shoal.settle()
        assert (await ben.profile()).followers == (await ann.profile()).following == 0


async def _told(verb: Verb, one: Handle, other: Handle) -> str:
    return repr(await verb(one, other))


@pytest.mark.parametrize("verb", [Handle.follow, Handle.block, Handle.mute])
@in_loop
async def test_relationship_action_on_self_or_unknown_member_is_refused(verb: Verb) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        with pytest.raises(NotAllowed):
            await verb(ann, ann)
        with pytest.raises(NotFound):
            await verb(ann, "nobody_here")
        with pytest.raises(NotFound):
            await verb(ann, 12345)


@in_loop
async def test_block_removes_follows_and_hides_posts_in_both_directions() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ann.follow(ben)
        await ben.follow(ann)
        posts = {ann: await ann.create("by ann"), ben: await ben.create("by ben")}
        await shoal.settle()
        assert await home_texts(ben) == ["by ben", "by ann"]
        assert (await ann.block(ben)).blocking
        for one, other in ((ann, ben), (ben, ann)):
            assert len(await home_texts(one)) == 1
            with pytest.raises(NotFound):
                await one.read(posts[other])
            assert texts(await one.posts(other)) == []
            with pytest.raises(NotAllowed):
                await one.follow(other)
        await shoal.settle()
        assert await stands(ann, ben) == Relation(blocking=True)
        assert await stands(ben, ann) == Relation(blocked_by=True)
        for handle in (ann, ben):
            profile = await handle.profile()
            assert (profile.followers, profile.following) == (0, 0)


@in_loop
async def test_unblock_does_not_restore_follows() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        post = await ann.create("hello")
        await ann.block(ben)
        await shoal.settle()
        assert await ann.unblock(ben) == Relation()
        await shoal.settle()
        assert await home_texts(ben) == []
        assert (await ben.read(post)).post.text == "hello"
        await ben.follow(ann)
        await shoal.settle()
        assert await home_texts(ben) == ["hello"]


@pytest.mark.parametrize("blocker", ["ann", "ben"])
@in_loop
async def test_follow_concurrent_with_block_is_removed(blocker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block and its consequences are completed between the permission check and the commit of the follow."""
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        begin = relationships._begin_follow

        async def too_late(*what: Any) -> None:
            await (ann.block(ben) if blocker == "ann" else ben.block(ann))
            await shoal.settle()
            await begin(*what)

        monkeypatch.setattr(relationships, "_begin_follow", too_late)
        await ben.follow(ann)
        await shoal.settle()
        assert await stands(ben, ann) == Relation(blocking=blocker == "ben", blocked_by=blocker == "ann")


@in_loop
async def test_mute_hides_posts_from_home_timeline_but_not_from_reads_by_id() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        # With folding, the share would be omitted above its post.
        await ben.update_profile(folds_shares=False)
        await ben.follow(ann)
        await ben.follow(cyd)
        post = await ann.create("loud")
        await cyd.share(post)
        await shoal.settle()
        assert await home_texts(ben) == ["> loud", "loud"]
        assert await ben.mute(ann) == Relation(following=True, muting=True, muting_notifications=True)
        assert await home_texts(ben) == []
        assert (await ben.read(post)).post.text == "loud"
        assert await stands(ann, ben) == Relation(followed_by=True)
        await ben.unmute(ann)
        assert await home_texts(ben) == ["> loud", "loud"]
        await ben.mute(cyd)
        assert await home_texts(ben) == ["loud"]


@in_loop
async def test_home_timeline_is_filled_behind_many_muted_posts() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await cyd.follow(ann)
        await cyd.follow(ben)
        await ben.create("behind")
        for n in range(60):
            await ann.create(f"noise {n}")
        await cyd.mute(ann)
        await shoal.settle()
        assert texts(await cyd.home(limit=1)) == ["behind"]


@in_loop
async def test_tag_follow_accepts_any_spelling_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relationships, "MAX_FOLLOWED_TAGS", 2)
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        assert await ann.follow_tag("#Tide") == await ann.follow_tag("TIDE") == "tide"
        await ann.follow_tag("sea")
        with pytest.raises(NotAllowed, match="at most 2"):
            await ann.follow_tag("dawn")
        assert await ann.follow_tag("SEA") == "sea"
        await ann.unfollow_tag("#TIDE")
        await ann.unfollow_tag("tide")
        assert await ann.follow_tag("dawn") == "dawn"
        with pytest.raises(InvalidInput):
            await ann.follow_tag("no tag")
