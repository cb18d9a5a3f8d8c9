"""The event log of a whole network: every command and consumer is in it, and old entries expire."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from shoal import Shoal
from shoal.core.errors import InvalidInput
from shoal.core.model import Visibility
from shoal.graph.contract import LogEntry
from shoal.graph.event_log import EventLog, LogKind, former_visibility
from shoal.scheduler import Upkeep
from tests.async_runner import in_loop
from tests.event_log_replica import Replica, facts_of
from tests.flows.test_account_deletion import PASSWORD, a_full_life, worked_off


async def follow(shoal: Shoal, replica: Replica) -> Counter[str]:
    """Read the log to its end, and return the number of new entries of each kind."""
    new: list[LogEntry] = await replica.read(EventLog(shoal.network.store))
    assert replica.facts == await facts_of(shoal.network.store)
    return Counter(LogKind(entry.kind).label for entry in new)


@in_loop
async def test_event_log_has_all_public_data_of_a_member_until_the_account_is_deleted() -> None:
    async with a_full_life(event_log="on") as (shoal, ann, ben):
        replica = Replica()
        told = await follow(shoal, replica)
        assert told["member.created"] == 3
        assert (told["post.created"], told["share.created"], told["media.created"]) == (8, 2, 2)
        assert (told["follow.created"], told["like.created"], told["reaction.created"]) == (3, 2, 2)
        entry = await ben.create("to be edited")
        await ben.update(entry, "edited")
        await shoal.suspend("cyd")
        await ann.report("ben", posts=[entry])
        told = await follow(shoal, replica)
        assert (told["post.created"], told["post.updated"], told["report.created"]) == (1, 1, 1)
        assert told["member.updated"] >= 1
        assert told["audit.created"] >= 1
        # An own act of a member is in the audit log, but not in the event log.
        await ben.invite()
        assert await follow(shoal, replica) == {}
        # Ben ends Ann's follow: the follower is the subject.
        await ben.remove_follower(ann)
        await shoal.settle()
        assert await follow(shoal, replica) == {"follow.deleted": 1}
        assert (replica.entries[-1].subject, replica.entries[-1].object) == (ann.id, ben.id)
        await ann.leave(PASSWORD)
        await worked_off(shoal)
        told = await follow(shoal, replica)
        assert (told["member.deleted"], told["share.deleted"], told["like.deleted"]) == (1, 2, 2)
        assert told["media.deleted"] == 2
        assert told["post.deleted"] >= 5


@in_loop
async def test_event_log_has_former_visibility_of_narrowed_and_deleted_posts_and_of_ended_shares() -> None:
    async with Shoal.open("memory://", event_log="on") as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        post, other = await ann.create("first"), await ann.create("second")
        await ben.share(post, visibility="followers")
        await ben.share(other)
        replica = Replica()
        await follow(shoal, replica)
        await ben.unshare(post)
        await ann.update(post, "narrowed", visibility="direct")
        await ann.delete(post)
        await ann.delete(other)
        await shoal.settle()
        await follow(shoal, replica)
        found = [(LogKind(entry.kind).label, former_visibility(entry)) for entry in replica.entries]
        assert [(label, visibility) for label, visibility in found if visibility] == [
            ("share.deleted", Visibility.FOLLOWERS),
            ("post.updated", Visibility.PUBLIC),
            ("post.deleted", Visibility.DIRECT),
            ("post.deleted", Visibility.PUBLIC),
            ("share.deleted", Visibility.PUBLIC),
        ]


@in_loop
async def test_event_log_repeated_actions_without_effect_have_no_entries() -> None:
    async with Shoal.open("memory://", event_log="on") as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        post = await ann.create("hello")
        acts = (lambda: ben.follow(ann), lambda: ben.like(post), lambda: ben.react(post, "🌊"), lambda: ben.share(post))
        ends = (
            lambda: ben.unfollow(ann),
            lambda: ben.unlike(post),
            lambda: ben.unreact(post, "🌊"),
            lambda: ben.unshare(post),
        )
        replica = Replica()
        for act in (*acts, *ends):
            await act()
            await follow(shoal, replica)
            await act()
            await shoal.settle()
            assert await follow(shoal, replica) == {}, act


@pytest.mark.parametrize(("days", "stays"), [(1.0, True), (1e-9, False)])
@in_loop
async def test_upkeep_trims_event_log_after_its_retention(days: float, stays: bool) -> None:
    async def nothing(*_: object) -> None:
        return

    async with Shoal.open("memory://", event_log="on") as shoal:
        await shoal.register("ann")
        await (await shoal.register("ben")).create("hello")
        log = EventLog(shoal.network.store)
        before = (await log.read(None, 100)).entries
        await asyncio.sleep(0.002)
        upkeep = Upkeep(
            shoal.network.store, shoal.network.timelines, nothing, nothing, 14.0, 30.0, 400.0, nothing, 0.0, days
        )
        await upkeep.once()
        after = (await log.read(None, 100)).entries
        assert list(after) == (list(before) if stays else list(before[-1:]))


@in_loop
async def test_event_log_setting_reaches_every_store_and_empty_keeps_it(tmp_path: Path) -> None:
    stores = {"0-31": f"sqlite:///{tmp_path}/a.db", "32-63": f"sqlite:///{tmp_path}/b.db"}
    where: dict[str, Any] = {"media": "memory://", "tags": "memory://", "search": "memory://"}
    async with Shoal.open(stores, event_log="on", **where) as shoal:
        end = await EventLog(shoal.network.store).end()
        assert len(end.places) == 2
    async with Shoal.open(stores, **where) as shoal:
        await shoal.register("ann")
        page = await EventLog(shoal.network.store).read(end, 10)
        assert [LogKind(entry.kind) for entry in page.entries] == [LogKind.MEMBER_CREATED]
    async with Shoal.open(stores, event_log="off", **where) as shoal:
        with pytest.raises(InvalidInput, match="keeps no event log"):
            await EventLog(shoal.network.store).read(end, 10)
