"""Replays of the ranked feed with another recipe: they compare what the feed would show, and write nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn, cast

import pytest

from shoal import Handle, Shoal
from shoal.admin.feeds import ReplayOptions, ReplayReport, active_since, sample
from shoal.admin.operations import ReplayRecipe
from shoal.admin.report import nothing
from shoal.commands import oauth, posts
from shoal.commands.posts import Draft
from shoal.core.places import Place
from shoal.core.ranking.recipes import BALANCED, PRESETS, Recipe
from shoal.queries.context import ExpiringCache, Reads, Renewed
from shoal.queries.foryou import feed
from shoal.queries.foryou.preview import LeftOut, first_entries
from shoal.timelines.contract import Timelines
from tests.async_runner import in_loop
from tests.flows.feeds.test_catch_up import before
from tests.flows.feeds.test_for_you import PATIENT, network, only
from tests.flows.members import register
from tests.stores import contents

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


def fresh(shoal: Shoal, recipe: Recipe = BALANCED) -> Reads:
    """Return reads with empty caches, and this recipe as the server default."""
    return replace(
        shoal.network.reads,
        recipe=recipe,
        interests=ExpiringCache(),
        near=ExpiringCache(),
        neighbors=ExpiringCache(),
        trending=Renewed(),
    )


async def replayed(shoal: Shoal, recipe: Recipe, other: Recipe = BALANCED, **options: int) -> ReplayReport:
    """Replay a recipe on a server with another default recipe."""
    running = replace(shoal.network, reads=fresh(shoal, other))
    return await ReplayRecipe(recipe, ReplayOptions(**options)).carry_out(running, nothing)


async def aged(shoal: Shoal, who: Handle, text: str, hours: float) -> int:
    """Create a post dated some hours ago."""
    written = shoal.network.reads.tags.clock() - round(hours * HOUR_MS)
    return (await posts.create(shoal.network.writes, who.id, Draft(text=text), created_at=written)).id


async def fill(shoal: Shoal, people: Sequence[Handle]) -> None:
    """Create posts by every member; older posts get more likes."""
    for n, author in enumerate(people):
        for hours in (1, 20, 60, 150):
            post = await aged(shoal, author, f"{author.name} {hours} #sea{n} #sky", hours)
            for other in people[: hours // 30]:
                if other is not author:
                    await other.like(post)
    await shoal.settle()


@in_loop
async def test_recipe_replay_with_current_recipe_reports_no_changes() -> None:
    async with network() as (shoal, people):
        await fill(shoal, people)
        report = await replayed(shoal, BALANCED)
        found = report.figures
        assert (report.active, report.sampled, found.members, found.unchanged) == (5, 5, 5, 5)
        assert report.all_found
        assert found.overlap == 1.0
        assert found.rank_biased_overlap == pytest.approx(1.0)
        assert (found.gains, found.losses) == ((), ())
        assert found.age_hours.change == found.authors.change == found.tags.change == found.gini.change == 0.0
        assert found.age_hours.before > 1
        # Members are not shown their own posts, and no member has ten followers.
        assert (found.authors.before, found.authors_shown.before, found.exposure[0].authors) == (4.0, 5.0, 5)


@in_loop
async def test_recipe_replay_with_more_freshness_reports_younger_posts() -> None:
    async with network() as (shoal, people):
        await fill(shoal, people)
        popular = only(reactions=10.0)
        report = await replayed(shoal, only(reactions=1.0, freshness=10.0), popular, top=4)
        found = report.figures
        assert (report.before, report.after.weights.freshness) == (popular, 10.0)
        assert found.age_hours.after < found.age_hours.before
        assert found.overlap < 1
        assert found.unchanged == 0
        back = await replayed(shoal, popular, only(reactions=1.0, freshness=10.0), top=4)
        assert back.figures.age_hours.change == pytest.approx(-found.age_hours.change, abs=0.1)


@in_loop
async def test_recipe_replay_reports_authors_who_gain_and_lose() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, eve)):
        await aged(shoal, cyd, "quiet and new", 1)
        liked = await aged(shoal, ben, "liked and old", 100)
        for who in (dan, eve):
            await who.like(liked)
        await ann.home()
        await shoal.settle()
        report = await replayed(shoal, only(freshness=1.0), only(reactions=1.0), top=1)
        assert [one.name for one in report.figures.gains] == ["cyd"]
        assert [one.name for one in report.figures.losses] == ["ben"]
        (loser,) = report.figures.losses
        assert loser.followers == 1
        assert loser.share.before > loser.share.after


class Untouchable:
    """Timelines that fail on any use."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"a replay used home timelines: {name}")


