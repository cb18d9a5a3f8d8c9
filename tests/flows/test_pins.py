"""Pinned posts on a profile, and muted threads."""

from __future__ import annotations

import asyncio

import pytest

from shoal import Handle, Shoal, Visibility
from shoal.admin.consistency.check import check
from shoal.commands import reactions
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.model import Post
from shoal.graph.contract import Cursor
from shoal.graph.schema import PINS
from shoal.queries.posts import MemberFeedQuery, pinned
from tests.async_runner import in_loop
from tests.flows.members import register, texts


async def pin(shoal: Shoal, who: Handle, post: Post) -> None:
    await reactions.pin(shoal.network.writes, who.id, post.id)


@in_loop
async def test_pinned_posts_are_listed_newest_first_to_permitted_viewers() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        made = [await ann.create(f"{n}", visibility=kind) for n, kind in enumerate(list(Visibility)[:3])]
        for post in (made[1], made[0], made[2]):
            await pin(shoal, ann, post)
            await pin(shoal, ann, post)
        reads = shoal.network.reads
        assert texts(await pinned(reads, ann.id, ann.id)) == ["2", "0", "1"]
        assert texts(await pinned(reads, ben.id, ann.id)) == texts(await pinned(reads, None, ann.id)) == ["0", "1"]
        assert (await ann.read(made[0])).pinned
        assert not (await ben.read(made[0])).pinned
        await reactions.unpin(shoal.network.writes, ann.id, made[0].id)
        await reactions.unpin(shoal.network.writes, ann.id, made[0].id)
        assert texts(await pinned(reads, ann.id, ann.id)) == ["2", "1"]
        assert not (await ann.read(made[0])).pinned


@in_loop
async def test_pin_of_direct_post_share_or_post_of_other_member_is_refused() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        theirs = await ben.create("theirs")
        secret = await ben.create("secret", visibility="direct")
        whisper = await ann.create("whisper", visibility="direct")
        share = await ann.share(theirs)
        for post_id in (theirs.id, whisper.id, share.id):
            with pytest.raises(InvalidInput):
                await reactions.pin(shoal.network.writes, ann.id, post_id)
        with pytest.raises(NotFound):
            await pin(shoal, ann, secret)
        with pytest.raises(NotFound):
            await reactions.unpin(shoal.network.writes, ann.id, theirs.id)


@in_loop
async def test_pins_are_limited_to_five_for_concurrent_requests() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        made = [await ann.create(str(n)) for n in range(9)]
        for post in made[:4]:
            await pin(shoal, ann, post)
        answers = await asyncio.gather(*[pin(shoal, ann, post) for post in made[4:]], return_exceptions=True)
        assert {type(answer) for answer in answers} <= {type(None), InvalidInput}
        kept = await pinned(shoal.network.reads, ann.id, ann.id)
        assert 4 <= len(kept) <= 5
        assert len(kept) == 4 + answers.count(None)
        if len(kept) < 5:
            await pin(shoal, ann, made[-1])
        with pytest.raises(InvalidInput, match="maximum"):
            await pin(shoal, ann, made[4] if not (await ann.read(made[4])).pinned else made[5])


@in_loop
async def test_pin_is_deleted_with_its_post() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        post = await ann.create("one")
        await pin(shoal, ann, post)
        await ann.delete(post)
        assert await shoal.network.store.assoc_range(ann.id, PINS, Cursor(limit=5)) == []
        assert (await shoal.network.store.assoc_count((ann.id,), (PINS,)))[PINS] == {}


@in_loop
async def test_thread_mute_applies_to_whole_thread() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        root = await ann.create("root")
        first = await ben.comment(root, "first")
        other = await ann.create("other")
        await reactions.mute_thread(shoal.network.writes, ann.id, first.id)
        second = await ben.comment(first, "second")
        for post in (root, first, second):
            assert (await ann.read(post)).thread_muted
            assert not (await ben.read(post)).thread_muted
        assert not (await ann.read(other)).thread_muted
        await ann.delete(root)
        assert (await ann.read(second)).thread_muted
        assert (await check(shoal.network)).clean
        await reactions.unmute_thread(shoal.network.writes, ann.id, second.id)
        assert not (await ann.read(first)).thread_muted


@in_loop
async def test_pinned_posts_are_filtered_by_tag_media_and_cursor() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        one, two = await ann.create("one #reef"), await ann.create("two")
        for post in (one, two):
            await pin(shoal, ann, post)
        reads = shoal.network.reads
        assert texts(await pinned(reads, None, ann.id, query=MemberFeedQuery(tag="reef"))) == ["one #reef"]
        assert await pinned(reads, None, ann.id, query=MemberFeedQuery(only_media=True)) == []
        assert texts(await pinned(reads, None, ann.id, Cursor(before=two.id))) == ["one #reef"]
        assert await pinned(reads, None, ann.id, Cursor(before=one.id)) == []
