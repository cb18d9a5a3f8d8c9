"""The For You feed: candidate sources, exclusions, the effect of each term, stable pages, and the fallback by time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from shoal import Handle, Shoal, Visibility
from shoal.commands import posts
from shoal.commands.posts import Draft
from shoal.core.errors import InvalidInput, NotFound, Unavailable
from shoal.core.model import Media, MediaKind, Post
from shoal.core.places import Place
from shoal.core.ranking.recipes import BALANCED, PRESETS, TERM_NAMES, Recipe, Weights
from shoal.core.ranking.reranking import EXPLORED_BELOW, PHOTOS, Source
from shoal.core.ranking.terms import words_of
from shoal.queries.context import ExpiringCache, Renewed
from shoal.queries.foryou import feed
from shoal.queries.foryou.feed import RankedEntry
from shoal.queries.foryou.ranking import ReadingCursor, Why, decode_cursor
from shoal.queries.foryou.scoring import content_facts
from shoal.queries.foryou.sources import MOST, _interleaved
from shoal.timelines.contract import MemoryReadings
from tests.api.in_memory_network import picture
from tests.async_runner import in_loop
from tests.flows.members import register
from tests.flows.query_counts import calls

NONE = Weights(**dict.fromkeys(TERM_NAMES, 0.0))
PATIENT = 60.0
"""Seconds: a test machine may be slow."""


def only(**weights: float) -> Recipe:
    """Return a recipe with these weights alone, and without exploration."""
    return Recipe(weights=Weights(**{**dict.fromkeys(TERM_NAMES, 0.0), **weights}), exploration=0.0, author_most=10)


async def ranked(who: Handle, recipe: Recipe = BALANCED, limit: int = 100) -> list[RankedEntry]:
    """Return the first page of a member's feed, ranked with empty caches."""
    reads = replace(
        who._network.reads,
        recipe=recipe,
        interests=ExpiringCache(),
        near=ExpiringCache(),
        neighbors=ExpiringCache(),
        trending=Renewed(),
    )
    page = await feed.page(reads, who.id, limit, explain=True, deadline=PATIENT)
    assert not page.by_time
    return page.entries


async def texts(who: Handle, recipe: Recipe = BALANCED) -> list[str]:
    return [one.entry.post.text for one in await ranked(who, recipe)]


async def value(who: Handle, text: str, name: str, recipe: Recipe = BALANCED) -> float:
    """Return the value of a term of the post with this text."""
    (why,) = [one.why for one in await ranked(who, recipe) if one.entry.post.text == text]
    assert why is not None
    (term,) = [term for term in why.terms if term.name == name]
    return term.value


async def first(who: Handle, **weights: float) -> str:
    """Return the text of the best post when ranked by these terms only."""
    return (await texts(who, only(**weights)))[0]


@asynccontextmanager
async def network(url: str = "memory://") -> AsyncIterator[tuple[Shoal, list[Handle]]]:
    """Ann follows Ben and Cyd; Dan and Eve are strangers."""
    async with Shoal.open(url) as shoal:
        people = await register(shoal, "ann", "ben", "cyd", "dan", "eve")
        ann, ben, cyd, _dan, _eve = people
        await ann.follow(ben)
        await ann.follow(cyd)
        yield shoal, people


