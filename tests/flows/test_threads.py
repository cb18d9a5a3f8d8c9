"""The talk around a post."""

from __future__ import annotations

import pytest

from shoal import Shoal, Visibility
from shoal.core.errors import NotFound
from shoal.feeds import thread
from tests.flows.people import register, texts
from tests.running import in_loop


@in_loop
async def test_a_thread_is_what_a_post_answers_and_what_answers_it() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        root = await ann.create("root")
        one = await ben.comment(root, "1")
        deep = await cyd.comment(one, "1.1")
        await ann.comment(deep, "1.1.1")
        two = await cyd.comment(root, "2")
        await ben.comment(one, "1.2")
        await ann.comment(two, "2.1")
        told = await ann.thread(root)
        assert texts(told.above) == []
        assert texts(told.below) == ["1", "1.1", "1.1.1", "1.2", "2", "2.1"]
        told = await ann.thread(deep)
        assert texts(told.above) == ["root", "1"]
        assert texts(told.below) == ["1.1.1"]
        assert (deep.parent_id, deep.parent_author_id, deep.root_id) == (one.id, ben.id, root.id)
        assert (await ann.read(root)).comments == 2


@in_loop
async def test_a_comment_is_as_visible_as_what_it_answers_unless_said_otherwise() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        for visibility in (Visibility.PUBLIC, Visibility.UNLISTED, Visibility.FOLLOWERS):
            post = await ann.create("root", visibility=visibility)
            assert (await ben.comment(post, "so")).visibility is visibility
            assert (await ben.comment(post, "so", visibility="direct")).visibility is Visibility.DIRECT


@in_loop
async def test_a_deleted_comment_leaves_the_thread_and_its_own_answers_stay_reachable() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        root = await ann.create("root")
        one = await ben.comment(root, "1")
        deep = await ann.comment(one, "1.1")
        await ben.delete(one)
        assert texts((await ann.thread(root)).below) == []
        assert (await ann.read(root)).comments == 0
        told = await ben.thread(deep)
        assert (texts(told.above), texts(told.below)) == ([], [])
        assert (await ann.read(deep)).post.parent_id == one.id


@in_loop
async def test_what_one_may_not_see_is_left_out_of_a_thread() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd, eve = await register(shoal, "ann", "ben", "cyd", "eve")
        root = await ann.create("root")
        secret = await ben.comment(root, "psst @ann", visibility="direct")
        answer = await ann.comment(secret, "what", visibility="public")
        await cyd.comment(root, "blocked")
        await cyd.block(eve)
        assert texts((await ann.thread(root)).below) == ["psst @ann", "what", "blocked"]
        assert texts((await eve.thread(root)).below) == ["what"]
        assert texts((await eve.thread(answer)).above) == ["root"]
        with pytest.raises(NotFound):
            await eve.thread(secret)


@in_loop
async def test_only_comments_that_everybody_may_find_are_counted() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        root = await ann.create("root")
        made = [await ben.comment(root, f"@ann {visibility}", visibility=visibility) for visibility in Visibility]
        assert texts((await ann.thread(root)).below) == [
            "@ann public",
            "@ann unlisted",
            "@ann followers",
            "@ann direct",
        ]
        assert (await ann.read(root)).comments == 2
        for comment, left in zip(reversed(made), (2, 2, 1, 0), strict=True):
            await ben.delete(comment)
            assert (await ann.read(root)).comments == left
        assert texts((await ann.thread(root)).below) == []


@in_loop
async def test_a_comment_that_is_hidden_and_comes_back_counts_again_in_its_place() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        root = await ann.create("root")
        one, _ = await ben.comment(root, "1"), await ben.comment(root, "2")
        for _ in range(2):
            await shoal.hide(one)
            assert ((await ann.read(root)).comments, (await ben.profile()).posts) == (1, 1)
            assert texts((await ann.thread(root)).below) == ["2"]
            await shoal.reveal(one)
            assert ((await ann.read(root)).comments, (await ben.profile()).posts) == (2, 2)
            assert texts((await ann.thread(root)).below) == ["1", "2"]
        await shoal.suspend("ben")
        await shoal.settle()
        assert (await ann.read(root)).comments == 0


@in_loop
async def test_the_muted_are_silent_below_but_not_above() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        root = await ann.create("root")
        noise = await ben.comment(root, "noise")
        answer = await ann.comment(noise, "answer")
        await cyd.mute(ben)
        assert texts((await cyd.thread(root)).below) == ["answer"]
        assert texts((await cyd.thread(answer)).above) == ["root", "noise"]


@in_loop
async def test_a_thread_of_a_share_is_that_of_the_post() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("root")
        await ben.comment(post, "1")
        assert texts((await ann.thread(await ben.share(post))).below) == ["1"]


@in_loop
async def test_a_long_chain_is_cut_where_the_reader_wants_it() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        chain = [await ann.create("0")]
        for n in range(1, 12):
            chain.append(await ann.comment(chain[-1], str(n)))
        reads = shoal.network.reads
        told = await thread.thread(reads, ann.id, chain[6].id, above=3, below=2)
        assert texts(told.above) == ["3", "4", "5"]
        assert texts(told.below) == ["7", "8"]


@in_loop
async def test_nobody_comments_on_what_they_may_not_see() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("hello", visibility="followers")
        for nothing in (post, 12345, ann.id):
            with pytest.raises(NotFound):
                await ben.comment(nothing, "so")
