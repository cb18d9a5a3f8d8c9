"""Pagination of filtered lists: pages are full or at the end of the list, never empty before the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from shoal import Handle, Shoal, Visibility
from shoal.commands import lists as list_verbs
from shoal.core.errors import InvalidInput
from shoal.core.ids import shard_of
from shoal.core.model import MemberList, RepliesPolicy
from shoal.graph.contract import Batch, Cursor
from shoal.graph.payloads.notifications import Kind
from shoal.graph.schema import LIKES
from shoal.queries import conversations, lists, notifications, pagination, public_timelines
from shoal.queries import posts as post_queries
from shoal.queries.pagination import RowReader, read_items, unsifted
from tests.async_runner import in_loop
from tests.flows.members import register, texts
from tests.flows.visibility_cases import _picture

MANY = 650
"""More rows than the former limit of twenty-five small batches."""


class Numbers:
    """A list of numbers that records the sizes of its reads."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.sizes: list[int] = []

    async def read(self, at: Cursor) -> list[int]:
        self.sizes.append(at.limit)
        low, high = at.after + 1, min(at.before, self.count + 1)
        if at.oldest_first:
            return list(range(low, high))[: at.limit]
        return list(range(high - 1, low - 1, -1))[: at.limit]

    async def page(self, cursor: Cursor, every: int, *, late: bool = False) -> tuple[list[int], int | None]:
        """Return a page of the multiples of a number; with `late`, filter after hydration instead of before."""

        async def only(numbers: Sequence[int]) -> list[int]:
            return [n for n in numbers if n % every == 0]

        sift, show = (unsifted, only) if late else (only, unsifted)
        return await read_items(cursor, RowReader(cursor, self.read, sift, int), show, int)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("every", [1, 2, 7, 650, 5_000])
@in_loop
async def test_filtered_pagination_pages_of_any_size_cover_the_whole_list(every: int, late: bool) -> None:
    wanted = list(range(every, 10_001, every))
    for limit in (1, 3, 40):
        numbers, down, before = Numbers(10_000), list[int](), 10_001
        for _ in range(60):
            items, after = await numbers.page(Cursor(before=before, limit=limit), every, late=late)
            assert len(items) == limit or after is None
            down += items
            if after is None:
                break
            before = after
        assert down == wanted[::-1][: len(down)]
        assert len(down) >= min(len(wanted), 60 * limit)
        up, after_ = list[int](), 0
        for _ in range(60):
            items, _older = await numbers.page(Cursor(after=after_, limit=limit, oldest_first=True), every, late=late)
            if not items:
                break
            up += items[::-1]
            after_ = items[0]
        assert up == wanted[: len(up)]
        assert len(up) >= min(len(wanted), 60 * limit)


@in_loop
async def test_filtered_pagination_batch_size_grows_for_rare_matches() -> None:
    numbers = Numbers(100_000)
    await numbers.page(Cursor(limit=20), 1)
    assert numbers.sizes == [24]
    rare = Numbers(15_000)
    items, after = await rare.page(Cursor(limit=20), 15_000)
    assert (items, after) == ([15_000], None)
    assert max(rare.sizes) == pagination.MOST_AT_ONCE
    assert len(rare.sizes) <= 15_000 / pagination.MOST_AT_ONCE + 4


