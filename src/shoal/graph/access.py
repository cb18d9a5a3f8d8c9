"""Access checks: the relationships between a viewer and other members, and objects that the viewer may access."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from msgspec import structs

from shoal.core.errors import Gone, NotFound
from shoal.core.feeds.declarations import NamedFeed
from shoal.core.filters import MAX_FILTERS, Filter
from shoal.core.ids import now_ms
from shoal.core.model import Album, Media, Member, MemberList, Node, Poll, Post, ScheduledPost, Share
from shoal.core.publishing import HeldContent
from shoal.core.reactions import StoredReactions
from shoal.core.signup import Invitation
from shoal.core.visibility import STRANGER, Relation, may_see, may_see_share
from shoal.graph.cache.cached_graph import CachedGraph, ListRange, author_to_ask_about
from shoal.graph.cache.coherence import foresee
from shoal.graph.cache.dependencies import good_until
from shoal.graph.contract import MAX_TIME, Assoc, Cursor, Reader, find_object
from shoal.graph.payloads.follows import MuteTerms, follow_terms, mute_terms
from shoal.graph.schema import (
    BLOCKED_BY,
    BLOCKS,
    ENDORSES,
    EVERYBODY,
    FOLLOWED_BY,
    FOLLOWS,
    MEMBER_COUNTS,
    MUTES,
    NOTES,
    OWNS_FILTER,
    REACTIONS,
    REPORTS_POST,
    REQUESTED_BY,
    REQUESTS,
    WATCHES,
    AssocType,
)

_GUARDS = (FOLLOWS, BLOCKS, BLOCKED_BY, MUTES)
"""Types of the viewer's associations that the visibility rules read."""
_AT_POST = (*_GUARDS, REPORTS_POST)
_REST = (FOLLOWED_BY, REQUESTS, REQUESTED_BY, WATCHES, ENDORSES, NOTES)


N = TypeVar("N", bound=Node)
Owned = TypeVar("Owned", Album, Filter, Invitation, Media, MemberList, ScheduledPost, HeldContent, NamedFeed)


async def prefetch(
    graph: Reader,
    ids: Sequence[int],
    counts: Sequence[tuple[Sequence[int], Sequence[AssocType]]] = (),
    lists: Sequence[ListRange] = (),
) -> None:
    """Read data for the following reads in as few requests as possible, if the store joins concurrent reads.

    Does nothing for any other store, where prefetching would not save queries.

    Args:
        ids: Objects.
        counts: Objects and the types of their lists whose lengths are needed.
        lists: Ranges of lists that are probably not empty. Ranges other than the newest entries are not prefetched.
    """
    if isinstance(graph, CachedGraph):
        await graph.prefetch(ids, counts, lists)


def prefetches(graph: Reader) -> bool:
    """Return whether `prefetch` has an effect on this graph: its store joins concurrent reads."""
    return isinstance(graph, CachedGraph) and graph.joining


async def get_object(graph: Reader, kind: type[N], id_: int) -> N:
    """Return the object with this id. Raises `NotFound` if no object of this kind has the id."""
    node = await find_object(graph, kind, id_)
    if node is None:
        raise NotFound("Record not found")
    return node


async def own_object(graph: Reader, kind: type[Owned], owner_id: int, id_: int) -> Owned:
    """Return an object of this member.

    Raises `NotFound` if there is none, or if it belongs to another member, who may keep its existence secret.
    """
    node = await get_object(graph, kind, id_)
    if node.owner_id != owner_id:
        raise NotFound("Record not found")
    return node


async def objects_of(graph: Reader, kind: type[N], ids: Sequence[int]) -> list[N]:
    found = await graph.obj_get(ids) if ids else {}
    return [node for id_ in ids if isinstance(node := found.get(id_), kind)]


async def pages_of(
    graph: Reader, id1: int, atype: AssocType, size: int, *, before: int = MAX_TIME, after: int = 0
) -> AsyncGenerator[list[Assoc], None]:
    """Yield the non-empty pages of a list, newest first.

    Only entries whose time is between `after` and `before` (both exclusive) are included.
    """
    while page := await graph.assoc_range(id1, atype, Cursor(before=before, after=after, limit=size)):
        yield page
        if len(page) < size:
            return
        before = page[-1].time


async def page_of(graph: Reader, id1: int, atype: AssocType, mark: int, size: int) -> tuple[list[Assoc], int | None]:
    """Return the newest `size` entries of a list older than the time `mark` (0: of all), and the next `mark`.

    The next mark is None at the end of the list.
    """
    page = await graph.assoc_range(id1, atype, Cursor(before=mark or MAX_TIME, limit=size))
    return page, page[-1].time if len(page) == size else None


