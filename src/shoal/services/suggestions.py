"""Suggestions that a member does not want to see again."""

from __future__ import annotations

from shoal.core.errors import NotFound
from shoal.core.ids import shard_of
from shoal.core.model import Member
from shoal.graph.contract import Batch
from shoal.graph.schema import DISMISSES
from shoal.services.writes import Writes


async def dismiss(writes: Writes, member_id: int, other_id: int) -> None:
    """Do not suggest this member again. Repeating it is fine. Raises `NotFound` for nobody."""
    other = (await writes.graph.obj_get((other_id,))).get(other_id)
    if not isinstance(other, Member) or other.pending:
        raise NotFound("Record not found")
    batch = Batch(shard_of(member_id))
    batch.assoc_add(member_id, DISMISSES, other_id, writes.new_id(batch.shard))
    await writes.graph.commit(batch)
