"""A member's notification policy, and the member's decisions about the senders whom it holds back."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec.structs import replace

from shoal.core.errors import NotFound
from shoal.core.ids import shard_of
from shoal.core.model import Member, NoticePolicy, Treatment
from shoal.graph.access import access_member
from shoal.graph.changes import change_object
from shoal.graph.contract import MAX_TIME, Assoc, Batch, Cursor
from shoal.graph.payloads.notifications import ended, notice_of, release
from shoal.graph.schema import ACCEPTS_NOTICES, HELD
from shoal.services.writes import Writes

_PAGE = 1_000
_MOST = 10_000
"""How many held notifications one request looks through."""


async def set_policy(writes: Writes, member_id: int, changes: dict[str, Treatment]) -> NoticePolicy:
    """Change rules by the names that they have in `NoticePolicy`; the policy as it is now."""
    wanted: dict[str, Any] = {**changes}

    def change(member: Member) -> Member:
        return replace(member, notices=replace(member.notices, **wanted))

    return (await change_object(writes.graph, lambda: access_member(writes.graph, member_id), change)).notices


async def accept(writes: Writes, member_id: int, senders: Collection[int]) -> None:
    """Show the held notifications of these senders, and hold back none of theirs from now on.

    Raises `NotFound` when nothing is held back of one of them.
    """
    held = await _held_of(writes, member_id, senders)
    batch = Batch(shard_of(member_id))
    for sender in senders:
        batch.assoc_add(member_id, ACCEPTS_NOTICES, sender, writes.new_id(batch.shard))
    release(batch, member_id, held)
    await writes.graph.commit(batch)


async def dismiss(writes: Writes, member_id: int, senders: Collection[int]) -> None:
    """Dismiss the held notifications of these senders; later ones are held back again. Raises as `accept`."""
    batch = Batch(shard_of(member_id))
    for assoc in await _held_of(writes, member_id, senders):
        batch.put(ended(member_id, assoc, HELD))
    await writes.graph.commit(batch)


async def _held_of(writes: Writes, member_id: int, senders: Collection[int]) -> list[Assoc]:
    found: list[Assoc] = []
    actors: set[int] = set()
    before, looked = MAX_TIME, 0
    while looked < _MOST:
        page = await writes.graph.assoc_range(member_id, HELD, Cursor(before=before, limit=_PAGE))
        told = [(assoc, notice) for assoc in page if (notice := notice_of(assoc)) and notice.actor_id in senders]
        found += [assoc for assoc, _ in told]
        actors |= {notice.actor_id for _, notice in told}
        looked += len(page)
        if len(page) < _PAGE:
            break
        before = page[-1].time
    if actors != set(senders):
        raise NotFound("Record not found")
    return found
