"""Likes, shares and bookmarks, and the totals received."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from shoal import Handle, Shoal, Visibility
from shoal.admin.consistency.check import check
from shoal.app.network import open_network
from shoal.commands import members, posts, reactions
from shoal.commands.posts import Draft
from shoal.consumers import cleanup, relationships
from shoal.core.errors import NotFound
from shoal.core.events import InverseOp, InversePending, PostDeleted
from shoal.core.ids import shard_of
from shoal.core.model import Post
from shoal.graph.access import association
from shoal.graph.contract import Assoc, AssocOp, Batch, Cursor, Reader
from shoal.graph.payloads.posts import encode_chosen
from shoal.graph.schema import (
    BOOKMARK,
    BOOKMARKED_BY,
    BOOKMARKS,
    LIKED_BY,
    LIKES,
    POST_MARKS,
    POST_REPORTED_BY,
    REACTED_BY,
    SHARED_BY,
    AssocType,
)
from shoal.queries import members as member_queries
from shoal.queries.hydration import Entry
from shoal.settings import build
from tests.async_runner import in_loop
from tests.flows.members import home_texts, register, texts

Verb = Callable[[Handle, Post | int], Awaitable[object]]
PAIRS: dict[str, tuple[Verb, Verb]] = {
    "like": (Handle.like, Handle.unlike),
    "share": (Handle.share, Handle.unshare),
    "bookmark": (Handle.bookmark, Handle.unbookmark),
}


def state(entry: Entry) -> tuple[int, int, bool, bool, bool]:
    return entry.likes, entry.shares, entry.liked, entry.shared, entry.bookmarked


@pytest.mark.parametrize("name", PAIRS)
@in_loop
async def test_likes_shares_and_bookmarks_are_idempotent_under_concurrency(name: str) -> None:
    verb, undo = PAIRS[name]
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("hello")
        expected = {
            "like": (1, 0, True, False, False),
            "share": (0, 1, False, True, False),
            "bookmark": (0, 0, False, False, True),
        }
        for _ in range(2):
            await asyncio.gather(*[verb(ben, post) for _ in range(20)])
            await verb(ben, post)
            await shoal.settle()
            assert state(await ben.read(post)) == expected[name]
            assert state(await ann.read(post)) == (*expected[name][:2], False, False, False)
            assert await ann.received() == expected[name][:2]
            await asyncio.gather(*[undo(ben, post) for _ in range(20)])
            await undo(ben, post)
            await shoal.settle()
            assert state(await ben.read(post)) == (0, 0, False, False, False)
            assert await ann.received() == (0, 0)


@in_loop
async def test_share_repeated_concurrently_creates_one_share() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("hello")
        shares = await asyncio.gather(*[ben.share(post) for _ in range(20)])
        assert len({share.id for share in shares}) == 1
        assert texts(await ben.posts()) == ["> hello"]
        assert (await ben.profile()).posts == 1
        await ben.unshare(shares[0])
        assert (await ben.share(post)).id != shares[0].id


@in_loop
async def test_reactions_to_a_share_apply_to_the_shared_post() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ann.create("hello")
        share = await ben.share(post)
        await cyd.like(share.id)
        second = await cyd.share(share)
        assert second.post_id == post.id
        await cyd.bookmark(share.id)
        assert state(await cyd.read(post)) == (1, 2, True, True, True)
        await cyd.unlike(share.id)
        await cyd.unshare(second)
        assert state(await cyd.read(share)) == (0, 1, False, False, True)


@in_loop
async def test_totals_received_count_only_posts_visible_to_viewer() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ben.follow(ann)
        for visibility in (Visibility.PUBLIC, Visibility.FOLLOWERS, Visibility.DIRECT):
            post = await ann.create("@ben a word", visibility=visibility)
            await ben.like(post)
        await ann.share(post := await ann.create("For followers", visibility=Visibility.FOLLOWERS))
        await ben.like(post)
        await shoal.settle()
        assert await ann.received() == (4, 1)
        assert await ben.received_by(ann) == (3, 1)
        assert await cyd.received_by(ann) == (1, 0)
        assert await member_queries.received(shoal.network.reads, None, ann.id) == (1, 0)


@pytest.mark.parametrize("backend", ["memory", "sqlite", "two stores"])
@in_loop
async def test_likes_and_shares_received_by_member_are_exact_after_undo_and_deletions(
    backend: str, tmp_path: Path
) -> None:
    urls: dict[str, str | dict[str, str]] = {
        "memory": "memory://",
        "sqlite": f"sqlite:///{tmp_path}/shoal.db",
        "two stores": {"0-31": f"sqlite:///{tmp_path}/one.db", "32-63": f"sqlite:///{tmp_path}/two.db"},
    }
    async with Shoal.open(urls[backend]) as shoal:
        ann, *others = await register(shoal, "ann", "ben", "dan", "fay", "gus")
        posts = [await ann.create(f"post {n}") for n in range(4)]
        for n, other in enumerate(others):
            for post in posts[n:]:
                await other.like(post)
                await other.share(post)
        assert await ann.received() == (10, 10)
        await others[0].unlike(posts[0])
        await ann.delete(posts[3])
        await ann.delete(posts[0])
        await shoal.settle()
        assert await ann.received() == (5, 5)
        assert [(entry.likes, entry.shares) for entry in (await ann.posts()).entries] == [(3, 3), (2, 2)]
        for post in posts[1:3]:
            await ann.delete(post)
        await shoal.settle()
        assert await ann.received() == (0, 0)
        assert texts(await others[0].posts()) == []


@in_loop
async def test_reactions_of_deleted_post_are_deleted_beyond_the_first_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.consumers.cleanup._PAGE", 3)
    async with Shoal.open("memory://") as shoal:
        ann, *others = await register(shoal, "ann", *(f"other{n}" for n in range(10)))
        post = await ann.create("hello")
        for other in others:
            await other.like(post)
            await other.bookmark(post)
            await other.share(post)
        await ann.delete(post)
        await shoal.settle()
        assert await ann.received() == (0, 0)
        counts = await shoal.network.store.count_scan((-(2**63), -(2**63)), 10_000)
        assert {id1 for id1, _, n in counts if n} == set()


@in_loop
async def test_likers_are_returned_with_total_and_newest_five() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, *others = await register(shoal, "ann", *(f"other{n}" for n in range(7)))
        post = await ann.create("hello")
        for other in others:
            await other.like(post)
        likers = await ann.likers(post)
        assert likers.total == 7
        assert [profile.member.name for profile in likers.newest] == [f"other{n}" for n in (6, 5, 4, 3, 2)]
        assert len((await ann.likers(post, 2)).newest) == 2
        await others[6].unlike(post)
        await others[0].unlike(post)
        await others[0].like(post)
        likers = await ann.likers(post)
        assert likers.total == 6
        assert [profile.member.name for profile in likers.newest] == [f"other{n}" for n in (0, 5, 4, 3, 2)]


@in_loop
async def test_reactions_on_post_that_became_invisible_can_be_undone() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("hello")
        await ben.like(post)
        await ben.bookmark(post)
        await ben.share(post)
        await ann.block(ben)
        await shoal.settle()
        with pytest.raises(NotFound):
            await ben.like(post)
        await ben.unlike(post)
        await ben.unbookmark(post)
        await ben.unshare(post)
        assert state(await ann.read(post)) == (0, 0, False, False, False)
        assert await ann.received() == (0, 0)


@pytest.mark.parametrize(
    ("visibility", "mine", "others"), [(Visibility.FOLLOWERS, True, False), (Visibility.DIRECT, False, False)]
)
@in_loop
async def test_share_of_restricted_post_is_refused_except_for_author_of_followers_post(
    visibility: Visibility, mine: bool, others: bool
) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ben.follow(ann)
        await cyd.follow(ben)
        post = await ann.create("psst @ben", visibility=visibility)
        assert (await ben.read(post)).post == post
        for who, allowed in ((ann, mine), (ben, others)):
            if allowed:
                assert (await who.share(post)).visibility is visibility
                continue
            with pytest.raises(NotFound):
                await who.share(post)
        await shoal.settle()
        assert await home_texts(cyd) == []


@in_loop
async def test_reaction_to_unknown_post_is_refused() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        for verb in (verb for pair in PAIRS.values() for verb in pair):
            for nothing in (12345, ann.id):
                with pytest.raises(NotFound):
                    await verb(ann, nothing)


@in_loop
async def test_unshare_delayed_does_not_remove_newer_share(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("to be shared")
        await ben.share(post)
        look = association

        async def look_and_be_overtaken(graph: Reader, member_id: int, atype: AssocType, post_id: int) -> Assoc | None:
            found = await look(graph, member_id, atype, post_id)
            monkeypatch.undo()
            await ben.unshare(post)
            await ben.share(post)
            return found

        monkeypatch.setattr(reactions, "association", look_and_be_overtaken)
        await ben.unshare(post)
        assert (await ben.read(post)).shared
        await ben.unshare(post)
        entry = await ben.read(post)
        assert (entry.shared, entry.shares) == (False, 0)


@pytest.mark.parametrize("atype", [LIKED_BY, SHARED_BY, BOOKMARKED_BY, REACTED_BY, POST_REPORTED_BY], ids=repr)
@in_loop
async def test_post_deletion_removes_stray_inverses_of_reactions_and_reports(
    atype: AssocType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "_PAGE", 2)
    clear = {
        LIKED_BY: cleanup.clear_likes,
        SHARED_BY: cleanup.clear_shares,
        BOOKMARKED_BY: cleanup.clear_marks[POST_MARKS.index(BOOKMARK)],
        REACTED_BY: cleanup.clear_reactions,
        POST_REPORTED_BY: cleanup.clear_reporters,
    }
    data = encode_chosen(()) if atype is REACTED_BY else bytes(8)
    async with open_network(build(store="memory://"), background=False) as network:
        ann, ben = [await members.register(network.writes, name) for name in ("ann", "ben")]
        post = await posts.create(network.writes, ann.id, Draft(text="hello"))
        batch = Batch(shard_of(post.id))
        for n in range(5):
            stray = AssocOp(post.id, atype.number, ben.id + n, post.id + n, alive=True, data=data, plain=True)
            batch.put(stray._replace(aggregate_id=ann.id if atype.aggregated else 0))
        await network.store.commit(batch)
        await posts.delete(network.writes, ann.id, post.id)
        event = PostDeleted(post_id=post.id, author_id=ann.id, visibility=post.visibility)
        pages = 1
        while await clear[atype](network.effects, event, 0) is not None:
            pages += 1
            assert pages <= 3
        assert await network.store.assoc_range(post.id, atype, Cursor(limit=10)) == []
        assert await network.store.assoc_count((post.id, ann.id), (atype,)) == {atype: {}}


@pytest.mark.parametrize(("near", "far"), [(LIKES, LIKED_BY), (BOOKMARKS, BOOKMARKED_BY)])
@in_loop
async def test_reaction_from_other_store_arriving_after_post_deletion_is_deleted(
    near: AssocType, far: AssocType
) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("hello")
        await ann.delete(post)
        await shoal.settle()
        effects = shoal.network.effects
        batch = Batch(shard_of(ben.id))
        now = effects.new_id(batch.shard)
        # Only the near end, like a store that commits it with a pending inverse.
        batch.put(AssocOp(ben.id, near.number, post.id, now, alive=True, aggregate_id=ann.id, plain=True))
        await shoal.network.store.commit(batch)
        pending_inverses = InverseOp(post.id, far.number, ben.id, now, alive=True, data=b"", aggregate_id=ann.id)
        for _ in range(2):
            await relationships.settle_inverse(effects, InversePending(op=pending_inverses), 0)
            await shoal.settle()
            assert await ann.received() == (0, 0)
            report = await check(shoal.network)
            assert report.clean, report
