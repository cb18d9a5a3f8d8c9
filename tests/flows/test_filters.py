"""Filters: concurrent changes, and filtered home timelines equal to their definition."""

from __future__ import annotations

import asyncio

import pytest

from shoal import Handle, Shoal
from shoal.commands import filters
from shoal.commands.filters import FilterChange, KeywordChange
from shoal.core.errors import NotFound
from shoal.core.filters import FilterAction, FilterContext
from shoal.graph.access import filters_of
from shoal.graph.contract import Cursor
from shoal.queries import home
from tests.async_runner import in_loop
from tests.flows.members import register
from tests.flows.query_counts import Read, calls

EVERYWHERE = tuple(FilterContext)


async def a_filter(shoal: Shoal, who: Handle, *keywords: str, for_good: bool = False) -> int:
    """Create a filter and return its id."""
    wish = FilterChange(
        title="t",
        contexts=EVERYWHERE,
        action=FilterAction.HIDE,
        irreversible=for_good,
        words=[KeywordChange(keyword=keyword) for keyword in keywords],
    )
    return (await filters.create(shoal.network.writes, who.id, wish)).id


@in_loop
async def test_filter_changes_made_concurrently_are_all_stored() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        made = await a_filter(shoal, ann)
        writes = shoal.network.writes
        words = [KeywordChange(keyword=f"word{n}") for n in range(4)]
        posts = [await ann.create(str(n)) for n in range(3)]
        await asyncio.gather(
            *(filters.update(writes, ann.id, made, FilterChange(words=[word])) for word in words),
            *(filters.add_post(writes, ann.id, made, post.id) for post in posts),
        )
        (filter_,) = await filters_of(writes.graph, ann.id)
        assert {word.keyword for word in filter_.keywords} == {word.keyword for word in words}
        assert {held.post_id for held in filter_.posts} == {post.id for post in posts}
        assert len({*(word.id for word in filter_.keywords), *(held.id for held in filter_.posts)}) == 7
        await filters.delete(writes, ann.id, made)
        with pytest.raises(NotFound):
            await filters.delete(writes, ann.id, made)
        assert await filters_of(writes.graph, ann.id) == []


@in_loop
async def test_home_timeline_with_filters_equals_its_definition() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ann.follow(ben)
        await ann.create("tea of mine")
        for n in range(40):
            await ben.create(f"{n} {('tea', 'milk', 'oats')[n % 3]}")
        await shoal.settle()
        await a_filter(shoal, ann, "tea", for_good=True)
        await a_filter(shoal, ann, "milk")
        reads = shoal.network.reads
        for cursor in (Cursor(limit=7), Cursor(limit=40), Cursor(after=1, limit=5, oldest_first=True)):
            page = await home.page(reads, ann.id, cursor)
            assert page == await home.definition(reads, ann.id, cursor)
            assert not [entry for entry in page.entries if "tea" in entry.post.text and entry.post.author_id == ben.id]
            assert [bool(entry.filtered) for entry in page.entries] == [
                "milk" in entry.post.text for entry in page.entries
            ]
        assert len((await home.page(reads, ann.id, Cursor(limit=7))).entries) == 7
        every = (await home.page(reads, ann.id, Cursor(limit=40))).entries
        assert await home.among(reads, ann.id, [entry.id for entry in every]) == every


@in_loop
async def test_home_timeline_with_filters_takes_two_more_reads() -> None:
    costs = []
    for names in ((), ("tea",), tuple(f"word{n}" for n in range(60))):
        async with Shoal.open("memory://") as shoal:
            ann, ben = await register(shoal, "ann", "ben")
            await ann.follow(ben)
            for n in range(40):
                await ben.create(f"{n}")
            await shoal.settle()
            if names:
                await a_filter(shoal, ann, *names)
            reads = shoal.network.reads
            await home.page(reads, ann.id, Cursor(limit=40))
            costs.append((await calls(shoal.network, _home_of(ann))).total())
    assert costs[1] == costs[2] == costs[0] + 2


def _home_of(viewer: Handle) -> Read:
    return lambda reads: home.page(reads, viewer.id, Cursor(limit=40))
