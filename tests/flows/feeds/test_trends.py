"""Related tags, trending tags and the personal tag cloud."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from shoal import Handle, Shoal, Visibility
from shoal.core.errors import InvalidInput
from shoal.core.ids import shard_of
from shoal.core.model import Member
from shoal.graph.contract import Batch
from shoal.queries import tags as tag_queries
from shoal.queries import trends
from shoal.queries.context import ExpiringCache, Reads
from shoal.tagcloud.cloud import RelatedTag, Shown, likeness
from shoal.tagcloud.contract import DAY_MS
from shoal.tagcloud.memory import MemoryCloud
from shoal.tagcloud.reader import TagCloud
from shoal.tagcloud.rules import denying, merging
from tests.async_runner import in_loop
from tests.flows.members import register
from tests.flows.query_counts import calls, statements
from tests.tagcloud.factories import NOW, Clock, a_cloud, count_into, uses


@asynccontextmanager
async def a_network(*names: str, url: str = "memory://") -> AsyncIterator[tuple[Shoal, list[Handle]]]:
    async with Shoal.open(url) as shoal:
        yield shoal, await register(shoal, *names)


def reading(shoal: Shoal, tags: TagCloud | None = None) -> Reads:
    """Return reads with empty caches, with this cloud or an empty cloud."""
    return replace(
        shoal.network.reads, tags=tags or TagCloud(MemoryCloud(), clock=lambda: NOW), related=ExpiringCache()
    )


def names(found: Sequence[RelatedTag] | Shown) -> list[str]:
    return [tag.name for tag in (found.words if isinstance(found, Shown) else found)]


# Related


@in_loop
async def test_related_tags_of_shared_posts_are_ordered_by_similarity() -> None:
    async with a_network("ann", "ben", "cyd") as (shoal, people):
        for person in people:
            await person.create("#dawn #tide #photo")
            await person.create("#photo alone, and #other")
        await people[0].create("#dawn #gull")
        await shoal.settle()
        cloud = await a_cloud([*uses("dawn tide", 4), *uses("gull", 1), *uses("photo", 400)])
        found = await tag_queries.related(reading(shoal, cloud), "#Dawn")
        assert names(found) == ["tide", "gull", "photo"]
        assert [tag.together for tag in found] == [3, 1, 3]
        assert found[0].likeness == pytest.approx(0.75)


def test_tag_similarity_is_cosine_within_bounds() -> None:
    assert likeness(0, 10, 10, 10) == likeness(3, 0, 10, 10) == 0.0
    assert likeness(5, 10, 10, 40) == pytest.approx(5 / (10 * 40) ** 0.5)
    assert likeness(10, 10, 10, 10) == 1.0
    # Simulate outdated counts of the cloud: they are lower than the number of posts with both tags.
    assert 0 < likeness(10, 10, 0, 0) <= 1.0


@in_loop
async def test_related_tags_use_only_public_posts() -> None:
    async with a_network("ann", "ben", "eve", "gus") as (shoal, (ann, ben, eve, gus)):
        await ann.create("#dawn #open")
        for number, visibility in enumerate(set(Visibility) - {Visibility.PUBLIC}):
            await ann.create(f"#dawn #secret{number} @ben", visibility=visibility)
        deleted = await ann.create("#dawn #deleted")
        await ann.delete(deleted)
        edited = await ann.create("#dawn #edited")
        await ann.update(edited, "#dawn")
        await gus.create("#dawn #suspended")
        await _suspend(shoal, gus)
        await ann.block(eve)
        await ben.follow(ann)
        await shoal.settle()
        for viewer in (ben, eve):
            assert names(await tag_queries.related(reading(shoal), "dawn")) == ["open"]
            shown = await trends.for_you(reading(shoal, await a_cloud(uses("secret0 secret1 secret2", 1))), viewer.id)
            assert not {word.name for word in shown.words if "like" in word.why}


@in_loop
async def test_related_tags_exclude_denied_tags_and_combine_merged_tags() -> None:
    async with a_network("ann", "ben") as (shoal, (ann, ben)):
        await ann.create("#dawn #spam #sunsets")
        await ben.create("#sunrise #sunset #dawns")
        await shoal.settle()
        tags = TagCloud(MemoryCloud(), clock=lambda: NOW)
        await tags.rule(denying("spam"))
        await tags.rule(merging("sunsets", "sunset"))
        await tags.rule(merging("dawns", "dawn"))
        found = await tag_queries.related(reading(shoal, tags), "dawns")
        assert [(tag.name, tag.together) for tag in found] == [("sunset", 2), ("sunrise", 1)]
        assert await tag_queries.related(reading(shoal, tags), "spam") == []


@in_loop
async def test_related_tags_limit_weight_of_a_single_author() -> None:
    async with a_network("ann", "ben", "cyd") as (shoal, (ann, ben, cyd)):
        for number in range(20):
            await ann.create(f"{number} #dawn #buythis")
        for person in (ben, cyd):
            for number in range(4):
                await person.create(f"{number} #dawn #tide")
        await shoal.settle()
        found = await tag_queries.related(reading(shoal), "dawn")
        assert [(tag.name, tag.together) for tag in found] == [("tide", 8), ("buythis", 5)]


@in_loop
async def test_related_tags_of_invalid_tag_are_rejected_and_of_unused_tag_empty() -> None:
    async with a_network() as (shoal, _):
        with pytest.raises(InvalidInput):
            await shoal.tags.related("no tag")
        assert await shoal.tags.related("unused") == []


@in_loop
async def test_related_tags_are_cached_for_one_minute() -> None:
    async with a_network("ann") as (shoal, (ann,)):
        await ann.create("#dawn #tide")
        await shoal.settle()
        clock = Clock()
        reads = reading(shoal, TagCloud(MemoryCloud(), clock=clock))
        assert names(await tag_queries.related(reads, "dawn")) == ["tide"]
        await ann.create("#dawn #gull")
        await shoal.settle()
        assert names(await tag_queries.related(reads, "dawn")) == ["tide"]
        clock.now += 60_000
        assert names(await tag_queries.related(reads, "dawn")) == ["gull", "tide"]


@in_loop
async def test_related_tags_cache_excludes_tags_denied_since() -> None:
    async with a_network("ann") as (shoal, (ann,)):
        await ann.create("#dawn #tide #gull")
        await shoal.settle()
        reads = reading(shoal)
        assert names(await tag_queries.related(reads, "dawn")) == ["gull", "tide"]
        await reads.tags.rule(denying("gull"))
        assert names(await tag_queries.related(reads, "dawn")) == ["tide"]
        await reads.tags.rule(denying("dawn"))
        assert await tag_queries.related(reads, "dawn") == []


def test_expiring_query_cache_evicts_oldest_and_expired_entries() -> None:
    held = ExpiringCache[int, str](most=2, keep_ms=10)
    for key in (1, 2, 3):
        held.put(key, str(key), 0)
    assert [held.get(key, 9) for key in (1, 2, 3)] == [None, "2", "3"]
    assert held.get(3, 10) is held.get(3, -10) is None


# Personal tag cloud


@in_loop
async def test_personal_tag_cloud_starts_with_own_tags_and_gives_reasons() -> None:
    async with a_network("ann", "ben", "cyd") as (shoal, (ann, ben, cyd)):
        await ann.follow_tag("Dawn")
        await ann.create("#tide")
        await ann.like(await ben.create("#gull"))
        await cyd.create("#dawn #mist")
        await shoal.settle()
        cloud = await a_cloud([*uses("dawn tide gull mist", 3, ago=2 * DAY_MS), *uses("popular", 20, ago=2 * DAY_MS)])
        shown = await trends.for_you(reading(shoal, cloud), ann.id)
        why = {word.name: word.why for word in shown.words}
        assert names(shown)[0] == "dawn"
        assert why == {
            "dawn": "you follow #dawn",
            "tide": "you use #tide",
            "gull": "you like posts with #gull",
            "mist": "like #dawn, which you follow",
            "popular": "many use it",
        }
        assert [word.weight for word in shown.words] == sorted((word.weight for word in shown.words), reverse=True)
        assert shown.words[0].level == 9
        stranger = await trends.for_you(reading(shoal, cloud), cyd.id, limit=1)
        assert len(stranger.words) == 1


@in_loop
async def test_personal_tag_cloud_ignores_likes_of_invisible_posts() -> None:
    async with a_network("ann", "ben", "cyd") as (shoal, (ann, ben, cyd)):
        await ann.like(await ben.create("#gull"))
        await ann.like(await cyd.create("#reef"))
        await ben.block(ann)
        await ann.mute(cyd)
        await shoal.settle()
        shown = await trends.for_you(reading(shoal, await a_cloud(uses("gull reef", 2))), ann.id)
        assert {word.why for word in shown.words} == {"many use it"}


@in_loop
async def test_personal_tag_cloud_resolves_merged_and_excludes_denied_tags() -> None:
    async with a_network("ann") as (shoal, (ann,)):
        for tag in ("sunsets", "sunset", "spam"):
            await ann.follow_tag(tag)
        await shoal.settle()
        tags = await a_cloud([*uses("sunsets", 2), *uses("spam", 9)])
        await tags.rule(denying("spam"))
        await tags.rule(merging("sunsets", "sunset"))
        assert names(await trends.for_you(reading(shoal, tags), ann.id)) == ["sunset"]


@in_loop
async def test_trending_tags_fall_back_to_longer_windows_without_duplicates() -> None:
    async with a_network() as (shoal, _):
        tags = await a_cloud([*uses("up", 9), *uses("steady", 1), *uses("past", 5, ago=30 * DAY_MS)])
        reads = reading(shoal, tags)
        assert [word.name for word in await trends.trending(reads, 10)] == ["up", "steady", "past"]
        assert [word.name for word in await trends.trending(reads, 1, 1)] == ["steady"]
        assert await trends.trending(reads, 5, 50) == []


@in_loop
async def test_library_api_returns_global_and_personal_tag_cloud() -> None:
    async with a_network("ann") as (shoal, (ann,)):
        store = MemoryCloud()
        shoal.tags._reads = reading(shoal, TagCloud(store, clock=lambda: NOW))
        await count_into(store, uses("Dawn", 2))
        assert [word.form for word in (await shoal.tags.cloud("day", 5)).words] == ["Dawn"]
        tag = await shoal.tags.tag("dawn")
        assert tag is not None
        assert tag.uses == 2
        assert (await ann.cloud()).order == "for_you"


# Read counts (I8)


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
@in_loop
async def test_related_tags_and_personal_cloud_read_count_is_independent_of_post_count(
    backend: str, tmp_path: Path
) -> None:
    costs = []
    for posts in (1, 20, 60):
        url = "memory://" if backend == "memory" else f"sqlite:///{tmp_path}/{posts}.db"
        async with a_network("ann", *(f"other{n}" for n in range(posts)), url=url) as (shoal, (ann, *others)):
            for number, other in enumerate(others):
                await ann.like(await other.create(f"#dawn #tide{number} #reef"))
                await ann.create(f"#dawn #mine{number}")
                await ann.follow_tag(f"tide{number}")
            await shoal.settle()
            ran = [
                (await calls(shoal.network, read), await statements(shoal.network, read) if backend == "sqlite" else 0)
                for read in (
                    lambda reads: tag_queries.related(reads, "dawn"),
                    lambda reads: trends.for_you(reads, ann.id),
                )
            ]
            costs.append(ran)
    assert costs[0] == costs[1] == costs[2]
    assert [cost.total() for cost, _ in costs[0]] == [3, 9]


async def _suspend(shoal: Shoal, who: Handle) -> None:
    member = (await shoal.network.store.obj_get((who.id,)))[who.id]
    assert isinstance(member, Member)
    batch = Batch(shard_of(who.id))
    batch.obj_set(msgspec.structs.replace(member, suspended=True, version=member.version + 1))
    await shoal.network.store.commit(batch)