@in_loop
async def test_ranked_feed_candidates_come_from_every_source() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, eve)):
        await ben.follow(eve)
        await cyd.create("by a followee")
        liked, shared, asked = [await dan.create(text) for text in ("liked", "shared", "asked")]
        await ben.like(liked)
        await ben.share(shared)
        await ben.comment(asked, "why?")
        await eve.create("by a friend of friends")
        fay, gus = await register(shoal, "fay", "gus")
        await ann.follow_tag("sea")
        await gus.create("followed #sea")
        old = await fay.create("before #sky")
        await ann.like(old)
        await fay.create("by a liked author")
        await gus.create("liked #sky")
        await gus.create("around the corner", place=(52.52, 13.45))
        await ann.create("here", place=(52.52, 13.40))
        await shoal.settle()
        sources = {one.entry.post.text: one.why.sources for one in await ranked(ann) if one.why is not None}
        for text, source in (
            ("by a followee", Source.FOLLOWEES),
            ("liked", Source.FRIENDS_LIKED),
            ("shared", Source.FRIENDS_SHARED),
            ("asked", Source.FRIENDS_COMMENTED),
            ("by a friend of friends", Source.FRIENDS_OF_FRIENDS),
            ("followed #sea", Source.TAGS_FOLLOWED),
            ("liked #sky", Source.TAGS_LIKED),
            ("by a liked author", Source.AUTHORS_LIKED),
            ("liked", Source.POPULAR),
            ("around the corner", Source.NEARBY),
            ("liked #sky", Source.EXPLORATION),
        ):
            assert source in sources[text], (text, source, sources[text])
        assert "why?" not in sources


@in_loop
async def test_ranked_feed_of_new_member_shows_existing_posts() -> None:
    async with network() as (shoal, (_, ben, _, dan, eve)):
        (new,) = await register(shoal, "new")
        assert await ranked(new) == []
        await ben.create("one")
        await eve.like(await dan.create("two"))
        await shoal.settle()
        assert sorted(await texts(new)) == ["one", "two"]


@in_loop
async def test_ranked_feed_exploration_prefers_authors_with_few_reactions() -> None:
    async with network() as (shoal, (_, ben, _, dan, _)):
        readers = await register(shoal, *(f"reader{n}" for n in range(EXPLORED_BELOW // 5)))
        for n in range(5):
            known = await ben.create(f"known {n}")
            for reader in readers:
                await reader.like(known)
        await dan.create("by a stranger whom few know")
        await ben.create("by a stranger whom many know")
        await shoal.settle()
        (new,) = await register(shoal, "new")
        await new.set_recipe(Recipe(exploration=0.5, author_most=10))
        shown = [one.entry.post.text for one in (await new.for_you(40)).entries]
        assert len(shown) == 7
        assert shown[1] == "by a stranger whom few know"
        assert shown[-1] == "by a stranger whom many know"


@in_loop
async def test_ranked_feed_excludes_hidden_blocked_muted_reported_and_opted_out() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, eve)):
        fay, gus, hal, ian, joy = await register(shoal, "fay", "gus", "hal", "ian", "joy")
        kinds = (Visibility.UNLISTED, Visibility.FOLLOWERS, Visibility.DIRECT)
        for kind in kinds:
            await dan.create(f"{kind.value} @ann", visibility=kind)
            await ben.create(f"{kind.value} of ben @ann", visibility=kind)
        bad = await cyd.create("reported")
        await ann.create("own")
        await ben.comment(await dan.create("asked"), "an answer")
        await dan.create("sensitive", sensitive=True)
        for author in (dan, eve, fay, gus, hal, ian, joy):
            await ben.follow(author)
            await author.create(f"shown by {author.name}")
        await ann.block(eve)
        await fay.block(ann)
        await ann.mute(gus)
        await ann.report(cyd, posts=[bad])
        await hal.update_profile(rankable=False)
        await ian.update_profile(discoverable=False)
        await shoal.suspend(joy)
        await shoal.settle()
        assert set(await texts(ann)) == {"shown by dan", "asked", "unlisted of ben @ann", "followers of ben @ann"}


@in_loop
async def test_ranked_feed_score_is_sum_of_term_contributions() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, _)):
        for author in (ben, cyd, dan):
            for n in range(5):
                await ann.like(await author.create(f"{author.name} {n} #sea and some more words", place=Place(50.0, n)))
        await shoal.settle()
        found = await ranked(ann)
        assert len(found) == 15
        for one in found:
            assert isinstance(one.why, Why)
            assert [term.name for term in one.why.terms] == list(TERM_NAMES)
            assert sum(term.contribution for term in one.why.terms) == pytest.approx(one.why.score, abs=1e-6)
            assert all(term.contribution == pytest.approx(term.value * term.weight, abs=1e-6) for term in one.why.terms)
        scores = [one.why.score for one in found if one.why is not None and not one.why.lost]
        assert scores == sorted(scores, reverse=True)


