"""Access checks: the relationships between a viewer and members, and objects that the viewer may access."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import structs

from shoal.core.errors import Gone, NotFound
from shoal.core.model import Album, Member, MemberList, Poll, Post, Share
from shoal.core.visibility import STRANGER, Relation, may_see, may_see_share
from shoal.graph.cache.cached_graph import author_to_ask_about
from shoal.graph.cache.coherence import foresee
from shoal.graph.cache.dependencies import good_until
from shoal.graph.contract import Assoc, Reader
from shoal.graph.payloads.follows import MuteTerms, follow_terms, mute_terms
from shoal.graph.schema import (
    BLOCKED_BY,
    BLOCKS,
    ENDORSES,
    FOLLOWED_BY,
    FOLLOWS,
    MUTES,
    NOTES,
    REPORTS_POST,
    REQUESTED_BY,
    REQUESTS,
    WATCHES,
    AssocType,
)

_GUARDS = (FOLLOWS, BLOCKS, BLOCKED_BY, MUTES)
"""Types of associations from the viewer that the visibility rules read."""
_AT_POST = (*_GUARDS, REPORTS_POST)
_REST = (FOLLOWED_BY, REQUESTS, REQUESTED_BY, WATCHES, ENDORSES, NOTES)


async def association(graph: Reader, id1: int, atype: AssocType, id2: int) -> Assoc | None:
    return (await graph.assoc_get(id1, (atype,), (id2,)))[atype].get(id2)


async def relations(graph: Reader, viewer: int | None, members: Iterable[int]) -> dict[int, Relation]:
    """Return the viewer's relationship to each member, as far as `core/visibility.py` needs it, in one read.

    What only a profile shows is missing; see `full_relations`. Strangers are included, and so is the viewer, as a stranger.
    """
    wanted = dict.fromkeys(members, STRANGER)
    if viewer is None:
        return wanted
    others = [member for member in wanted if member != viewer]
    if not others:
        return wanted
    return _related(wanted, await graph.assoc_get(viewer, _GUARDS, others))


def _related(wanted: dict[int, Relation], found: Mapping[AssocType, Mapping[int, Assoc]]) -> dict[int, Relation]:
    follows, blocks, blocked_by, mutes = (found[atype] for atype in _GUARDS)
    for member, follow in follows.items():
        wanted[member] = _followed(follow.data)
    for member in blocks.keys() | blocked_by.keys():
        wanted[member] = structs.replace(wanted[member], blocking=member in blocks, blocked_by=member in blocked_by)
    if mutes:
        now = time.time_ns() // 1_000_000
        for member, mute in mutes.items():
            terms = mute_terms(mute.data)
            good_until(terms.expires_at, now)
            wanted[member] = _muted(wanted[member], terms, now)
    return wanted


@lru_cache(maxsize=4_096)
def _followed(data: bytes) -> Relation:
    terms = follow_terms(data)
    return Relation(following=True, shares=terms.shares, languages=terms.languages)


def _muted(stand: Relation, terms: MuteTerms, now: int) -> Relation:
    if terms.over(now):
        return stand
    return structs.replace(stand, muting=True, muting_notifications=terms.notifications, muted_until=terms.expires_at)


async def relation(graph: Reader, viewer: int | None, member: int) -> Relation:
    """Return the viewer's relationship to one member, as `full_relations` does."""
    if viewer is None:
        return STRANGER
    return (await full_relations(graph, viewer, (member,)))[member]


async def full_relations(graph: Reader, viewer: int, members: Iterable[int]) -> dict[int, Relation]:
    """Return the relationships as `relations` does, with everything else that a profile shows, in one read."""
    wanted = list(members)
    return _fully_related(wanted, await graph.assoc_get(viewer, (*_GUARDS, *_REST), wanted))


async def relation_and_bonds(
    graph: Reader, viewer: int, member: int
) -> tuple[Relation, Mapping[AssocType, Mapping[int, Assoc]]]:
    """Return `relation` and the viewer's associations that it was made of, in one read."""
    found = await graph.assoc_get(viewer, (*_GUARDS, *_REST), (member,))
    return _fully_related((member,), found)[member], found


