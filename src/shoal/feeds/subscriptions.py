"""Selection of the entries that belong to a viewer's subscription at the moment when they are told of them."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.errors import NotFound
from shoal.core.model import Visibility
from shoal.core.visibility import may_list_publicly
from shoal.feeds import home, lists
from shoal.feeds.hydrate import Entry, hydrate
from shoal.feeds.reads import Reads
from shoal.graph.schema import tag_id
from shoal.streaming.interests import Everybody, Home, Interest, Listed, TagInterest


async def among(reads: Reads, viewer: int, interest: Interest, ids: Sequence[int]) -> list[Entry]:
    """Return the entries that the viewer may see and that match this interest now."""
    if not ids:
        return []
    if isinstance(interest, Home):
        return await home.among(reads, viewer, ids)
    if isinstance(interest, Listed):
        return await _of_list(reads, viewer, interest.list_id, ids)
    return [entry for entry in await hydrate(reads.graph, viewer, ids) if _public(viewer, entry, interest)]


async def _of_list(reads: Reads, viewer: int, list_id: int, ids: Sequence[int]) -> list[Entry]:
    try:
        return await lists.among(reads, viewer, list_id, ids)
    except NotFound:
        # It is gone.
        return []


def _public(viewer: int, entry: Entry, interest: Interest) -> bool:
    post = entry.post
    if entry.share is not None or post.visibility is not Visibility.PUBLIC:
        return False
    if not may_list_publicly(viewer, post, entry.author.member, entry.relation):
        return False
    if isinstance(interest, TagInterest):
        return interest.tag_id in map(tag_id, post.tags)
    return isinstance(interest, Everybody) and post.published and bool(entry.media or not interest.only_media)