@in_loop
async def test_ranked_feed_reactions_raise_post_and_friends_reactions_weigh_more() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, eve)):
        a, b, c = [await ben.create(text) for text in ("a", "b", "c")]
        await dan.like(a)
        await eve.like(a)
        await cyd.like(b)
        await dan.like(c)
        await shoal.settle()
        assert await texts(ann, only(reactions=1.0)) == ["b", "a", "c"]
        assert await first(ann, reactions=-1.0) == "c"


@in_loop
async def test_ranked_feed_tag_affinity_rises_with_likes_and_falls_with_reports() -> None:
    async with network() as (shoal, (ann, ben, _, dan, eve)):
        await ben.create("one #sea")
        await ben.create("two #sky")
        liked = await dan.create("liked #sea")
        bad = await eve.create("reported #sky")
        await shoal.settle()
        assert await value(ann, "one #sea", "tags") == 0
        await ann.like(liked)
        await ann.report(eve, posts=[bad])
        await shoal.settle()
        assert await value(ann, "one #sea", "tags") > 0 > await value(ann, "two #sky", "tags")
        assert await first(ann, tags=1.0) in ("one #sea", "liked #sea")


@in_loop
async def test_ranked_feed_author_affinity_rises_with_each_interaction() -> None:
    async with network() as (shoal, (ann, ben, cyd, _, _)):
        mine, other = await ben.create("ben's"), await cyd.create("cyd's")
        await shoal.settle()
        before = await value(ann, "ben's", "author")
        assert before == await value(ann, "cyd's", "author") > 0
        await ann.share(mine)
        await shoal.settle()
        shared = await value(ann, "ben's", "author")
        await ann.bookmark(mine)
        await shoal.settle()
        assert before < shared < await value(ann, "ben's", "author") < 1
        assert await value(ann, "cyd's", "author") == before
        assert other.author_id == cyd.id


@in_loop
async def test_ranked_feed_nearby_post_ranks_above_distant_post() -> None:
    async with network() as (shoal, (ann, ben, _, _, _)):
        await ben.create("far", place=Place(-33.9, 151.2))
        await ben.create("near", place=Place(52.5, 13.5))
        await ben.create("nowhere")
        await shoal.settle()
        assert await value(ann, "near", "nearby") == 0
        await ann.create("mine", place=Place(52.5, 13.4))
        await shoal.settle()
        assert 0.9 < await value(ann, "near", "nearby") <= 1
        assert await value(ann, "far", "nearby") < 0.001
        assert await value(ann, "nowhere", "nearby") == 0
        assert await first(ann, nearby=1.0) == "near"


@in_loop
async def test_ranked_feed_likes_and_follows_by_friends_raise_post() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, eve)):
        await dan.create("dan's")
        post = await eve.create("eve's")
        await ben.follow(dan)
        await ben.follow(eve)
        await shoal.settle()
        following = await value(ann, "dan's", "friends")
        assert 0 < following == await value(ann, "eve's", "friends")
        await cyd.like(post)
        await shoal.settle()
        assert await value(ann, "eve's", "friends") > following
        assert await first(ann, friends=1.0) == "eve's"


