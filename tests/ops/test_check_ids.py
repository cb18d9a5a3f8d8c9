"""`shoal check` reports missing agenda tickets, and ids that two tickets, poll options or emoji share."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.commands import blocklists
from shoal.core.blocklists import IpSeverity
from shoal.core.ids import shard_of
from shoal.core.model import Poll, ScheduledPost
from shoal.graph.changes import take_off
from shoal.graph.contract import Assoc, Batch, Cursor
from shoal.graph.payloads.notifications import Kind
from shoal.graph.schema import AGENDA, DUE, DUE_ON, SHOWS_EMOJI, AnyNode
from tests.async_runner import in_loop
from tests.flows.test_scheduler import POLL, agenda, plan


async def commit(shoal: Shoal, batch: Batch) -> None:
    await shoal.network.store.commit(batch)
    await shoal.settle()


async def lose(shoal: Shoal, ticket: int) -> None:
    """Delete a ticket from the agenda, without changing the object that is due."""
    batch = Batch(shard_of(ticket))
    take_off(batch, ticket, shoal.network.writes.new_id(batch.shard))
    await commit(shoal, batch)


async def tickets(shoal: Shoal) -> list[Assoc]:
    return await shoal.network.store.assoc_range(AGENDA, DUE, Cursor(limit=100))


async def objects(shoal: Shoal) -> list[AnyNode]:
    return await shoal.network.store.obj_scan(0, 1_000)


@pytest.mark.parametrize("kind", ["scheduled post", "poll", "ip block", "departure"])
@in_loop
async def test_shoal_check_lost_scheduler_ticket_is_reported_and_rescheduled(kind: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann")
        match kind:
            case "scheduled post":
                await plan(shoal, ann, "at nine")
            case "poll":
                await ann.create("?", poll=POLL)
            case "ip block":
                await blocklists.block_ip(shoal.network.writes, "192.0.2.1", IpSeverity.NO_ACCESS, seconds=600)
            case _:
                await shoal.delete_member(ann, days=3)
        await shoal.settle()
        assert (await check(shoal.network)).clean
        (before,) = await tickets(shoal)
        await lose(shoal, before.id2)
        report = await check(shoal.network)
        assert report["agenda"].found == sum(line.found for line in report.invariants) == 1
        assert (await check(shoal.network, repair=True)).repaired == 1
        (after,) = await tickets(shoal)
        assert after.id2 != before.id2
        assert after.data == before.data
        assert after.time >> 23 == before.time >> 23
        assert (await check(shoal.network)).clean


@in_loop
async def test_shoal_check_repair_of_overdue_scheduled_post_marks_it_unpublished_and_notifies_author() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann")
        first, late = [await plan(shoal, ann, text) for text in ("first", "late")]
        # The late post names the ticket of another object.
        batch = Batch(shard_of(ann.id))
        take_off(batch, late.ticket_id, shoal.network.writes.new_id(batch.shard))
        two_days_ago = late.at - 2 * 86_400_000
        late = replace(late, at=two_days_ago, ticket_id=first.ticket_id, version=late.version + 1)
        batch.obj_set(late)
        await commit(shoal, batch)
        assert (await check(shoal.network, repair=True)).repaired == 1
        assert (await check(shoal.network)).clean
        (ticket,) = await tickets(shoal)
        assert ticket.id2 == first.ticket_id
        (kept,) = [node for node in await objects(shoal) if node.id == late.id]
        assert isinstance(kept, ScheduledPost)
        assert (kept.ticket_id, kept.refused) == (0, "This post was not published on schedule")
        assert [one.notice.kind for one in (await ann.notifications.page()).items] == [Kind.UNPUBLISHED]


@in_loop
async def test_shoal_check_ticket_shared_by_two_scheduled_posts_is_repaired_and_both_are_published() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann")
        first, second = [await plan(shoal, ann, text) for text in ("first", "second")]
        # The state after two processes generated one id.
        batch = Batch(shard_of(ann.id))
        take_off(batch, second.ticket_id, shoal.network.writes.new_id(batch.shard))
        batch.obj_set(replace(second, ticket_id=first.ticket_id, version=second.version + 1))
        batch.assoc_add(first.ticket_id, DUE_ON, AGENDA, (await tickets(shoal))[0].time + 5, second.id.to_bytes(8))
        await commit(shoal, batch)
        assert (await check(shoal.network))["agenda"].found == 1
        assert (await check(shoal.network, repair=True)).repaired == 1
        assert (await check(shoal.network)).clean
        await agenda(shoal, minutes=15).once()
        await shoal.settle()
        assert sorted(entry.post.text for entry in (await ann.home()).entries) == ["first", "second"]


@in_loop
async def test_shoal_check_option_id_shared_by_two_polls_is_reported() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann")
        for text in ("a?", "b?"):
            await ann.create(text, poll=POLL)
        await shoal.settle()
        first, second = [node for node in await objects(shoal) if isinstance(node, Poll)]
        batch = Batch(shard_of(ann.id))
        batch.obj_set(replace(second, options=(first.options[0], second.options[1]), version=second.version + 1))
        await commit(shoal, batch)
        report = await check(shoal.network)
        assert report["ids"].found == sum(line.found for line in report.invariants) == 1
        assert report["ids"].examples == [
            f"poll {first.id} and poll {second.id} share an option id: votes for either count in both"
        ]


@in_loop
async def test_shoal_check_reports_id_under_which_emoji_reactions_to_two_posts_are_counted() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        first, second = await ann.create("a"), await ann.create("b")
        await ben.react(first, "🎉")
        await shoal.settle()
        (shown,) = await shoal.network.store.assoc_range(first.id, SHOWS_EMOJI, Cursor())
        batch = Batch(shard_of(second.id))
        batch.assoc_add(second.id, SHOWS_EMOJI, shown.id2, shown.time, shown.data)
        await commit(shoal, batch)
        assert (await check(shoal.network))["ids"].found == 1