@in_loop
async def test_recipe_replay_writes_nothing() -> None:
    async with network() as (shoal, people):
        ann, ben, *_ = people
        await fill(shoal, people)
        await ann.mark_seen(*[one.entry.post for one in (await ann.for_you()).entries[:3]])
        await shoal.settle()
        stored = await contents(shoal.network.store)
        warm = sorted(await shoal.network.timelines.members(100))
        assert ann.id in warm
        assert ben.id not in warm
        kept = shoal.network.reads.readings
        reads = replace(fresh(shoal), timelines=cast("Timelines", Untouchable()), readings=Unkept())
        operation = ReplayRecipe(PRESETS["fresh"], ReplayOptions())
        assert (await operation.carry_out(replace(shoal.network, reads=reads), nothing)).figures.members == 5
        assert await contents(shoal.network.store) == stored
        assert sorted(await shoal.network.timelines.members(100)) == warm
        assert shoal.network.reads.readings is kept
        assert reads.interests.get(ann.id, reads.tags.clock()) is None
        assert not shoal.network.reads.being_ranked


class Unkept:
    """Readings that fail when written."""

    async def keep(self, id_: int, data: bytes) -> NoReturn:
        raise AssertionError("a replay kept a reading")

    async def get(self, id_: int) -> bytes | None:
        return None


@in_loop
async def test_recipe_replay_entries_equal_ranked_feed() -> None:
    async with network() as (shoal, people):
        ann, ben, cyd, dan, eve = people
        await fill(shoal, people)
        for n in range(5):
            await dan.create(f"around {n}", place=Place(54.1, -0.2 + n / 5))
        await ann.create("here", place=(54.1, -0.2))
        await ann.mute(eve)
        await ann.like(await ben.create("a tern #bird"))
        await cyd.comment(await eve.create("asked"), "an answer")
        await ann.mark_seen(*[one.entry.post for one in (await ann.for_you()).entries[:2]])
        await shoal.settle()
        recipes = (BALANCED, PRESETS["fresh"], Recipe(weights=PRESETS["nearby"].weights, near_km=100.0))
        for who in people:
            found = await first_entries(fresh(shoal), who.id, recipes, 20, 0)
            assert not isinstance(found, LeftOut)
            for recipe, entries in zip(recipes, found, strict=True):
                page = await feed.page(fresh(shoal, recipe), who.id, 20, deadline=PATIENT)
                assert not page.by_time
                assert [entry.id for entry in entries] == [one.entry.id for one in page.entries]
        shown = await first_entries(fresh(shoal), ann.id, recipes[2:], 20, 0)
        assert not isinstance(shown, LeftOut)
        assert any("around" in entry.post.text for entry in shown[0])


@in_loop
async def test_recipe_replay_skips_and_counts_members_without_default_recipe() -> None:
    async with network() as (shoal, people):
        ann, ben, cyd, dan, eve = people
        await fill(shoal, people)
        await ann.set_recipe("fresh")
        await ben.switch_ranking(on=False)
        await shoal.suspend(eve)
        (new,) = await register(shoal, "new")
        await new.like(await dan.create("seen by a newcomer"))
        for other in (cyd, dan):
            await new.block(other)
        await new.mute(ann)
        await new.mute(ben)
        await shoal.settle()
        report = await replayed(shoal, PRESETS["popular"])
        assert (report.active, report.sampled) == (6, 5)
        assert (report.own_recipe, report.ranking_off, report.nothing_to_rank, report.figures.members) == (1, 1, 1, 2)