@in_loop
async def test_ranked_feed_velocity_raises_old_post_and_is_relative_to_author() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, eve)):
        now = shoal.network.reads.tags.clock()
        people = await register(shoal, *(f"m{n}" for n in range(8)))
        old = await posts.create(shoal.network.writes, ben.id, Draft(text="old"), created_at=now - 90 * 86_400_000)
        famous = await cyd.create("famous")
        for one in people:
            await one.like(await cyd.create(f"before {one.name}"))
            for other in people:
                await other.like((await cyd.posts()).entries[0].post)
        await dan.create("quiet")
        await shoal.settle()
        assert await value(ann, "old", "velocity") == 0
        for one in people:
            await one.like(old)
            await one.like(famous)
        await shoal.settle()
        assert await value(ann, "old", "velocity") > await value(ann, "famous", "velocity") >= 0
        assert await first(ann, velocity=1.0) == "old"
        assert eve.id != dan.id


@in_loop
async def test_ranked_feed_rising_tag_raises_its_posts() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, eve)):
        await ben.create("plain #calm")
        for author in (ben, cyd, dan, eve):
            for n in range(3):
                await author.create(f"{author.name} {n} #storm")
        await shoal.settle()
        assert await value(ann, "ben 0 #storm", "rising") > 0
        assert await value(ann, "plain #calm", "rising") < await value(ann, "ben 0 #storm", "rising")
        assert "#storm" in await first(ann, rising=1.0)


@in_loop
async def test_ranked_feed_author_with_more_common_followees_ranks_higher() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, eve)):
        await dan.follow(ben)
        await dan.follow(cyd)
        await ben.follow(dan)
        await ben.follow(eve)
        await dan.create("dan's")
        await eve.create("eve's")
        await shoal.settle()
        assert await value(ann, "dan's", "common") > await value(ann, "eve's", "common") > 0
        assert await first(ann, common=1.0) == "dan's"


@in_loop
async def test_ranked_feed_author_with_hidden_connections_has_no_common_followees() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, _)):
        await dan.follow(ben)
        await dan.follow(cyd)
        await ben.follow(dan)
        await dan.create("dan's")
        await shoal.settle()
        assert await value(ann, "dan's", "common") > 0
        await dan.update_profile(hides_connections=True)
        assert await value(ann, "dan's", "common") == 0


def test_ranked_feed_candidates_above_limit_are_taken_from_every_source() -> None:
    found = dict.fromkeys(range(1500), Source.FOLLOWEES.value) | dict.fromkeys(range(2000, 2010), Source.POPULAR.value)
    chosen = list(_interleaved(found))
    assert len(chosen) == len(set(chosen)) == MOST
    assert set(range(2_000, 2_010)) <= set(chosen)
    assert list(_interleaved(dict.fromkeys(range(10), 1))) == list(range(10))


@in_loop
async def test_ranked_feed_seen_or_acted_on_posts_rank_lower() -> None:
    async with network() as (shoal, (ann, ben, _, _, _)):
        one, two, three = [await ben.create(text) for text in ("one", "two", "three")]
        await ann.mark_seen(one)
        await ann.mark_seen(one, two)
        await ann.like(three)
        await shoal.settle()
        assert await texts(ann, only(seen=-1.0)) == ["two", "one", "three"]
        assert [await value(ann, text, "seen") for text in ("one", "two", "three")] == [0.75, 0.5, 1.0]


@in_loop
async def test_ranked_feed_new_post_ranks_above_old_post() -> None:
    async with network() as (shoal, (ann, ben, _, _, _)):
        now = shoal.network.reads.tags.clock()
        await posts.create(shoal.network.writes, ben.id, Draft(text="old"), created_at=now - 86_400_000)
        await ben.create("new")
        await shoal.settle()
        assert await value(ann, "old", "freshness") == pytest.approx(0.5, abs=0.01)
        assert await first(ann, freshness=1.0) == "new"
        assert await first(ann, freshness=-1.0) == "old"


@in_loop
async def test_ranked_feed_post_with_text_ranks_above_post_of_hashtags_only() -> None:
    async with network() as (shoal, (ann, ben, _, _, _)):
        await ben.create("#a #b #c #d #e #f #g #h")
        await ben.create("The sea was calm in the morning and nobody was there")
        await shoal.settle()
        assert await first(ann, quality=1.0) == "The sea was calm in the morning and nobody was there"
        assert await value(ann, "#a #b #c #d #e #f #g #h", "quality") == 0


