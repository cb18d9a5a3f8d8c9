"""Follow history: when two members followed each other, visible only to them; and daily follower counts of a member."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from unittest.mock import patch

import pytest

from shoal import Handle, Shoal
from shoal.commands import moderation
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.ids import BACKDATED_UNTIL_MS, EPOCH_MS, compose, floor_at, milliseconds_of, shard_of
from shoal.graph.contract import AssocOp, Batch, Store
from shoal.graph.schema import ASSOC_TYPES, EVERYBODY, FOLLOWED_BY, FOLLOWS, HISTORY_START
from shoal.queries import follows
from shoal.queries.follows import FollowersOfDay, FollowPeriod
from shoal.scheduler import Upkeep
from tests.async_runner import in_loop
from tests.flows.members import register

DAY_MS = 86_400_000
TWO_STORES = {"0-31": "memory://one", "32-63": "memory://two"}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def moment(shoal: Shoal) -> int:
    """Return the current time of the id generator, in Unix milliseconds."""
    return milliseconds_of(shoal.network.writes.new_id(0))


async def told(one: Handle, other: Handle) -> tuple[list[FollowPeriod], list[FollowPeriod]]:
    """Return the follow periods of both directions, and check that both members get equal histories."""
    mine, theirs = await one.relationship_history(other), await other.relationship_history(one)
    assert mine.following == theirs.followed_by
    assert mine.followed_by == theirs.following
    return mine.following, mine.followed_by


def check(periods: Sequence[FollowPeriod], times: Sequence[tuple[int, int]]) -> None:
    """Compare periods, newest first, with the moments between which each began and ended (0: not ended)."""
    assert [period.until is None for period in periods] == [not after for _, after in times]
    edges = [edge for period in periods for edge in (period.until, period.since) if edge is not None]
    assert edges == sorted(edges, reverse=True)
    assert all(before <= (period.since or 0) for period, (before, _) in zip(periods, times, strict=True))
    assert all((period.until or 0) <= after for period, (_, after) in zip(periods, times, strict=True))


async def put(store: Store, follower: int, followee: int, moment: int, *, alive: bool) -> None:
    """Begin or end a follow at a moment in Unix milliseconds, at both ends."""
    at = compose(moment, shard_of(follower), moment % 1_000)
    for id1, atype, id2 in ((follower, FOLLOWS, followee), (followee, FOLLOWED_BY, follower)):
        batch = Batch(shard_of(id1))
        batch.put(AssocOp(id1, atype.number, id2, at, alive=alive, plain=True))
        await store.commit(batch)


@in_loop
async def test_relationship_history_records_follow_unfollow_and_refollow() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        assert await told(ann, ben) == ([], [])
        began = moment(shoal)
        await ann.follow(ben)
        (period,), none = await told(ann, ben)
        assert (none, period.until) == ([], None)
        await ann.unfollow(ben)
        ended = moment(shoal)
        following, _ = await told(ann, ben)
        check(following, [(began, ended)])
        assert following[0].since == period.since
        await ann.follow(ben)
        await ben.follow(ann)
        following, followed_by = await told(ann, ben)
        check(following, [(began, 0), (began, ended)])
        check(followed_by, [(began, 0)])


@in_loop
async def test_relationship_history_ignores_changes_of_follow_options() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ann.follow(ben)
        before = await told(ann, ben)
        await ann.follow(ben, shares=False, notify=True, languages=["nl"])
        await ann.follow(ben, shares=True)
        assert await told(ann, ben) == before


@in_loop
async def test_relationship_history_begins_when_follow_request_is_granted() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.update_profile(locked=True)
        await ann.follow(ben)
        await ann.follow(ben, notify=True)
        assert await told(ann, ben) == ([], [])
        granted = moment(shoal)
        await ben.authorize(ann)
        await shoal.settle()
        following, _ = await told(ann, ben)
        check(following, [(granted, 0)])
        await ben.remove_follower(ann)
        removed = moment(shoal)
        await ann.follow(ben)
        await ben.reject(ann)
        following, _ = await told(ann, ben)
        check(following, [(granted, removed)])


@pytest.mark.parametrize("store", ["memory://", TWO_STORES], ids=["one store", "two stores"])
@in_loop
async def test_relationship_history_block_ends_follows_and_keeps_history(store: str | dict[str, str]) -> None:
    async with Shoal.open(store) as shoal:
        # With two stores, the members are in different stores.
        ann, ben = await register(shoal, "ann", "dan")
        began = moment(shoal)
        await asyncio.gather(ann.follow(ben), ben.follow(ann))
        await ben.block(ann)
        await shoal.settle()
        blocked = moment(shoal)
        for periods in await told(ann, ben):
            check(periods, [(began, blocked)])
        await ben.unblock(ann)
        await ann.follow(ben)
        following, _ = await told(ann, ben)
        check(following, [(blocked, 0), (began, blocked)])


@in_loop
async def test_relationship_history_is_unchanged_by_suspension() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ann.follow(ben)
        before = await told(ann, ben)
        await moderation.suspend(shoal.network.writes, ben.id)
        await shoal.settle()
        assert (await ann.relationship_history(ben)).following == before[0]
        await moderation.restore(shoal.network.writes, ben.id)
        await shoal.settle()
        assert await told(ann, ben) == before


@in_loop
async def test_relationship_history_contains_only_follows_between_the_two_members() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, eve = await register(shoal, "ann", "ben", "eve")
        await ann.follow(ben)
        await ann.unfollow(ben)
        for other in (ann, ben, eve):
            history = await eve.relationship_history(other)
            assert (history.following, history.followed_by) == ([], [])
        with pytest.raises(NotFound):
            await eve.relationship_history("nobody")
        with pytest.raises(NotFound):
            await eve.relationship_history(12345)
        assert [day.lost for day in await eve.followers_by_day(1)] == [0]
        assert [(day.gained, day.lost) for day in await ben.followers_by_day(1)] == [(1, 1)]


@in_loop
async def test_relationship_history_of_imported_follow_has_unknown_begin() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await put(shoal.network.store, ann.id, ben.id, EPOCH_MS + 5, alive=True)
        assert await told(ann, ben) == ([FollowPeriod(None, None)], [])
        await put(shoal.network.store, ben.id, ann.id, BACKDATED_UNTIL_MS, alive=True)
        assert (await told(ann, ben))[1] == [FollowPeriod(BACKDATED_UNTIL_MS, None)]
        await ann.unfollow(ben)
        (period,), _ = await told(ann, ben)
        assert period.since is None
        assert period.until is not None


@in_loop
async def test_relationship_history_expires_after_retention_and_is_deleted_by_upkeep() -> None:
    async with Shoal.open("memory://", follow_history_days=100.0, tombstone_days=1.0) as shoal:
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        store, now = shoal.network.store, now_ms()
        for other in (ben, cyd):
            await put(store, ann.id, other.id, now - 200 * DAY_MS, alive=True)
            await put(store, ann.id, other.id, now - 101 * DAY_MS, alive=False)
        await put(store, ann.id, cyd.id, now - 99 * DAY_MS, alive=True)
        await put(store, ann.id, cyd.id, now - 98 * DAY_MS, alive=False)
        assert await told(ann, ben) == ([], [])
        recent = [FollowPeriod(now - 99 * DAY_MS, now - 98 * DAY_MS)]
        assert await told(ann, cyd) == (recent, [])
        history = await ann.relationship_history(cyd)
        assert history.known_since == pytest.approx(now - 100 * DAY_MS, abs=60_000)
        upkeep = _upkeep(shoal, tombstone_days=1.0, history_days=100.0)
        await upkeep.once()
        assert [len(rows) for rows in await _ended(shoal, ann.id, ben.id)] == [0, 0]
        assert await told(ann, cyd) == (recent, [])
        # Upkeep deletes old histories once a day, so this history is kept.
        await put(store, ann.id, ben.id, now - 101 * DAY_MS, alive=False)
        await upkeep.once()
        assert [len(rows) for rows in await _ended(shoal, ann.id, ben.id)] == [1, 0]


@in_loop
async def test_relationship_history_begins_no_earlier_than_before_when_retention_setting_is_increased() -> None:
    async with Shoal.open("memory://", follow_history_days=100.0) as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await put(shoal.network.store, ann.id, ben.id, now_ms() - 150 * DAY_MS, alive=False)
        await _upkeep(shoal, tombstone_days=30.0, history_days=100.0).once()
        # The setting has been increased since.
        reads = shoal.network.reads
        with patch.object(type(reads), "history_days", 300.0):
            history = await ann.relationship_history(ben)
            assert history.known_since == pytest.approx(now_ms() - 100 * DAY_MS, abs=60_000)
            assert len(await ann.followers_by_day(400)) == 100


async def _ended(shoal: Shoal, one: int, other: int) -> list[dict[int, object]]:
    kinds = (FOLLOWS, ASSOC_TYPES[FOLLOWS.history])
    return [dict(rows) for rows in (await shoal.network.store.assoc_ended(one, kinds, (other,))).values()]


def _upkeep(shoal: Shoal, *, tombstone_days: float, history_days: float) -> Upkeep:
    async def nothing() -> None: ...

    async def none(_now: int) -> None: ...

    network = shoal.network
    return Upkeep(network.store, network.timelines, nothing, none, 14.0, tombstone_days, history_days, none, 0.0, 30.0)


@in_loop
async def test_relationship_history_begins_at_network_start_or_upgrade(tmp_path: object) -> None:
    url = f"sqlite:///{tmp_path}/shoal.db"
    async with Shoal.open(url) as shoal:
        store = shoal.network.store
        mark = (await store.assoc_get(EVERYBODY, [HISTORY_START], [EVERYBODY]))[HISTORY_START][EVERYBODY]
        assert mark.time == 1
        (ann,) = await register(shoal, "ann")
        assert len(await ann.followers_by_day(400)) == 400
        # Simulate an older network without a start mark.
        batch = Batch(shard_of(EVERYBODY))
        batch.put(AssocOp(EVERYBODY, HISTORY_START.number, EVERYBODY, 2, alive=False, plain=True))
        await store.commit(batch)
    async with Shoal.open(url) as shoal:
        ann = await shoal.member("ann")
        # The end of a follow is known as long as its tombstone exists.
        history = await ann.relationship_history("ann")
        assert history.known_since == pytest.approx(now_ms() - 30 * DAY_MS, abs=60_000)
        assert len(await ann.followers_by_day(400)) == 30
    async with Shoal.open(url) as shoal:
        ann = await shoal.member("ann")
        assert (await ann.relationship_history("ann")).known_since == pytest.approx(history.known_since, abs=5)


# Followers by day


@asynccontextmanager
async def a_year() -> AsyncIterator[tuple[Shoal, Handle, date]]:
    """Yield ann, whose followers changed during the last days, and the current date."""
    async with Shoal.open("memory://") as shoal:
        ann, ben, cyd, dan, eve, fay = await register(shoal, "ann", "ben", "cyd", "dan", "eve", "fay")
        store, noon = shoal.network.store, now_ms() // DAY_MS * DAY_MS - DAY_MS // 2
        acts = [
            (ben, 500, True),
            (cyd, 300, True),
            (cyd, 8, False),
            (dan, 9, True),
            (dan, 9, False),
            (dan, 8, True),
            (dan, 6, False),
            (dan, 2, True),
            (eve, 9, True),
            # An imported follow that has ended.
            (fay, (noon - EPOCH_MS) // DAY_MS, True),
            (fay, 3, False),
        ]
        for order, (who, days, alive) in enumerate(acts):
            await put(store, who.id, ann.id, noon - days * DAY_MS + order, alive=alive)
        yield shoal, ann, datetime.now(UTC).date()


@in_loop
async def test_followers_by_day_counts_gained_and_lost_followers() -> None:
    async with a_year() as (_, ann, today):
        # Noon of yesterday is day 1, so a change n days before it is in the row n + 1 days ago.
        series = await ann.followers_by_day(12)
        found = {(today - row.day).days: row[1:] for row in series}
        assert [(today - row.day).days for row in series] == [*range(11, -1, -1)]
        assert found == {
            11: (3, 0, 0),
            10: (4, 2, 1),
            9: (4, 1, 1),
            8: (4, 0, 0),
            7: (3, 0, 1),
            6: (3, 0, 0),
            5: (3, 0, 0),
            4: (2, 0, 1),
            3: (3, 1, 0),
            2: (3, 0, 0),
            1: (3, 0, 0),
            0: (3, 0, 0),
        }


@in_loop
async def test_followers_by_day_series_of_any_length_share_the_same_end() -> None:
    async with a_year() as (_, ann, _today):
        whole = await ann.followers_by_day(400)
        assert len(whole) == 400
        assert whole[0].followers == 2
        for days in (1, 2, 30, 399):
            assert await ann.followers_by_day(days) == whole[-days:]
        assert await ann.followers_by_day() == whole[-90:]
        for before, after in pairwise(whole):
            assert after.followers == before.followers + after.gained - after.lost
            assert after.day == before.day + timedelta(days=1)


@in_loop
async def test_followers_by_day_above_change_limit_covers_fewer_recent_days() -> None:
    async with a_year() as (_, ann, today):
        whole = await ann.followers_by_day(30)
        for most, days in ((1, 3), (2, 9), (3, 30)):
            with patch.object(follows, "_MOST", most), patch.object(follows, "_PAGE", 1):
                series = await ann.followers_by_day(30)
                assert series == whole[-len(series) :]
                assert (today - series[0].day).days == days - 1, most


@in_loop
async def test_followers_by_day_accepts_1_to_400_days() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        for days in (0, -1, 401):
            with pytest.raises(InvalidInput, match="1 to 400"):
                await ann.followers_by_day(days)
        today = datetime.now(UTC).date()
        assert await ann.followers_by_day(1) in (
            [FollowersOfDay(today, 0, 0, 0)],
            [FollowersOfDay(today + timedelta(days=1), 0, 0, 0)],
        )


@in_loop
async def test_relationship_history_disabled_returns_no_history_and_no_series() -> None:
    async with Shoal.open("memory://", follow_history_days=0.0) as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await put(shoal.network.store, ann.id, ben.id, now_ms() - 9_000, alive=True)
        await put(shoal.network.store, ann.id, ben.id, now_ms() - 8_000, alive=False)
        assert await told(ann, ben) == ([], [])
        await ann.follow(ben)
        assert [period.until for period in (await told(ann, ben))[0]] == [None]
        assert await ben.followers_by_day(30) == []


@in_loop
async def test_followers_by_day_counts_old_tombstone_as_lost_follower() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        at = floor_at(now_ms() // DAY_MS * DAY_MS - 3 * DAY_MS + 5)
        for id1, atype, id2 in ((ben.id, FOLLOWS, ann.id), (ann.id, FOLLOWED_BY, ben.id)):
            batch = Batch(shard_of(id1))
            # Without data, as written by older versions.
            batch.put(AssocOp(id1, atype.number, id2, at, alive=False, plain=True, silent=True))
            await shoal.network.store.commit(batch)
        assert [row[1:] for row in await ann.followers_by_day(5)] == [
            (1, 0, 0),
            (0, 0, 1),
            (0, 0, 0),
            (0, 0, 0),
            (0, 0, 0),
        ]
        (period,) = (await ann.relationship_history(ben)).followed_by
        assert period.since is None
