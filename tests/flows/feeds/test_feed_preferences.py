"""Preferences of the ranked feed: picked interests, and feedback for more or less posts of a kind."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from shoal import Handle, Shoal, Visibility
from shoal.admin.export import export
from shoal.commands import moderation
from shoal.core.ranking.preferences import MOST_PICKED
from shoal.core.ranking.reranking import Source
from shoal.errors import InvalidInput, NotFound
from shoal.queries.foryou import feed
from shoal.queries.foryou.feed import RankedEntry
from shoal.tagcloud.rules import denying
from tests.api.in_memory_network import picture
from tests.async_runner import in_loop
from tests.flows.feeds.test_for_you import PATIENT, network
from tests.flows.members import home_texts, register


async def ranked(who: Handle) -> dict[str, RankedEntry]:
    """Return the first page of a member's feed with cached interests, by the texts of the posts."""
    page = await feed.page(who._network.reads, who.id, 100, explain=True, deadline=PATIENT)
    assert not page.by_time
    for one in page.entries:
        assert one.why is not None
        assert sum(term.contribution for term in one.why.terms) == pytest.approx(one.why.score, abs=1e-6)
    return {one.entry.post.text: one for one in page.entries}


async def values(who: Handle, name: str) -> dict[str, float]:
    """Return the value of a term for each post."""
    found = {}
    for text, one in (await ranked(who)).items():
        assert one.why is not None
        found[text] = next(term.value for term in one.why.terms if term.name == name)
    return found


@in_loop
async def test_feed_interests_raise_posts_with_picked_tags_and_follow_no_tags() -> None:
    async with network() as (shoal, (ann, _, _, dan, eve)):
        for n in range(60):
            await eve.create(f"filler {n}")
        await dan.create("low tide #Sea")
        await shoal.settle()
        assert "low tide #Sea" not in await home_texts(ann)
        before = (await values(ann, "tags")).get("low tide #Sea", 0.0)
        assert await ann.pick_interests("#SEA", "sky", "sea") == ["sea", "sky"]
        one = (await ranked(ann))["low tide #Sea"]
        assert one.why is not None
        assert Source.TAGS_LIKED in one.why.sources
        assert (await values(ann, "tags"))["low tide #Sea"] == pytest.approx(before + 0.5)
        assert "low tide #Sea" not in await home_texts(ann)
        assert await ann.pick_interests() == []
        assert (await values(ann, "tags")).get("low tide #Sea", 0.0) == before


@in_loop
async def test_feed_feedback_less_of_author_lowers_only_their_posts() -> None:
    async with network() as (shoal, (ann, ben, cyd, _, _)):
        post = await ben.create("ben's")
        await ben.create("ben's other")
        await cyd.create("cyd's")
        await shoal.settle()
        before = await values(ann, "author")
        effect = await ann.less_like(post)
        after = await values(ann, "author")
        assert {text: after[text] - before[text] for text in before} == {
            "ben's": pytest.approx(-0.4),
            "ben's other": pytest.approx(-0.4),
            "cyd's": 0.0,
        }
        assert (effect.term, effect.weight, effect.taps) == ("author", 3.0, -1)
        assert (effect.before, effect.after) == pytest.approx((before["ben's"], after["ben's"]), abs=1e-6)
        assert effect.contribution - effect.contribution_before == pytest.approx(-1.2)
        assert effect.words == "posts by @ben count 1.20 less than before"
        assert next(iter(await ranked(ann))) == "cyd's"
        assert (await ann.forget_feedback(post)).words == "posts by @ben count 1.20 more than before"
        assert await values(ann, "author") == before


@in_loop
async def test_feed_feedback_more_of_tag_raises_only_posts_with_tag() -> None:
    async with network() as (shoal, (ann, ben, _, _, _)):
        post = await ben.create("one #sea #sky")
        await ben.create("two #sea")
        await ben.create("three #sky")
        await shoal.settle()
        before = await values(ann, "tags")
        effect = await ann.more_like(post, "#Sea")
        after = await values(ann, "tags")
        assert {text: after[text] - before[text] for text in before} == {
            "one #sea #sky": pytest.approx(0.4),
            "two #sea": pytest.approx(0.4),
            "three #sky": 0.0,
        }
        assert (effect.author_id, effect.tag, effect.term) == (0, "sea", "tags")
        assert effect.words == "posts under #sea count 1.20 more than before"


@in_loop
async def test_feed_feedback_is_counted_up_to_five_times_and_can_be_reset() -> None:
    async with network() as (_, (ann, ben, cyd, _, _)):
        posts = [await ben.create("one #sea"), await cyd.create("two #sky")]
        await asyncio.gather(*(ann.more_like(post) for post in posts), ann.less_like(posts[0], "sea"))
        feedback = await ann.feedback()
        assert (feedback.authors, feedback.tags) == ({ben.id: 1, cyd.id: 1}, {"sea": -1})
        for _ in range(5):
            await ann.more_like(posts[0])
        last = await ann.more_like(posts[0])
        assert last.taps == 5
        assert last.words == "posts by @ben count as before"
        await ann.pick_interests("rain")
        await ann.forget_all_feedback()
        feedback = await ann.feedback()
        assert (feedback.picked, feedback.authors, feedback.tags) == (("rain",), {}, {})