@in_loop
async def test_ranked_feed_reason_of_quality_states_which_pictures_are_described() -> None:
    async with network() as (shoal, (ann, ben, _, _, _)):
        pictures = [await ben.upload(picture(), description=described) for described in ("a boat", "", "")]
        await ben.create("", media=pictures)
        await shoal.settle()
        (one,) = await ranked(ann, only(quality=1.0))
        assert one.why is not None
        facts = one.why.facts(one.entry, "en")
        assert words_of("quality", one.why.terms[-1].value, facts) == "some of the post's media have descriptions"


@in_loop
async def test_ranked_feed_opens_with_photos_but_not_with_hidden_ones() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, _)):
        await cyd.create("old photo", media=[await cyd.upload(picture())])
        await ben.create("hidden photo", media=[await ben.upload(picture())], spoiler="careful")
        await ben.create("sensitive photo", media=[await ben.upload(picture())], sensitive=True)
        await dan.create("photo by a stranger", media=[await dan.upload(picture())])
        await shoal.settle()
        await ben.create("text")
        await shoal.settle()
        found = await ranked(ann, only(author=1.0, freshness=0.1))
        assert [one.entry.post.text for one in found] == [
            "old photo",
            "text",
            "sensitive photo",
            "hidden photo",
            "photo by a stranger",
        ]
        assert all(one.why is not None and one.why.rule == PHOTOS for one in found[:2])


def test_ranked_feed_post_with_audio_only_is_not_ranked_as_photo_post() -> None:
    def pictured(*kinds: MediaKind) -> bool:
        post = Post(id=1, author_id=2, text="")
        return content_facts(post, [Media(id=3, owner_id=2, kind=kind) for kind in kinds]).pictured

    assert not pictured()
    assert not pictured(MediaKind.AUDIO)
    assert pictured(MediaKind.AUDIO, MediaKind.VIDEO)


@in_loop
async def test_ranked_feed_reasons_state_numbers_of_likes_and_friends() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, eve)):
        for n in range(3):
            await ann.like(await eve.create(f"{n} #sea #sky", media=[await eve.upload(picture())]))
        await ann.like(await eve.create("only text #sea"))
        post = await dan.create("new #sea")
        for friend in (ben, cyd):
            await friend.like(post)
        await ben.share(post)
        await eve.create("also new #sand")
        await ben.follow(eve)
        await shoal.settle()
        found = {one.entry.post.text: one for one in await ranked(ann)}

        def words(text: str, name: str) -> str:
            one = found[text]
            assert one.why is not None
            value = next(term.value for term in one.why.terms if term.name == name)
            return words_of(name, value, one.why.facts(one.entry, "en"))

        assert words("new #sea", "tags") == "because you liked 3 #sea photos"
        assert words("new #sea", "friends") == "liked or shared by 2 people you follow"
        assert words("also new #sand", "author") == "because you liked 4 posts by eve"
        assert words("also new #sand", "friends") == "someone you follow follows eve"


@in_loop
async def test_ranked_feed_recipe_changes_order_and_can_be_reset() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, _)):
        await cyd.like(await dan.create("liked by a friend"))
        await ben.create("the newest")
        await shoal.settle()
        assert await ann.set_recipe(Recipe(weights=Weights(friends=10.0, freshness=0.0, author=0.0))) != BALANCED
        assert (await texts(ann))[0] == "liked by a friend"
        await ann.set_recipe(only(freshness=1.0))
        assert (await texts(ann))[0] == "the newest"
        assert await ann.set_recipe("fresh") == PRESETS["fresh"]
        assert await ben.set_recipe(await ann.recipe_link()) == PRESETS["fresh"]
        await ben.set_recipe(None)
        assert await ann.set_recipe(None) == BALANCED == await ben.recipe()
        for wrong in (Recipe(weights=Weights(friends=11.0)), Recipe(exploration=0.9), "no such"):
            with pytest.raises(InvalidInput):
                await ann.set_recipe(wrong)
        assert await ann.recipe() == BALANCED


