"""Lists of members: membership, list timelines, and exclusive lists."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shoal import Handle, Shoal
from shoal.commands import lists, relationships
from shoal.commands.relationships import FollowOptions
from shoal.core.errors import InvalidInput, NotFound, Taken
from shoal.core.model import MemberList, RepliesPolicy
from shoal.graph.contract import Batch, Cursor
from shoal.graph.schema import LISTED_IN, LISTS, OWNS_LIST
from shoal.queries import home
from shoal.queries import lists as feed
from tests.async_runner import in_loop
from tests.flows.members import home_texts, register, texts
from tests.flows.query_counts import Read, calls


async def a_list(owner: Handle, *on: Handle, **options: object) -> MemberList:
    """Create a list of these members; the owner follows them first."""
    for one in on:
        if one.id != owner.id:
            await owner.follow(one)
    made = await lists.create(owner._network.writes, owner.id, "friends", **options)  # type: ignore[arg-type]
    await lists.put_on(owner._network.writes, owner.id, made.id, [one.id for one in on])
    return made


async def shown(owner: Handle, made: MemberList, limit: int = 50) -> list[str]:
    """Return the list timeline, read in pages, and check that all its entries count as new entries."""
    reads, cursor = owner._network.reads, Cursor(limit=limit)
    page = await feed.page(reads, owner.id, made.id, cursor)
    entries = list(page.entries)
    while page.next is not None:
        page = await feed.page(reads, owner.id, made.id, cursor._replace(before=page.next))
        entries += page.entries
    ids = [entry.id for entry in entries]
    assert [entry.id for entry in await feed.among(reads, owner.id, made.id, ids)] == ids
    return texts(entries)


async def on_list(shoal: Shoal, made: MemberList) -> set[int]:
    """Return the stored members of a list, and check the inverse associations."""
    store = shoal.network.store
    here = {assoc.id2 for assoc in await store.assoc_range(made.id, LISTS, Cursor(limit=999))}
    rows = await store.assoc_scan((-(2**63), 0, -(2**63)), 100_000)
    there = {row.id1 for row in rows if row.alive and row.atype == LISTED_IN.number and row.id2 == made.id}
    assert here == there
    return here


@in_loop
async def test_list_timeline_shows_only_posts_of_its_members() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd, dan = await register(shoal, "ann", "ben", "cyd", "dan")
        made = await a_list(ann, ben, cyd)
        await ann.follow(dan)
        for n, author in enumerate((ben, dan, cyd, ann, ben)):
            await author.create(str(n))
        await cyd.share(await dan.create("shared"))
        await ben.create("to followers", visibility="followers")
        assert await shown(ann, made) == await shown(ann, made, 2) == ["to followers", "> shared", "4", "2", "0"]
        with pytest.raises(NotFound):
            await feed.page(shoal.network.reads, ben.id, made.id, Cursor())


@in_loop
async def test_list_timeline_respects_follow_options_and_mutes() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ann.update_profile(folds_shares=False)
        made = await a_list(ann, ben, cyd)
        await ben.share(await cyd.create("shared", language="en"))
        await cyd.create("auf deutsch", language="de")
        assert await shown(ann, made) == ["auf deutsch", "> shared", "shared"]
        writes = shoal.network.writes
        await relationships.follow(writes, ann.id, ben.id, FollowOptions(shares=False))
        await relationships.follow(writes, ann.id, cyd.id, FollowOptions(languages=["en"]))
        assert await shown(ann, made) == ["shared"]
        await ann.mute(cyd)
        assert await shown(ann, made) == []


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (RepliesPolicy.NONE, {"to self", "to ann"}),
        (RepliesPolicy.LIST, {"to self", "to ann", "to cyd"}),
        (RepliesPolicy.FOLLOWED, {"to self", "to ann", "to cyd", "to dan"}),
    ],
)
@in_loop
async def test_list_timeline_shows_comments_allowed_by_its_replies_policy(
    policy: RepliesPolicy, expected: set[str]
) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd, dan, eve = await register(shoal, "ann", "ben", "cyd", "dan", "eve")
        made = await a_list(ann, ben, cyd, replies=policy)
        await ann.follow(dan)
        for name, author in (("self", ben), ("ann", ann), ("cyd", cyd), ("dan", dan), ("eve", eve)):
            await ben.comment(await author.create("post"), f"to {name}")
        assert {text for text in await shown(ann, made) if text != "post"} == expected


@in_loop
async def test_list_accounts_add_accepts_only_followees_and_is_atomic() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd, dan = await register(shoal, "ann", "ben", "cyd", "dan")
        writes, made = shoal.network.writes, await a_list(ann, ben)
        await ann.follow(cyd)
        for wrong, error in (([cyd.id, dan.id], NotFound), ([cyd.id, 12345], NotFound), ([cyd.id, ben.id], Taken)):
            with pytest.raises(error):
                await lists.put_on(writes, ann.id, made.id, wrong)
        assert await on_list(shoal, made) == {ben.id}
        with pytest.raises(NotFound):
            await lists.put_on(writes, ben.id, made.id, [ann.id])
        await lists.put_on(writes, ann.id, made.id, [ann.id, cyd.id, cyd.id])
        await lists.take_off(writes, ann.id, made.id, [ben.id, ben.id, dan.id])
        await shoal.settle()
        assert await on_list(shoal, made) == {ann.id, cyd.id}, "owners may list themselves"
        assert await feed.with_member(shoal.network.store, ann.id, cyd.id) == [made]
        assert await feed.with_member(shoal.network.store, ann.id, ben.id) == []


@pytest.mark.parametrize("how", ["unfollow", "block", "blocked", "removed"])
@in_loop
async def test_list_membership_is_deleted_on_unfollow(how: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        one, two = await a_list(ann, ben, cyd), await a_list(ann, ben)
        await ben.create("hello")
        await {
            "unfollow": lambda: ann.unfollow(ben),
            "block": lambda: ann.block(ben),
            "blocked": lambda: ben.block(ann),
            "removed": lambda: relationships.remove_follower(shoal.network.writes, ben.id, ann.id),
        }[how]()
        assert await shown(ann, one) == []
        await shoal.settle()
        assert await on_list(shoal, one) == {cyd.id}
        assert await on_list(shoal, two) == set()
        assert (await shoal.network.store.assoc_count((one.id,), (LISTS,)))[LISTS] == {one.id: 1}


@in_loop
async def test_list_membership_added_during_unfollow_is_removed() -> None:
    """The follow existed when it was checked; the unfollow is fully processed before the list is written."""
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        made = await a_list(ann, ben)
        await ann.unfollow(ben)
        await shoal.settle()
        batch = lists._changed(ann.id, made.id)
        batch.assoc_add(made.id, LISTS, ben.id, shoal.network.writes.new_id(batch.shard))
        await shoal.network.store.commit(batch)
        assert await feed.members_of(shoal.network.store, made) == []
        await shoal.settle()
        assert await on_list(shoal, made) == set()


@in_loop
async def test_list_deletion_removes_list_and_memberships() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, *others = await register(shoal, "ann", *(f"other{n}" for n in range(120)))
        writes, made = shoal.network.writes, await a_list(ann, *others)
        await lists.delete(writes, ann.id, made.id)
        for gone in (lists.delete(writes, ann.id, made.id), lists.put_on(writes, ann.id, made.id, [ann.id])):
            with pytest.raises(NotFound):
                await gone
        await shoal.settle()
        assert await on_list(shoal, made) == set()
        assert await shoal.network.store.assoc_range(ann.id, OWNS_LIST, Cursor(limit=9)) == []


@in_loop
async def test_list_accounts_add_during_list_deletion_is_refused() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        made = await a_list(ann)
        await ann.follow(ben)
        store, commit = shoal.network.writes.graph, shoal.network.writes.graph.commit

        async def after_the_deletion(batch: Batch) -> None:
            if any(op.atype == LISTS.number for op in batch.assocs):
                store.commit = commit  # type: ignore[method-assign]
                await lists.delete(shoal.network.writes, ann.id, made.id)
            await commit(batch)

        store.commit = after_the_deletion  # type: ignore[method-assign]
        with pytest.raises(NotFound):
            await lists.put_on(shoal.network.writes, ann.id, made.id, [ben.id])
        assert await on_list(shoal, made) == set()


@in_loop
async def test_list_limits_on_count_members_and_title_are_enforced() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        made, writes = await a_list(ann, ben), shoal.network.writes
        object.__setattr__(writes, "limits", replace(writes.limits, lists=2, list_members=1, list_title=5))
        await ann.follow(cyd)
        with pytest.raises(InvalidInput, match="at most 1"):
            await lists.put_on(writes, ann.id, made.id, [cyd.id])
        await lists.create(writes, ann.id, "two")
        with pytest.raises(InvalidInput, match="at most 2"):
            await lists.create(writes, ann.id, "three")
        for title in ("", "  ", "longer"):
            with pytest.raises(InvalidInput):
                await lists.update(writes, ann.id, made.id, title=title)
        assert (await lists.update(writes, ann.id, made.id, exclusive=True)).title == "friends"


@in_loop
async def test_home_timeline_excludes_posts_of_exclusive_list_members() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ann.update_profile(folds_shares=False)
        made = await a_list(ann, ben, ann, exclusive=True)
        await ann.follow(cyd)
        await ben.share(await cyd.create("by cyd"))
        post = await ben.create("by ben")
        await ann.create("my own")
        await shoal.settle()
        reads = shoal.network.reads
        assert await home_texts(ann) == ["my own", "by cyd"]
        assert texts(await home.definition(reads, ann.id, Cursor())) == ["my own", "by cyd"]
        assert await home.among(reads, ann.id, [post.id]) == []
        assert await shown(ann, made) == ["my own", "by ben", "> by cyd"]
        await lists.update(shoal.network.writes, ann.id, made.id, exclusive=False)
        assert await home_texts(ann) == ["my own", "by ben", "> by cyd", "by cyd"]


@in_loop
async def test_list_and_home_timelines_read_count_is_independent_of_post_and_member_count() -> None:
    of_list, of_home = [], []
    for posts, members in ((1, 1), (60, 20)):
        async with Shoal.open("memory://") as shoal:
            ann, *others = await register(shoal, "ann", *(f"other{n}" for n in range(members)))
            made = await a_list(ann, *others, replies=RepliesPolicy.FOLLOWED)
            for _ in range(3):
                await a_list(ann, ann, exclusive=True)
            for n in range(posts):
                author = others[n % members]
                await author.comment(await author.create("post"), "comment")
            await shoal.settle()
            await ann.home(limit=40)
            of_list.append((await calls(shoal.network, _list_of(ann, made))).total())
            of_home.append((await calls(shoal.network, _home_of(ann))).total())
    # A source that fills the page alone is read a second time.
    assert abs(of_list[0] - of_list[1]) <= 1
    assert max(of_list) <= 14
    assert of_home[0] == of_home[1] <= 16


def _list_of(viewer: Handle, made: MemberList) -> Read:
    return lambda reads: feed.page(reads, viewer.id, made.id, Cursor(limit=40))


def _home_of(viewer: Handle) -> Read:
    return lambda reads: home.page(reads, viewer.id, Cursor(limit=40))
