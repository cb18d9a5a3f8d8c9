"""Threads: the posts above and below a post."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product
from random import Random

import pytest

from shoal import Handle, Shoal, Visibility
from shoal.admin.consistency.check import check
from shoal.core.errors import NotFound
from shoal.core.ids import shard_of
from shoal.core.model import Post
from shoal.graph.contract import Batch, Cursor
from shoal.graph.schema import IN_THREAD, THREAD
from shoal.queries import threads
from tests.async_runner import in_loop
from tests.flows.members import register, texts


@in_loop
async def test_thread_shows_ancestors_and_descendants_in_order() -> None:
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
async def test_comment_visibility_defaults_to_visibility_of_parent() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        for visibility in (Visibility.PUBLIC, Visibility.UNLISTED, Visibility.FOLLOWERS):
            post = await ann.create("root", visibility=visibility)
            assert (await ben.comment(post, "so")).visibility is visibility
            assert (await ben.comment(post, "so", visibility="direct")).visibility is Visibility.DIRECT


@in_loop
async def test_thread_with_deleted_comment_hides_it_and_its_replies_remain_readable() -> None:
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
async def test_thread_excludes_posts_invisible_to_viewer() -> None:
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
async def test_comment_count_includes_only_public_and_unlisted_comments() -> None:
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
async def test_comment_hidden_and_revealed_is_counted_and_shown_in_place() -> None:
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
async def test_thread_hides_muted_authors_of_replies_but_not_of_ancestors() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        root = await ann.create("root")
        noise = await ben.comment(root, "noise")
        answer = await ann.comment(noise, "answer")
        await cyd.mute(ben)
        assert texts((await cyd.thread(root)).below) == ["answer"]
        assert texts((await cyd.thread(answer)).above) == ["root", "noise"]


@in_loop
async def test_thread_of_share_is_thread_of_shared_post() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("root")
        await ben.comment(post, "1")
        assert texts((await ann.thread(await ben.share(post))).below) == ["1"]


@in_loop
async def test_thread_is_limited_in_number_of_ancestors_and_depth_of_replies() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        chain = [await ann.create("0")]
        for n in range(1, 12):
            chain.append(await ann.comment(chain[-1], str(n)))
        reads = shoal.network.reads
        told = await threads.thread(reads, ann.id, chain[6].id, above=3, below=2)
        assert texts(told.above) == ["3", "4", "5"]
        assert texts(told.below) == ["7", "8"]


@in_loop
async def test_comment_on_invisible_post_is_not_found() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("hello", visibility="followers")
        for nothing in (post, 12345, ann.id):
            with pytest.raises(NotFound):
                await ben.comment(nothing, "so")


@in_loop
async def test_thread_shows_all_250_comments_of_a_post() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        root = await ann.create("root")
        for n in range(250):
            await (cyd if n == 206 else ben).comment(root, str(n))
        for viewer in (cyd, ann):
            assert texts((await viewer.thread(root)).below) == [str(n) for n in range(250)]


@in_loop
async def test_thread_above_limit_shows_own_and_newest_comments_with_their_parents() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        root = await ann.create("root")
        first = await ben.comment(root, "first")
        await ann.comment(first, "own, early and below another")
        for n in range(20):
            await ben.comment(root, str(n))
        await ben.comment(await ben.comment(root, "question"), "answer")
        reads = shoal.network.reads
        told = await threads.thread(reads, ann.id, root.id, above=9, below=7)
        assert texts(told.below) == ["first", "own, early and below another", "17", "18", "19", "question", "answer"]
        assert told.more
        for viewer in (None, ben.id):
            told = await threads.thread(reads, viewer, root.id, above=9, below=4)
            assert texts(told.below) == ["18", "19", "question", "answer"]
        assert not (await threads.thread(reads, ann.id, root.id, above=9, below=24)).more


@in_loop
async def test_thread_above_limit_by_likes_selects_most_liked_comments_with_bounded_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_RANKED", 10)
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        root = await ann.create("root")
        made = [await ben.comment(root, str(n)) for n in range(20)]
        for liked in (made[2], made[12], made[15]):
            await ann.like(liked)
        await ben.like(made[15])
        reads = shoal.network.reads
        told = await threads.thread(reads, None, root.id, above=9, below=2, most_liked=True)
        # The comment 2 is older than those that are ranked.
        assert (texts(told.below), told.more) == (["12", "15"], True)
        told = await threads.thread(reads, None, root.id, above=9, below=1, most_liked=True)
        assert texts(told.below) == ["15"]


@in_loop
async def test_thread_deeper_than_page_returns_full_page_quickly() -> None:
    """A page shorter than the depth of the thread cannot hold whole branches, but is still full."""
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        root = post = await ann.create("root")
        for n in range(1_500):
            post = await ann.comment(post, str(n))
        for n in range(300):
            await ann.comment(post, f"leaf {n}")
        told = await threads.thread(shoal.network.reads, ann.id, root.id, above=9, below=1_000)
        assert texts(told.below) == [str(n) for n in range(1_000)]


@in_loop
async def test_comments_list_pages_cover_all_visible_comments() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        root = await ann.create("root")
        made = [await ben.comment(root, f"@ann {n}", visibility=("public", "direct")[n % 2]) for n in range(9)]
        await ann.comment(made[0], "below it")
        found, before = list[str](), 2**62
        while True:
            page = await ann.replies(root, before=before, limit=2)
            found += texts(page)
            if page.next is None:
                break
            before = page.next
        assert found == [f"@ann {n}" for n in range(8, -1, -1)]
        assert texts(await ann.replies(made[0])) == ["below it"]
        page = await threads.replies(
            shoal.network.reads, None, root.id, Cursor(after=made[1].id, oldest_first=True, limit=2)
        )
        assert texts(page) == ["@ann 4", "@ann 2"]
        secret = await ann.create("psst", visibility="direct")
        with pytest.raises(NotFound):
            await ben.replies(secret)


async def a_tree(people: Sequence[Handle], random: Random, size: int) -> list[Post]:
    """Create a root post and a random tree of comments, and delete some of them."""
    posts = [await people[0].create("root")]
    for n in range(size):
        posts.append(await random.choice(people).comment(random.choice(posts[-6:]), str(n)))
    for gone in random.sample(posts[1:], 3):
        author = next(one for one in people if one.id == gone.author_id)
        await author.delete(gone)
        posts.remove(gone)
    return posts


async def unlist(shoal: Shoal, posts: Collection[Post]) -> None:
    """Remove comments from the list of their thread, as created by older versions."""
    for post in posts:
        batch = Batch(shard_of(post.id))
        batch.assoc_del(post.id, IN_THREAD, post.root_id, shoal.network.writes.new_id(batch.shard))
        await shoal.network.store.commit(batch)


@pytest.mark.parametrize("backend", ["memory", "two stores"])
@in_loop
async def test_thread_shows_comments_missing_from_its_list_and_consistency_check_restores_them(
    backend: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("threads")
    stores = {"0-31": f"sqlite:///{folder}/one.db", "32-63": f"sqlite:///{folder}/two.db"}
    async with Shoal.open("memory://" if backend == "memory" else stores) as shoal:
        people = await register(shoal, "ann", "ben", "cyd", "dan")
        for seed, part in product(range(3), (1, 2)):
            posts = await a_tree(people, Random(seed), 30)
            await shoal.settle()
            before = [await people[0].thread(post) for post in posts]
            await unlist(shoal, posts[1::part])
            await shoal.settle()
            assert [await people[0].thread(post) for post in posts] == before
            report = await check(shoal.network, repair=True)
            assert report.repaired
            listed = await shoal.network.store.assoc_range(posts[0].id, THREAD, Cursor(limit=99))
            assert {assoc.id2 for assoc in listed} == {post.id for post in posts[1:]}
            assert [await people[0].thread(post) for post in posts] == before
            assert (await check(shoal.network)).clean


@in_loop
async def test_thread_with_more_than_4096_comments_shows_comments_of_reader_and_newest() -> None:
    """The limit equals the limit of the API for members; a former limit was 200."""
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        root = await ann.create("root")
        first = await ben.comment(root, "mine")
        for n in range(4_095):
            await ann.comment(root, str(n))
        told = await ben.thread(root)
        assert (len(told.below), told.more) == (4_096, False)
        last = await ann.comment(root, "one more")
        told = await ben.thread(root)
        shown = [entry.post.id for entry in told.below]
        assert (len(shown), told.more) == (4_096, True)
        assert (shown[0], shown[-1]) == (first.id, last.id)
