"""Reading the tag cloud: orders, exclusions, admin rules, and caching of the store."""

from __future__ import annotations

from collections import Counter
from typing import cast

import pytest

from shoal.core.errors import InvalidInput, Unavailable
from shoal.tagcloud.cloud import HISTORY, ORDERS, Shown
from shoal.tagcloud.contract import DAY_MS, CloudStore, TagRule
from shoal.tagcloud.memory import MemoryCloud
from shoal.tagcloud.merger import Sizes
from shoal.tagcloud.reader import TagCloud
from shoal.tagcloud.rules import allowing, denying, merging, unmerging
from shoal.tagcloud.updates import VersionUpdates
from tests.async_runner import in_loop
from tests.flows.simulation.faults import Between
from tests.tagcloud.factories import HOUR_MS, NOW, Clock, a_cloud, count_into, use, uses


def names(shown: Shown) -> list[str]:
    return [word.name for word in shown.words]


@in_loop
async def test_tag_cloud_empty_has_no_words_in_any_order() -> None:
    clouds = TagCloud(MemoryCloud())
    for order in ORDERS:
        shown = await clouds.cloud(order)
        assert (shown.words, shown.version) == ([], 0)
    assert await clouds.tag("dawn") is None
    assert await clouds.rules() == []


@in_loop
async def test_tag_cloud_orders_rank_tags_by_their_time_window() -> None:
    clouds = await a_cloud(
        [
            *uses("old", 50, ago=20 * DAY_MS),
            *uses("week", 30, ago=4 * DAY_MS),
            *uses("day", 20, ago=14 * HOUR_MS),
            *uses("hour", 9, ago=60_000),
        ]
    )
    assert names(await clouds.cloud("all")) == ["old", "week", "day", "hour"]
    assert names(await clouds.cloud("hour")) == ["hour"]
    assert names(await clouds.cloud("day"))[:2] == ["hour", "day"]
    assert names(await clouds.cloud("week"))[0] == "day"
    assert set(names(await clouds.cloud("rising"))) == {"day", "hour"}


@in_loop
async def test_tag_cloud_tag_unused_for_long_is_in_no_time_window() -> None:
    clouds = await a_cloud(uses("old", 5, ago=60 * DAY_MS))
    assert [len((await clouds.cloud(order)).words) for order in ORDERS] == [1, 0, 0, 0, 0]


@in_loop
async def test_tag_cloud_levels_follow_logarithm_of_weight() -> None:
    clouds = await a_cloud([*uses("a", 81), *uses("b", 9), *uses("c", 1)])
    shown = await clouds.cloud()
    assert [(word.name, word.weight, word.level) for word in shown.words] == [("a", 81, 9), ("b", 9, 5), ("c", 1, 1)]
    assert [word.level for word in (await clouds.cloud(limit=1)).words] == [9]
    assert (shown.version, shown.at, shown.complete_to) == (1, NOW, NOW)