@in_loop
async def test_ranked_feed_ranking_off_shows_home_timeline() -> None:
    async with network() as (shoal, (ann, ben, _, dan, _)):
        await ben.like(await dan.create("liked by a friend"))
        await ben.create("at home")
        await shoal.settle()
        await ann.switch_ranking(on=False)
        page = await ann.for_you()
        assert (page.by_time, [one.entry.post.text for one in page.entries]) == ("off", ["at home"])
        await ann.switch_ranking(on=True)
        assert len(await texts(ann)) == 2


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/shoal.db"])
@in_loop
async def test_ranked_feed_pages_of_one_ranking_neither_repeat_nor_skip_posts(url: str, tmp_path: Path) -> None:
    async with network(url.format(tmp_path)) as (shoal, (ann, ben, cyd, dan, _)):
        for n in range(60):
            await (ben, cyd, dan)[n % 3].create(f"{n}")
        await shoal.settle()
        page = await feed.page(shoal.network.reads, ann.id, 7, explain=True, deadline=PATIENT)
        found = list(page.entries)
        while page.next:
            # Activity between the pages does not change the order.
            await ben.like(await dan.create("later"))
            await ann.mark_seen(found[-1].entry)
            page = await ann.for_you(7, page.next)
            assert not page.by_time
            found += page.entries
        ids = [one.entry.post.id for one in found]
        assert len(ids) == len(set(ids))
        assert "later" not in {one.entry.post.text for one in found}
        assert len(ids) >= 40
        assert all(one.why is not None and one.why.terms for one in found)


@in_loop
async def test_ranked_feed_deleted_post_is_replaced_and_order_is_kept() -> None:
    async with network() as (shoal, (ann, ben, cyd, _, _)):
        for n in range(30):
            await (ben, cyd)[n % 2].create(f"{n}")
        await shoal.settle()
        page = await feed.page(shoal.network.reads, ann.id, 5, deadline=PATIENT)
        rest = (await ann.for_you(40, page.next)).entries
        gone = rest[2].entry.post
        await (ben if gone.author_id == ben.id else cyd).delete(gone)
        await ann.report(cyd, posts=[one.entry.post for one in rest if one.entry.post.author_id == cyd.id][:1])
        again = (await ann.for_you(10, page.next)).entries
        left = [one.entry.post.id for one in again]
        assert len(left) == 10
        assert left == [one.entry.post.id for one in rest if one.entry.post.id in left]
        assert gone.id not in left


@in_loop
async def test_ranked_feed_expired_or_foreign_cursor_is_reranked_and_invalid_one_rejected() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, _)):
        for n in range(20):
            await (ben, cyd)[n % 2].create(f"{n}")
        await ben.create("for followers", visibility=Visibility.FOLLOWERS)
        await shoal.settle()
        page = await feed.page(shoal.network.reads, ann.id, 5, deadline=PATIENT)
        lost = replace(shoal.network.reads, readings=MemoryReadings())
        again = await feed.page(lost, ann.id, 5, decode_cursor(page.next), deadline=PATIENT)
        assert len(again.entries) == 5
        others = await dan.for_you(40, page.next)
        assert "for followers" not in {one.entry.post.text for one in others.entries}
        for wrong in ("x", "!!!!", page.next[:-4], page.next + "AAAA", "é"):
            with pytest.raises(InvalidInput):
                await ann.for_you(5, wrong)
        assert ReadingCursor(2**63 - 1, 2**32 - 1) == decode_cursor(ReadingCursor(2**63 - 1, 2**32 - 1).encode())