async def association(graph: Reader, id1: int, atype: AssocType, id2: int) -> Assoc | None:
    return (await graph.assoc_get(id1, (atype,), (id2,)))[atype].get(id2)


async def count_of(graph: Reader, id1: int, atype: AssocType) -> int:
    return (await graph.assoc_count((id1,), (atype,)))[atype].get(id1, 0)


async def relations(graph: Reader, viewer: int | None, members: Iterable[int]) -> dict[int, Relation]:
    """Return the viewer's relationship to each member, as far as `core/visibility.py` needs it, in one read.

    Data that only a profile shows is not read; see `full_relations`. The result has every member, including members without a
    relationship and the viewer, who count as strangers.
    """
    targets = dict.fromkeys(members, STRANGER)
    if viewer is None:
        return targets
    others = [member for member in targets if member != viewer]
    if not others:
        return targets
    return _related(targets, await graph.assoc_get(viewer, _GUARDS, others))


def _related(targets: dict[int, Relation], found: Mapping[AssocType, Mapping[int, Assoc]]) -> dict[int, Relation]:
    follows, blocks, blocked_by, mutes = (found[atype] for atype in _GUARDS)
    for member, follow in follows.items():
        targets[member] = _followed(follow.data)
    for member in blocks.keys() | blocked_by.keys():
        targets[member] = structs.replace(targets[member], blocking=member in blocks, blocked_by=member in blocked_by)
    if mutes:
        now = now_ms()
        for member, mute in mutes.items():
            terms = mute_terms(mute.data)
            good_until(terms.expires_at, now)
            targets[member] = _muted(targets[member], terms, now)
    return targets


@lru_cache(maxsize=4_096)
def _followed(data: bytes) -> Relation:
    terms = follow_terms(data)
    return Relation(following=True, shares=terms.shares, languages=terms.languages)


def _muted(relationship: Relation, terms: MuteTerms, now: int) -> Relation:
    if terms.over(now):
        return relationship
    return structs.replace(
        relationship, muting=True, muting_notifications=terms.notifications, muted_until=terms.expires_at
    )


async def relation(graph: Reader, viewer: int | None, member: int) -> Relation:
    """Return the viewer's relationship to one member, with everything that a profile shows."""
    if viewer is None:
        return STRANGER
    return (await full_relations(graph, viewer, (member,)))[member]


async def full_relations(graph: Reader, viewer: int, members: Iterable[int]) -> dict[int, Relation]:
    """Return the viewer's relationship to each member, with everything that a profile shows, in one read."""
    targets = list(members)
    return _fully_related(targets, await graph.assoc_get(viewer, (*_GUARDS, *_REST), targets))


async def relation_and_bonds(
    graph: Reader, viewer: int, member: int
) -> tuple[Relation, Mapping[AssocType, Mapping[int, Assoc]]]:
    """Return the viewer's relationship to one member, and all associations from which it is computed, in one read."""
    found = await graph.assoc_get(viewer, (*_GUARDS, *_REST), (member,))
    return _fully_related((member,), found)[member], found


def _fully_related(targets: Sequence[int], found: Mapping[AssocType, Mapping[int, Assoc]]) -> dict[int, Relation]:
    relationships = _related(dict.fromkeys(targets, STRANGER), found)
    fans, requests, requested_by, watches, endorses, notes = rest = [found[atype] for atype in _REST]
    for id_ in {id_ for assocs in rest for id_ in assocs}:
        relationship = relationships[id_]
        requested = not relationship.following and id_ in requests
        if requested:
            terms = follow_terms(requests[id_].data)
            relationship = structs.replace(
                relationship, shares=terms.shares, languages=terms.languages, watching=terms.notify
            )
        relationships[id_] = structs.replace(
            relationship,
            followed_by=id_ in fans,
            # Ignore associations that depend on a follow if there is none: they are deleted some time after the follow.
            watching=id_ in watches if relationship.following else relationship.watching,
            endorsed=relationship.following and id_ in endorses,
            requested=requested,
            requested_by=id_ in requested_by and id_ not in fans,
            note=notes[id_].data.decode() if id_ in notes else "",
        )
    return relationships


async def access_member(
    graph: Reader, member_id: int, *, showing: Sequence[tuple[AssocType, Cursor]] | None = None
) -> Member:
    """Return a member by id. If `showing` is given, the lengths of the member's lists and the ranges in `showing` are prefetched.

    Raises:
        NotFound: There is no such member, or the member waits for approval.
        Gone: The member is suspended.
    """
    if showing is not None:
        lists = [(member_id, atype, at) for atype, at in showing]
        await prefetch(graph, (member_id,), (((member_id,), MEMBER_COUNTS),), lists)
    member = await get_object(graph, Member, member_id)
    if member.pending:
        raise NotFound("Record not found")
    if member.suspended:
        raise Gone("this member is suspended")
    return member