@in_loop
async def test_tag_cloud_tag_details_contain_uses_of_last_seven_days_and_reasons_for_its_rank() -> None:
    clouds = await a_cloud(
        [*uses("LowTide", 3), use("lowtide", author=7, ago=DAY_MS), *uses("lowtide", 2, ago=9 * DAY_MS)]
    )
    tag = await clouds.tag("#LOWTIDE")
    assert tag is not None
    assert (tag.name, tag.form, tag.uses, len(tag.days)) == ("lowtide", "lowtide", 6, HISTORY)
    assert [(day.uses, day.members) for day in tag.days[:3]] == [(3, 3), (1, 1), (0, 0)]
    assert [day.day for day in tag.days] == [NOW // DAY_MS - back for back in range(HISTORY)]
    assert (tag.reasons.today, tag.reasons.members) == (4, 4)


@in_loop
async def test_tag_cloud_contains_tags_of_several_scripts_as_typed() -> None:
    clouds = await a_cloud([*uses("غروب", 3), *uses("大自然", 2), *uses("España", 4), *uses("españa", 1)])
    assert [word.form for word in (await clouds.cloud()).words] == ["España", "غروب", "大自然"]


@pytest.mark.parametrize("limit", [0, -1, 201])
@in_loop
async def test_tag_cloud_limit_out_of_bounds_is_refused(limit: int) -> None:
    with pytest.raises(InvalidInput, match="1 to 200"):
        await TagCloud(MemoryCloud()).cloud("all", limit)


@in_loop
async def test_tag_cloud_unknown_order_or_invalid_tag_is_refused() -> None:
    with pytest.raises(InvalidInput, match="all, hour, day, week, rising"):
        await TagCloud(MemoryCloud()).cloud("best")
    with pytest.raises(InvalidInput):
        await TagCloud(MemoryCloud()).tag("no tag")


# Admin rules


@in_loop
async def test_tag_cloud_denied_tag_is_hidden_until_allowed() -> None:
    clouds = await a_cloud([*uses("spam", 30), *uses("dawn", 3)])
    assert await clouds.rule(denying("#Spam")) == TagRule("spam", denied=True)
    for order in ORDERS:
        assert "spam" not in names(await clouds.cloud(order))
    assert await clouds.tag("spam") is None
    assert await clouds.shown_as(["spam", "dawn"]) == {"dawn": "dawn"}
    assert await clouds.group("spam") == ()
    assert await clouds.rules() == [TagRule("spam", denied=True)]
    await clouds.rule(allowing("spam"))
    assert names(await clouds.cloud())[0] == "spam"
    assert await clouds.rules() == []


@in_loop
async def test_tag_cloud_denied_tag_is_replaced_by_next_tag() -> None:
    clouds = await a_cloud([*uses("a", 3), *uses("b", 2), *uses("c", 1)])
    await clouds.rule(denying("a"))
    assert names(await clouds.cloud(limit=2)) == ["b", "c"]


@in_loop
async def test_tag_cloud_merged_tag_is_counted_and_found_as_its_target() -> None:
    clouds = await a_cloud([*uses("sunsets", 5), *uses("sunset", 3), *uses("dawn", 6)])
    await clouds.rule(merging("Sunsets", "sunset"))
    assert [(word.name, word.uses) for word in (await clouds.cloud()).words] == [("sunset", 8), ("dawn", 6)]
    tag = await clouds.tag("sunsets")
    assert tag is not None
    assert (tag.name, tag.uses, tag.merged, tag.days[0].uses) == ("sunset", 8, ("sunsets",), 8)
    assert set(await clouds.group("sunsets")) == {"sunset", "sunsets"}
    await clouds.rule(unmerging("sunsets"))
    assert names(await clouds.cloud()) == ["dawn", "sunsets", "sunset"]


@in_loop
async def test_tag_cloud_denied_tag_hides_tags_merged_into_it() -> None:
    clouds = await a_cloud([*uses("bad", 3), *uses("b4d", 3), *uses("dawn", 1)])
    await clouds.rule(merging("b4d", "bad"))
    await clouds.rule(denying("bad"))
    assert names(await clouds.cloud()) == ["dawn"]
    assert await clouds.counted(["bad", "b4d", "dawn"]) == {"dawn": await clouds.tag("dawn")}


@in_loop
async def test_tag_cloud_merge_rules_forming_chains_or_loops_are_refused() -> None:
    clouds = await a_cloud([*uses("a", 3), *uses("b", 2), *uses("c", 1)])
    await clouds.rule(merging("a", "b"))
    for name, target, told in (
        ("c", "c", "#c cannot be merged into itself"),
        ("C", "#c", "#c cannot be merged into itself"),
        ("c", "a", "merge #c into #b instead"),
        ("b", "a", "#a counts as #b"),
        ("b", "c", "#a counts as #b: unmerge #a first, or merge #c into #b instead"),
        ("no tag", "c", "a tag is"),
        ("c", "", "a tag is"),
    ):
        with pytest.raises(InvalidInput, match=told):
            await clouds.rule(merging(name, target))
    with pytest.raises(InvalidInput, match="deny #b"):
        await clouds.rule(denying("a"))
    await clouds.rule(denying("c"))
    with pytest.raises(InvalidInput, match="allow it before"):
        await clouds.rule(merging("c", "b"))
    assert await clouds.rules() == [TagRule("a", target="b"), TagRule("c", denied=True)]


@in_loop
async def test_tag_cloud_rule_without_effect_creates_no_version() -> None:
    store = MemoryCloud()
    clouds = TagCloud(store)
    await clouds.rule(denying("a"))
    await clouds.rule(denying("A"))
    await clouds.rule(unmerging("b"))
    await clouds.rule(allowing("b"))
    assert (await store.version(), await store.rules()) == (1, {"a": TagRule("a", denied=True)})


@in_loop
async def test_tag_cloud_rule_does_not_change_completeness_time() -> None:
    store = MemoryCloud()
    await count_into(store, uses("a", 1))
    clouds = TagCloud(store, clock=lambda: NOW + 5_000)
    await clouds.rule(denying("a"))
    assert ((await store.head()).complete_to, (await clouds.cloud()).version) == (NOW, 2)


@in_loop
async def test_tag_cloud_rule_change_waits_until_tag_store_lock_is_free() -> None:
    store = MemoryCloud()
    await store.lock(b"another", 0.08)
    await TagCloud(store).rule(denying("a"))
    assert await store.rules()


# Caching of the store


def watched(store: MemoryCloud, asked: Counter[str], *, away: list[bool]) -> CloudStore:
    async def before(name: str) -> None:
        asked[name] += 1
        if away[0]:
            raise Unavailable("the store is away")

    async def after(_name: str) -> None: ...

    return cast("CloudStore", Between(store, before, after))


@in_loop
async def test_tag_cloud_cache_queries_store_once_per_second() -> None:
    store, clock, asked = MemoryCloud(), Clock(), Counter[str]()
    await count_into(store, uses("a", 1))
    clouds = TagCloud(watched(store, asked, away=[False]), clock=clock)
    for _ in range(50):
        await clouds.cloud("day")
    assert asked == {"head": 1, "rules": 1}
    await count_into(store, uses("b", 2))
    assert names(await clouds.cloud()) == ["a"]
    clock.now += 1_000
    assert names(await clouds.cloud()) == ["b", "a"]
    clock.now += 1_000
    await clouds.cloud()
    assert asked == {"head": 2, "rules": 2, "version": 2}


@in_loop
async def test_tag_cloud_cache_is_served_while_store_is_unavailable() -> None:
    store, clock, away = MemoryCloud(), Clock(), [True]
    await count_into(store, uses("a", 1))
    clouds = TagCloud(watched(store, Counter(), away=away), clock=clock)
    with pytest.raises(Unavailable):
        await clouds.cloud()
    away[0] = False
    before = await clouds.cloud()
    away[0] = True
    clock.now += 60_000
    assert names(await clouds.cloud()) == names(before) == ["a"]


@in_loop
async def test_tag_cloud_cache_is_refreshed_after_clock_step_back() -> None:
    store, clock = MemoryCloud(), Clock()
    clouds = TagCloud(store, clock=clock)
    await clouds.cloud()
    await count_into(store, uses("a", 1))
    clock.now -= DAY_MS
    assert names(await clouds.cloud()) == ["a"]


@in_loop
async def test_tag_cloud_hour_weight_decays_without_uses() -> None:
    store, clock = MemoryCloud(), Clock()
    await count_into(store, uses("a", 8))
    clouds = TagCloud(store, clock=clock, sizes=Sizes(shown=5, reserve=10))
    before = (await clouds.cloud("hour")).words[0].weight
    clock.now += HOUR_MS // 2
    assert (await clouds.cloud("hour")).words[0].weight == pytest.approx(before / 2)
    clock.now += 12 * HOUR_MS
    assert (await clouds.cloud("hour")).words == []


@in_loop
async def test_tag_cloud_lookup_of_several_tags_uses_one_query() -> None:
    store, asked = MemoryCloud(), Counter[str]()
    await count_into(store, [*uses("a b c", 2), *uses("d", 1)])
    clouds = TagCloud(watched(store, asked, away=[False]), clock=lambda: NOW)
    assert set(await clouds.counted(["a", "b", "c", "d", "nothing"])) == {"a", "b", "c", "d"}
    assert asked == {"head": 1, "rules": 1, "tags": 1}


# Updates

PAUSE_MS = 500
"""The minimum time between two checks of the store."""


class Updated:
    """A cloud that is read with updates. `merge` writes a version and publishes it, and moves the clock by `PAUSE_MS`.

    `asked` counts requests to the store.
    """

    def __init__(self) -> None:
        self.store, self.clock, self.asked, self.away = MemoryCloud(), Clock(), Counter[str](), [False]
        self.updates = VersionUpdates()
        self.tags = TagCloud(watched(self.store, self.asked, away=self.away), self.updates, clock=self.clock)

    async def connect(self) -> None:
        """Read twice: the second read asks for updates."""
        await self.names()
        self.clock.now += PAUSE_MS
        await self.names()
        self.asked.clear()

    async def merge(self, name: str) -> None:
        await count_into(self.store, uses(name, 1), updates=self.updates)
        self.clock.now += PAUSE_MS

    async def names(self) -> list[str]:
        return sorted(names(await self.tags.cloud()))


@in_loop
async def test_tag_cloud_update_causes_one_read_of_new_version() -> None:
    here = Updated()
    await here.connect()
    for _ in range(3):
        assert await here.names() == []
    await here.merge("a")
    for _ in range(3):
        assert await here.names() == ["a"]
    assert here.asked == {"head": 1, "rules": 1}


@in_loop
async def test_tag_cloud_updates_in_quick_succession_cause_two_reads_per_second() -> None:
    here = Updated()
    await here.connect()
    await here.merge("a")
    assert await here.names() == ["a"]
    for name in "bcd":
        await count_into(here.store, uses(name, 1), updates=here.updates)
        here.clock.now += PAUSE_MS // 4
        assert await here.names() == ["a"]
    here.clock.now += PAUSE_MS // 4
    assert await here.names() == ["a", "b", "c", "d"]
    assert here.asked == {"head": 2, "rules": 2}


@in_loop
async def test_tag_cloud_without_version_update_is_polled_every_ten_seconds() -> None:
    here = Updated()
    await here.connect()
    await count_into(here.store, uses("a", 1))
    here.clock.now += 9_999
    assert await here.names() == []
    assert not here.asked
    here.clock.now += 1
    assert await here.names() == ["a"]
    assert here.asked == {"version": 1, "head": 1, "rules": 1}


@pytest.mark.parametrize("version", [0, 1, 2])
@in_loop
async def test_tag_cloud_repeated_or_late_update_reads_only_the_version_number(version: int) -> None:
    here = Updated()
    await here.connect()
    await here.merge("a")
    await here.merge("b")
    assert await here.names() == ["a", "b"]
    here.asked.clear()
    here.updates.receive(version)
    here.clock.now += PAUSE_MS
    for _ in range(3):
        assert await here.names() == ["a", "b"]
    assert here.asked == {"version": 1}


@in_loop
async def test_tag_cloud_update_of_future_version_reads_stored_version_once() -> None:
    here = Updated()
    await here.connect()
    await here.merge("a")
    here.updates.receive(99)
    for _ in range(3):
        assert await here.names() == ["a"]
    assert here.asked == {"head": 1, "rules": 1}
    await here.merge("b")
    assert await here.names() == ["a", "b"]


@in_loop
async def test_tag_cloud_update_during_read_is_followed_by_another_read(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Updated()
    await here.connect()
    await here.merge("a")
    store = here.tags._store
    rules = store.rules

    async def merging_meanwhile() -> dict[str, TagRule]:
        monkeypatch.undo()
        await here.merge("b")
        return await rules()

    monkeypatch.setattr(store, "rules", merging_meanwhile)
    assert await here.names() == ["a"]
    assert await here.names() == ["a", "b"]


@in_loop
async def test_tag_cloud_is_polled_each_second_while_updates_may_be_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Updated()
    await here.connect()
    with monkeypatch.context() as disconnected:
        disconnected.setattr(here.updates, "newest", lambda: None)
        await here.merge("a")
        assert await here.names() == []
        here.clock.now += 1_000
        assert await here.names() == ["a"]
        await here.merge("b")
    # The process is connected again, after it has missed an update.
    assert await here.names() == ["a", "b"]


@in_loop
async def test_tag_cloud_update_while_store_is_unavailable_is_followed_by_retry_after_one_second() -> None:
    here = Updated()
    await here.connect()
    await here.merge("a")
    here.away[0] = True
    for _ in range(3):
        assert await here.names() == []
    assert here.asked == {"head": 1}
    here.away[0] = False
    here.clock.now += 1_000
    assert await here.names() == ["a"]
