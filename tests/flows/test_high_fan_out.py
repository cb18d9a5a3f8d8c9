"""High fan-out members and tags with few remaining followers are demoted without visible effect for readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from shoal import Handle, Shoal
from shoal.app.network import Network, open_network
from shoal.commands import relationships
from shoal.commands.audit import drop_old
from shoal.consumers import home
from shoal.consumers.active_posts import forget_inactive
from shoal.consumers.context import Effects
from shoal.consumers.high_fan_out import HighFanOutSources
from shoal.consumers.table import TABLE
from shoal.core.events import Event, FollowChanged, FollowersLost
from shoal.core.ids import shard_of
from shoal.graph.contract import Batch, Cursor
from shoal.graph.schema import EVERYBODY, HIGH_FAN_OUT, tag_id
from shoal.graph.sqlite import SqliteGraph
from shoal.queries import home as feed
from shoal.scheduler import Upkeep
from shoal.settings import Settings
from shoal.timelines.contract import Window
from tests.async_runner import in_loop
from tests.engines import dynamodb
from tests.flows.members import home_texts, register
from tests.flows.shared_network import SharedDatabases, processes

HIGH_FAN_OUT_FROM = 8
MANY, FEW = 9, 3
"""Numbers of followers with which a member becomes high-fan-out, and with which the member is demoted."""
PUSHED, PULLED = "pushed", "pulled #tide"


class HighFanOutFixture(NamedTuple):
    """A high fan-out member and the followers; the last post was not pushed."""

    network: Network
    star: Handle
    fans: list[Handle]

    @property
    def shoal(self) -> Shoal:
        return Shoal(self.network)

    async def they_leave(self) -> list[FollowersLost]:
        """Let all but a few followers unfollow, and return the merge events."""
        for fan in self.fans[FEW:]:
            await fan.unfollow(self.star)
        return await self.work_off()

    async def all_come_back(self) -> None:
        for fan in self.fans:
            await fan.follow(self.star)
            await fan.home()
        await self.work_off()

    async def work_off(self) -> list[FollowersLost]:
        """Process all events except the merges, which are returned."""
        merges: list[FollowersLost] = []
        store = self.network.store
        while jobs := await store.claim(100, 60.0):
            for job in jobs:
                if isinstance(job.event, FollowersLost):
                    merges.append(job.event)
                else:
                    await follow_up(self.network.effects, job.event)
            await store.ack(jobs)
        return merges

    async def merge(self, event: FollowersLost, mark: int = 0) -> None:
        """Run a merge to its end."""
        left: int | None = mark
        while left is not None:
            left = await home.merge_demoted(self.network.effects, event, left)

    async def check(self) -> None:
        """Assert that every home timeline equals its definition."""
        for fan in self.fans:
            assert await same_as_defined(fan)


async def follow_up(effects: Effects, event: Event) -> None:
    for consequence in TABLE[type(event)]:
        mark: Any = 0
        while isinstance(mark, int):
            mark = await consequence(effects, event, mark)
        if mark is not None:
            await mark


async def same_as_defined(handle: Handle) -> bool:
    reads = handle._network.reads
    cursor = Cursor(limit=50)
    return await feed.page(reads, handle.id, cursor) == await feed.definition(reads, handle.id, cursor)


async def loud(network: Network) -> set[int]:
    return {mark.id2 for mark in await network.store.assoc_range(EVERYBODY, HIGH_FAN_OUT, Cursor(limit=99))}


async def materialised(handle: Handle) -> list[str]:
    """Return the texts in a warm timeline, newest first."""
    window = await handle._network.timelines.read(handle.id, Cursor(limit=99))
    assert window is not None
    posts = await handle._network.store.obj_get(window.ids)
    return [posts[id_].text for id_ in window.ids]  # type: ignore[union-attr]  # all are posts


async def gather_fans(shoal: Shoal, many: int = MANY) -> tuple[Handle, list[Handle]]:
    star, *fans = await register(shoal, "star", *(f"fan{n}" for n in range(many)))
    for fan in fans:
        await fan.follow(star)
    await shoal.settle()
    return star, fans


@asynccontextmanager
async def a_stage(url: str = "memory://", *, page: int = 1) -> AsyncIterator[HighFanOutFixture]:
    async with open_network(
        Settings(store=url, media="memory://", high_fan_out_from=HIGH_FAN_OUT_FROM), background=False
    ) as network:
        shoal = Shoal(network)
        object.__setattr__(network.effects, "page", page)
        star, fans = await gather_fans(shoal)
        for fan in fans[:-1]:
            await fan.home()
        await star.create(PUSHED)
        await shoal.settle()
        await fans[-1].home()
        await star.create(PULLED)
        await shoal.settle()
        assert await loud(network) == {star.id}
        assert await materialised(fans[0]) == [PUSHED]
        yield HighFanOutFixture(network, star, fans)


@pytest.mark.parametrize("backend", ["memory", "sqlite", "two stores"])
@in_loop
async def test_high_fan_out_mark_is_removed_below_half_of_the_threshold(backend: str, tmp_path: Path) -> None:
    urls: dict[str, str | dict[str, str]] = {
        "memory": "memory://",
        "sqlite": f"sqlite:///{tmp_path}/shoal.db",
        "two stores": {"0-31": f"sqlite:///{tmp_path}/one.db", "32-63": f"sqlite:///{tmp_path}/two.db"},
    }
    async with Shoal.open(urls[backend], high_fan_out_from=HIGH_FAN_OUT_FROM) as shoal:
        star, fans = await gather_fans(shoal)
        for fan in fans:
            await fan.home()
        await star.create("one")
        await shoal.settle()
        for fan in fans[FEW + 1 :]:
            await fan.unfollow(star)
        await shoal.settle()
        assert await loud(shoal.network) == {star.id}, "half of the threshold keeps the mark"
        assert await materialised(fans[0]) == []
        await fans[FEW].unfollow(star)
        await shoal.settle()
        assert await loud(shoal.network) == set()
        for fan in fans[:FEW]:
            assert await materialised(fan) == await home_texts(fan) == ["one"]
        await star.create("two")
        await shoal.settle()
        for fan in fans[:FEW]:
            assert await materialised(fan) == await home_texts(fan) == ["two", "one"]
            assert await same_as_defined(fan)
        for fan in fans[FEW:]:
            assert await materialised(fan) == await home_texts(fan) == []


async def _is_blocked(star: Handle, fan: Handle) -> None:
    await star.block(fan)


async def _blocks(star: Handle, fan: Handle) -> None:
    await fan.block(star)


async def _is_removed(star: Handle, fan: Handle) -> None:
    await relationships.remove_follower(star._network.writes, star.id, fan.id)


@pytest.mark.parametrize("leave", [_is_blocked, _blocks, _is_removed])
@in_loop
async def test_high_fan_out_mark_is_removed_after_any_kind_of_unfollow(
    leave: Callable[[Handle, Handle], Awaitable[None]],
) -> None:
    async with a_stage() as high_fan_out:
        for fan in high_fan_out.fans[FEW:]:
            await leave(high_fan_out.star, fan)
        await high_fan_out.shoal.settle()
        assert await loud(high_fan_out.network) == set()
        assert await materialised(high_fan_out.fans[0]) == [PULLED, PUSHED]
        await high_fan_out.check()


@in_loop
async def test_high_fan_out_tag_is_demoted_after_unfollows() -> None:
    async with a_stage() as high_fan_out:
        for fan in high_fan_out.fans:
            await fan.follow_tag("tide")
        await high_fan_out.work_off()
        other = (await register(high_fan_out.shoal, "other"))[0]
        await other.create("high #tide")
        await high_fan_out.shoal.settle()
        assert await loud(high_fan_out.network) == {high_fan_out.star.id, tag_id("tide")}
        for fan in high_fan_out.fans[FEW:]:
            await fan.unfollow_tag("tide")
        await high_fan_out.shoal.settle()
        assert await loud(high_fan_out.network) == {high_fan_out.star.id}
        assert await materialised(high_fan_out.fans[0]) == ["high #tide", PULLED, PUSHED]
        await high_fan_out.check()


@in_loop
async def test_high_fan_out_demotion_pushes_posts_made_during_the_merge() -> None:
    async with a_stage() as high_fan_out:
        (event,) = await high_fan_out.they_leave()
        left: int | None = 0
        number = 0
        while left is not None:
            number += 1
            await high_fan_out.star.create(f"meanwhile {number}")
            await high_fan_out.work_off()
            await high_fan_out.check()
            left = await home.merge_demoted(high_fan_out.network.effects, event, left)
            await high_fan_out.check()
        assert number == FEW + 1
        assert await loud(high_fan_out.network) == set()
        expected = [*(f"meanwhile {n}" for n in range(number, 0, -1)), PULLED, PUSHED]
        for fan in high_fan_out.fans[:FEW]:
            assert await materialised(fan) == expected


@in_loop
async def test_high_fan_out_demotion_handles_follows_and_unfollows_during_the_merge() -> None:
    async with a_stage() as high_fan_out:
        first, second, *_, last = high_fan_out.fans
        (event,) = await high_fan_out.they_leave()
        mark = await home.merge_demoted(high_fan_out.network.effects, event, 0)
        assert mark
        for leaver in (first, second):
            await leaver.unfollow(high_fan_out.star)
        await last.follow(high_fan_out.star)
        await high_fan_out.work_off()
        await high_fan_out.star.create("meanwhile")
        await high_fan_out.work_off()
        await high_fan_out.check()
        await high_fan_out.merge(event, mark)
        await high_fan_out.check()
        assert await loud(high_fan_out.network) == set()
        assert await materialised(last) == ["meanwhile", PULLED, PUSHED]
        assert await materialised(first) == await materialised(second) == []


@in_loop
async def test_high_fan_out_demotion_merges_new_follower_whose_event_is_late() -> None:
    async with a_stage() as high_fan_out:
        (event,) = await high_fan_out.they_leave()
        *_, last = high_fan_out.fans
        await last.follow(high_fan_out.star)
        assert await home_texts(last) == [PULLED, PUSHED]
        await high_fan_out.merge(event)
        assert await home_texts(last) == [PULLED, PUSHED]
        await high_fan_out.check()


@in_loop
async def test_high_fan_out_demotion_skips_member_unfollowing_during_the_merge() -> None:
    async with a_stage(page=1_000) as high_fan_out:
        (event,) = await high_fan_out.they_leave()
        newest = home.newest

        async def one_leaves(effects: Effects, source: int, floor: int) -> tuple[list[int], int]:
            if source == high_fan_out.star.id and not floor:
                await high_fan_out.fans[1].unfollow(high_fan_out.star)
                await high_fan_out.work_off()
            return await newest(effects, source, floor)

        with patch.object(home, "newest", one_leaves):
            await home.merge_demoted(high_fan_out.network.effects, event, 0)
        assert await materialised(high_fan_out.fans[1]) == []
        assert await materialised(high_fan_out.fans[0]) == [PULLED, PUSHED]


@in_loop
async def test_high_fan_out_demotion_keeps_timeline_rebuilt_during_the_merge_complete() -> None:
    async with a_stage() as high_fan_out:
        (event,) = await high_fan_out.they_leave()
        for fan in high_fan_out.fans[:FEW]:
            await high_fan_out.network.timelines.drop((fan.id,))
        mark = await home.merge_demoted(high_fan_out.network.effects, event, 0)
        assert mark
        await high_fan_out.check()
        await high_fan_out.star.create("meanwhile")
        await high_fan_out.work_off()
        await high_fan_out.merge(event, mark)
        await high_fan_out.check()
        for fan in high_fan_out.fans[:FEW]:
            assert await materialised(fan) == ["meanwhile", PULLED, PUSHED]


@in_loop
async def test_high_fan_out_demotion_resumes_after_crash_and_is_idempotent() -> None:
    async with a_stage() as high_fan_out:
        (event,) = await high_fan_out.they_leave()
        mark = await home.merge_demoted(high_fan_out.network.effects, event, 0)
        assert mark
        # The worker dies here: the merge is delivered again from its cursor, and concurrently from the start.
        await home.merge_demoted(high_fan_out.network.effects, event, 0)
        await high_fan_out.merge(event, mark)
        await high_fan_out.merge(event)
        await high_fan_out.check()
        assert await loud(high_fan_out.network) == set()
        await high_fan_out.all_come_back()
        await high_fan_out.star.create("loud again")
        await high_fan_out.work_off()
        assert await loud(high_fan_out.network) == {high_fan_out.star.id}
        await high_fan_out.merge(event)
        assert await loud(high_fan_out.network) == {high_fan_out.star.id}, "the mark is a new one"
        await high_fan_out.check()


@in_loop
async def test_high_fan_out_demotion_is_aborted_when_followers_return_during_the_merge() -> None:
    async with a_stage() as high_fan_out:
        (event,) = await high_fan_out.they_leave()
        mark = await home.merge_demoted(high_fan_out.network.effects, event, 0)
        assert mark
        await high_fan_out.all_come_back()
        await high_fan_out.star.create("not pushed")
        await high_fan_out.work_off()
        assert "not pushed" not in await materialised(high_fan_out.fans[0])
        await high_fan_out.merge(event, mark)
        assert await loud(high_fan_out.network) == {high_fan_out.star.id}
        await high_fan_out.check()
        (later,) = await high_fan_out.they_leave()
        await high_fan_out.merge(event, mark)
        assert await loud(high_fan_out.network) == {high_fan_out.star.id}, "the unpushed post is not merged yet"
        await high_fan_out.merge(later)
        assert await loud(high_fan_out.network) == set()
        await high_fan_out.check()
        assert await materialised(high_fan_out.fans[0]) == ["not pushed", PULLED, PUSHED]


@in_loop
async def test_high_fan_out_demotion_keeps_mark_that_another_worker_sets_concurrently() -> None:
    """Another worker finds too many followers between the last check of the mark and its removal."""
    async with a_stage() as high_fan_out:
        (event,) = await high_fan_out.they_leave()
        high_fan_out_sources = high_fan_out.network.effects.high_fan_out_sources
        end = high_fan_out_sources.end

        async def overtaken(source: int, since: int) -> None:
            await high_fan_out.all_come_back()
            await high_fan_out.star.create("not pushed")
            await high_fan_out.work_off()
            await end(source, since)

        with patch.object(high_fan_out_sources, "end", overtaken):
            await high_fan_out.merge(event)
        assert await loud(high_fan_out.network) == {high_fan_out.star.id}
        await high_fan_out.check()


@pytest.mark.parametrize("engine", ["memory", "dynamodb"])
@in_loop
async def test_home_timeline_read_during_high_fan_out_demotion_is_complete(engine: str) -> None:
    """On DynamoDB, a page reads the timeline before the marks."""
    async with a_stage(dynamodb.new_table() if engine == "dynamodb" else "memory://") as high_fan_out:
        (event,) = await high_fan_out.they_leave()
        timelines = high_fan_out.network.timelines
        read = timelines.read

        async def overtaken(member: int, at: Cursor) -> Window | None:
            window = await read(member, at)
            await high_fan_out.merge(event)
            return window

        with patch.object(timelines, "read", overtaken):
            assert await home_texts(high_fan_out.fans[0]) == [PULLED, PUSHED]
        assert await loud(high_fan_out.network) == set()


@in_loop
async def test_high_fan_out_mark_cached_in_other_process_is_read_again_before_push_is_skipped() -> None:
    async with a_stage() as high_fan_out:
        effects = high_fan_out.network.effects
        elsewhere = HighFanOutSources(effects.graph, effects.new_id, HIGH_FAN_OUT_FROM)
        await elsewhere.add(high_fan_out.star.id)
        assert await elsewhere.holds(high_fan_out.star.id)
        (event,) = await high_fan_out.they_leave()
        assert not await elsewhere.holds(high_fan_out.star.id)
        await high_fan_out.merge(event)
        await elsewhere.add(high_fan_out.star.id)
        assert await loud(high_fan_out.network) == {high_fan_out.star.id}
        assert await elsewhere.holds(high_fan_out.star.id)


@in_loop
async def test_upkeep_demotes_high_fan_out_sources_with_few_followers(tmp_path: Path) -> None:
    """A mark remains if no process has looked at it since, or if `high_fan_out_from` was raised."""
    url = f"sqlite:///{tmp_path}/shoal.db"
    async with a_stage(url) as high_fan_out:
        batch = Batch(shard_of(EVERYBODY))
        for fan in high_fan_out.fans:
            batch.assoc_add(EVERYBODY, HIGH_FAN_OUT, fan.id, 1 + fan.id)
        batch.assoc_add(EVERYBODY, HIGH_FAN_OUT, tag_id("tide"), 1)
        await high_fan_out.network.store.commit(batch)
        star, known = high_fan_out.star.id, await home_texts(high_fan_out.fans[0])
    for high_fan_out_from, expected in ((HIGH_FAN_OUT_FROM, {star}), (1_000, set())):
        settings = Settings(store=url, media="memory://", high_fan_out_from=high_fan_out_from)
        async with open_network(settings, background=False) as network:
            shoal = Shoal(network)
            fan = await shoal.member("fan0")
            assert await home_texts(fan) == known
            forget = partial(forget_inactive, network.store)
            upkeep = Upkeep(
                network.store,
                network.timelines,
                network.effects.high_fan_out_sources.review,
                forget,
                14.0,
                30.0,
                400.0,
                partial(drop_old, network.writes),
                0.0,
                30.0,
            )
            with patch("shoal.consumers.high_fan_out._REVIEWED_AT_ONCE", 2):
                await upkeep.once()
            await shoal.settle()
            assert await loud(network) == expected
            assert await home_texts(fan) == known
            assert await same_as_defined(fan)


@in_loop
async def test_unfollow_without_high_fan_out_members_takes_no_extra_reads(tmp_path: Path) -> None:
    settings = Settings(store=f"sqlite:///{tmp_path}/shoal.db", media="memory://")
    async with open_network(settings, background=False) as network:
        shoal = Shoal(network)
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        await shoal.settle()
        await ben.unfollow(ann)
        read: Counter[str] = Counter()
        connections = (SqliteGraph.assoc_get, SqliteGraph.assoc_count, SqliteGraph.assoc_range)

        def counting(method: Any) -> Any:
            async def count(*args: Any, **more: Any) -> Any:
                read[method.__name__] += 1
                return await method(*args, **more)

            return count

        with patch.multiple(SqliteGraph, **{method.__name__: counting(method) for method in connections}):
            await home.begin_demotion(network.effects, FollowChanged(follower_id=ben.id, source_id=ann.id), 0)
        assert not read


@in_loop
async def test_high_fan_out_promotion_and_demotion_apply_in_every_process() -> None:
    place = SharedDatabases()
    async with processes(2, await place.settings(high_fan_out_from=4)) as (one, two):
        for shoal in (one, two):
            object.__setattr__(shoal.network.effects, "page", 2)
        star, *fans = await register(one, "star", *(f"fan{n}" for n in range(5)))
        expected: list[str] = []
        for run_once in range(3):
            for fan in fans:
                await fan.follow(star)
            await one.settle()
            for fan in fans:
                assert await home_texts(await two.member(fan.id)) == expected
            for shoal in (one, two):
                expected.insert(0, f"turn {run_once}: {len(expected)}")
                await (await shoal.member(star.id)).create(expected[0])
                await one.settle()
            assert await loud(two.network) == {star.id}
            for fan in fans[1:]:
                await fan.unfollow(star)
            for shoal in (one, two):
                expected.insert(0, f"turn {run_once}: {len(expected)}")
                await (await shoal.member(star.id)).create(expected[0])
            await one.settle()
            assert await loud(one.network) == set()
            for shoal in (one, two):
                assert await home_texts(await shoal.member(fans[0].id)) == expected
                assert await materialised(await shoal.member(fans[0].id)) == expected
