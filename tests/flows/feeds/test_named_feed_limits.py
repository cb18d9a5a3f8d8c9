"""Limits of named feeds: merged sources, contained feeds that grow, reads of a page, and what counts reveal."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import Any, cast

import pytest

from shoal import Shoal
from shoal.core.errors import InvalidInput, Unfit
from shoal.core.feeds.declarations import MAX_BYTES, MAX_CANDIDATES, MAX_MERGED, NamedFeed, cost_of, declaration_of
from shoal.core.ids import now_ms
from shoal.graph.contract import Cursor, RememberingReader
from shoal.graph.feed_lookup import contained_feeds
from shoal.queries.named_feeds import feed as named_feeds
from tests.async_runner import in_loop
from tests.flows.feeds.test_named_feeds import BREAD, all_texts, by, texts
from tests.flows.members import register


def tags(names: list[str], most: int) -> list[dict[str, Any]]:
    return [{"from": "tag", "tag": name, "most": most} for name in names]


def feeds(*which: NamedFeed) -> list[dict[str, Any]]:
    return [{"from": "feed", "feed": str(each.id)} for each in which]


@in_loop
async def test_feed_has_a_maximum_of_sources_with_those_of_contained_feeds() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.create("#t31 #t32")
        await shoal.settle()
        inner = [
            await ann.feeds.create("Inner", {"sources": tags([f"t{number}" for number in numbers], 3)})
            for numbers in (range(16), range(16, 32), (32,))
        ]
        outer = await ann.feeds.create("Outer", {"sources": feeds(*inner[:2]), **by("likes")})
        (shown,) = (await ann.read_feed(outer)).entries
        assert shown.why.sources == (f"feed {inner[1].id}: tag t31",)
        with pytest.raises(Unfit, match=rf"sources: at most {MAX_MERGED}, with those of contained feeds \(got 33\)"):
            await ann.feeds.create("Outer", {"sources": feeds(*inner), **by("likes")})


@in_loop
async def test_contained_feed_that_becomes_too_expensive_is_left_out() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.create("1 #bread")
        await ben.create("2 #cake")
        await shoal.settle()
        one = await ann.feeds.create("One", {"sources": tags(["bread"], 1)})
        two = await ann.feeds.create("Two", {"sources": tags(["cake"], 1)})
        outer = await ann.feeds.create("Outer", {"sources": feeds(one, two), **by("-age_hours")})
        assert texts(await ann.read_feed(outer)) == ["2 #cake", "1 #bread"]
        outer_most = {"most": MAX_CANDIDATES // 40}
        await ann.feeds.update(
            outer, declaration={"sources": [each | outer_most for each in feeds(one, two)], **by("-age_hours")}
        )
        wide = ["cake", *[f"t{number}" for number in range(19)]]
        await ann.feeds.update(one, declaration={"sources": [*tags(["bread"], 1), *tags(wide[1:], 50)]})
        await ann.feeds.update(two, declaration={"sources": tags(wide, 50)})
        assert texts(await ann.read_feed(outer)) == ["1 #bread"]
        cost = await ann.feed_cost(outer)
        assert (cost.candidates <= MAX_CANDIDATES, cost.sources <= MAX_MERGED) == (True, True)


@in_loop
async def test_author_posts_counts_only_posts_that_the_reader_may_find() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await cyd.follow(ben)
        await ben.create("1")
        await ben.create("2 @ann", visibility="direct")
        await ben.create("3", visibility="followers")
        await shoal.settle()
        await shoal.server_feeds.create("ben", {"sources": [{"from": "author", "author": "ben"}], **by("author_posts")})
        for reader, expected in ((shoal.visitor, 1), (ann, 1), (cyd, 2)):
            page = await reader.read_feed("ben")
            assert {shown.why.score for shown in page.entries} == {expected}


@in_loop
async def test_page_in_order_of_time_stops_after_a_maximum_of_passes_and_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shoal.queries.pagination.MOST_AT_ONCE", 4)
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.create("oldest #rare")
        for number in range(50):
            await ben.create(f"{number}")
        await shoal.settle()
        rare = {"sources": [{"from": "everybody"}], "filters": {"tags_all": ["rare"]}}
        await shoal.server_feeds.create("rare", rare)
        first = await ann.read_feed("rare")
        assert (first.entries, first.next is not None) == ([], True)
        assert await all_texts(ann, "rare") == ["oldest #rare"]


@in_loop
async def test_age_filters_bound_the_posts_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        for number in range(9):
            await ben.create(f"{number} #bread")
        await shoal.settle()
        later = now_ms() + 5 * 3_600_000
        monkeypatch.setattr(shoal.network.reads.tags, "clock", lambda: later)
        newest = {"sources": tags(["bread"], 3), "filters": {"maximum_age_hours": 2}}
        counted: Counter[str] = Counter()
        reads = replace(shoal.network.reads, graph=cast("RememberingReader", _Counting(shoal.network.store, counted)))
        feed = NamedFeed(id=1, owner_id=0, title="New", declaration=declaration_of(newest))
        assert (await named_feeds.page(reads, ann.id, feed, Cursor(limit=5))).entries == []
        assert counted["obj_get"] == 0
        for hours, expected in ((4, 3), (6, 0)):
            old = {**newest, "filters": {"minimum_age_hours": hours}, **by("likes")}
            feed = NamedFeed(id=1, owner_id=0, title="Old", declaration=declaration_of(old))
            assert len((await named_feeds.page(reads, ann.id, feed, Cursor(limit=5))).entries) == expected


class _Counting:
    """A graph that counts reads by method. Each list of a read of many lists counts."""

    def __init__(self, graph: object, counted: Counter[str]) -> None:
        self._graph = graph
        self._counted = counted

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._graph, name)
        if not iscoroutinefunction(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._counted[name] += len(args[0]) if name == "assoc_ranges" else 1
            return await method(*args, **kwargs)

        return call


_TERMS = "likes + seen + author_posts + author_interest + recent"
_SOURCES: list[dict[str, Any]] = [
    {"from": "followees"},
    {"from": "tag", "tag": "bread"},
    {"from": "author", "author": "ben"},
    {"from": "nearby", "latitude": 1, "longitude": 1, "radius_km": 500},
    {"from": "popular"},
    {"from": "everybody"},
]


@pytest.mark.parametrize("order", [{}, by(_TERMS), {"order": {"by": "recipe"}}], ids=["newest", "expression", "recipe"])
@in_loop
async def test_reads_of_a_page_stay_within_its_cost_with_filled_caches(order: dict[str, Any]) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, *others = await register(shoal, "ann", "ben", *[f"m{number}" for number in range(60)])
        friends = await ann.lists.create("Friends")
        for at, other in enumerate(others):
            await ann.follow(other)
            await other.follow(others[at - 1])
            post = await other.create("#bread")
            if at % 2:
                await ann.like(post)
        await shoal.settle()
        await asyncio.gather(*[ann.lists.put_on(friends, other) for other in others])
        for source in (*_SOURCES, {"from": "list", "list": str(friends.id)}):
            declared = declaration_of({"sources": [source], **order})
            feed = NamedFeed(id=1, owner_id=0, title="One", declaration=declared)
            counted: Counter[str] = Counter()
            for _ in range(2):
                counted.clear()
                graph = cast("RememberingReader", _Counting(shoal.network.store, counted))
                await named_feeds.page(
                    replace(shoal.network.reads, graph=graph, lasting=graph), ann.id, feed, Cursor(limit=40)
                )
            cost = cost_of(declared, await contained_feeds(shoal.network.store, ann.id, declared))
            assert sum(counted.values()) <= cost.reads, (source, counted)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"from": "list", "list": "9" * 19}, "sources[0].list: expected the id of a list"),
        ({"from": "author", "author": "a\0b"}, "sources[0].author: expected a user name"),
        ({"from": "author", "author": "two words"}, "sources[0].author: expected a user name"),
    ],
)
def test_source_with_an_impossible_reference_is_refused(source: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)):
        declaration_of({"sources": [source]})


def test_decoded_declaration_has_the_maximum_size_of_a_text() -> None:
    choices = ["", *["\N{GRINNING FACE}" * 95 + str(number) for number in range(19)]]
    texts_ = {f"p{number}": {"type": "text", "default": "", "choices": choices} for number in range(10)}
    with pytest.raises(InvalidInput, match=f"declaration: at most {MAX_BYTES} bytes"):
        declaration_of({**BREAD, **by("likes", **texts_)})


@in_loop
async def test_feed_whose_list_was_deleted_can_be_renamed_but_not_shared() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        friends = await ann.lists.create("Friends")
        mine = await ann.feeds.create("Friends", {"sources": [{"from": "list", "list": str(friends.id)}]})
        await ann.lists.delete(friends)
        assert (await ann.feeds.update(mine, title="Old friends")).title == "Old friends"
        with pytest.raises(Unfit, match="a feed with a list cannot be shared"):
            await ann.feeds.update(mine, shared=True)


@in_loop
async def test_feed_is_not_shared_with_a_list_by_concurrent_changes() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        friends = await ann.lists.create("Friends")
        mine = await ann.feeds.create("Bread", BREAD)
        with_list = {"sources": [{"from": "list", "list": str(friends.id)}]}
        await asyncio.gather(
            ann.feeds.update(mine, shared=True), ann.feeds.update(mine, declaration=with_list), return_exceptions=True
        )
        stored = await ann.named_feed(mine)
        assert not (stored.shared and stored.declaration.has_lists)


@in_loop
async def test_feed_name_of_an_api_path_is_refused() -> None:
    async with Shoal.open("memory://") as shoal:
        with pytest.raises(InvalidInput, match="name: dry_run is reserved"):
            await shoal.server_feeds.create("dry_run", BREAD)
