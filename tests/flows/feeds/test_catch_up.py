"""Catch-up: the best posts since the last visit, quiet friends first, with a fixed end."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from unittest.mock import patch

import pytest

from shoal import Handle, Shoal
from shoal.core.ranking.reranking import QUIET_MOST
from shoal.errors import InvalidInput
from shoal.queries.context import ExpiringCache, Reads
from shoal.queries.foryou.catchup import CatchUp, catch_up
from shoal.queries.foryou.feed import RankedEntry
from tests.async_runner import in_loop
from tests.flows.members import register
from tests.flows.query_counts import calls

DAY_MS = 86_400_000


def texts(entries: list[RankedEntry]) -> list[str]:
    return [one.entry.post.text for one in entries]


def everything(found: CatchUp) -> set[str]:
    return {*texts(found.quiet), *texts(found.best)}


def days_ago(days: float) -> int:
    return round(time.time() * 1_000 - days * DAY_MS)


@contextmanager
def before(shoal: Shoal, days: float) -> Iterator[None]:
    """Set the clock of new ids back by some days."""
    new_id = shoal.network.writes.new_id
    with patch.object(new_id, "_clock", lambda clock=new_id._clock: clock() - round(days * DAY_MS)):
        yield


@asynccontextmanager
async def network() -> AsyncIterator[tuple[Shoal, Handle, Handle, Handle, Handle]]:
    """Ann follows Ben, who posts a lot, and Cyd, who does not; Dan is a stranger."""
    async with Shoal.open("memory://") as shoal:
        # Ids never decrease, so events must be created in chronological order.
        with before(shoal, days=60):
            ann, ben, cyd, dan = await register(shoal, "ann", "ben", "cyd", "dan")
            await ann.follow(ben)
            await ann.follow(cyd)
        yield shoal, ann, ben, cyd, dan


@in_loop
async def test_catch_up_lists_followees_who_post_rarely_first_and_limits_posts_per_author() -> None:
    async with network() as (shoal, ann, ben, cyd, _):
        await cyd.create("rare")
        for n in range(QUIET_MOST + 1):
            await ben.like(await ben.create(f"post {n}"))
        await shoal.settle()
        found = await ann.catch_up(days_ago(1))
        assert texts(found.quiet) == ["rare"]
        assert len(found.best) == 2
        assert {one.entry.author.member.name for one in found.best} == {"ben"}
        assert found.left_out == QUIET_MOST - 1
        assert re.fullmatch(r"That is the best since \w+; 3 more are in your home timeline\.", found.words)
        (only,) = (await ann.catch_up(days_ago(1), limit=1)).best
        assert only.entry.post.text == found.best[0].entry.post.text


@in_loop
async def test_catch_up_author_above_monthly_post_limit_is_not_among_those_who_post_rarely() -> None:
    async with network() as (shoal, ann, ben, _, _):
        with before(shoal, days=31):
            for n in range(QUIET_MOST):
                await ben.create(f"long ago {n}")
        for n in range(QUIET_MOST):
            await ben.create(f"post {n}")
        await shoal.settle()
        assert len((await ann.catch_up(days_ago(1))).quiet) == 2
        await ben.create("one more")
        await shoal.settle()
        assert not (await ann.catch_up(days_ago(1))).quiet


@in_loop
async def test_catch_up_starts_at_read_marker_or_a_week_ago_and_at_most_30_days_ago() -> None:
    async with network() as (shoal, ann, ben, _, _):
        for days in (40, 20, 5):
            with before(shoal, days):
                await ben.create(f"{days} days ago")
        read = await ben.create("read")
        await ben.create("unread")
        await shoal.settle()
        week = await ann.catch_up()
        assert everything(week) < {"read", "unread", "5 days ago"}
        assert week.until - week.since == 7 * DAY_MS
        assert len(week.quiet) + len(week.best) + week.left_out == 3
        long = await ann.catch_up(days_ago(60))
        assert long.until - long.since == 30 * DAY_MS
        assert len(long.quiet) + len(long.best) + long.left_out == 4
        await ann.notifications.mark_read(home=read.id)
        assert everything(await ann.catch_up()) == {"unread"}
        later = await ann.catch_up(datetime.fromtimestamp(days_ago(10) / 1_000).astimezone())
        assert len(later.quiet) + len(later.best) + later.left_out == 3


@in_loop
async def test_catch_up_includes_old_posts_shared_since_but_not_old_posts_commented_since() -> None:
    async with network() as (shoal, ann, ben, _, dan):
        with before(shoal, days=10):
            shared, answered = await dan.create("shared"), await dan.create("answered")
        new = await dan.create("new and answered")
        await dan.create("a stranger's")
        await ann.create("my own")
        await ben.share(shared)
        await ben.comment(answered, "and so on")
        await ben.comment(new, "and so forth")
        await shoal.settle()
        assert everything(await ann.catch_up(days_ago(1))) == {"shared", "new and answered"}


@in_loop
async def test_catch_up_excludes_muted_and_unrankable_authors() -> None:
    async with network() as (shoal, ann, ben, cyd, _):
        await ben.create("muted")
        await cyd.create("kept out")
        await ann.mute(ben)
        await cyd.update_profile(rankable=False)
        await shoal.settle()
        found = await ann.catch_up(days_ago(1))
        assert (everything(found), found.left_out) == (set(), 0)
        assert found.words.startswith("You've seen everything since ")


@in_loop
async def test_catch_up_with_ranking_off_lists_newest_posts() -> None:
    async with network() as (shoal, ann, ben, cyd, _):
        await cyd.create("rare")
        for n in range(4):
            await ben.create(f"post {n}")
        await shoal.settle()
        await ann.switch_ranking(on=False)
        found = await ann.catch_up(days_ago(1), 3, explain=True)
        assert found.by_time
        assert (texts(found.quiet), texts(found.best)) == ([], ["post 3", "post 2", "post 1"])
        assert found.left_out == 2
        assert not any(one.why.terms for one in found.best if one.why is not None)


@in_loop
async def test_catch_up_explanation_terms_sum_to_score_and_freshness_halves() -> None:
    async with network() as (shoal, ann, ben, _, _):
        with before(shoal, days=4):
            await ben.create("begins")
        await shoal.settle()
        found = await ann.catch_up(days_ago(4.001), explain=True)
        (one,) = found.quiet
        assert one.why is not None
        assert sum(term.contribution for term in one.why.terms) == pytest.approx(one.why.score, abs=1e-6)
        (freshness,) = [term for term in one.why.terms if term.name == "freshness"]
        assert freshness.value == pytest.approx(0.5, abs=1e-3)


@in_loop
async def test_catch_up_invalid_since_or_limit_is_rejected() -> None:
    async with network() as (_, ann, _, _, _):
        for arguments, words in (
            ((days_ago(-1),), "since: must be in the past"),
            ((datetime.now(UTC).replace(tzinfo=None),), "since: expected a datetime with a time zone"),
            ((None, 0), "limit"),
        ):
            with pytest.raises(InvalidInput, match=words):
                await ann.catch_up(*arguments)


@in_loop
async def test_catch_up_read_count_is_independent_of_followee_count() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, *crowd = await register(shoal, "ann", *(f"friend{n}" for n in range(40)))
        costs = []
        for friends in (crowd[:2], crowd):
            for friend in friends:
                await ann.follow(friend)
                await friend.create("hello")
            await shoal.settle()

            async def read(reads: Reads) -> CatchUp:
                forgetful = replace(reads, interests=ExpiringCache(), near=ExpiringCache(), neighbors=ExpiringCache())
                return await catch_up(forgetful, ann.id, days_ago(1), 40)

            await read(shoal.network.reads)
            costs.append(await calls(shoal.network, read))
        assert costs[0] == costs[1]
