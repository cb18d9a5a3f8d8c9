"""Named feeds of the server: sources, filters, orders and explanations, on every store."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import Handle, Shoal, Visitor
from shoal.admin.consistency.check import check
from shoal.admin.feeds import ReplayOptions
from shoal.admin.named_feeds import ReplayFeed, TryFeed
from shoal.admin.report import nothing
from shoal.commands import filters
from shoal.commands.filters import FilterChange, KeywordChange
from shoal.core.errors import InvalidInput, NotFound, Taken, Unauthenticated, Unfit
from shoal.core.feeds.declarations import MAX_FEEDS_OF_MEMBER, SPAN, NamedFeed
from shoal.core.filters import FilterAction, FilterContext
from shoal.core.kinds import KindDraft
from shoal.graph.contract import Cursor
from shoal.graph.schema import FOLLOWS_FEED
from shoal.queries.context import Reads
from shoal.queries.named_feeds import feed as named_feeds
from shoal.queries.named_feeds.feed import FeedPage
from shoal.queries.named_feeds.snapshots import diversified
from tests.async_runner import in_loop, run
from tests.engines import dynamodb, postgres
from tests.flows.members import register
from tests.flows.query_counts import calls
from tests.stores import contents

HARBOUR = (54.1, -0.2)


@pytest.fixture(params=["memory", "two stores", "sqlite", "postgres", "dynamodb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str | dict[str, str]:
    """An empty network on each kind of store."""
    if request.param == "two stores":
        return {"0-31": "memory://one", "32-63": "memory://two"}
    if request.param == "postgres":
        return run(postgres.database(request))
    if request.param == "dynamodb":
        return dynamodb.new_table()
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'shoal.db'}"


def by(expression: str, **parameters: Any) -> dict[str, Any]:
    return {"order": {"by": "expression", "expression": expression}, "parameters": parameters}


def texts(page: FeedPage) -> list[str]:
    return [shown.entry.post.text for shown in page.entries]


async def all_texts(viewer: Handle | Visitor, name: str, limit: int = 2) -> list[str]:
    """Return the texts of a feed, read in pages."""
    page = await viewer.read_feed(name, limit=limit)
    found = texts(page)
    while page.next is not None or page.cursor:
        page = await viewer.read_feed(name, page.next, limit, cursor=page.cursor)
        found += texts(page)
    return found


async def matching(shoal: Shoal, viewer: Handle | Visitor, *sources: dict[str, Any], **fields: Any) -> list[str]:
    """Return the texts of a feed with these sources, and check that a ranked feed by age has the same posts."""
    await shoal.server_feeds.create("some", {"sources": list(sources), **fields})
    found = await all_texts(viewer, "some")
    await shoal.server_feeds.update("some", declaration={"sources": list(sources), **fields, **by("-age_hours")})
    assert sorted(await all_texts(viewer, "some")) == sorted(found)
    await shoal.server_feeds.delete("some")
    return found


@in_loop
async def test_feed_merges_its_sources_in_order_of_time_on_every_store(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, cyd, dan = await register(shoal, "ann", "ben", "cyd", "dan")
        await ann.update_profile(place_precision="exact")
        await ann.follow(ben)
        await ben.create("1 followed")
        await ben.create("2 followed #bread")
        await cyd.create("3 #bread")
        await cyd.create("4 elsewhere", visibility="unlisted")
        await dan.create("5 other")
        await ann.create("6 at the harbour", place=HARBOUR)
        await shoal.settle()
        friends = await ann.lists.create("friends")
        await ann.lists.put_on(friends, ben)
        assert await matching(shoal, ann, {"from": "followees"}) == ["2 followed #bread", "1 followed"]
        assert await matching(shoal, ann, {"from": "tag", "tag": "bread"}) == ["3 #bread", "2 followed #bread"]
        assert await matching(shoal, ann, {"from": "author", "author": "cyd"}) == ["4 elsewhere", "3 #bread"]
        here = {"from": "nearby", "latitude": HARBOUR[0], "longitude": HARBOUR[1], "radius_km": 1}
        assert await matching(shoal, ann, here) == ["6 at the harbour"]
        both = [{"from": "author", "author": "cyd"}, {"from": "followees"}]
        assert await matching(shoal, ann, *both) == ["4 elsewhere", "3 #bread", "2 followed #bread", "1 followed"]
        assert await matching(shoal, shoal.visitor, *both) == ["4 elsewhere", "3 #bread"]
        everybody = await matching(shoal, shoal.visitor, {"from": "everybody"})
        assert [text[0] for text in everybody] == ["6", "5", "3", "2", "1"]


@in_loop
async def test_feed_explains_sources_and_score_of_each_entry_on_every_store(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ann.follow(ben)
        liked = await cyd.create("liked #bread")
        await ben.create("followed #bread")
        await cyd.create("plain #bread")
        for who in (ann, ben):
            await who.like(liked)
        await shoal.settle()
        half_life = {"type": "number", "default": 1, "minimum": 0, "maximum": 10}
        order = by("likes * $weight + if(follows_author, 1, 0) - tag_count", weight=half_life)
        sources = [{"from": "tag", "tag": "bread"}, {"from": "followees"}]
        await shoal.server_feeds.create("best", {"sources": sources, **order})
        page = await ann.read_feed("best")
        assert [(text, shown.why.score) for text, shown in zip(texts(page), page.entries, strict=True)] == [
            ("liked #bread", 1.0),
            ("followed #bread", 0.0),
            ("plain #bread", -1.0),
        ]
        assert page.entries[0].why.contributions == (
            ("likes * $weight", 2.0),
            ("if(follows_author, 1, 0)", 0.0),
            ("-tag_count", -1.0),
        )
        assert [shown.why.sources for shown in page.entries] == [
            ("tag bread",),
            ("tag bread", "followees"),
            ("tag bread",),
        ]
        assert texts(await ann.read_feed("best", parameters={"weight": 0}))[0] == "followed #bread"
        by_time = {"sources": sources}
        await shoal.server_feeds.update("best", declaration=by_time)
        page = await ann.read_feed("best")
        assert [(shown.why.score, shown.why.sources) for shown in page.entries][1] == (None, ("tag bread", "followees"))


@in_loop
async def test_recipe_feed_ranks_by_terms_that_add_up_to_the_score(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        liked = await ben.create("liked #bread")
        await cyd.create("plain #bread")
        await cyd.like(liked)
        await shoal.settle()
        recipe = {"weights": {"reactions": 10, "freshness": 0}}
        declared = {"sources": [{"from": "everybody"}], "order": {"by": "recipe", "recipe": recipe}}
        await shoal.server_feeds.create("best", declared)
        page = await ann.read_feed("best")
        assert texts(page) == ["liked #bread", "plain #bread"]
        for shown in page.entries:
            total = 0.0
            for _, value in shown.why.contributions:
                total += value
            assert shown.why.score == total
        with pytest.raises(Unauthenticated, match="log in"):
            await shoal.visitor.read_feed("best")


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"languages": ["de"]}, "1"),
        ({"media": "without"}, "1235"),
        ({"media": "with"}, ""),
        ({"media": "image"}, ""),
        ({"sensitive": "only"}, "2"),
        ({"sensitive": "without"}, "135"),
        ({"replies": True}, "12345"),
        ({"tags_any": ["bread", "cake"]}, "35"),
        ({"tags_all": ["bread", "cake"]}, "5"),
        ({"tags_none": ["cake"], "tags_any": ["bread"]}, "3"),
        ({"maximum_age_hours": 1}, "1235"),
        ({"minimum_age_hours": 1}, ""),
    ],
)
@in_loop
async def test_feed_filter_keeps_matching_posts_only(filters: dict[str, Any], expected: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        question = await ann.create("question")
        await ben.create("1", language="de")
        await ben.create("2", sensitive=True)
        await ben.create("3 #bread")
        await ben.comment(question, "4")
        await ben.create("5 #bread #cake")
        await shoal.settle()
        found = await matching(shoal, ann, {"from": "author", "author": "ben"}, filters=filters)
        assert "".join(sorted(text[0] for text in found)) == expected


@in_loop
async def test_feed_in_a_feed_contributes_filtered_posts_without_its_own_feeds() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.create("1 #bread", language="de")
        await ben.create("2 #bread", language="en")
        await ann.create("3 #cake")
        await shoal.settle()
        inner = {"sources": [{"from": "tag", "tag": "bread"}], "filters": {"languages": ["de"]}}
        await shoal.server_feeds.create("inner", inner)
        outer = {"sources": [{"from": "feed", "feed": "inner"}]}
        await shoal.server_feeds.create("outer", outer)
        page = await ann.read_feed("outer")
        assert [(text, shown.why.sources) for text, shown in zip(texts(page), page.entries, strict=True)] == [
            ("1 #bread", ("feed inner: tag bread",))
        ]
        with pytest.raises(Unfit, match="the feed 'outer' contains feeds itself"):
            await shoal.server_feeds.create("third", {"sources": [{"from": "feed", "feed": "outer"}]})
        with pytest.raises(InvalidInput, match=r"sources\[0\].feed: there is no feed 'nothing'"):
            await shoal.server_feeds.create("third", {"sources": [{"from": "feed", "feed": "nothing"}]})
        with pytest.raises(Unfit, match=r"sources\[0\].feed: a feed cannot contain itself"):
            await shoal.server_feeds.update("inner", declaration={"sources": [{"from": "feed", "feed": "inner"}]})
        # The inner feed was changed after it was included: its feeds are left out, and its other sources stay.
        await shoal.server_feeds.create("cake", {"sources": [{"from": "tag", "tag": "cake"}]})
        await shoal.server_feeds.update(
            "inner", declaration={"sources": [*inner["sources"], {"from": "feed", "feed": "cake"}]}
        )
        assert await all_texts(ann, "outer") == ["2 #bread", "1 #bread"]
        await shoal.server_feeds.delete("inner")
        assert await all_texts(ann, "outer") == []


@in_loop
async def test_feed_of_server_is_created_changed_and_deleted_by_name() -> None:
    async with Shoal.open("memory://") as shoal:
        declared = {"sources": [{"from": "everybody"}]}
        made = await shoal.server_feeds.create("all", declared)
        assert (made.title, made.owner_id) == ("all", 0)
        with pytest.raises(Taken, match="there is a feed 'all' already"):
            await shoal.server_feeds.create("all", declared)
        for name in ("A", "a", "1a", "a b", "a" * 51):
            with pytest.raises(InvalidInput, match="2 to 50 lower-case letters"):
                await shoal.server_feeds.create(name, declared)
        assert (await shoal.server_feeds.update("all", title="Everything")).title == "Everything"
        assert [feed.title for feed in await shoal.server_feeds.all()] == ["Everything"]
        assert (await shoal.visitor.named_feed(made.id)).name == "all"
        with pytest.raises(Unfit, match="list of a member"):
            await shoal.server_feeds.update("all", declaration={"sources": [{"from": "list", "list": "1"}]})
        expensive = [{"from": "nearby", "latitude": at, "longitude": 0, "radius_km": 500} for at in range(20)]
        assert (await shoal.visitor.feed_cost("all")).reads > 0
        with pytest.raises(Unfit, match="candidates"):
            await shoal.server_feeds.update("all", declaration={"sources": expensive, **by("likes")})
        await shoal.server_feeds.delete("all")
        for wanted in ("all", str(made.id)):
            with pytest.raises(NotFound, match="there is no feed"):
                await shoal.visitor.read_feed(wanted)
        await shoal.server_feeds.create("all", declared)


@in_loop
async def test_ranked_feed_pages_neither_repeat_nor_skip_posts_while_scores_change() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        posts = [await ben.create(f"{number} #bread") for number in range(9)]
        await shoal.settle()
        await shoal.server_feeds.create("best", {"sources": [{"from": "tag", "tag": "bread"}], **by("likes")})
        page = await ann.read_feed("best", limit=3)
        found = texts(page)
        await ann.like(posts[0])
        await ben.delete(posts[1])
        while page.cursor:
            page = await ann.read_feed("best", limit=3, cursor=page.cursor)
            found += texts(page)
        assert found == [f"{number} #bread" for number in (8, 7, 6, 5, 4, 3, 2, 0)]
        assert texts(await ann.read_feed("best"))[0] == "0 #bread"


@in_loop
async def test_cursor_of_another_member_feed_or_version_starts_a_new_ranking() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        for number in range(4):
            await ben.create(f"{number} #bread")
        await shoal.settle()
        await shoal.server_feeds.create("best", {"sources": [{"from": "tag", "tag": "bread"}], **by("-age_hours")})
        page = await ann.read_feed("best", limit=2)
        await shoal.server_feeds.update(
            "best", declaration={"sources": [{"from": "tag", "tag": "bread"}], **by("age_hours")}
        )
        assert texts(await ann.read_feed("best", limit=2, cursor=page.cursor)) == ["2 #bread", "3 #bread"]
        assert texts(await ben.read_feed("best", limit=2, cursor=page.cursor)) == ["2 #bread", "3 #bread"]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("best", {"before": 5}, "max_id: this feed is ranked, and is paged by cursor"),
        ("best", {"cursor": "x"}, "cursor: as the page before gave it"),
        ("best", {"limit": 0}, "limit: must be at least 1"),
        ("best", {"parameters": {"depth": 1}}, "depth: unknown parameter of this feed; allowed are none"),
        ("all", {"cursor": "AAAAAAAAAAAAAAAA"}, "cursor: this feed is in the order of time"),
    ],
)
@in_loop
async def test_invalid_page_of_a_feed_is_refused(name: str, arguments: dict[str, Any], message: str) -> None:
    async with Shoal.open("memory://") as shoal:
        await shoal.server_feeds.create("best", {"sources": [{"from": "everybody"}], **by("likes")})
        await shoal.server_feeds.create("all", {"sources": [{"from": "everybody"}]})
        with pytest.raises(InvalidInput, match=message):
            await shoal.visitor.read_feed(name, **arguments)


@in_loop
async def test_ranked_feed_leaves_out_authors_who_opt_out_and_posts_that_a_filter_hides() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ben.create("ben #bread")
        await cyd.create("cyd #bread")
        await cyd.create("cyd spoils #bread")
        await ben.update_profile(rankable=False)
        words = [KeywordChange(keyword="spoils")]
        hidden = FilterChange(
            title="spoilers",
            contexts=(FilterContext.HOME,),
            action=FilterAction.HIDE,
            irreversible=True,
            words=words,
        )
        await filters.create(shoal.network.writes, ann.id, hidden)
        await shoal.settle()
        await shoal.server_feeds.create("best", {"sources": [{"from": "tag", "tag": "bread"}], **by("likes")})
        assert await all_texts(ann, "best") == ["cyd #bread"]


@in_loop
async def test_page_of_a_feed_costs_the_same_reads_for_few_and_many_posts() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await shoal.server_feeds.create("newest", {"sources": [{"from": "tag", "tag": "bread"}, {"from": "followees"}]})
        await shoal.server_feeds.create(
            "best", {"sources": [{"from": "tag", "tag": "bread"}], **by("likes + author_posts")}
        )
        numbers = []
        for more in (1, 39):
            for _ in range(more):
                await ben.create("#bread")
            await shoal.settle()
            here = []
            for name in ("newest", "best"):
                feed = await ann.named_feed(name)
                here.append(await calls(shoal.network, partial(_page, ann.id, feed)))
            numbers.append(here)
        assert numbers[0] == numbers[1]


async def _page(viewer: int, feed: NamedFeed, reads: Reads) -> FeedPage:
    return await named_feeds.page(reads, viewer, feed, Cursor(limit=40))


@given(st.lists(st.integers(1, 6), max_size=80), st.integers(1, SPAN), st.integers(1, 80))
def test_diversified_order_keeps_all_posts_and_limits_authors_while_others_are_left(
    authors: list[int], author_most: int, most: int
) -> None:
    order = diversified(authors, author_most, most)
    assert len(order) == len(set(order)) == min(most, len(authors))
    for at, position in enumerate(order):
        window = [authors[each] for each in order[max(0, at - SPAN + 1) : at]]
        left = set(range(len(authors))) - set(order[:at])
        allowed = {each for each in left if window.count(authors[each]) < author_most}
        # The best allowed post comes next.
        assert position == min(allowed) if allowed else position in left


BREAD = {"sources": [{"from": "tag", "tag": "bread"}]}


@in_loop
async def test_member_feed_is_private_until_shared_on_every_store(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ben.create("1 #bread")
        await shoal.settle()
        mine = await ann.feeds.create("Bread", BREAD)
        assert texts(await ann.read_feed(mine)) == ["1 #bread"]
        for stranger in (ben, shoal.visitor):
            with pytest.raises(NotFound):
                await stranger.read_feed(mine)
        with pytest.raises(NotFound):
            await ben.feeds.update(mine, title="Mine")
        with pytest.raises(NotFound):
            await ben.feeds.delete(mine)
        with pytest.raises(NotFound):
            await ben.feeds.copy(mine)
        shared = await ann.feeds.update(mine, shared=True)
        assert (shared.shared, shared.title, shared.declaration) == (True, "Bread", mine.declaration)
        for reader in (ben, shoal.visitor):
            assert texts(await reader.read_feed(mine)) == ["1 #bread"]
        await ann.block(cyd)
        with pytest.raises(NotFound):
            await cyd.read_feed(mine)
        await shoal.moderation.suspend(ann)
        for reader in (ben, shoal.visitor):
            with pytest.raises(NotFound):
                await reader.read_feed(mine)
        assert (await check(shoal.network)).clean


@in_loop
async def test_copied_feed_names_its_origin_and_outlives_it_on_every_store(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        origin = await ann.feeds.create("Bread", BREAD, shared=True)
        copied = await ben.feeds.copy(f"https://example.org/api/shoal/v1/feeds/{origin.id}/declaration")
        assert (copied.title, copied.declaration, copied.owner_id) == ("Bread", origin.declaration, ben.id)
        assert (copied.origin_id, copied.shared) == (origin.id, False)
        await ann.feeds.delete(origin)
        assert [feed.id for feed in await ben.feeds.all()] == [copied.id]
        assert await ann.feeds.all() == []
        await ben.read_feed(copied)


@in_loop
async def test_followed_feed_follows_changes_until_it_is_unshared_or_deleted() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        mine = await ann.feeds.create("Bread", BREAD, shared=True)
        await shoal.server_feeds.create("all", {"sources": [{"from": "everybody"}]})
        for _ in range(2):
            await ben.feeds.follow(mine)
            await ben.feeds.follow("all")
        assert [feed.title for feed in await ben.feeds.followed()] == ["Bread", "all"]
        await ann.feeds.update(mine, title="Cake")
        assert [feed.title for feed in await ben.feeds.followed()] == ["Cake", "all"]
        await ann.feeds.update(mine, shared=False)
        assert [feed.title for feed in await ben.feeds.followed()] == ["all"]
        await ann.feeds.update(mine, shared=True)
        await ben.feeds.unfollow(mine)
        await ben.feeds.unfollow(mine)
        assert [feed.title for feed in await ben.feeds.followed()] == ["all"]
        with pytest.raises(Unfit, match="your own feeds are among your lists"):
            await ann.feeds.follow(mine)
        await ben.feeds.follow(mine)
        await ann.feeds.delete(mine)
        assert [feed.title for feed in await ben.feeds.followed()] == ["all"]
        # The next follow removes the association with the deleted feed.
        await shoal.server_feeds.create("more", BREAD)
        await ben.feeds.follow("more")
        store = shoal.network.store
        assert (await store.assoc_count((ben.id,), (FOLLOWS_FEED,)))[FOLLOWS_FEED] == {ben.id: 2}


@in_loop
async def test_unfollowing_an_unshared_or_deleted_feed_twice_is_no_error_on_every_store(
    url: str | dict[str, str],
) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        unshared = await ann.feeds.create("Unshared", BREAD, shared=True)
        deleted = await ann.feeds.create("Deleted", BREAD, shared=True)
        for feed in (unshared, deleted):
            await ben.feeds.follow(feed)
        await ann.feeds.update(unshared, shared=False)
        await ann.feeds.delete(deleted)
        for feed in (unshared, deleted):
            await ben.feeds.unfollow(feed)
            await ben.feeds.unfollow(feed)
            with pytest.raises(NotFound):
                await cyd.feeds.unfollow(feed)


@in_loop
async def test_feed_with_a_list_is_read_by_its_owner_only_and_cannot_be_shared() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await ann.follow(ben)
        friends = await ann.lists.create("friends")
        await ann.lists.put_on(friends, ben)
        await ben.create("1")
        await cyd.create("2")
        await shoal.settle()
        declared = {"sources": [{"from": "list", "list": str(friends.id)}]}
        mine = await ann.feeds.create("Friends", declared)
        assert texts(await ann.read_feed(mine)) == ["1"]
        with pytest.raises(Unfit, match="a feed with a list cannot be shared"):
            await ann.feeds.update(mine, shared=True)
        with pytest.raises(Unfit, match="a feed with a list cannot be shared"):
            await ann.feeds.create("Friends", declared, shared=True)
        with pytest.raises(InvalidInput, match=r"sources\[0\].list: expected the id of one of your lists"):
            await ben.feeds.create("Friends", declared)
        outer = {"sources": [{"from": "feed", "feed": str(mine.id)}]}
        assert texts(await ann.read_feed(await ann.feeds.create("Outer", outer))) == ["1"]
        with pytest.raises(Unfit, match="is not shared"):
            await ann.feeds.create("Outer", outer, shared=True)
        await ann.lists.delete(friends)
        assert texts(await ann.read_feed(mine)) == []


@in_loop
async def test_member_has_a_limited_number_of_feeds_under_concurrent_requests() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        for number in range(MAX_FEEDS_OF_MEMBER - 1):
            await ann.feeds.create(f"{number}", BREAD)
        made = await asyncio.gather(*[ann.feeds.create("more", BREAD) for _ in range(3)], return_exceptions=True)
        assert [isinstance(each, Unfit) for each in made].count(True) == 2
        assert len(await ann.feeds.all()) == MAX_FEEDS_OF_MEMBER


@pytest.mark.parametrize(
    ("title", "message"), [("", "title: this must not be empty"), (" ", "empty"), ("a" * 101, "the maximum is 100")]
)
@in_loop
async def test_invalid_feed_title_is_refused(title: str, message: str) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        with pytest.raises(InvalidInput, match=message):
            await ann.feeds.create(title, BREAD)
        assert await ann.feeds.all() == []


@in_loop
async def test_dry_run_shows_entries_and_compares_them_with_another_declaration() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        posts = [await ben.create(f"{number} #bread") for number in range(4)]
        await ann.like(posts[0])
        await shoal.settle()
        before = await contents(shoal.network.store)
        best = {**BREAD, **by("likes * $weight", weight={"type": "number", "default": 1, "minimum": 0, "maximum": 9})}
        alone = await ann.feeds.dry_run(best, 2)
        assert [tried.entry.post.text for tried in alone.entries] == ["0 #bread", "3 #bread"]
        assert (alone.entries[0].why.score, alone.entries[0].before, alone.comparison) == (1.0, None, None)
        compared = await ann.feeds.dry_run(best, 2, other=BREAD, parameters={"weight": 9})
        assert [(tried.why.score, tried.before) for tried in compared.entries] == [(9.0, None), (0.0, 1)]
        assert compared.comparison is not None
        assert compared.comparison.overlap == 0.5
        assert [shown.entry.post.text for shown in compared.comparison.lost] == ["2 #bread"]
        same = await ann.feeds.dry_run(BREAD, 4, other=BREAD)
        assert same.comparison is not None
        assert (same.comparison.overlap, same.comparison.lost) == (1.0, [])
        assert same.comparison.rank_biased_overlap == pytest.approx(1.0)
        wrong: tuple[dict[str, Any], ...] = (
            {"sources": []},
            {"sources": [{"from": "list", "list": str(n)} for n in range(3)]},
        )
        for bad in wrong:
            with pytest.raises(InvalidInput):
                await ann.feeds.dry_run(bad)
        with pytest.raises(InvalidInput, match="weight: expected a number from 0 to 9"):
            await ann.feeds.dry_run(best, parameters={"weight": 10})
        assert await contents(shoal.network.store) == before


@in_loop
async def test_feed_replay_compares_first_posts_of_active_members() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ann.follow(ben)
        posts = [await ben.create(f"{number} #bread") for number in range(4)]
        await ann.create("mine")
        await ann.like(posts[0])
        await shoal.server_feeds.create("bread", BREAD)
        await shoal.settle()
        before = await contents(shoal.network.store)
        declared = json.dumps({"sources": [{"from": "followees"}, *BREAD["sources"]], **by("likes")})
        report = await ReplayFeed("bread", declared, ReplayOptions(top=2)).carry_out(shoal.network, nothing)
        assert (report.active, report.sampled, report.figures.members) == (2, 2, 2)
        assert report.figures.overlap == 0.5
        assert await contents(shoal.network.store) == before


@in_loop
async def test_feed_trial_of_operator_shows_lines_of_a_member_with_positions() -> None:
    async with Shoal.open("memory://") as shoal:
        _, ben = await register(shoal, "ann", "ben")
        await ben.create("0 #bread")
        await ben.create("1 #bread")
        await shoal.settle()
        await shoal.server_feeds.create("bread", BREAD)
        declared = json.dumps({**BREAD, **by("age_hours")})
        shown = await TryFeed(declared, "ann", 5, "bread").carry_out(shoal.network, nothing)
        assert [line.text for line in shown.lines] == ["0 #bread", "1 #bread"]
        assert (shown.positions, shown.overlap, shown.cost.candidates) == ([2, 1], 1.0, 200)
        assert [reason.name for reason in shown.lines[0].reasons] == ["age_hours"]


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("author", {"4": (3, "20"), "3": (2, "1")}),
        ("tag", {"4": (2, "1"), "3": (2, "0"), "2": (1, "")}),
        ("day", {"4": (5, "3210")}),
    ],
)
@in_loop
async def test_aggregated_feed_shows_best_post_of_each_group_with_ids_of_others(
    aggregate: str, expected: dict[str, tuple[int, str]]
) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        posts = {}
        for number, (who, text) in enumerate(
            [(ann, "0 #cake"), (ben, "1 #bread #cake"), (ann, "2"), (ben, "3 #cake #bread"), (ann, "4 #bread")]
        ):
            posts[(await who.create(text)).id] = str(number)
        await shoal.settle()
        everybody = {"sources": [{"from": "everybody"}], "aggregate": aggregate}
        await shoal.server_feeds.create("best", {**everybody, **by("-age_hours")})
        page = await ann.read_feed("best")
        found = {}
        for shown in page.entries:
            assert shown.why.group is not None
            others = "".join(posts[id_] for id_ in shown.why.group.ids)
            found[shown.entry.post.text[0]] = (shown.why.group.size, others)
        assert found == expected
        first = await ann.read_feed("best", limit=1)
        if first.cursor:
            following = await ann.read_feed("best", limit=1, cursor=first.cursor)
            assert following.entries[0].why.group == page.entries[1].why.group
        with pytest.raises(InvalidInput, match="aggregate: needs an order by recipe or expression"):
            await shoal.server_feeds.update("best", declaration=everybody)


@in_loop
async def test_seen_term_lowers_posts_that_the_reader_has_seen() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.create("0 #bread")
        newest = await ben.create("1 #bread")
        await shoal.settle()
        await shoal.server_feeds.create("best", {**BREAD, **by("-age_hours - 10 * seen")})
        assert texts(await ann.read_feed("best")) == ["1 #bread", "0 #bread"]
        await ann.mark_seen(newest)
        assert texts(await ann.read_feed("best")) == ["0 #bread", "1 #bread"]
        assert texts(await shoal.visitor.read_feed("best")) == ["1 #bread", "0 #bread"]


@in_loop
async def test_unread_count_of_a_feed_starts_at_the_read_position_on_every_store(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        posts = [await ben.create(f"{number} #bread") for number in range(3)]
        await ann.create("mine #bread")
        await shoal.settle()
        await shoal.server_feeds.create("bread", BREAD)
        assert await ann.feeds.unread("bread") == (3, False, 0)
        assert await ann.feeds.mark_read("bread", posts[0]) == (2, False, posts[0].id)
        assert await ben.feeds.unread("bread") == (1, False, 0)
        await ben.create("3 #bread")
        await ben.delete(posts[1])
        await shoal.settle()
        assert await ann.feeds.unread("bread") == (2, False, posts[0].id)
        await shoal.server_feeds.update("bread", declaration={**BREAD, **by("likes")})
        with pytest.raises(InvalidInput, match="a ranked feed has no read position"):
            await ann.feeds.unread("bread")
        with pytest.raises(InvalidInput, match="a ranked feed has no read position"):
            await ann.feeds.mark_read("bread", posts[0])
        assert (await check(shoal.network)).clean


@in_loop
async def test_unread_count_of_a_feed_is_limited() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        for _ in range(101):
            await ben.create("#bread")
        await shoal.settle()
        await shoal.server_feeds.create("bread", BREAD)
        found = await ann.feeds.unread("bread")
        assert (found.number, found.more) == (100, True)


RECIPE = KindDraft(
    name="recipe",
    schema={"type": "object", "properties": {"minutes": {"type": "integer"}, "cuisine": {"type": "string"}}},
    index={"minutes": "number", "cuisine": "string"},
    pairs=(("cuisine", "minutes"),),
)


@in_loop
async def test_feed_selects_posts_of_a_kind_by_fields_on_every_store(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ann.follow(ben)
        await shoal.kinds.declare(RECIPE)
        await shoal.settle()
        for text, minutes, cuisine in (("1", 10, "thai"), ("2", 40, "thai"), ("3", 20, "greek")):
            await ben.create(text, kind="recipe", data={"minutes": minutes, "cuisine": cuisine})
        await ben.create("4", kind="recipe", data={"minutes": 5, "cuisine": "thai"}, visibility="followers")
        await ben.create("5")
        await shoal.settle()
        kind = {"from": "kind", "kind": "recipe"}
        assert await matching(shoal, ann, kind) == ["3", "2", "1"]
        assert await matching(shoal, ann, {**kind, "where": {"minutes": "..30"}}) == ["3", "1"]
        assert await matching(shoal, ann, {**kind, "where": {"minutes": 40}}) == ["2"]
        assert await matching(shoal, ann, {**kind, "where": {"cuisine": "thai", "minutes": "20.."}}) == ["2"]
        assert await matching(shoal, ann, {**kind, "where": {"cuisine": ["thai", "greek"]}}) == ["3", "2", "1"]
        filters = {"kinds": ["recipe"], "fields": {"minutes": "..30", "cuisine": "thai"}}
        assert await matching(shoal, ann, {"from": "followees"}, filters=filters) == ["4", "1"]
        assert await matching(shoal, ann, {"from": "followees"}, filters={"kinds": ["recipe"]}) == ["4", "3", "2", "1"]


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"sources": [{"from": "kind", "kind": "run"}]}, "there is no kind 'run'"),
        (
            {"sources": [{"from": "kind", "kind": "recipe", "where": {"color": "red"}}]},
            r"sources\[0\].where: 'color' has",
        ),
        ({"sources": [{"from": "kind", "kind": "recipe", "where": {"minutes": "red"}}]}, "minutes must be a number"),
        ({**BREAD, "filters": {"kinds": ["run"]}}, "there is no kind 'run'"),
        ({**BREAD, "filters": {"fields": {"minutes": 1}}}, "needs exactly one of kinds"),
        ({**BREAD, "filters": {"kinds": ["recipe"], "fields": {"color": "red"}}}, "filters.fields: 'color' has"),
    ],
)
@in_loop
async def test_feed_with_unknown_kind_or_field_is_refused(declared: dict[str, Any], message: str) -> None:
    async with Shoal.open("memory://") as shoal:
        await shoal.kinds.declare(RECIPE)
        with pytest.raises(InvalidInput, match=message):
            await shoal.server_feeds.create("recipes", declared)


@in_loop
async def test_feed_whose_kind_lost_its_index_shows_no_posts_of_it() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await shoal.kinds.declare(RECIPE)
        await shoal.settle()
        await ann.create("1", kind="recipe", data={"minutes": 10})
        await ann.create("2 #bread")
        await shoal.settle()
        sources = [{"from": "kind", "kind": "recipe", "where": {"minutes": 10}}, *BREAD["sources"]]
        await shoal.server_feeds.create("recipes", {"sources": sources})
        filters = {"kinds": ["recipe"], "fields": {"minutes": 10}}
        await shoal.server_feeds.create("quick", {"sources": [{"from": "everybody"}], "filters": filters})
        assert (await all_texts(ann, "recipes"), await all_texts(ann, "quick")) == (["2 #bread", "1"], ["1"])
        await shoal.kinds.declare(KindDraft(name="recipe", schema=RECIPE.schema))
        await shoal.settle()
        assert (await all_texts(ann, "recipes"), await all_texts(ann, "quick")) == (["2 #bread"], [])


@in_loop
async def test_saved_values_of_parameters_apply_to_the_feed_as_a_list_on_every_store(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        for number in range(3):
            await ann.create(f"{number} #bread")
        weight = {"type": "number", "default": -1, "minimum": -1, "maximum": 1}
        flag = {"type": "boolean", "default": False}
        declaration = {"sources": [BREAD["sources"][0]], **by("age_hours * $weight", weight=weight, flag=flag)}
        feed = await ann.feeds.create("Bread", declaration, shared=True)

        async def listed(who: Handle) -> list[str]:
            page = await named_feeds.list_page(shoal.network.reads, who.id, await who.named_feed(feed), Cursor(limit=9))
            return [entry.post.text for entry in page.entries]

        newest, oldest = [f"{number} #bread" for number in (2, 1, 0)], [f"{number} #bread" for number in range(3)]
        assert await listed(ben) == newest
        with pytest.raises(Unfit, match="follow the feed first"):
            await ben.feeds.set_parameters(feed, {"weight": 1})
        await ben.feeds.follow(feed)
        assert await ben.feeds.set_parameters(feed, {"weight": 1, "flag": True}) == {"weight": 1.0, "flag": True}
        assert await ben.feeds.parameters(feed) == {"weight": 1.0, "flag": True}
        assert (await listed(ben), await listed(ann)) == (oldest, newest)
        assert await ann.feeds.set_parameters(feed, {"weight": 0.5}) == {"weight": 0.5}
        assert await listed(ann) == oldest
        for wrong in ({"weight": 2}, {"size": 1}, {"weight": "x"}):
            with pytest.raises(InvalidInput):
                await ben.feeds.set_parameters(feed, wrong)
        assert await ben.feeds.parameters(feed) == {"weight": 1.0, "flag": True}
        # A change of the feed may make a saved value invalid.
        narrower = {**declaration, "parameters": {"weight": {**weight, "maximum": 0.7}, "flag": flag}}
        await ann.feeds.update(feed, declaration=narrower)
        assert await ben.feeds.parameters(feed) == {"flag": True}
        assert (await listed(ben), await listed(ann)) == (newest, oldest)
        await ben.feeds.set_parameters(feed, {})
        assert await ben.feeds.parameters(feed) == {}
        await ben.feeds.set_parameters(feed, {"weight": 0.5})
        await ben.feeds.unfollow(feed)
        assert await ben.feeds.parameters(feed) == {}
        await cyd.feeds.follow(feed)
        await cyd.feeds.set_parameters(feed, {"weight": 0.5})
        await ann.feeds.delete(feed)
        await shoal.settle()
        assert (await check(shoal.network)).clean