@in_loop
async def test_ranked_feed_failed_or_late_ranking_falls_back_to_home() -> None:
    async with network() as (shoal, (ann, ben, _, dan, _)):
        await dan.like(await dan.create("stranger's"))
        await ben.create("at home")
        await shoal.settle()
        late = await feed.page(shoal.network.reads, ann.id, deadline=0.0)
        assert (late.by_time, [one.entry.post.text for one in late.entries]) == ("late", ["at home"])
        # The ranking still completes, and its reads are cached.
        await asyncio.gather(*shoal.network.reads.being_ranked.values())
        assert shoal.network.reads.interests.get(ann.id, shoal.network.reads.tags.clock()) is not None
        assert not shoal.network.reads.being_ranked

        class Broken(MemoryReadings):
            async def keep(self, id_: int, data: bytes) -> None:
                raise Unavailable("gone")

            async def get(self, id_: int) -> bytes | None:
                raise Unavailable("gone")

        forgetful = replace(shoal.network.reads, readings=Broken())
        page = await feed.page(forgetful, ann.id, 1, deadline=PATIENT)
        assert (page.by_time, len(page.entries)) == ("", 1)
        assert len((await feed.page(forgetful, ann.id, 1, decode_cursor(page.next), deadline=PATIENT)).entries) == 1


@in_loop
async def test_ranked_feed_explanation_of_absent_post_states_stage_and_rule() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, eve)):
        shown = await ben.create("shown")
        own = await ann.create("own")
        answer = await ben.comment(await dan.create("asked"), "an answer")
        muted = await cyd.create("muted")
        await ann.mute(cyd)
        closed = await eve.create("closed")
        await eve.update_profile(rankable=False)
        secret = await dan.create("secret", visibility=Visibility.FOLLOWERS)
        await shoal.settle()
        for post, stage, rule in (
            (own, "filter", "own"),
            (answer, "filter", "reply"),
            (muted, "filter", "muted"),
            (closed, "filter", "opted_out"),
            (shown, "shown", ""),
        ):
            verdict = await ann.why_not(post)
            assert (verdict.stage, verdict.rule, bool(verdict.place)) == (stage, rule, stage == "shown")
            assert verdict.words
        with pytest.raises(NotFound):
            await ann.why_not(secret)


@in_loop
async def test_ranked_feed_read_count_is_independent_of_post_count() -> None:
    costs = []
    for amount in (2, 60):
        async with network() as (shoal, (ann, ben, cyd, dan, eve)):
            for n in range(amount):
                author = (ben, cyd, dan, eve)[n % 4]
                await ann.like(await author.create(f"{n} #sea"))
            await shoal.settle()

            async def read(reads: object) -> object:
                assert isinstance(reads, type(shoal.network.reads))
                return await feed.page(reads, ann.id, 5, deadline=PATIENT)

            await read(shoal.network.reads)
            costs.append(await calls(shoal.network, read))
    assert costs[0] == costs[1]
    assert costs[0].total() <= 40


@pytest.mark.parametrize("act", ["like", "share", "bookmark", "comment", "emoji"])
@in_loop
async def test_ranked_feed_lowers_post_immediately_after_reader_acts_on_it(act: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, bob, eve = await register(shoal, "ann", "bob", "eve")
        post = await bob.create("a boat at low tide #sea")
        await eve.like(await bob.create("another boat at low tide #sea"))
        await ann.follow(bob)
        await shoal.settle()
        reads = ann._network.reads

        async def score() -> float:
            page = await feed.page(reads, ann.id, 100, explain=True, deadline=PATIENT)
            (why,) = (one.why for one in page.entries if one.entry.id == post.id)
            assert why is not None
            return why.score

        before = await score()
        match act:
            case "like":
                await ann.like(post)
            case "share":
                await ann.share(post)
            case "bookmark":
                await ann.bookmark(post)
            case "comment":
                await ann.comment(post, "low indeed")
            case _:
                await ann.react(post, "⛵")
        # The interests are still cached.
        assert await score() < before - 1
