"""What of the entries that a viewer is told of belongs to what they listen to, at the moment when they are told."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.model import MemberList, RepliesPolicy, Visibility
from shoal.feeds import home
from shoal.feeds.hydrate import Entry, hydrate
from shoal.feeds.reads import Reads
from shoal.graph.schema import FOLLOWS, LISTS, tag_id
from shoal.streaming.interests import Everybody, Home, Interest, Listed, Tagged


async def among(reads: Reads, viewer: int, interest: Interest, ids: Sequence[int]) -> list[Entry]:
    """Those of these entries that the viewer may see and that are of this interest now."""
    if not ids:
        return []
    if isinstance(interest, Home):
        return await home.among(reads, viewer, ids)
    found = await hydrate(reads.graph, viewer, ids)
    if isinstance(interest, Listed):
        return await _of_list(reads, viewer, interest.list_id, found)
    return [entry for entry in found if _public(viewer, entry, interest)]


def _public(viewer: int, entry: Entry, interest: Interest) -> bool:
    post, author = entry.post, entry.author.member
    if entry.share is not None or post.visibility is not Visibility.PUBLIC:
        return False
    if author.silenced and viewer != author.id and not entry.relation.following:
        return False
    if isinstance(interest, Tagged):
        return interest.tag_id in map(tag_id, post.tags)
    if not isinstance(interest, Everybody) or (interest.only_media and not entry.media):
        return False
    return post.parent_author_id in (0, post.author_id)


async def _of_list(reads: Reads, viewer: int, list_id: int, found: Sequence[Entry]) -> list[Entry]:
    wanted = (await reads.graph.obj_get((list_id,))).get(list_id)
    if not isinstance(wanted, MemberList) or wanted.owner_id != viewer or not found:
        return []
    people = {entry.share.author_id if entry.share else entry.post.author_id for entry in found}
    parents = {entry.post.parent_author_id for entry in found if not entry.share and entry.post.parent_author_id}
    listed = (await reads.graph.assoc_get(list_id, (LISTS,), list(people | parents)))[LISTS]
    heard = set(listed)
    if wanted.replies is RepliesPolicy.FOLLOWED and parents:
        heard = {viewer, *(await reads.graph.assoc_get(viewer, (FOLLOWS,), list(parents)))[FOLLOWS]}
    elif wanted.replies is RepliesPolicy.NONE:
        heard = set()
    return [entry for entry in found if _in_list(entry, set(listed), heard)]


def _in_list(entry: Entry, listed: set[int], heard: set[int]) -> bool:
    """Whether it comes from a member of the list; a comment on another's only if that one is heard."""
    if entry.share is not None:
        return entry.share.author_id in listed
    post = entry.post
    return post.author_id in listed and (post.parent_author_id in (0, post.author_id) or post.parent_author_id in heard)
