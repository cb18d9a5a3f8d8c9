"""Inverses that another store was owed reach it."""

from __future__ import annotations

from shoal.core.events import InverseOwed
from shoal.core.ids import shard_of
from shoal.fanout.effects import Effects
from shoal.graph.contract import AssocOp, Batch


async def settle_inverse(effects: Effects, event: InverseOwed, mark: int) -> int | None:
    """Apply it where it belongs; it keeps its time, so a second time changes nothing."""
    batch = Batch(shard_of(event.op.id1))
    batch.put(AssocOp(*event.op, plain=True))
    await effects.graph.commit(batch)
    return None
