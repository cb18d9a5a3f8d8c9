"""Audit log guarantees on every graph: order, pagination and retention."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import cast
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Shoal
from shoal.commands.audit import drop_old, note
from shoal.commands.context import Writes
from shoal.consumers.active_posts import forget_inactive
from shoal.core.audit import Actor, AuditTarget, AuditVerb, TargetKind
from shoal.core.errors import InvalidInput
from shoal.core.ids import IdMaker, shard_of
from shoal.graph.contract import MAX_TIME, Batch, Cursor, Store
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import AUDITED, PUBLIC_LISTS
from shoal.media.library import MediaLibrary
from shoal.queries import moderation, pagination
from shoal.queries.moderation import AuditFilter, AuditPage
from shoal.scheduler import Upkeep
from tests.async_runner import in_loop, run
from tests.audit.log_reader import entries
from tests.example_counts import examples
from tests.stores import ANN, BEN, CYD, Backend, all_links

WHERE = "203.0.113.9"
PEOPLE = (ANN, BEN, CYD)


def bundle(graph: Store) -> Writes:
    return Writes(graph, IdMaker(), cast("MediaLibrary", None))


async def did(writes: Writes, actor: int, verb: AuditVerb, target: int, reason: str = "") -> None:
    """Write an entry about a member on the member's shard."""
    batch = Batch(shard_of(target))
    acting = writes.by(Actor(actor, f"m{actor}" if actor else "", WHERE if actor else "", reason))
    note(acting, batch, verb, AuditTarget(TargetKind.MEMBER, target, f"m{target}", target))
    await writes.graph.commit(batch)


async def filled(graph: Store) -> Writes:
    """Write 24 entries: three members suspend and restore each other, and log in."""
    writes = bundle(graph)
    for target in PEOPLE:
        for actor in PEOPLE:
            if actor == target:
                await did(writes, actor, AuditVerb.LOGIN_SUCCEEDED, actor)
                await did(writes, 0, AuditVerb.PASSWORD_SET, actor)
                continue
            await did(writes, actor, AuditVerb.MEMBER_SUSPENDED, target, "spam")
            await did(writes, actor, AuditVerb.MEMBER_UNSUSPENDED, target)
        await did(writes, 0, AuditVerb.MEMBER_ROLE_CHANGED, target)
        await did(writes, target, AuditVerb.SESSION_ENDED, target)
    return writes


async def pages(graph: Store, wanted: AuditFilter, limit: int, *, oldest_first: bool = False) -> list[AuditPage]:
    found: list[AuditPage] = []
    at = Cursor(limit=limit, oldest_first=oldest_first)
    while True:
        page = await moderation.audit_page(graph, at, wanted)
        found.append(page)
        if page.next is None:
            return found
        at = at.past(page.entries[0].id if oldest_first and page.entries else page.next)


@in_loop
async def test_audit_entry_includes_actor_target_verb_reason_and_address(backend: Backend) -> None:
    async with backend.open() as graph:
        writes = bundle(graph)
        await did(writes, BEN, AuditVerb.MEMBER_SUSPENDED, ANN, "spam")
        await did(writes, ANN, AuditVerb.LOGIN_SUCCEEDED, ANN)
        await did(writes, 0, AuditVerb.PASSWORD_SET, ANN)
        suspended, logged_in, helped = await entries(graph)
        assert (suspended.entry.actor_id, suspended.entry.actor_name, suspended.address) == (BEN, f"m{BEN}", WHERE)
        assert (suspended.entry.target_id, suspended.entry.target_name) == (ANN, f"m{ANN}")
        assert (suspended.entry.reason, suspended.entry.verb) == ("spam", AuditVerb.MEMBER_SUSPENDED)
        assert (logged_in.entry.actor_id, logged_in.address) == (ANN, WHERE)
        assert (helped.entry.actor_id, helped.entry.actor_name, helped.address) == (0, "", "")
        assert suspended.id < logged_in.id < helped.id


@in_loop
async def test_audit_entry_of_own_action_stores_ip_address_only_in_audit_list_of_that_member(backend: Backend) -> None:
    async with backend.open() as graph:
        await filled(graph)
        rows = [row for row in await all_links(graph) if row.atype == AUDITED.number]
        own = {row.id2: row.data.decode() for row in rows if row.id1 not in PUBLIC_LISTS}
        assert set(own.values()) == {WHERE}
        for one in await entries(graph):
            alone = one.entry.actor_id == one.entry.target_id
            assert (one.id in own) is alone
            assert one.entry.address == ("" if alone or not one.entry.actor_id else WHERE)
            assert one.address == (WHERE if one.entry.actor_id else "")


