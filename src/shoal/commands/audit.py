"""The audit log: commands add an entry to the batch that does the action, so both are committed or neither is.

Entries are immutable. Only the retention upkeep deletes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence

from shoal.commands.context import Writes
from shoal.core.audit import Actor, AuditTarget, AuditVerb, TargetKind, entry_of
from shoal.core.errors import ShoalError
from shoal.core.ids import IdMaker, shard_of
from shoal.core.placement import place
from shoal.core.text import MAX_USER_NAME
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Assoc, Batch, Cursor, Graph, IdTaken
from shoal.graph.payloads.members import put_entry, take_entry
from shoal.graph.schema import AUDITED, PUBLIC_LISTS, REMOVED_PICTURES, AssocType, public_list

_DROPPED_AT_ONCE = 20
"""Entries deleted per commit: a DynamoDB transaction is limited to 100 items, and an entry takes up to four."""
_TAKEN_AT_ONCE = 100


def note(writes: Writes, batch: Batch, verb: AuditVerb, target: AuditTarget, /, **details: str | int) -> None:
    """Add an audit entry about the acting member to the batch that carries out the action."""
    entry = entry_of(verb, writes.actor, target, details)
    put_entry(batch, writes.new_id(batch.shard), entry, writes.actor.address)


async def note_alone(writes: Writes, verb: AuditVerb, target: AuditTarget, /, **details: str | int) -> None:
    """Commit an audit entry before an action that changes nothing in the graph."""
    await commit_entry(writes.graph, writes.new_id, writes.actor, verb, target, **details)


async def commit_entry(
    graph: Graph, new_id: IdMaker, actor: Actor, verb: AuditVerb, target: AuditTarget, /, **details: str | int
) -> None:
    """Commit an audit entry by itself, for callers that have no `Writes`."""

    async def attempt() -> None:
        batch = Batch(shard_of(target.member_id) if target.member_id else place(target.name).shard)
        put_entry(batch, new_id(batch.shard), entry_of(verb, actor, target, details), actor.address)
        await graph.commit(batch)

    await retry_on_conflict(attempt)


async def note_failed_login(writes: Writes, member_id: int, name: str, network: str, why: str) -> None:
    """Record a failed login. Of many similar failures, only some are recorded (`core.audit.repeats`).

    `member_id` is 0 if no member has the `name` that was typed; such names are counted together per `network`. Best effort: the
    response does not depend on it and, on a server, does not wait for it.
    """
    now = writes.new_id.now()
    repeat = writes.failures.count(f"{member_id} {network} {why}", now)
    if repeat is None:
        return
    holder = 0 if repeat.together else member_id
    typed = "" if repeat.together else name[:MAX_USER_NAME]
    target = AuditTarget(TargetKind.MEMBER, holder, typed, holder)

    async def attempt() -> None:
        batch = Batch(shard_of(holder) if holder else place(network).shard)
        note(writes, batch, AuditVerb.LOGIN_FAILED, target, why=why, count=repeat.times)
        if holder:
            # The member may have been deleted concurrently: add nothing to their shard.
            batch.expect(holder)
        await writes.graph.commit(batch)

    if writes.background is None:
        await _run_if_possible(attempt)
    else:
        # Fewer failures are recorded for unknown names, so a response that waited for the commit would reveal which names exist.
        await writes.background.run(_run_if_possible(attempt))


async def _run_if_possible(attempt: Callable[[], Awaitable[None]]) -> None:
    with contextlib.suppress(ShoalError):
        await retry_on_conflict(attempt, lambda conflict: isinstance(conflict, IdTaken))


async def drop_old(writes: Writes, before: int) -> None:
    """Delete the audit entries, and the removed pictures, older than the snowflake id `before`, in small batches."""
    old = Cursor(before=before, limit=_TAKEN_AT_ONCE, oldest_first=True)
    for atype in (AUDITED, REMOVED_PICTURES):
        while pages := await writes.graph.assoc_ranges(PUBLIC_LISTS, atype, old):
            for public, page in pages.items():
                for at in range(0, len(page), _DROPPED_AT_ONCE):
                    await _drop(writes, shard_of(public), atype, page[at : at + _DROPPED_AT_ONCE])


async def end_addresses(writes: Writes, member_id: int) -> int:
    """Delete a page of the member's own list of audit entries, which has IP addresses. Return the number of deleted entries."""
    batch = Batch(shard_of(member_id))
    for assoc in await writes.graph.assoc_range(member_id, AUDITED, Cursor(limit=_DROPPED_AT_ONCE)):
        batch.assoc_del(member_id, AUDITED, assoc.id2, writes.new_id(batch.shard))
    if batch.assocs:
        await writes.graph.commit(batch)
    return len(batch.assocs)


async def _drop(writes: Writes, shard: int, atype: AssocType, entries: Sequence[Assoc]) -> None:
    batch = Batch(shard)
    for entry in entries:
        if atype is AUDITED:
            take_entry(batch, entry, writes.new_id(shard))
        else:
            batch.assoc_del(public_list(shard), atype, entry.id2, writes.new_id(shard))
    await writes.graph.commit(batch)
