"""Ending the invitations of members who were suspended."""

from __future__ import annotations

from shoal.core.events import SuspensionChanged
from shoal.core.ids import shard_of
from shoal.core.model import Member
from shoal.fanout.effects import Effects
from shoal.graph.contract import Batch, Cursor
from shoal.graph.schema import OWNS_INVITATION

_PAGE = 20


async def end_of_suspended(effects: Effects, event: SuspensionChanged, mark: int) -> int | None:
    """End the invitations of a suspended member, a page at a time. Those of a member who leaves stay, as they may come back."""
    owner, graph = event.member_id, effects.graph
    member = (await graph.obj_get((owner,))).get(owner)
    if not isinstance(member, Member) or not member.suspended or member.departure_id:
        return None
    page = await graph.assoc_range(owner, OWNS_INVITATION, Cursor(limit=_PAGE))
    if not page:
        return None
    batch = Batch(shard_of(owner))
    for assoc in page:
        batch.obj_del(assoc.id2)
        batch.assoc_del(owner, OWNS_INVITATION, assoc.id2, effects.new_id(batch.shard))
    await graph.commit(batch)
    return 1 if len(page) == _PAGE else None