@in_loop
async def test_filtered_pagination_page_stops_at_work_limit_and_next_page_continues_without_gap() -> None:
    numbers = Numbers(3 * pagination.ENOUGH)
    found, before, pages = list[int](), numbers.count + 1, 0
    while True:
        items, after = await numbers.page(Cursor(before=before, limit=20), pagination.ENOUGH // 4)
        found += items
        pages += 1
        assert items
        if after is None:
            break
        assert after < before
        before = after
    assert found == list(range(numbers.count, 0, -pagination.ENOUGH // 4))
    assert pages > 1


@in_loop
async def test_filtered_pagination_without_matches_reads_to_end_of_list() -> None:
    numbers = Numbers(2 * pagination.ENOUGH + 5)
    assert await numbers.page(Cursor(limit=20), 10**9) == ([], None)
    assert await numbers.page(Cursor(limit=20, oldest_first=True), 10**9) == ([], None)
    only_the_first = 2 * pagination.ENOUGH + 5
    assert await numbers.page(Cursor(limit=20, oldest_first=True), only_the_first) == (
        [only_the_first],
        only_the_first,
    )


@in_loop
async def test_filtered_pagination_long_scan_yields_to_event_loop() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await Numbers(10_000).page(Cursor(limit=20), 10**9)
    task.cancel()
    assert turns >= 10


@in_loop
async def test_filtered_pagination_limit_below_1_is_rejected() -> None:
    with pytest.raises(InvalidInput):
        await Numbers(9).page(Cursor(limit=0), 1)


async def _picture_below_texts(author: Handle, *, count: int = MANY) -> int:
    """Create a post with a picture, followed by `count` text posts."""
    picture = await author.create("a picture #rare", media=[await _picture(Shoal(author._network), author)])
    for n in range(count):
        await author.create(f"{n} #common")
    return picture.id


@in_loop
async def test_media_timelines_find_picture_older_than_650_text_posts() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        picture = await _picture_below_texts(ann)
        await shoal.settle()
        reads = shoal.network.reads
        for wish in (post_queries.MemberFeedQuery(only_media=True), post_queries.MemberFeedQuery(tag="rare")):
            page = await post_queries.authored_page(reads, ben.id, ann.id, Cursor(), wish)
            assert ([entry.id for entry in page.entries], page.next) == ([picture], None)
        for upwards in (Cursor(oldest_first=True), Cursor(after=1, oldest_first=True)):
            page = await post_queries.authored_page(
                reads, ben.id, ann.id, upwards, post_queries.MemberFeedQuery(only_media=True)
            )
            assert [entry.id for entry in page.entries] == [picture]
        page = await public_timelines.public_page(reads, None, Cursor(), only_media=True)
        assert ([entry.id for entry in page.entries], page.next) == ([picture], None)
        anything = public_timelines.TagQuery(frozenset({"common", "rare"}), only_media=True)
        page = await public_timelines.tag_page(reads, None, anything, Cursor())
        assert ([entry.id for entry in page.entries], page.next) == ([picture], None)


@in_loop
async def test_media_timeline_with_min_id_finds_picture_newer_than_650_text_posts() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        for n in range(MANY):
            await ann.create(str(n))
        picture = await _picture_below_texts(ann, count=0)
        upwards = Cursor(after=1, oldest_first=True)
        page = await post_queries.authored_page(
            shoal.network.reads, None, ann.id, upwards, post_queries.MemberFeedQuery(only_media=True)
        )
        assert [entry.id for entry in page.entries] == [picture]


@in_loop
async def test_account_statuses_without_replies_and_shares_find_post_older_than_650_of_them() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post, other = await ann.create("a post"), await ben.create("another")
        for n in range(MANY // 2):
            await ann.comment(other, str(n))
            await ann.share(await ben.create(f"shared {n}"))
        wish = post_queries.MemberFeedQuery(no_comments=True, no_shares=True)
        page = await post_queries.authored_page(shoal.network.reads, None, ann.id, Cursor(), wish)
        assert ([entry.id for entry in page.entries], page.next) == ([post.id], None)


@in_loop
async def test_list_timeline_without_replies_finds_post_older_than_650_comments() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ann.follow(ben)
        made: MemberList = await list_verbs.create(shoal.network.writes, ann.id, "quiet", replies=RepliesPolicy.NONE)
        await list_verbs.put_on(shoal.network.writes, ann.id, made.id, [ben.id])
        other = await cyd.create("a question")
        await ben.create("a post")
        for n in range(MANY):
            await ben.comment(other, str(n))
        page = await lists.page(shoal.network.reads, ann.id, made.id, Cursor())
        assert (texts(page), page.next) == (["a post"], None)


@in_loop
async def test_conversation_notification_and_like_pages_skip_deleted_posts_and_continue() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        there = await ben.create("@ann psst", visibility=Visibility.DIRECT)
        liked = await ben.create("good")
        await ann.like(liked)
        await cyd.follow(ann)
        await shoal.settle()
        for n in range(MANY):
            gone = await ben.create(f"@ann {n}", visibility=Visibility.DIRECT)
            await ann.like(gone)
        await shoal.settle()
        await _vanish(shoal, ben)
        reads = shoal.network.reads
        talks = await conversations.page(reads, ann.id, Cursor())
        assert ([one.root_id for one in talks.items], talks.next) == ([there.id], None)
        wish = notifications.NotificationQuery(frozenset({Kind.FOLLOW}))
        told = await notifications.page(reads, ann.id, Cursor(), wish)
        assert ([one.actor.member.id for one in told.items], told.next) == ([cyd.id], None)
        likes = await post_queries.saved_page(reads, ann.id, LIKES, Cursor())
        assert ([entry.id for entry in likes.entries], likes.next) == ([liked.id], None)


async def _vanish(shoal: Shoal, author: Handle) -> None:
    """Delete all but the first of the author's direct posts, without running the consumers."""
    posts = [entry.post for entry in (await author.posts(limit=2 * MANY)).entries]
    direct = [post for post in posts if post.visibility is Visibility.DIRECT]
    for post in direct[:-1]:
        batch = Batch(shard_of(post.id))
        batch.obj_del(post)
        await shoal.network.store.commit(batch)


@in_loop
async def test_filtered_pagination_through_long_filtered_part_returns_all_visible_rows() -> None:
    """The newer half of a long list is dropped at hydration: all rows that were read are hydrated before the page is complete."""
    numbers = Numbers(4 * pagination.ENOUGH)
    shown = set(range(numbers.count - 5, numbers.count + 1)) | set(range(1, 2 * pagination.ENOUGH, 97))

    async def show(found: Sequence[int]) -> list[int]:
        return [n for n in found if n in shown]

    walked, before = list[int](), numbers.count + 1
    while True:
        cursor = Cursor(before=before, limit=30)
        items, after = await read_items(cursor, RowReader(cursor, numbers.read, unsifted, int), show, int)
        walked += items
        if after is None:
            break
        before = after
    assert walked == sorted(shown, reverse=True)