async def access_post(graph: Reader, viewer: int | None, post_id: int) -> Post:
    """Return a post (or the original of a share) that the viewer may see.

    For the id of a share, the viewer must be allowed to see the share, too. Raises `NotFound` if the post does not exist, if the
    viewer may not see it, or if the viewer reported it.
    """
    relationships: dict[int, Relation] | None = None
    if viewer is not None:
        foresee(viewer)
    if viewer is not None and (author := author_to_ask_about(graph, viewer, _AT_POST, post_id)):
        nodes, relationships = await asyncio.gather(
            graph.obj_get((post_id,)), _relations_at(graph, viewer, (author,), post_id)
        )
    else:
        nodes, author = await graph.obj_get((post_id,)), 0
    node = nodes.get(post_id)
    share = node if isinstance(node, Share) else None
    if share is not None:
        node = (await graph.obj_get((share.post_id,))).get(share.post_id)
    if not isinstance(node, Post):
        raise NotFound("Record not found")
    people = {node.author_id} if share is None else {node.author_id, share.author_id}
    if people == {author}:
        members = await members_by_id(graph, list(people))
    elif prefetches(graph):
        members, relationships = await asyncio.gather(
            members_by_id(graph, list(people)), _relations_at(graph, viewer, people, node.id)
        )
    else:
        members = await members_by_id(graph, list(people))
        relationships = await _relations_at(graph, viewer, people, node.id)
    if relationships is None or not may_see(viewer, node, members.get(node.author_id), relationships[node.author_id]):
        raise NotFound("Record not found")
    if share is not None and not may_see_share(
        viewer, share, members.get(share.author_id), relationships[share.author_id]
    ):
        raise NotFound("Record not found")
    return node


async def _relations_at(
    graph: Reader, viewer: int | None, members: Iterable[int], post_id: int
) -> dict[int, Relation] | None:
    """Return the viewer's relationship to each member (see `relations`); None if the viewer reported the post `post_id`."""
    targets = dict.fromkeys(members, STRANGER)
    others = [member for member in targets if member != viewer]
    if viewer is None or not others:
        return targets
    # One query can look up members and posts, because no association type leads to both kinds.
    found = await graph.assoc_get(viewer, _AT_POST, [*others, post_id])
    return None if found[REPORTS_POST] else _related(targets, found)


async def post_by_id(graph: Reader, id_: int) -> Post:
    """Return a post (or the original of a share) without a visibility check. Raises `NotFound` if there is none.

    Members may undo actions on posts that they can no longer see.
    """
    node = (await graph.obj_get((id_,))).get(id_)
    if isinstance(node, Share):
        return await get_object(graph, Post, node.post_id)
    if not isinstance(node, Post):
        raise NotFound("Record not found")
    return node


async def access_poll(graph: Reader, viewer: int | None, poll_id: int) -> Poll:
    """Return a poll of a post that the viewer may see.

    Raises `NotFound` for any other poll, and for a poll that was replaced by an edit of its post.
    """
    poll = await get_object(graph, Poll, poll_id)
    if (await access_post(graph, viewer, poll.post_id)).poll_id != poll_id:
        raise NotFound("Record not found")
    return poll


async def own_post(graph: Reader, member_id: int, post_id: int) -> Post:
    """Return a post of this member.

    Raises `NotFound` if there is none, or if it belongs to another member, who may keep its existence secret.
    """
    post = await get_object(graph, Post, post_id)
    if post.author_id != member_id:
        raise NotFound("Record not found")
    return post


async def members_by_id(graph: Reader, ids: Sequence[int]) -> dict[int, Member]:
    found = await graph.obj_get(ids)
    return {id_: node for id_, node in found.items() if isinstance(node, Member)}


async def filters_of(graph: Reader, member_id: int) -> list[Filter]:
    """Return the member's filters, oldest first, including expired filters.

    Takes one read if there are no filters, otherwise two.
    """
    # Read up to twice the limit, because concurrent requests may have exceeded it.
    owned = await graph.assoc_range(member_id, OWNS_FILTER, Cursor(limit=2 * MAX_FILTERS))
    return await objects_of(graph, Filter, [assoc.id2 for assoc in reversed(owned)])


_NO_REACTIONS = StoredReactions(id=0)


async def declared_reactions(graph: Reader) -> StoredReactions:
    """Return the declared reactions; an object without reactions if none was ever declared.

    Every page reads them, so this reads a list and an object, which are cached. Keys are not.
    """
    listed = await graph.assoc_range(EVERYBODY, REACTIONS, Cursor(limit=1))
    return await find_object(graph, StoredReactions, listed[0].id2 if listed else 0) or _NO_REACTIONS
