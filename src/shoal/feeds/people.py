"""Lists of members: followers and followees, likers and sharers of a post, newest first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shoal.core.model import Member, Share
from shoal.core.visibility import Relation, may_see_share
from shoal.feeds.hydrate import Profile, profiles
from shoal.feeds.pull import Cursor, check_limit
from shoal.feeds.reads import Reads
from shoal.graph.access import access_post, relations
from shoal.graph.contract import Assoc
from shoal.graph.schema import LIKED_BY, SHARED_BY, AnyNode, AssocType

PAGE = 25
"""How many members a page has by default."""


class People(NamedTuple):
    """A page of members with the cursor of each (the time of the association); `next` is None at the end."""

    profiles: list[Profile]
    times: list[int]
    next: int | None


class Likers(NamedTuple):
    """How many like a post, and the newest of them."""

    total: int
    newest: list[Profile]


class Received(NamedTuple):
    """What a member's posts have received in all."""

    likes: int
    shares: int


async def page(
    reads: Reads, viewer: int | None, of: int, atype: AssocType, cursor: Cursor, *, severed: bool = False
) -> People:
    """A page of the members that a list leads to: those the viewer has blocked, or who have blocked the viewer, are left out.

    With `severed` they are in it, for the list of those whom one blocks. Who shared for their followers only is named to
    those. The members of the next page are read ahead, so that they are in memory when it is asked for. Raises
    `InvalidInput` for a limit below 1.
    """
    check_limit(cursor)
    found = await reads.graph.assoc_range(
        of,
        atype,
        before=cursor.before,
        after=cursor.after,
        limit=2 * cursor.limit + 1,
        oldest_first=cursor.oldest_first,
    )
    here, ahead = found[: cursor.limit], found[cursor.limit : 2 * cursor.limit]
    answer = await _people(reads, viewer, atype, here, severed=severed)
    _read_ahead(reads, _ids(atype, ahead))
    if cursor.oldest_first:
        return People(answer[0][::-1], answer[1][::-1], here[0].time if here else None)
    return People(*answer, here[-1].time if len(found) > len(here) else None)


async def _people(
    reads: Reads, viewer: int | None, atype: AssocType, found: Sequence[Assoc], *, severed: bool = False
) -> tuple[list[Profile], list[int]]:
    nodes = await reads.graph.obj_get(_ids(atype, found))
    members = {assoc.id2: node for assoc in found if isinstance(node := nodes.get(assoc.id2), Member)}
    stands = await relations(reads.graph, viewer, members)
    there = [assoc for assoc in found if assoc.id2 in members and not members[assoc.id2].suspended]
    if atype is SHARED_BY:
        shown = [assoc for assoc in there if _named(viewer, assoc, nodes, members, stands)]
    else:
        shown = [assoc for assoc in there if severed or not stands[assoc.id2].severed]
    numbers = await profiles(reads.graph, {assoc.id2: members[assoc.id2] for assoc in shown})
    return [numbers[assoc.id2] for assoc in shown], [assoc.time for assoc in shown]


def _ids(atype: AssocType, found: Sequence[Assoc]) -> list[int]:
    """The members, and in a list of sharers their shares."""
    shares = [_share_id(assoc) for assoc in found] if atype is SHARED_BY else []
    return [assoc.id2 for assoc in found] + shares


def _share_id(assoc: Assoc) -> int:
    return int.from_bytes(assoc.data)


def _named(
    viewer: int | None,
    assoc: Assoc,
    nodes: Mapping[int, AnyNode],
    members: Mapping[int, Member],
    stands: Mapping[int, Relation],
) -> bool:
    """Whether a sharer may be named. Whose share is gone already is not."""
    share = nodes.get(_share_id(assoc))
    return isinstance(share, Share) and may_see_share(viewer, share, members[assoc.id2], stands[assoc.id2])


def _read_ahead(reads: Reads, ids: Sequence[int]) -> None:
    if ids:
        task = asyncio.ensure_future(reads.graph.obj_get(ids))
        # Nobody waits for it; a failure will be met again by the page itself.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


async def likers(reads: Reads, viewer: int | None, post_id: int, newest: int = 5) -> Likers:
    """How many like a post, in O(1), and the newest few. Raises `NotFound` when the viewer may not see the post."""
    post = await access_post(reads.graph, viewer, post_id)
    total = (await reads.graph.assoc_count((post.id,), (LIKED_BY,)))[LIKED_BY].get(post.id, 0)
    found = await reads.graph.assoc_range(post.id, LIKED_BY, limit=newest)
    return Likers(total, (await _people(reads, viewer, LIKED_BY, found))[0])


async def received(reads: Reads, member: int) -> Received:
    """Total likes and shares of everything the member posted: two counters, in O(1)."""
    counts = await reads.graph.assoc_count((member,), (LIKED_BY, SHARED_BY))
    return Received(counts[LIKED_BY].get(member, 0), counts[SHARED_BY].get(member, 0))
