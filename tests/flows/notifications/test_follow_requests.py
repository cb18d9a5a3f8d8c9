"""Follow requests to locked members: approval, rejection and withdrawal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from shoal import Handle, Shoal
from shoal.commands import members, relationships
from shoal.commands.members import ProfileChange
from shoal.commands.relationships import FollowOptions
from shoal.core.errors import NotAllowed, NotFound, Unavailable
from shoal.core.ids import shard_of
from shoal.core.placement import place, source_of
from shoal.core.visibility import Relation
from shoal.graph.access import relation
from shoal.graph.contract import Cursor
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, REQUESTED_BY, REQUESTS, WATCHED_BY, WATCHES
from shoal.graph.sharding.sharded_graph import ShardedGraph
from tests.async_runner import in_loop
from tests.flows.members import home_texts, register

# Names of two members whose shards are in different halves of the shard map below.
LOW, HIGH = (
    next(name for name in map("m{}".format, range(99)) if (source_of(place(name).shard) < 32) is low)
    for low in (True, False)
)


async def lock(handle: Handle, *, locked: bool = True) -> None:
    await members.update_profile(handle._network.writes, handle.id, ProfileChange(locked=locked))


async def stands(one: Handle, other: Handle) -> Relation:
    return await relation(one._network.store, one.id, other.id)


async def agree(to: Handle, asker: Handle) -> Relation:
    return await relationships.authorize_request(to._network.writes, to.id, asker.id)


async def decline(to: Handle, asker: Handle) -> Relation:
    return await relationships.reject_request(to._network.writes, to.id, asker.id)


async def wish(one: Handle, other: Handle, **feedback: object) -> Relation:
    return await relationships.follow(one._network.writes, one.id, other.id, FollowOptions(**feedback))  # type: ignore[arg-type]


@asynccontextmanager
async def two_stores(tmp_path: Path) -> AsyncIterator[tuple[Shoal, Handle, Handle]]:
    """Yield two members on different stores: a locked member and a prospective follower."""
    urls = {"0-31": f"sqlite:///{tmp_path}/one.db", "32-63": f"sqlite:///{tmp_path}/two.db"}
    async with Shoal.open(urls) as shoal:
        shy, fan = await register(shoal, LOW, HIGH)
        await lock(shy)
        assert source_of(shard_of(shy.id)) // 32 != source_of(shard_of(fan.id)) // 32
        yield shoal, shy, fan


@in_loop
async def test_follow_request_to_locked_member_waits_for_approval() -> None:
    async with Shoal.open("memory://") as shoal:
        shy, fan = await register(shoal, "shy", "fan")
        await lock(shy)
        assert await fan.follow(shy) == await fan.follow(shy) == Relation(requested=True)
        assert await stands(shy, fan) == Relation(requested_by=True)
        await shy.create("for those I know", visibility="followers")
        await shoal.settle()
        assert await home_texts(fan) == []
        assert await agree(shy, fan) == Relation(followed_by=True)
        assert await stands(fan, shy) == Relation(following=True)
        await shoal.settle()
        assert await home_texts(fan) == ["for those I know"]
        with pytest.raises(NotFound):
            await agree(shy, fan)


@in_loop
async def test_follow_request_rejected_can_be_sent_again() -> None:
    async with Shoal.open("memory://") as shoal:
        shy, fan = await register(shoal, "shy", "fan")
        await lock(shy)
        await fan.follow(shy)
        assert await decline(shy, fan) == Relation()
        with pytest.raises(NotFound):
            await decline(shy, fan)
        assert await stands(fan, shy) == Relation()
        assert (await fan.follow(shy)).requested


@in_loop
async def test_follow_request_is_withdrawn_by_unfollow() -> None:
    async with Shoal.open("memory://") as shoal:
        shy, fan = await register(shoal, "shy", "fan")
        await lock(shy)
        await fan.follow(shy)
        assert await fan.unfollow(shy) == Relation()
        with pytest.raises(NotFound):
            await agree(shy, fan)


@in_loop
async def test_follow_request_stays_pending_when_account_is_unlocked() -> None:
    async with Shoal.open("memory://") as shoal:
        shy, fan = await register(shoal, "shy", "fan")
        await lock(shy)
        await fan.follow(shy)
        await lock(shy, locked=False)
        await shoal.settle()
        assert await stands(fan, shy) == Relation(requested=True)
        assert await fan.follow(shy) == Relation(following=True)
        assert await stands(shy, fan) == Relation(followed_by=True)


@in_loop
async def test_follow_of_locked_member_by_existing_follower_needs_no_request() -> None:
    async with Shoal.open("memory://") as shoal:
        shy, fan = await register(shoal, "shy", "fan")
        await fan.follow(shy)
        await lock(shy)
        assert await fan.follow(shy) == Relation(following=True)
        assert await wish(fan, shy, notify=True) == Relation(following=True, watching=True)


@pytest.mark.parametrize("blocker", ["shy", "fan"])
@in_loop
async def test_follow_request_is_deleted_by_block(blocker: str) -> None:
    async with Shoal.open("memory://") as shoal:
        shy, fan = await register(shoal, "shy", "fan")
        await lock(shy)
        await fan.follow(shy)
        await (shy.block(fan) if blocker == "shy" else fan.block(shy))
        with pytest.raises(NotFound):
            await agree(shy, fan)
        with pytest.raises(NotAllowed):
            await fan.follow(shy)
        await (shy.unblock(fan) if blocker == "shy" else fan.unblock(shy))
        await shoal.settle()
        assert await stands(fan, shy) == await stands(shy, fan) == Relation()


@in_loop
async def test_follow_request_options_apply_after_its_approval() -> None:
    async with Shoal.open("memory://") as shoal:
        shy, fan = await register(shoal, "shy", "fan")
        await lock(shy)
        await wish(fan, shy, shares=False)
        await wish(fan, shy, notify=True, languages=["de"])
        await agree(shy, fan)
        expected = Relation(following=True, shares=False, watching=True, languages=("de",))
        assert await stands(fan, shy) == expected
        await shoal.settle()
        assert await stands(fan, shy) == expected
        assert (await shy.profile()).followers == (await fan.profile()).following == 1


@in_loop
async def test_follower_removed_can_follow_again() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await wish(ben, ann, notify=True)
        await ann.create("hello")
        await shoal.settle()
        assert await home_texts(ben) == ["hello"]
        writes = shoal.network.writes
        assert await relationships.remove_follower(writes, ann.id, ben.id) == Relation()
        assert await relationships.remove_follower(writes, ann.id, ben.id) == Relation()
        assert await home_texts(ben) == []
        await shoal.settle()
        assert await stands(ben, ann) == Relation()
        assert await ben.follow(ann) == Relation(following=True)
        await shoal.settle()
        assert await home_texts(ben) == ["hello"]


@in_loop
async def test_follow_request_approval_and_follower_removal_work_across_stores(tmp_path: Path) -> None:
    async with two_stores(tmp_path) as (shoal, shy, fan):
        post = await shy.create("hello")
        await fan.home()
        await wish(fan, shy, notify=True)
        await agree(shy, fan)
        assert await stands(fan, shy) == Relation(following=True, watching=True)
        await shoal.settle()
        assert await home_texts(fan) == ["hello"]
        await relationships.remove_follower(shoal.network.writes, shy.id, fan.id)
        assert await stands(fan, shy) == Relation()
        await shoal.settle()
        assert await home_texts(fan) == []
        assert (await fan.read(post)).post.text == "hello"


@in_loop
async def test_follow_request_approval_with_unreachable_store_applies_pending_inverses_first(tmp_path: Path) -> None:
    """The far store is unreachable when the near store commits."""

    async def away(*_: object, **__: object) -> None:
        raise Unavailable("away")

    async with two_stores(tmp_path) as (shoal, shy, fan):
        await shy.create("hello")
        await fan.home()
        await wish(fan, shy, notify=True)
        await shoal.settle()
        store = shoal.network.store
        pairs = ((shy, FOLLOWED_BY, fan), (fan, FOLLOWS, shy), (shy, WATCHED_BY, fan), (fan, WATCHES, shy))
        waiting = ((shy, REQUESTED_BY, fan), (fan, REQUESTS, shy))
        with patch.object(ShardedGraph, "settle", away):
            await agree(shy, fan)
        await shoal.settle()
        for one, atype, other in pairs:
            assert other.id in (await store.assoc_get(one.id, (atype,), (other.id,)))[atype], atype
        for one, atype, other in waiting:
            assert not (await store.assoc_get(one.id, (atype,), (other.id,)))[atype], atype
        assert await home_texts(fan) == ["hello"]
        with patch.object(ShardedGraph, "settle", away):
            await relationships.remove_follower(shoal.network.writes, shy.id, fan.id)
        await shoal.settle()
        for one, atype, other in (*pairs, *waiting):
            assert not (await store.assoc_get(one.id, (atype,), (other.id,)))[atype], atype
        window = await shoal.network.timelines.read(fan.id, Cursor(limit=9))
        assert window is not None
        assert window.ids == []