@in_loop
async def test_feed_feedback_invalid_post_or_tag_is_rejected() -> None:
    async with network() as (_, (ann, ben, _, dan, _)):
        own, tagged = await ann.create("mine"), await ben.create("one #sea")
        secret = await dan.create("secret #sea", visibility=Visibility.FOLLOWERS)
        with pytest.raises(NotFound):
            await ann.more_like(secret)
        with pytest.raises(InvalidInput, match="feedback on your own post must be about one of its tags"):
            await ann.less_like(own)
        with pytest.raises(InvalidInput, match="must be a tag of the post: sea"):
            await ann.less_like(tagged, "sky")
        with pytest.raises(InvalidInput, match="none, as it has no tags"):
            await ann.less_like(own, "sky")
        with pytest.raises(InvalidInput, match="a tag is"):
            await ann.pick_interests("two words")
        with pytest.raises(InvalidInput, match="at most 50"):
            await ann.pick_interests(*(f"tag{n}" for n in range(MOST_PICKED + 1)))
        assert (await ann.feedback()).authors == {}


@in_loop
async def test_interest_options_list_picked_then_used_tags_with_public_example() -> None:
    async with network() as (shoal, (ann, ben, cyd, dan, eve)):

        async def posted(who: Handle, text: str, **more: object) -> int:
            media = [await who.upload(picture(), description=text)]
            return (await who.create(text, media=media, **more)).id  # type: ignore[arg-type]

        await cyd.update_profile(discoverable=False)
        await eve.update_profile(rankable=False)
        both = await posted(ben, "#sea #sky")
        sea = await posted(dan, "#sea")
        await posted(ben, "#storm", sensitive=True)
        await posted(ben, "#storm", visibility=Visibility.UNLISTED)
        await posted(ben, "#storm", visibility=Visibility.FOLLOWERS)
        await posted(cyd, "#storm")
        await posted(eve, "#storm")
        await ben.create("#storm without a picture")
        await shoal.settle()
        await ann.pick_interests("storm", "fog")
        found = await ann.interests(4)
        assert [(one.name, one.picked) for one in found[:2]] == [("storm", True), ("fog", True)]
        assert {(one.name, one.picked) for one in found[2:]} == {("sea", False), ("sky", False)}
        examples = {one.name: one.example.post.id if one.example is not None else None for one in found}
        assert (examples["storm"], examples["fog"]) == (None, None)
        assert {examples["sea"], examples["sky"]} <= {both, sea}
        assert examples["sea"] is not None
        assert examples["sea"] != examples["sky"]
        await ann.mute(dan)
        assert all(one.example is None or one.example.author.member.id != dan.id for one in await ann.interests())
        with pytest.raises(InvalidInput, match="limit"):
            await ann.interests(0)


@in_loop
async def test_interest_options_and_feedback_ignore_denied_tags() -> None:
    async with network() as (shoal, (ann, ben, _, _, _)):
        post = await ben.create("one #sea #sky")
        await shoal.settle()
        before = (await values(ann, "tags"))["one #sea #sky"]
        await ann.pick_interests("sea", "fog")
        await ann.more_like(post, "sky")
        assert (await values(ann, "tags"))["one #sea #sky"] == pytest.approx(before + 0.9)
        await shoal.network.reads.tags.rule(denying("sea"))
        await shoal.network.reads.tags.rule(denying("sky"))
        assert (await values(ann, "tags"))["one #sea #sky"] <= before
        assert [one.name for one in await ann.interests()] == ["fog"]


@in_loop
async def test_interest_options_examples_exclude_silenced_authors_and_filtered_posts() -> None:
    async with network() as (shoal, (ann, ben, _, _, _)):
        post = await ben.create("#sea", media=[await ben.upload(picture())])
        await shoal.settle()
        assert [one.example is not None for one in await ann.interests()] == [True]
        filtered = await ann.filters.create("no sea", contexts=["public"], keywords=["sea"])
        assert [one.example is not None for one in await ann.interests()] == [False]
        await ann.filters.delete(filtered)
        await moderation.silence(shoal.network.writes, ben.id)
        assert [one.example is not None for one in await ann.interests()] == [False]
        assert post.id in {entry.post.id for entry in (await ann.home()).entries}


@in_loop
async def test_account_export_contains_ranking_preferences(tmp_path: Path) -> None:
    async with network() as (shoal, (ann, ben, _, _, _)):
        post = await ben.create("one #sea")
        await ann.less_like(post)
        await ann.more_like(post, "sea")
        await ann.pick_interests("fog")
        await ann.switch_ranking(on=False)
        await export(shoal.network, "ann", tmp_path / "out")
        assert json.loads((tmp_path / "out" / "ranking.json").read_bytes()) == {
            "on": False,
            "recipe": None,
            "interests": ["fog"],
            "authors": {"ben": -1},
            "tags": {"sea": 1},
        }


@in_loop
async def test_ranked_feed_without_follows_or_interests_shows_ten_authors_in_twenty_posts() -> None:
    async with Shoal.open("memory://") as shoal:
        new, *authors = await register(shoal, "new", *(f"author{n}" for n in range(15)))
        for n, author in enumerate(authors):
            for m in range(70 if n == 0 else 3):
                post = await author.create(f"{n} {m}")
                for fan in authors[: 14 - n]:
                    await fan.like(post)
        await shoal.settle()
        page = await feed.page(replace(shoal.network.reads), new.id, 20, deadline=PATIENT)
        assert len(page.entries) == 20
        assert len({one.entry.author.member.id for one in page.entries}) >= 10
