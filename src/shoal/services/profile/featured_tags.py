"""Tags that a member shows on their profile."""

from __future__ import annotations

from shoal.core.errors import InvalidInput, NotFound
from shoal.core.ids import shard_of
from shoal.core.text import check_tag
from shoal.graph.contract import Assoc, Batch, Cursor
from shoal.graph.schema import FEATURES_TAG, tag_id
from shoal.services.maxima import Claim, in_turn
from shoal.services.profile.tag_lists import held_tags
from shoal.services.writes import Writes


async def feature(writes: Writes, member_id: int, name: str) -> Assoc:
    """Show a tag on the profile, and return its entry in the list. A second time changes nothing.

    Raises `InvalidInput` for one too many.
    """
    tag = check_tag(name)

    async def attempt(claim: Claim) -> Assoc | None:
        held = await writes.graph.assoc_range(member_id, FEATURES_TAG, Cursor(limit=writes.limits.featured_tags))
        known = next((assoc for assoc in held if assoc.id2 == tag_id(tag)), None)
        if known is not None:
            return known
        if len(held) >= writes.limits.featured_tags:
            raise InvalidInput(f"at most {writes.limits.featured_tags} tags are featured", field="name")
        batch = Batch(shard_of(member_id))
        claim(batch)
        batch.assoc_add(member_id, FEATURES_TAG, tag_id(tag), writes.new_id(batch.shard), tag.encode())
        await writes.graph.commit(batch)
        return None

    known = await in_turn(writes, member_id, attempt)
    if known is not None:
        return known
    return (await writes.graph.assoc_get(member_id, (FEATURES_TAG,), (tag_id(tag),)))[FEATURES_TAG][tag_id(tag)]


async def unfeature(writes: Writes, member_id: int, name: str) -> None:
    """Remove a tag from the profile."""
    held = await held_tags(writes.graph, member_id, FEATURES_TAG, check_tag(name))
    if held:
        await _end(writes, member_id, *(assoc.id2 for assoc in held))


async def unfeature_at(writes: Writes, member_id: int, place: int) -> None:
    """Remove the featured tag that has this place in the list. Raises `NotFound` where there is none."""
    for held in await writes.graph.assoc_range(
        member_id, FEATURES_TAG, Cursor(before=place + 1, after=place - 1, limit=1)
    ):
        await _end(writes, member_id, held.id2)
        return
    raise NotFound("Record not found")


async def _end(writes: Writes, member_id: int, *tags: int) -> None:
    batch = Batch(shard_of(member_id))
    for tag in tags:
        batch.assoc_del(member_id, FEATURES_TAG, tag, writes.new_id(batch.shard))
    await writes.graph.commit(batch)
