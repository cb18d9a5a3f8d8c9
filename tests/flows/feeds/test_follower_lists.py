"""Lists of followers, followees and likers."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal import Handle, Shoal
from shoal.core.errors import NotFound
from shoal.graph.contract import Cursor
from shoal.graph.schema import FOLLOWED_BY, LIKED_BY
from shoal.queries import members
from shoal.queries.members import MemberPage
from tests.async_runner import in_loop
from tests.flows.members import register


def names(page: MemberPage) -> list[str]:
    return [profile.member.name for profile in page.profiles]


async def followed_by(shoal: Shoal, count: int) -> tuple[Handle, list[Handle]]:
    ann, *others = await register(shoal, "ann", *(f"fan{n}" for n in range(count)))
    for other in others:
        await other.follow(ann)
    return ann, others


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
@in_loop
async def test_followers_list_pages_of_25_are_ordered_newest_first(backend: str, tmp_path: Path) -> None:
    async with Shoal.open("memory://" if backend == "memory" else f"sqlite:///{tmp_path}/shoal.db") as shoal:
        ann, others = await followed_by(shoal, 60)
        expected = [other.name for other in reversed(others)]
        first = await ann.followers()
        assert first.next is not None
        second = await ann.followers(first.next)
        assert second.next is not None
        third = await ann.followers(second.next)
        assert [len(page.profiles) for page in (first, second, third)] == [25, 25, 10]
        assert names(first) + names(second) + names(third) == expected
        assert third.next is None
        assert first.times == sorted(first.times, reverse=True)
        assert (await ann.profile()).followers == 60


@in_loop
async def test_followers_list_full_last_page_has_no_next() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, _ = await followed_by(shoal, 4)
        page = await ann.followers(limit=2)
        assert page.next is not None
        assert (await ann.followers(page.next, limit=2)).next is None


@in_loop
async def test_followers_list_of_new_member_is_empty() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        assert await ann.followers() == await ann.following() == MemberPage([], [], None, [])


@in_loop
async def test_followers_list_refollow_moves_member_to_top() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, others = await followed_by(shoal, 3)
        await others[0].unfollow(ann)
        assert names(await ann.followers()) == ["fan2", "fan1"]
        await others[0].follow(ann)
        assert names(await ann.followers()) == ["fan0", "fan2", "fan1"]
        assert names(await others[0].following()) == ["ann"]


@in_loop
async def test_followers_list_can_be_read_oldest_first() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, _ = await followed_by(shoal, 5)
        reads = shoal.network.reads
        everybody = await ann.followers()
        oldest = await members.page(reads, None, ann.id, FOLLOWED_BY, Cursor(limit=2, oldest_first=True))
        assert names(oldest) == ["fan1", "fan0"]
        after = Cursor(after=oldest.times[0], limit=2, oldest_first=True)
        assert names(await members.page(reads, None, ann.id, FOLLOWED_BY, after)) == ["fan3", "fan2"]
        newer = Cursor(after=everybody.times[2], limit=9)
        assert names(await members.page(reads, None, ann.id, FOLLOWED_BY, newer)) == ["fan4", "fan3"]


@in_loop
async def test_followers_list_excludes_blocked_members_and_next_page_is_complete() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, others = await followed_by(shoal, 6)
        ben = await shoal.register("ben")
        await ben.block(others[5])
        await others[3].block(ben)
        reads = shoal.network.reads
        first = await members.page(reads, ben.id, ann.id, FOLLOWED_BY, Cursor(limit=3))
        assert names(first) == ["fan4"]
        assert first.next is not None
        second = await members.page(reads, ben.id, ann.id, FOLLOWED_BY, Cursor(before=first.next, limit=3))
        assert names(second) == ["fan2", "fan1", "fan0"]
        assert second.next is None
        assert len(names(await members.page(reads, None, ann.id, FOLLOWED_BY, Cursor(limit=9)))) == 6


@in_loop
async def test_likers_list_counts_blocked_members_without_naming_them() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        post = await ann.create("hello")
        for liker in (ben, cyd):
            await liker.like(post)
        await ben.block(cyd)
        found = await ben.likers(post)
        assert (found.total, [profile.member.name for profile in found.newest]) == (2, ["ben"])
        page = await members.page(shoal.network.reads, ben.id, post.id, LIKED_BY, Cursor(limit=5))
        assert names(page) == ["ben"]


@in_loop
async def test_likers_list_of_invisible_post_is_not_found() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("hello", visibility="followers")
        with pytest.raises(NotFound):
            await ben.likers(post)
