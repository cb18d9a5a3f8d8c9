"""Share folding: shares of a post that is already shown nearby are left out; the remaining entry names the sharers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from unittest.mock import patch

import pytest

from shoal import Handle, Shoal
from shoal.commands import filters
from shoal.commands import lists as list_verbs
from shoal.commands.filters import KeywordChange
from shoal.core.filters import FilterAction, FilterContext
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.queries import home, lists, pipeline
from shoal.queries.hydration import Entry
from shoal.queries.pipeline import Page
from tests.async_runner import eventually, in_loop
from tests.flows.members import connected, home_texts, register, texts
from tests.flows.query_counts import calls

Read = Callable[[Cursor], Awaitable[Page]]


def sharers(entry: Entry) -> tuple[list[str], int]:
    """Return the names and the number of the other members who shared the post."""
    if entry.shared_by is None:
        return [], 0
    return [profile.member.name for profile in entry.shared_by.first], entry.shared_by.number


async def followed(shoal: Shoal, *names: str) -> list[Handle]:
    """Return a reader and their followees."""
    reader, *others = await register(shoal, "reader", *names)
    for other in others:
        await reader.follow(other)
    return [reader, *others]


@in_loop
async def test_share_folding_two_shares_of_a_post_show_one_entry_with_sharers() -> None:
    async with Shoal.open("memory://") as shoal:
        reader, ann, ben, cyd = await followed(shoal, "ann", "ben", "cyd")
        post = await ann.create("hello")
        await ben.share(post)
        await cyd.share(post)
        await shoal.settle()
        (entry,) = (await reader.home()).entries
        assert (texts([entry]), sharers(entry)) == (["hello"], (["ben", "cyd"], 2))


@in_loop
async def test_share_folding_without_original_keeps_oldest_share() -> None:
    async with Shoal.open("memory://") as shoal:
        reader, *fans = await followed(shoal, "ann", "ben", "cyd", "dan", "eve")
        (stranger,) = await register(shoal, "stranger")
        post = await stranger.create("hello")
        made = [await fan.share(post) for fan in fans]
        await shoal.settle()
        (entry,) = (await reader.home()).entries
        assert entry.id == made[0].id
        assert sharers(entry) == (["ben", "cyd", "dan"], 4)
        await fans[0].unshare(post)
        await shoal.settle()
        (entry,) = (await reader.home()).entries
        assert (entry.id, sharers(entry)) == (made[1].id, (["cyd", "dan", "eve"], 3))


@in_loop
async def test_share_folding_compares_share_with_next_forty_older_entries() -> None:
    async with Shoal.open("memory://") as shoal:
        reader, ann, ben = await followed(shoal, "ann", "ben")
        near, far = await ann.create("near"), await ann.create("far")
        for n in range(39):
            await ben.create(str(n))
        shared = await ben.share(far)
        await ben.share(near)
        await shoal.settle()
        found = await home_texts(reader)
        assert shared.id
        assert found[:2] == ["> near", "38"]
        assert found[-2:] == ["far", "near"]
        entries = [entry for entry in (await reader.home(limit=50)).entries if entry.post.id in (near.id, far.id)]
        assert [sharers(entry) for entry in entries] == [([], 0), (["ben"], 1), ([], 0)]


@in_loop
async def test_share_folding_ignores_entries_hidden_from_viewer() -> None:
    async with Shoal.open("memory://") as shoal:
        reader, ann, ben, cyd = await followed(shoal, "ann", "ben", "cyd")
        post = await ann.create("hello")
        for n in range(30):
            await ben.create(f"noise {n}")
            await ben.create(f"secret {n}", visibility="direct")
        await cyd.share(post)
        await shoal.settle()
        assert "> hello" not in await home_texts(reader)
        await reader.mute(ben)
        assert await home_texts(reader) == ["hello"]
        await reader.unmute(ben)
        await reader.mute(ann)
        assert "hello" not in "".join(await home_texts(reader))
        for n in range(11):
            await ben.create(f"more {n}")
        await reader.unmute(ann)
        await ben.share(post)
        await shoal.settle()
        assert "> hello" not in await home_texts(reader)


@in_loop
async def test_share_folding_window_counts_entries_hidden_by_filter() -> None:
    async with Shoal.open("memory://") as shoal:
        reader, ann, ben = await followed(shoal, "ann", "ben")
        post = await ann.create("hello")
        for n in range(40):
            await ben.create(f"noise {n}")
        await ben.share(post)
        await shoal.settle()
        assert (await home_texts(reader))[0] == "> hello"
        wish = filters.FilterChange(
            title="quiet",
            contexts=(FilterContext.HOME,),
            action=FilterAction.HIDE,
            irreversible=True,
            words=[KeywordChange(keyword="noise")],
        )
        await filters.create(shoal.network.writes, reader.id, wish)
        assert await home_texts(reader) == ["> hello", "hello"]


@in_loop
async def test_share_folding_can_be_disabled_in_profile() -> None:
    async with Shoal.open("memory://") as shoal:
        reader, ann, ben = await followed(shoal, "ann", "ben")
        post = await ann.create("hello")
        await ben.share(post)
        await shoal.settle()
        assert await home_texts(reader) == ["hello"]
        await reader.update_profile(folds_shares=False)
        assert await home_texts(reader) == ["> hello", "hello"]
        assert sharers((await reader.home()).entries[1]) == ([], 0)
        await reader.update_profile(folds_shares=True)
        assert await home_texts(reader) == ["hello"]


@in_loop
async def test_share_folding_applies_to_list_timelines() -> None:
    async with Shoal.open("memory://") as shoal:
        reader, ann, ben, cyd = await followed(shoal, "ann", "ben", "cyd")
        made = await list_verbs.create(shoal.network.writes, reader.id, "close")
        await list_verbs.put_on(shoal.network.writes, reader.id, made.id, [ben.id, cyd.id])
        post = await ann.create("hello")
        first, second = await ben.share(post), await cyd.share(post)
        page = await lists.page(shoal.network.reads, reader.id, made.id, Cursor())
        assert [(entry.id, sharers(entry)) for entry in page.entries] == [(first.id, (["cyd"], 1))]
        told = await lists.among(shoal.network.reads, reader.id, made.id, [first.id, second.id])
        assert [entry.id for entry in told] == [first.id]


@in_loop
async def test_share_folding_excludes_folded_share_from_new_home_entries() -> None:
    async with Shoal.open("memory://") as shoal:
        reader, ann, ben = await followed(shoal, "ann", "ben")
        post = await ann.create("hello")
        await shoal.settle()
        repeated = await ben.share(post)
        await shoal.settle()
        reads = shoal.network.reads
        assert await home.among(reads, reader.id, [repeated.id]) == []
        for n in range(40):
            await ann.create(str(n))
        await ben.unshare(post)
        again = await ben.share(post)
        await shoal.settle()
        assert [entry.id for entry in await home.among(reads, reader.id, [again.id])] == [again.id]


@in_loop
async def test_home_stream_does_not_send_folded_share() -> None:
    async with Shoal.open("memory://") as shoal:
        reader, ann, ben = await followed(shoal, "ann", "ben")
        post = await ann.create("hello")
        await shoal.settle()
        await reader.home()
        news = reader.live()
        first = asyncio.ensure_future(anext(news))
        await eventually(partial(connected, shoal), 1)
        await ben.share(post)
        later = await ben.create("later")
        await shoal.settle()
        told = await first
        assert getattr(told, "entry", None) is not None
        assert told.entry.id == later.id  # type: ignore[union-attr]
        await news.aclose()


def expected(whole: Sequence[Entry], reach: int) -> list[tuple[int, tuple[int, ...]]]:
    """Apply the folding rule to an unfolded timeline; return ids and additional sharers."""
    answer = []
    for at, entry in enumerate(whole):
        below = {other.post.id for other in whole[at + 1 : at + 1 + reach]}
        if entry.share is not None and entry.post.id in below:
            continue
        above = [other for other in reversed(whole[max(0, at - reach) : at]) if other.post.id == entry.post.id]
        answer.append((entry.id, tuple(other.share.author_id for other in above if other.share is not None)))
    return answer


def told(page: Page) -> list[tuple[int, tuple[int, ...]]]:
    """Return the id of each entry and the members named as sharers."""
    return [
        (
            entry.id,
            tuple(profile.member.id for profile in entry.shared_by.first) if entry.shared_by else (),
        )
        for entry in page.entries
    ]


async def a_busy_home(shoal: Shoal, random: Random) -> Handle:
    """Create ninety entries of few posts, including some that the reader may not see."""
    reader, *others = await followed(shoal, "ann", "ben", "cyd", "dan", "eve")
    (stranger,) = await register(shoal, "stranger")
    await reader.follow_tag("reef")
    posts = [await stranger.create("from afar"), await stranger.create("by its tag #reef"), await reader.create("own")]
    for n in range(90):
        who = random.choice([*others, reader])
        if random.random() < 0.7:
            await who.share(random.choice(posts[-6:] + posts[:3]))
        elif random.random() < 0.7:
            posts.append(await who.create(f"post {n}", visibility=random.choice(["public", "public", "unlisted"])))
        else:
            await who.create(f"unseen {n}", visibility="direct")
            await who.comment(posts[0], "out of earshot")
    await reader.mute(others[4])
    await reader.share(posts[1])
    await shoal.settle()
    return reader


@pytest.mark.parametrize("reach", [1, 4, 40])
@pytest.mark.parametrize("length", [8, 800])
@in_loop
async def test_share_folding_pages_of_any_size_and_direction_match_definition(length: int, reach: int) -> None:
    for seed in range(3):
        async with Shoal.open("memory://", timeline_length=length) as shoal:
            reader = await a_busy_home(shoal, Random(seed))
            reads = shoal.network.reads
            await reader.update_profile(folds_shares=False)
            whole = (await home.definition(reads, reader.id, Cursor(limit=400))).entries
            await reader.update_profile(folds_shares=True)
            with patch.object(pipeline, "REACH", reach), patch.object(pipeline, "NAMED", 100):
                wanted = expected(whole, reach)
                assert len(wanted) < len(whole)
                await _walk(partial(home.page, reads, reader.id), wanted)
                await _walk(partial(home.definition, reads, reader.id), wanted)


async def _walk(read: Read, wanted: Sequence[tuple[int, tuple[int, ...]]]) -> None:
    for limit in (1, 3, 7, 100):
        down, before = list[tuple[int, tuple[int, ...]]](), MAX_TIME
        while True:
            page = await read(Cursor(before=before, limit=limit))
            down += told(page)
            if page.next is None:
                break
            before = page.next
        assert down == wanted, limit
        up, after = list[tuple[int, tuple[int, ...]]](), 0
        while (page := await read(Cursor(after=after, limit=limit, oldest_first=True))).entries:
            up += told(page)[::-1]
            after = page.entries[0].id
        assert up == wanted[::-1], limit
    for newest, oldest in ((0, 9), (5, 6), (3, len(wanted) - 2)):
        between = Cursor(before=wanted[newest][0], after=wanted[oldest][0], limit=5)
        assert told(await read(between)) == wanted[newest + 1 : oldest][:5]
        assert told(await read(between._replace(oldest_first=True))) == wanted[newest + 1 : oldest][-5:]


@in_loop
async def test_share_folding_read_count_is_independent_of_share_count() -> None:
    costs = []
    for posts in (2, 40, 160):
        async with Shoal.open("memory://") as shoal:
            reader, ann, ben, cyd = await followed(shoal, "ann", "ben", "cyd")
            for n in range(posts):
                post = await ann.create(str(n))
                await ben.share(post)
                await cyd.share(post)
            await shoal.settle()
            await reader.home(limit=40)
            page = partial(home.page, viewer=reader.id, cursor=Cursor(limit=20))
            costs.append((await calls(shoal.network, page)).total())
    assert max(costs) <= 50
    assert abs(costs[1] - costs[2]) <= 1
