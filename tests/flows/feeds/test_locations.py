"""Where members live: their feed ranks posts from there higher and says so, and others see it only if they show it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from shoal.admin.consistency.check import check
from shoal.core.errors import InvalidInput, TooLarge, Unfit
from shoal.core.places import Location, Place, cells_of
from shoal.core.ranking.reranking import Source
from shoal.core.ranking.terms import words_of
from shoal.gazetteer import Gazetteer
from shoal.library import Handle, Shoal
from shoal.queries.context import ExpiringCache, Reads
from shoal.queries.foryou import feed
from shoal.queries.foryou.ranking import decode_reading, encode_reading
from tests.async_runner import in_loop
from tests.flows.feeds.test_for_you import network, only, ranked, value
from tests.flows.query_counts import calls

pytestmark = pytest.mark.usefixtures("towns")

KOCHI, DELHI, LAHORE, PALERMO = (9.94, 76.26), (28.65, 77.23), (31.56, 74.35), (38.11, 13.36)


async def reasons(who: Handle, text: str, **weights: float) -> dict[str, str]:
    """Return the texts of the reasons for a post with this text, by the name of the term."""
    (one,) = [one for one in await ranked(who, only(**weights)) if one.entry.post.text == text]
    why = one.why
    assert why is not None
    assert why.score == pytest.approx(sum(term.value * term.weight for term in why.terms))
    facts = why.facts(one.entry, "en")
    return {term.name: words_of(term.name, term.value, facts) for term in why.terms if term.contribution}


@in_loop
async def test_ranked_feed_of_member_from_india_ranks_photos_from_india_first() -> None:
    async with network() as (shoal, (ann, ben, _, _, _)):
        for text, place in (("delhi", DELHI), ("kochi", KOCHI), ("lahore", LAHORE), ("nowhere", None)):
            await ben.create(text, place=place)
        await shoal.settle()
        assert await value(ann, "kochi", "country") == 0
        await ann.update_profile(location="India")
        assert await value(ann, "kochi", "country") == await value(ann, "delhi", "country") == 1
        assert await value(ann, "lahore", "country") == await value(ann, "nowhere", "country") == 0
        order = [one.entry.post.text for one in await ranked(ann, only(country=1.0))]
        assert set(order[:2]) == {"delhi", "kochi"}
        assert await reasons(ann, "kochi", country=2.0) == {"country": "from India, where you live"}
        # Kochi is 2,000 kilometers from Delhi: no search disk reaches so far.
        assert await value(ann, "kochi", "nearby") == 0


@in_loop
async def test_ranked_feed_includes_posts_by_strangers_of_same_country_only(
    towns: Gazetteer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The cells of a real country contain places beyond its borders, as these do.
    cells = (*cells_of(Place(*DELHI)), *cells_of(Place(*LAHORE)))
    monkeypatch.setattr(towns, "cells", lambda _country: cells)
    async with network() as (shoal, (ann, _, _, dan, eve)):
        await dan.create("delhi", place=DELHI)
        await eve.create("lahore", place=LAHORE)
        await shoal.settle()
        assert all(Source.COUNTRY not in one.why.sources for one in await ranked(ann) if one.why is not None)
        await ann.update_profile(location="India")
        sources = {one.entry.post.text: one.why.sources for one in await ranked(ann) if one.why is not None}
        assert Source.COUNTRY in sources["delhi"]
        assert Source.COUNTRY not in sources["lahore"]


@in_loop
async def test_ranked_feed_cached_ranking_with_different_terms_is_not_used() -> None:
    async with network() as (shoal, (ann, ben, _, _, _)):
        await ben.create("delhi", place=DELHI)
        await shoal.settle()
        reading = await feed.new_reading(shoal.network.reads, ann.id, explain=True)
        assert not isinstance(reading, str)
        assert decode_reading(encode_reading(reading)) == reading
        assert decode_reading(encode_reading(structs.replace(reading, terms="reactions,tags"))) is None


@in_loop
async def test_ranked_feed_measures_distance_from_stated_town_rather_than_newest_post() -> None:
    async with network() as (shoal, (ann, ben, _, _, _)):
        await ben.create("palermo", place=PALERMO)
        await ann.create("on a trip", place=DELHI)
        await shoal.settle()
        assert await value(ann, "palermo", "nearby") < 0.001
        await ann.update_profile(location="Palermo")
        assert await value(ann, "palermo", "nearby") > 0.99
        shown = await reasons(ann, "palermo", nearby=2.0, country=1.0)
        assert shown["nearby"].endswith("km from Palermo, where you live")
        assert shown["country"] == "from Italy, where you live"


@in_loop
async def test_follow_suggestion_nearby_names_the_stated_town() -> None:
    async with network() as (shoal, (ann, _, _, dan, _)):
        await dan.create("palermo", place=PALERMO)
        await ann.update_profile(location="Palermo, Italy")
        await shoal.settle()
        words = [r.words for one in await ann.suggestions() for r in one.reasons if one.profile.member.id == dan.id]
        assert any("Palermo, where you live" in one for one in words), words


@in_loop
async def test_ranked_feed_explanation_names_picked_tag_of_post() -> None:
    async with network() as (shoal, (ann, _, _, dan, _)):
        for text in ("dunes #desert", "dunes #sand"):
            await dan.create(text)
        await shoal.settle()
        await ann.pick_interests("desert")
        assert await reasons(ann, "dunes #desert", tags=1.0) == {"tags": "because you picked #desert"}
        assert await reasons(ann, "dunes #sand", tags=1.0) == {}


@in_loop
async def test_ranked_feed_explanation_after_location_change_states_location_used_by_the_ranking() -> None:
    """A cached ranking explains itself by the location that it was made with."""
    async with network() as (shoal, (ann, ben, _, _, _)):
        await ben.create("delhi", place=DELHI)
        await ann.update_profile(location="India")
        await shoal.settle()
        reading = await feed.new_reading(shoal.network.reads, ann.id, explain=True)
        assert not isinstance(reading, str)
        await ann.update_profile(location="Italy")
        (why,) = reading.why(0, 1)
        assert why.location == Location("IN")


@in_loop
async def test_profile_location_can_be_set_shown_and_cleared() -> None:
    async with network() as (_, (ann, *_)):
        member = await ann.update_profile(location="Palermo, Italien", shows_location=True)
        assert member.location is not None
        assert (member.location.country, member.location.town, member.shows_location) == ("IT", "Palermo", True)
        assert (await ann.update_profile(note="Hello")).location == member.location
        assert (await ann.update_profile(location=" ")).location is None


@in_loop
async def test_profile_location_unknown_or_too_long_leaves_profile_unchanged() -> None:
    async with network() as (_, (ann, *_)):
        await ann.update_profile(location="Kochi", note="before")
        with pytest.raises(InvalidInput, match="Did you mean: Palermo, Italy"):
            await ann.update_profile(location="Palerno", note="after")
        with pytest.raises(TooLarge, match="at most 200"):
            await ann.update_profile(location="x" * 201, note="after")
        member = (await ann.profile_of(ann.id)).member
        assert (member.location and member.location.town, member.note) == ("Kochi", "before")


@in_loop
async def test_profile_location_on_server_without_names_of_places_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.gazetteer.installed", lambda: None)
    async with network() as (_, (ann, *_)):
        with pytest.raises(Unfit, match="does not know the names of places"):
            await ann.update_profile(location="India")


@in_loop
async def test_ranked_feed_with_stored_location_ranks_by_distance_without_names_of_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with network() as (shoal, (ann, ben, _, _, _)):
        await ben.create("palermo", place=PALERMO)
        await ann.update_profile(location="Palermo")
        await shoal.settle()
        monkeypatch.setattr("shoal.gazetteer.installed", lambda: None)
        assert await value(ann, "palermo", "nearby") > 0.99
        assert await value(ann, "palermo", "country") == 0


@in_loop
async def test_profile_location_is_in_account_export_and_passes_consistency_check(tmp_path: Path) -> None:
    async with Shoal.open(f"sqlite:///{tmp_path / 'shoal.db'}", media=f"file://{tmp_path}/media") as shoal:
        ann = await shoal.register("ann")
        await ann.update_profile(location="Kochi", place_precision="city")
        await ann.create("here", place=(9.9, 76.2))
        await shoal.settle()
        await ann.export(tmp_path / "ann")
        profile = json.loads((tmp_path / "ann" / "profile.json").read_bytes())
        kochi = {"latitude": 9.93988, "longitude": 76.26022}
        assert profile["location"] == {"country": "IN", "town": "Kochi", "place": kochi}
        assert (profile["shows_location"], profile["place_precision"]) == (False, "city")
        (post,) = json.loads((tmp_path / "ann" / "posts.json").read_bytes())
        assert post["place"] == kochi
        assert (await check(shoal.network, young=-1.0)).clean


@in_loop
async def test_ranked_feed_of_member_with_location_takes_one_more_read() -> None:
    async with network() as (shoal, (ann, ben, _, _, _)):
        await ben.create("delhi", place=DELHI)
        await shoal.settle()

        async def reading(reads: Reads) -> None:
            fresh = replace(reads, interests=ExpiringCache(), near=ExpiringCache(), neighbors=ExpiringCache())
            assert not isinstance(await feed.new_reading(fresh, ann.id, deadline=60.0), str)

        await reading(shoal.network.reads)
        before = await calls(shoal.network, reading)
        await ann.update_profile(location="India")
        assert (await calls(shoal.network, reading)) - before == {"assoc_ranges": 1}
