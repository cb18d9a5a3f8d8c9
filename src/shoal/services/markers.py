"""Up to where a member has read a timeline, kept for all their devices."""

from __future__ import annotations

from collections.abc import Mapping

from shoal.core.ids import shard_of
from shoal.graph.contract import Batch
from shoal.graph.payloads.members import Mark, encode_mark, mark_id, marks
from shoal.graph.schema import MARKED
from shoal.services.writes import Writes


async def mark(writes: Writes, member_id: int, read: Mapping[str, int]) -> dict[str, Mark]:
    """Set marks by the name of their timeline, together; what they are now. Each setting has a version of its own."""
    if not read:
        return {}
    before = await marks(writes.graph, member_id, read)
    batch = Batch(shard_of(member_id))
    for name, last_read_id in read.items():
        version = before[name].version + 1 if name in before else 1
        data = encode_mark(last_read_id, version)
        batch.assoc_add(member_id, MARKED, mark_id(name), writes.new_id(batch.shard), data)
    await writes.graph.commit(batch)
    return await marks(writes.graph, member_id, read)