def _fully_related(wanted: Sequence[int], found: Mapping[AssocType, Mapping[int, Assoc]]) -> dict[int, Relation]:
    stands = _related(dict.fromkeys(wanted, STRANGER), found)
    fans, requests, requested_by, watches, endorses, notes = rest = [found[atype] for atype in _REST]
    for id_ in {id_ for held in rest for id_ in held}:
        stand = stands[id_]
        requested = not stand.following and id_ in requests
        if requested:
            terms = follow_terms(requests[id_].data)
            stand = structs.replace(stand, shares=terms.shares, languages=terms.languages, watching=terms.notify)
        stands[id_] = structs.replace(
            stand,
            followed_by=id_ in fans,
            # Ignore associations that depend on a follow once the follow is gone: they may be deleted later.
            watching=id_ in watches if stand.following else stand.watching,
            endorsed=stand.following and id_ in endorses,
            requested=requested,
            requested_by=id_ in requested_by and id_ not in fans,
            note=notes[id_].data.decode() if id_ in notes else "",
        )
    return stands


async def access_member(graph: Reader, member_id: int) -> Member:
    """Return a member by id.

    Raises:
        NotFound: There is no such member, or they wait for approval.
        Gone: The member is suspended.
    """
    member = (await graph.obj_get((member_id,))).get(member_id)
    if not isinstance(member, Member) or member.pending:
        raise NotFound("Record not found")
    if member.suspended:
        raise Gone("this member is suspended")
    return member


async def access_post(graph: Reader, viewer: int | None, post_id: int) -> Post:
    """Return a post (or the post that a share shows) that the viewer may see; raise `NotFound` for any other.

    With the id of a share, the viewer must be allowed to see the share, too. A post that the viewer reported counts as missing.
    """
    stands: dict[int, Relation] | None = None
    if viewer is not None:
        foresee(viewer)
    if viewer is not None and (author := author_to_ask_about(graph, viewer, _AT_POST, post_id)):
        nodes, stands = await asyncio.gather(
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
    members = await members_by_id(graph, list(people))
    if people != {author}:
        stands = await _relations_at(graph, viewer, people, node.id)
    if stands is None or not may_see(viewer, node, members.get(node.author_id), stands[node.author_id]):
        raise NotFound("Record not found")
    if share is not None and not may_see_share(viewer, share, members.get(share.author_id), stands[share.author_id]):
        raise NotFound("Record not found")
    return node


async def _relations_at(
    graph: Reader, viewer: int | None, members: Iterable[int], post_id: int
) -> dict[int, Relation] | None:
    """Return the viewer's relationships as `relations` does, or None if the viewer reported the post. One read for both."""
    wanted = dict.fromkeys(members, STRANGER)
    others = [member for member in wanted if member != viewer]
    if viewer is None or not others:
        return wanted
    # Members and posts share this query: no association type leads to both kinds.
    found = await graph.assoc_get(viewer, _AT_POST, [*others, post_id])
    return None if found[REPORTS_POST] else _related(wanted, found)


async def post_by_id(graph: Reader, id_: int) -> Post:
    """Return a post (or the post that a share shows) without a visibility check, or raise `NotFound`.

    Members may undo actions on posts that they can no longer see.
    """
    node = (await graph.obj_get((id_,))).get(id_)
    if isinstance(node, Share):
        node = (await graph.obj_get((node.post_id,))).get(node.post_id)
    if not isinstance(node, Post):
        raise NotFound("Record not found")
    return node


async def access_poll(graph: Reader, viewer: int | None, poll_id: int) -> Poll:
    """Return a poll of a post that the viewer may see; raise `NotFound` for any other, and for a poll that was replaced."""
    node = (await graph.obj_get((poll_id,))).get(poll_id)
    if not isinstance(node, Poll) or (await access_post(graph, viewer, node.post_id)).poll_id != poll_id:
        raise NotFound("Record not found")
    return node


async def own_post(graph: Reader, member_id: int, post_id: int) -> Post:
    """Return a post of this member; raise `NotFound` for any other, which does not reveal whether it exists."""
    node = (await graph.obj_get((post_id,))).get(post_id)
    if not isinstance(node, Post) or node.author_id != member_id:
        raise NotFound("Record not found")
    return node


async def own_list(graph: Reader, member_id: int, list_id: int) -> MemberList:
    """Return a list that this member owns; raise `NotFound` for any other."""
    node = (await graph.obj_get((list_id,))).get(list_id)
    if not isinstance(node, MemberList) or node.owner_id != member_id:
        raise NotFound("Record not found")
    return node


async def own_album(graph: Reader, member_id: int, album_id: int) -> Album:
    """Return an album that this member owns; raise `NotFound` for any other."""
    node = (await graph.obj_get((album_id,))).get(album_id)
    if not isinstance(node, Album) or node.owner_id != member_id:
        raise NotFound("Record not found")
    return node


async def members_by_id(graph: Reader, ids: Sequence[int]) -> dict[int, Member]:
    """Return the members among these ids, by id; other ids are absent."""
    found = await graph.obj_get(ids)
    return {id_: node for id_, node in found.items() if isinstance(node, Member)}
