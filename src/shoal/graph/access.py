"""The only way to a guarded thing: who stands how to whom, and posts as a viewer may have them."""

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
from shoal.graph.cache.responses import good_until
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
"""Types of associations from the viewer that the rule of visibility reads."""
_AT_POST = (*_GUARDS, REPORTS_POST)
_REST = (FOLLOWED_BY, REQUESTS, REQUESTED_BY, WATCHES, ENDORSES, NOTES)


async def association(graph: Reader, id1: int, atype: AssocType, id2: int) -> Assoc | None:
    """Return one association; None where it is not alive."""
    return (await graph.assoc_get(id1, (atype,), (id2,)))[atype].get(id2)


async def relations(graph: Reader, viewer: int | None, members: Iterable[int]) -> dict[int, Relation]:
    """How the viewer stands to each of these members, as far as `core/visibility.py` asks; one read.

    What only a profile shows is not in it (`full_relations` says that). Strangers are in the answer too, and so is the viewer,
    who is a stranger to themselves.
    """
    wanted = dict.fromkeys(members, STRANGER)
    if viewer is None:
        return wanted
    others = [member for member in wanted if member != viewer]
    if not others:
        return wanted
    return _related(wanted, await graph.assoc_get(viewer, _GUARDS, others))


def _related(wanted: dict[int, Relation], found: Mapping[AssocType, Mapping[int, Assoc]]) -> dict[int, Relation]:
    """Fill in the viewer's relationship to each member, from the viewer's associations with them."""
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
    """A mute that is over is none."""
    if terms.over(now):
        return stand
    return structs.replace(stand, muting=True, muting_notifications=terms.notifications, muted_until=terms.expires_at)


async def relation(graph: Reader, viewer: int | None, member: int) -> Relation:
    """How the viewer stands to one member, in full."""
    if viewer is None:
        return STRANGER
    return (await full_relations(graph, viewer, (member,)))[member]


async def full_relations(graph: Reader, viewer: int, members: Iterable[int]) -> dict[int, Relation]:
    """As `relations`, and all else that there is between the two; one read."""
    wanted = list(members)
    return _fully_related(wanted, await graph.assoc_get(viewer, (*_GUARDS, *_REST), wanted))


async def relation_and_bonds(
    graph: Reader, viewer: int, member: int
) -> tuple[Relation, Mapping[AssocType, Mapping[int, Assoc]]]:
    """As `relation`, with the associations of the viewer that it was made of; one read."""
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
            # What hangs on a follow counts only as long as there is one: what clears it away may come later.
            watching=id_ in watches if stand.following else stand.watching,
            endorsed=stand.following and id_ in endorses,
            requested=requested,
            requested_by=id_ in requested_by and id_ not in fans,
            note=notes[id_].data.decode() if id_ in notes else "",
        )
    return stands


async def access_member(graph: Reader, member_id: int) -> Member:
    """A member by id. Raises `NotFound`, also for one who waits for approval, or `Gone` for one who is suspended."""
    member = (await graph.obj_get((member_id,))).get(member_id)
    if not isinstance(member, Member) or member.pending:
        raise NotFound("Record not found")
    if member.suspended:
        raise Gone("this member is suspended")
    return member


async def access_post(graph: Reader, viewer: int | None, post_id: int) -> Post:
    """A post (or the post that a share shows) that the viewer may see. Raises `NotFound` for any other.

    By the id of a share it is theirs only if they may see the share, too. A post that the viewer reported is as if gone.
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
    """Return the viewer's relationships as `relations` does; None if the viewer reported the post. One read for both."""
    wanted = dict.fromkeys(members, STRANGER)
    others = [member for member in wanted if member != viewer]
    if viewer is None or not others:
        return wanted
    # No type has anything of another's kind.
    found = await graph.assoc_get(viewer, _AT_POST, [*others, post_id])
    return None if found[REPORTS_POST] else _related(wanted, found)


async def post_by_id(graph: Reader, id_: int) -> Post:
    """A post (or the post that a share shows), whoever may see it: what one does not see one may still take back from.

    Raises `NotFound`.
    """
    node = (await graph.obj_get((id_,))).get(id_)
    if isinstance(node, Share):
        node = (await graph.obj_get((node.post_id,))).get(node.post_id)
    if not isinstance(node, Post):
        raise NotFound("Record not found")
    return node


async def access_poll(graph: Reader, viewer: int | None, poll_id: int) -> Poll:
    """A poll of a post that the viewer may see. Raises `NotFound` for any other, and for one that another took the place of."""
    node = (await graph.obj_get((poll_id,))).get(poll_id)
    if not isinstance(node, Poll) or (await access_post(graph, viewer, node.post_id)).poll_id != poll_id:
        raise NotFound("Record not found")
    return node


async def own_post(graph: Reader, member_id: int, post_id: int) -> Post:
    """A post of this member. Raises `NotFound` for anybody else's: whether it exists is not theirs to know."""
    node = (await graph.obj_get((post_id,))).get(post_id)
    if not isinstance(node, Post) or node.author_id != member_id:
        raise NotFound("Record not found")
    return node


async def own_list(graph: Reader, member_id: int, list_id: int) -> MemberList:
    """A list of members that this member owns. Raises `NotFound` for anybody else's."""
    node = (await graph.obj_get((list_id,))).get(list_id)
    if not isinstance(node, MemberList) or node.owner_id != member_id:
        raise NotFound("Record not found")
    return node


async def own_album(graph: Reader, member_id: int, album_id: int) -> Album:
    """An album that this member owns. Raises `NotFound` for anybody else's."""
    node = (await graph.obj_get((album_id,))).get(album_id)
    if not isinstance(node, Album) or node.owner_id != member_id:
        raise NotFound("Record not found")
    return node


async def members_by_id(graph: Reader, ids: Sequence[int]) -> dict[int, Member]:
    """Return the members among these ids, by id; ids of anything else are left out."""
    found = await graph.obj_get(ids)
    return {id_: node for id_, node in found.items() if isinstance(node, Member)}
