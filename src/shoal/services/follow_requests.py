"""Requests to follow somebody who is locked: they agree or decline. A request is made, and withdrawn, in `relationships`."""

from __future__ import annotations

from msgspec import structs

from shoal.core.errors import NotFound
from shoal.core.events import FollowChanged, RequestChanged
from shoal.core.ids import shard_of
from shoal.core.visibility import Relation
from shoal.graph.access import association, relation
from shoal.graph.contract import Batch
from shoal.graph.payloads.follows import encode, follow_terms
from shoal.graph.schema import FOLLOWED_BY, REQUESTED_BY, WATCHED_BY
from shoal.services.writes import Writes


async def authorize(writes: Writes, member_id: int, other_id: int) -> Relation:
    """The other follows the member from now on, as they wished. Raises `NotFound` where they have not asked.

    It is committed where the member is: that the other follows is the inverse of it, and may arrive a moment later.
    """
    data = await _asked(writes, member_id, other_id)
    terms = follow_terms(data)
    batch = _ended(writes, member_id, other_id)
    batch.assoc_add(
        member_id,
        FOLLOWED_BY,
        other_id,
        writes.new_id(batch.shard),
        encode(structs.replace(terms, notify=False, since=0)),
    )
    if terms.notify:
        batch.assoc_add(member_id, WATCHED_BY, other_id, writes.new_id(batch.shard))
    batch.emit(FollowChanged(follower_id=other_id, source_id=member_id))
    await writes.graph.commit(batch)
    return await relation(writes.graph, member_id, other_id)


async def reject(writes: Writes, member_id: int, other_id: int) -> Relation:
    """The request ends; they may ask again. Raises `NotFound` where they have not asked."""
    await _asked(writes, member_id, other_id)
    await writes.graph.commit(_ended(writes, member_id, other_id))
    return await relation(writes.graph, member_id, other_id)


async def _asked(writes: Writes, member_id: int, other_id: int) -> bytes:
    found = await association(writes.graph, member_id, REQUESTED_BY, other_id)
    if found is None:
        raise NotFound("Record not found")
    return found.data


def _ended(writes: Writes, member_id: int, other_id: int) -> Batch:
    batch = Batch(shard_of(member_id))
    batch.assoc_del(member_id, REQUESTED_BY, other_id, writes.new_id(batch.shard))
    batch.emit(RequestChanged(member_id=other_id, other_id=member_id))
    return batch