@in_loop
async def test_recipe_replay_ignores_posts_older_than_period() -> None:
    async with network() as (shoal, (ann, ben, _, _, _)):
        await aged(shoal, ben, "of last week", 24 * 8)
        await aged(shoal, ben, "of this week", 24 * 6)
        await shoal.settle()
        now = shoal.network.reads.tags.clock()
        for days, expected in ((7, ["of this week"]), (9, ["of this week", "of last week"])):
            found = await first_entries(fresh(shoal), ann.id, (only(freshness=1.0),), 20, now - days * DAY_MS)
            assert not isinstance(found, LeftOut)
            assert [entry.post.text for entry in found[0]] == expected
        report = await replayed(shoal, BALANCED, days=5)
        assert (report.active, report.figures.members, report.figures.overlap) == (0, 0, 1.0)


@in_loop
async def test_recipe_replay_seed_selects_identical_sample() -> None:
    async with network() as (shoal, people):
        await fill(shoal, people)
        some = await replayed(shoal, PRESETS["fresh"], members=2, seed=3)
        assert (some.active, some.sampled, some.figures.members) == (5, 2, 2)
        now = shoal.network.reads.tags.clock()
        active = await active_since(shoal.network.store, shoal.network.timelines, now - 7 * DAY_MS, now, nothing)
        graph = shoal.network.reads.graph
        drawn = [await sample(graph, active, 2, seed) for seed in range(8)]
        assert drawn == [await sample(graph, active, 2, seed) for seed in range(8)]
        assert len({frozenset(one) for one in drawn}) > 1
        assert sorted(await sample(graph, active, 10, 0)) == sorted(who.id for who in people)


@in_loop
async def test_recipe_replay_counts_members_who_wrote_liked_shared_logged_in_or_read_as_active() -> None:
    async with Shoal.open("memory://") as shoal:
        wrote, liked, shared, logged_in, read, _, old = await register(
            shoal, "wrote", "liked", "shared", "logged", "read", "idle", "imported"
        )
        post = await wrote.create("hello")
        await liked.like(post)
        await shared.share(post)
        await aged(shoal, old, "long ago", 24 * 40)
        await read.home()
        app = (await oauth.register(shoal.network.writes, "app")).app
        await oauth.issue_token(shoal.network.writes, app.id, logged_in.id, ("read",))
        await shoal.settle()
        now = shoal.network.reads.tags.clock()
        found = await active_since(shoal.network.store, shoal.network.timelines, now - DAY_MS, now + 1, nothing)
        assert found.complete
        assert found.members == sorted(who.id for who in (wrote, liked, shared, logged_in, read))


@in_loop
async def test_recipe_replay_reports_incomplete_activity_scan() -> None:
    async with Shoal.open("memory://") as shoal:
        people = await register(shoal, *(f"member{n}" for n in range(12)))
        for who in people:
            await who.create("hello")
        await shoal.settle()
        store, timelines = shoal.network.store, shoal.network.timelines
        now = shoal.network.reads.tags.clock() + 1

        async def found(pages: int, page_size: int) -> tuple[int, bool]:
            active = await active_since(store, timelines, now - HOUR_MS, now, nothing, pages=pages, page_size=page_size)
            return len(active.members), active.complete

        assert await found(1, 1_000) == (12, True)
        # The first 24 objects are the members and their credentials.
        assert await found(1, 30) == (6, False)
        assert await found(2, 24) == (12, True)
        assert await found(4, 5) == (0, False)


@in_loop
async def test_recipe_replay_activity_scan_pages_are_spread_over_period() -> None:
    async with Shoal.open("memory://") as shoal:
        with before(shoal, days=2):
            people = await register(shoal, "ann", "ben", "cyd", "dan", "eve")
        with before(shoal, days=0.99):
            for who in people[:4]:
                await who.create("at the beginning")
        await people[4].create("at the end")
        await shoal.settle()
        now = shoal.network.reads.tags.clock() + 1
        active = await active_since(
            shoal.network.store, shoal.network.timelines, now - DAY_MS, now, nothing, pages=20, page_size=3
        )
        # The second page begins more than an hour after the first.
        assert not active.complete
        assert people[4].id in active.members
        assert len(active.members) == 4
