"""A reported post is hidden from its reporters on every surface, and refuses their interactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from shoal import Handle, Shoal
from shoal.admin.consistency.check import check
from shoal.commands.polls import PollDraft
from shoal.core.errors import NotFound
from shoal.graph.contract import Cursor
from shoal.graph.schema import POST_REPORTED_BY, REPORTS_POST
from shoal.queries.hydration import Entry, hydrate_taken_back
from shoal.queries.pipeline import Page
from shoal.queries.posts import SavedPage
from tests.async_runner import in_loop
from tests.flows.members import home_texts, register, texts
from tests.flows.notifications.home_listener import listening
from tests.flows.query_counts import calls
from tests.flows.simulation.invariants import GraphSnapshot


@pytest.fixture(params=["one store", "two stores"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str | dict[str, str]:
    """The stores of a network: Ann and Ben are in another store than Dan and Joe."""
    if request.param == "one store":
        return "memory://"
    return {"0-31": f"sqlite:///{tmp_path}/one.db", "32-63": f"sqlite:///{tmp_path}/two.db"}


async def refuses(act: Awaitable[object]) -> bool:
    try:
        await act
    except NotFound:
        return True
    return False


async def _found(asked: Awaitable[Page | SavedPage | list[Entry]]) -> list[str]:
    found = await asked
    return texts(found if isinstance(found, list) else found.entries)


@in_loop
async def test_reported_post_is_hidden_from_reporter_on_every_surface() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        await cyd.follow(ann)
        await cyd.follow(ben)
        circle = await cyd.lists.create("circle")
        await cyd.lists.put_on(circle, ann)
        post = await ann.create("rude #words to @cyd")
        await ben.share(post)
        await ann.pin(post)
        await ben.like(post)
        for keep in (cyd.like, cyd.bookmark):
            await keep(post)
        reply = await ben.comment(post, "well")
        await shoal.settle()

        async def notified() -> list[str]:
            page = await cyd.notifications.page()
            return [one.entry.post.text for one in page.items if one.entry]

        async def above() -> list[str]:
            return texts((await cyd.thread(reply)).above)

        surfaces: dict[str, Callable[[], Awaitable[list[str]]]] = {
            "home": lambda: home_texts(cyd),
            "public": lambda: _found(cyd.public()),
            "tag": lambda: _found(cyd.tagged("words")),
            "list": lambda: _found(cyd.lists.timeline(circle)),
            "profile": lambda: _found(cyd.posts(ann)),
            "sharer": lambda: _found(cyd.posts(ben)),
            "search": lambda: _found(cyd.search_posts("rude")),
            "trends": lambda: _found(cyd.trending_posts()),
            "likes": lambda: _found(cyd.likes()),
            "bookmarks": lambda: _found(cyd.bookmarks()),
            "above": above,
            "notifications": notified,
        }
        for name, surface in surfaces.items():
            assert [text for text in await surface() if "rude" in text], name
        await cyd.report(ann, posts=[post])
        await shoal.settle()
        for name, surface in surfaces.items():
            assert not [text for text in await surface() if "rude" in text], name
        # The reply of another member stays visible.
        assert (await cyd.read(reply)).post.text == "well"
        for ask in (cyd.read, cyd.thread, cyd.history, cyd.likers, cyd.shared_by, cyd.reactions):
            assert await refuses(ask(post)), ask
        # Other members still see the post.
        assert (await ben.read(post)).post.text == post.text
        assert (await ann.read(post)).post.text == post.text


@in_loop
async def test_home_timeline_page_is_refilled_behind_reported_posts() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        posts = [await ann.create(f"{n}") for n in range(20)]
        await shoal.settle()
        await ben.report(ann, posts=[post for n, post in enumerate(posts) if n % 2 or n > 15])
        left = [str(n) for n in range(14, -1, -2)]
        first = await ben.home(limit=3)
        assert texts(first) == left[:3]
        assert await home_texts(ben, limit=3) == left
        assert texts(await ben.posts(ann, limit=5)) == left[:5]
        assert texts(await ben.public(limit=5)) == left[:5]


@in_loop
async def test_reported_post_interactions_by_reporter_are_refused(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben = await register(shoal, "ann", "dan")
        asked = await ann.create("which?", poll=PollDraft(options=("this", "that"), seconds=600))
        share = await (await shoal.register("cyd")).share(asked)
        await ben.report(ann, posts=[asked])
        await shoal.settle()
        before = await GraphSnapshot.of(shoal.network.store)
        for id_ in (asked.id, share.id):
            assert await refuses(ben.like(id_))
            assert await refuses(ben.share(id_))
            assert await refuses(ben.bookmark(id_))
            assert await refuses(ben.react(id_, "👍"))
            assert await refuses(ben.comment(id_, "well"))
            assert await refuses(ben.mute_thread(id_))
        assert await refuses(ben.vote(asked.poll_id, 0))
        await shoal.settle()
        after = await GraphSnapshot.of(shoal.network.store)
        assert (after.objects, after.alive) == (before.objects, before.alive)


@in_loop
async def test_reported_post_reactions_by_reporter_can_be_undone() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("rude")
        await ben.like(post)
        await ben.bookmark(post)
        await ben.share(post)
        await ben.react(post, "👍")
        await ben.report(ann, posts=[post])
        await ben.unlike(post)
        await ben.unbookmark(post)
        await ben.unshare(post)
        await ben.unreact(post, "👍")
        await shoal.settle()
        entry = await ann.read(post)
        assert (entry.likes, entry.shares, entry.emoji) == (0, 0, ())
        bare = await hydrate_taken_back(shoal.network.store, ben.id, post.id)
        assert bare is not None
        assert (bare.post.id, bare.post.text) == (post.id, "")


@in_loop
async def test_home_stream_sends_no_events_of_post_reported_by_listener() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        post = await ann.create("rude")
        await shoal.settle()
        async with listening(ben) as listener:
            await ben.report(ann, posts=[post])
            await ann.update(post, "ruder")
            await ann.create("kind")
            await shoal.settle()
            await listener.hears("+kind")


@in_loop
async def test_post_reported_by_its_own_author_stays_visible() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        post = await ann.create("mine")
        await ann.report(ann, posts=[post])
        assert (await ann.read(post)).post.text == "mine"


@in_loop
async def test_report_associations_are_deleted_with_the_post_and_the_report_is_kept(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, cyd = await register(shoal, "ann", "dan", "joe")
        post = await ann.create("rude")
        report = await ben.report(ann, posts=[post])
        await cyd.report(ann, posts=[post])
        await shoal.settle()
        store = shoal.network.store
        held = (await store.assoc_get(ben.id, (REPORTS_POST,), (post.id,)))[REPORTS_POST]
        assert int.from_bytes(held[post.id].data) == report.id
        assert {one.id2 for one in await store.assoc_range(post.id, POST_REPORTED_BY, Cursor())} == {ben.id, cyd.id}
        assert (await check(shoal.network)).clean
        await ann.delete(post)
        await shoal.settle()
        assert await store.assoc_range(post.id, POST_REPORTED_BY, Cursor()) == []
        assert await store.assoc_range(ben.id, REPORTS_POST, Cursor()) == []
        assert (await shoal.moderation.report(report)).post_ids == (post.id,)
        assert (await check(shoal.network)).clean


@in_loop
async def test_home_timeline_with_reported_posts_takes_no_extra_reads() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        posts = [await ann.create(f"{n}") for n in range(60)]
        await shoal.settle()

        async def cost() -> int:
            counted = await calls(shoal.network, lambda reads: _home(ben))
            return counted.total()

        await ben.home(limit=40)
        before = await cost()
        await ben.report(ann, posts=posts[::20])
        await shoal.settle()
        assert await cost() == before


async def _home(who: Handle) -> list[Entry]:
    return (await who.home(limit=20)).entries
