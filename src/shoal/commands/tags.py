"""A member's followed and featured tags. Each association has the canonical form of its tag as data.

Shoal 0.2 and earlier stored the tag in lower case, without case folding. `fold_lists` converts such associations.
"""

from __future__ import annotations

from shoal.commands.context import Claim, Writes, serialized
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.events import FollowChanged
from shoal.core.ids import shard_of
from shoal.core.text import canonical_tag, check_tag
from shoal.graph.contract import Assoc, Batch, Cursor, Reader
from shoal.graph.schema import FEATURES_TAG, FOLLOWS_TAG, AssocType, tag_id

MAX_FOLLOWED_TAGS = 1_000
TAG_LISTS = (FOLLOWS_TAG, FEATURES_TAG)
FOLDED_AT_ONCE = 6
"""Tags moved per commit: a DynamoDB transaction is limited to 100 items."""


async def held_tags(graph: Reader, member_id: int, atype: AssocType, tag: str) -> list[Assoc]:
    """Return a member's associations with a tag (canonical form), including those stored with an older form of the tag."""
    assocs = await graph.assoc_range(member_id, atype, Cursor(limit=MAX_FOLLOWED_TAGS))
    return [assoc for assoc in assocs if canonical_tag(assoc.data.decode()) == tag]


def folded(id2: int, data: bytes) -> str | None:
    """Return the canonical form under which an association with a tag must be stored; None if it is already stored under that form.

    Returns "" if the canonical form is too long for a tag: then the association has to be deleted.
    """
    if not data:
        return None
    tag = canonical_tag(data.decode())
    return tag if not tag or tag_id(tag) != id2 else None


async def fold_lists(writes: Writes, member_id: int) -> None:
    """Convert the followed and featured tags of a member to their canonical forms.

    Each tag keeps its position in the list. If a list has two spellings of a tag, only the canonical one is kept.
    """
    for atype in TAG_LISTS:

        async def attempt(claim: Claim, atype: AssocType = atype) -> bool:
            assocs = await writes.graph.assoc_range(
                member_id, atype, Cursor(limit=MAX_FOLLOWED_TAGS, oldest_first=True)
            )
            batch = _moves(writes, member_id, atype, assocs)
            if batch.assocs:
                claim(batch)
                await writes.graph.commit(batch)
            return bool(batch.assocs)

        while await serialized(writes, member_id, attempt, active=False):
            continue


def _moves(writes: Writes, member_id: int, atype: AssocType, assocs: list[Assoc]) -> Batch:
    batch = Batch(shard_of(member_id))
    stored = {assoc.id2 for assoc in assocs}
    changed: list[int] = []
    outdated = [(assoc, tag) for assoc in assocs if (tag := folded(assoc.id2, assoc.data)) is not None]
    for assoc, tag in outdated[:FOLDED_AT_ONCE]:
        batch.assoc_del(member_id, atype, assoc.id2, writes.new_id(batch.shard))
        changed.append(assoc.id2)
        if tag and tag_id(tag) not in stored:
            stored.add(tag_id(tag))
            batch.assoc_add(member_id, atype, tag_id(tag), assoc.time, tag.encode())
            changed.append(tag_id(tag))
    if atype is FOLLOWS_TAG:
        for source in changed:
            batch.emit(FollowChanged(follower_id=member_id, source_id=source))
    return batch


async def feature(writes: Writes, member_id: int, name: str) -> Assoc:
    """Feature a tag on the profile, and return its list entry. Idempotent. Raises `InvalidInput` if there are too many."""
    tag = check_tag(name)

    async def attempt(claim: Claim) -> Assoc | None:
        featured = await writes.graph.assoc_range(member_id, FEATURES_TAG, Cursor(limit=writes.limits.featured_tags))
        known = next((assoc for assoc in featured if assoc.id2 == tag_id(tag)), None)
        if known is not None:
            return known
        if len(featured) >= writes.limits.featured_tags:
            raise InvalidInput(f"at most {writes.limits.featured_tags} tags can be featured", field="name")
        batch = Batch(shard_of(member_id))
        claim(batch)
        batch.assoc_add(member_id, FEATURES_TAG, tag_id(tag), writes.new_id(batch.shard), tag.encode())
        await writes.graph.commit(batch)
        return None

    known = await serialized(writes, member_id, attempt)
    if known is not None:
        return known
    return (await writes.graph.assoc_get(member_id, (FEATURES_TAG,), (tag_id(tag),)))[FEATURES_TAG][tag_id(tag)]


async def unfeature(writes: Writes, member_id: int, name: str) -> None:
    featured = await held_tags(writes.graph, member_id, FEATURES_TAG, check_tag(name))
    if featured:
        await _end(writes, member_id, *(assoc.id2 for assoc in featured))


async def unfeature_at(writes: Writes, member_id: int, time: int) -> None:
    """Remove the featured tag whose list entry has this time. Raises `NotFound` if there is none."""
    for featured in await writes.graph.assoc_range(
        member_id, FEATURES_TAG, Cursor(before=time + 1, after=time - 1, limit=1)
    ):
        await _end(writes, member_id, featured.id2)
        return
    raise NotFound("Record not found")


async def _end(writes: Writes, member_id: int, *tags: int) -> None:
    batch = Batch(shard_of(member_id))
    for tag in tags:
        batch.assoc_del(member_id, FEATURES_TAG, tag, writes.new_id(batch.shard))
    await writes.graph.commit(batch)