@pytest.mark.parametrize("limit", [1, 4, 7, 40])
@in_loop
async def test_audit_log_filtered_pages_return_each_entry_once_newest_first(backend: Backend, limit: int) -> None:
    async with backend.open() as graph:
        await filled(graph)
        everything = [one.id for one in await entries(graph)]
        assert len(everything) == 24
        for wanted in (
            AuditFilter(),
            AuditFilter(actor_id=ANN),
            AuditFilter(actor_id=0),
            AuditFilter(target_id=BEN),
            AuditFilter(ANN, BEN, frozenset({AuditVerb.MEMBER_SUSPENDED})),
            AuditFilter(verbs=frozenset({AuditVerb.LOGIN_FAILED})),
        ):
            fitting = [one.id for one in await entries(graph) if wanted.admits(one.entry)]
            # With small batches, a page takes several searches and may be incomplete.
            with patch.object(moderation, "_SEARCHED", 3), patch.object(pagination, "LOOKS", 2):
                found = await pages(graph, wanted, limit)
            assert [one.id for page in found for one in page.entries] == fitting[::-1]
            assert all(len(page.entries) <= limit for page in found)


@in_loop
async def test_audit_log_page_with_limit_zero_is_refused(backend: Backend) -> None:
    async with backend.open() as graph:
        with pytest.raises(InvalidInput, match="limit"):
            await moderation.audit_page(graph, Cursor(limit=0), AuditFilter())


@in_loop
async def test_audit_log_entries_older_than_given_id_are_deleted_with_their_addresses(backend: Backend) -> None:
    async with backend.open() as graph:
        writes = await filled(graph)
        before = await entries(graph)
        border = before[10].id
        await drop_old(writes, border)
        assert await entries(graph) == before[10:]
        kept = {one.id for one in before[10:]}
        alive = [row for row in await all_links(graph) if row.atype == AUDITED.number and row.alive]
        assert {row.id2 for row in alive} == kept
        # The tombstones of dropped entries contain no data.
        assert not any(row.data for row in await all_links(graph) if row.atype == AUDITED.number and not row.alive)
        await drop_old(writes, MAX_TIME)
        assert await entries(graph) == []


@pytest.mark.parametrize(("days", "stays"), [(0.0, True), (1.0, True), (1e-9, False)])
@in_loop
async def test_upkeep_drops_audit_entries_older_than_setting(days: float, stays: bool) -> None:
    async with Shoal.open("memory://") as shoal:
        network = shoal.network
        await shoal.register("ann")
        await shoal.suspend("ann")
        await asyncio.sleep(0.002)
        idle = network.settings
        upkeep = Upkeep(
            network.store,
            network.timelines,
            network.effects.high_fan_out_sources.review,
            partial(forget_inactive, network.store),
            idle.timeline_idle_days,
            idle.tombstone_days,
            idle.follow_history_days,
            partial(drop_old, network.writes),
            days,
            idle.event_log_days,
        )
        await upkeep.once()
        assert bool(await entries(network.store)) is stays


@settings(max_examples=examples(20, full=40))
@given(
    many=st.lists(st.tuples(st.sampled_from(PEOPLE), st.sampled_from(PEOPLE)), max_size=40),
    limit=st.integers(1, 9),
    actor=st.none() | st.sampled_from(PEOPLE),
    looks=st.integers(1, 3),
)
def test_audit_log_pages_match_whole_log_in_both_directions(
    many: list[tuple[int, int]], limit: int, actor: int | None, looks: int
) -> None:
    async def check() -> None:
        graph = MemoryGraph(lambda _shard: True)
        writes = bundle(graph)
        for by, about in many:
            await did(writes, by, AuditVerb.MEMBER_SILENCED, about)
        wanted = AuditFilter(actor_id=actor)
        fitting = [one for one in await entries(graph) if wanted.admits(one.entry)]
        with patch.object(moderation, "_SEARCHED", 2), patch.object(pagination, "LOOKS", looks):
            newest_first = [one for page in await pages(graph, wanted, limit) for one in page.entries]
            assert newest_first == fitting[::-1]
            oldest_first = await pages(graph, wanted, limit, oldest_first=True)
        assert [one for page in oldest_first for one in page.entries[::-1]] == fitting

    run(check())
