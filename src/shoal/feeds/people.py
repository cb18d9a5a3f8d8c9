"""Lists of members: followers and followees, those who like, share or react to a post, newest first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shoal.core.model import OPEN, Member, Share
from shoal.core.visibility import Relation, may_see_share
from shoal.feeds.emoji_counts import EmojiCount, placed_counts
from shoal.feeds.hydrate import Profile, profiles, profiles_by_id
from shoal.feeds.merging.pull import check_limit
from shoal.feeds.reads import Reads
from shoal.graph.access import access_post, members_by_id, relation, relations
from shoal.graph.cache.dependencies import good_until
from shoal.graph.contract import Assoc, Cursor
from shoal.graph.payloads.follows import mute_terms
from shoal.graph.payloads.posts import EmojiPlace
from shoal.graph.schema import (
    EMOJI_PUT_BY,
    FOLLOWED_BY,
    FOLLOWS,
    LIKED_BY,
    MUTES,
    POSTED_ASIDE,
    POSTED_TO_FOLLOWERS,
    REACTS,
    SHARED_BY,
    AnyNode,
    AssocType,
)

PAGE = 25
"""Members on a page by default."""
_FOLLOWEES = 5_000
_RECEIVED = (LIKED_BY, SHARED_BY)
_NOT_OPEN = (POSTED_ASIDE, POSTED_TO_FOLLOWERS)
_MOST_NOT_OPEN = 2_000
"""Posts in each of these lists whose likes and shares are subtracted."""
_FAMILIAR = 80


class MemberPage(NamedTuple):
    """A page of members with the cursor of each (the time of the association); `next` is None at the end."""

    profiles: list[Profile]
    times: list[int]
    next: int | None
    data: Sequence[bytes] = ()
    """The data of each association."""


class Likers(NamedTuple):
    """The number of likes of a post, and its newest likers."""

    total: int
    newest: list[Profile]


class EmojiReactors(EmojiCount, frozen=True):
    """An emoji on a post, and the newest few members who put it there."""

    newest: tuple[Profile, ...] = ()


class Received(NamedTuple):
    """Total likes and shares of a member's posts."""

    likes: int
    shares: int


async def page(
    reads: Reads,
    viewer: int | None,
    of: int,
    atype: AssocType,
    cursor: Cursor,
    *,
    severed: bool = False,
    followed_by: int = 0,
) -> MemberPage:
    """Return a page of the members in a list, without those who have blocked the viewer or whom the viewer has blocked.

    With `severed` they are included, for the list of blocked members. A sharer whose share is not open is left out, as
    are expired mutes; with `followed_by`, so is everybody but that member and their followees. The members of the next
    page are read ahead, so that they are in memory when it is asked for. Raises `InvalidInput` for a limit below 1.
    """
    check_limit(cursor)
    found = await reads.graph.assoc_range(of, atype, cursor.of(2 * cursor.limit + 1))
    here, ahead = found[: cursor.limit], found[cursor.limit : 2 * cursor.limit]
    kept = await _kept(reads, atype, here, followed_by)
    _read_ahead(reads, _ids(atype, ahead))
    people, shown = await _people(reads, viewer, atype, kept, severed=severed)
    if cursor.oldest_first:
        people, shown = people[::-1], shown[::-1]
        after = here[0].time if here else None
    else:
        after = here[-1].time if len(found) > len(here) else None
    return MemberPage(people, [assoc.time for assoc in shown], after, [assoc.data for assoc in shown])


async def _kept(reads: Reads, atype: AssocType, found: Sequence[Assoc], followed_by: int) -> Sequence[Assoc]:
    if atype is MUTES:
        now = time.time_ns() // 1_000_000
        terms = {assoc.id2: mute_terms(assoc.data) for assoc in found}
        for one in terms.values():
            good_until(one.expires_at, now)
        return [assoc for assoc in found if not terms[assoc.id2].over(now)]
    if followed_by:
        followed = (await reads.graph.assoc_get(followed_by, (FOLLOWS,), [assoc.id2 for assoc in found]))[FOLLOWS]
        return [assoc for assoc in found if assoc.id2 in followed or assoc.id2 == followed_by]
    return found


async def _people(
    reads: Reads, viewer: int | None, atype: AssocType, found: Sequence[Assoc], *, severed: bool = False
) -> tuple[list[Profile], list[Assoc]]:
    nodes = await reads.graph.obj_get(_ids(atype, found))
    members = {assoc.id2: node for assoc in found if isinstance(node := nodes.get(assoc.id2), Member)}
    stands = await relations(reads.graph, viewer, members)
    there = [assoc for assoc in found if assoc.id2 in members and not members[assoc.id2].suspended]
    if atype is SHARED_BY:
        shown = [assoc for assoc in there if _named(viewer, assoc, nodes, members, stands)]
    else:
        shown = [assoc for assoc in there if severed or not stands[assoc.id2].severed]
    numbers = await profiles(reads.graph, {assoc.id2: members[assoc.id2] for assoc in shown}, viewer, stands)
    return [numbers[assoc.id2] for assoc in shown], shown


async def familiar(reads: Reads, viewer: int, ids: Sequence[int]) -> dict[int, list[Profile]]:
    """Return, for each member, the viewer's followees who follow them; nobody for a member who hides their connections.

    Only the viewer's newest 5,000 followees are considered, and at most 80 returned for each member.
    """
    followees = [assoc.id2 for assoc in await reads.graph.assoc_range(viewer, FOLLOWS, Cursor(limit=_FOLLOWEES))]
    members = await members_by_id(reads.graph, ids)
    open_ones = [id_ for id_, member in members.items() if not (member.hides_connections or member.suspended)]
    answers = await asyncio.gather(*[reads.graph.assoc_get(id_, (FOLLOWED_BY,), followees) for id_ in open_ones])
    known = {
        id_: [followee for followee in followees if followee in answer[FOLLOWED_BY]][:_FAMILIAR]
        for id_, answer in zip(open_ones, answers, strict=True)
    }
    everybody = list({followee for found in known.values() for followee in found})
    shown = {profile.member.id: profile for profile in await profiles_by_id(reads.graph, viewer, everybody)}
    return {id_: [shown[one] for one in known.get(id_, ()) if one in shown] for id_ in members}


def _ids(atype: AssocType, found: Sequence[Assoc]) -> list[int]:
    """Return the ids of the members and, in a list of sharers, of their shares."""
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
    """Return whether a sharer may be named: their share is still there, and open."""
    share = nodes.get(_share_id(assoc))
    if not isinstance(share, Share) or share.visibility not in OPEN:
        return False
    return may_see_share(viewer, share, members[assoc.id2], stands[assoc.id2])


def _read_ahead(reads: Reads, ids: Sequence[int]) -> None:
    if ids:
        task = asyncio.ensure_future(reads.graph.obj_get(ids))
        # Nobody waits for it; a failure will be met again by the page itself.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


async def likers(reads: Reads, viewer: int | None, post_id: int, newest: int = 5) -> Likers:
    """Return how many like a post, in O(1), and the newest few. Raises `NotFound` if the viewer may not see it."""
    post = await access_post(reads.graph, viewer, post_id)
    total = (await reads.graph.assoc_count((post.id,), (LIKED_BY,)))[LIKED_BY].get(post.id, 0)
    found = await reads.graph.assoc_range(post.id, LIKED_BY, Cursor(limit=newest))
    return Likers(total, (await _people(reads, viewer, LIKED_BY, found))[0])


async def emoji_reactors(reads: Reads, viewer: int | None, post_id: int, newest: int = 10) -> list[EmojiReactors]:
    """Return the emoji of a post with the newest members of each, in a fixed number of reads.

    Raises `NotFound` if the viewer may not see the post.
    """
    found = await _placed(reads, viewer, post_id)
    lists = await reads.graph.assoc_ranges([place.id for place, _ in found], EMOJI_PUT_BY, Cursor(limit=newest))
    ids = list({assoc.id2 for listed in lists.values() for assoc in listed})
    stands = await relations(reads.graph, viewer, ids)
    shown = {profile.member.id: profile for profile in await profiles_by_id(reads.graph, viewer, ids)}
    return [
        EmojiReactors(
            counted.emoji,
            counted.count,
            counted.me,
            tuple(
                shown[one.id2] for one in lists.get(place.id, ()) if one.id2 in shown and not stands[one.id2].severed
            ),
        )
        for place, counted in found
    ]


async def emoji_page(
    reads: Reads, viewer: int | None, post_id: int, emoji: str, cursor: Cursor
) -> tuple[EmojiCount, MemberPage]:
    """Return an emoji of a post and a page of the members who put it there, newest first.

    Raises `NotFound` if the viewer may not see the post, and `InvalidInput` for a limit below 1.
    """
    for place, counted in await _placed(reads, viewer, post_id):
        if place.emoji == emoji:
            return counted, await page(reads, viewer, place.id, EMOJI_PUT_BY, cursor)
    return EmojiCount(emoji, 0, me=False), MemberPage([], [], None)


async def _placed(reads: Reads, viewer: int | None, post_id: int) -> list[tuple[EmojiPlace, EmojiCount]]:
    post = await access_post(reads.graph, viewer, post_id)
    mine = (await reads.graph.assoc_get(viewer, (REACTS,), (post.id,)))[REACTS] if viewer is not None else {}
    return (await placed_counts(reads.graph, (post.id,), mine)).get(post.id, [])


async def received(reads: Reads, viewer: int | None, member: int) -> Received:
    """Return the total likes and shares of the member's posts that the viewer could find.

    The member sees the totals, which are two counters. Others see them without the posts that are listed as not open:
    followers without direct and hidden posts, strangers also without posts for followers. Of a member who has more
    such posts than are counted, others see no totals.
    """
    graph = reads.graph
    counts = await graph.assoc_count((member,), (*_RECEIVED, *_NOT_OPEN))
    totals = Received(*(counts[atype].get(member, 0) for atype in _RECEIVED))
    if viewer == member or not any(totals) or not any(counts[atype].get(member) for atype in _NOT_OPEN):
        return totals
    lists = (POSTED_ASIDE,) if (await relation(graph, viewer, member)).following else _NOT_OPEN
    if any(counts[atype].get(member, 0) > _MOST_NOT_OPEN for atype in lists):
        return Received(0, 0)
    found = await asyncio.gather(*(graph.assoc_range(member, atype, Cursor(limit=_MOST_NOT_OPEN)) for atype in lists))
    ids = {assoc.id2 for listed in found for assoc in listed}
    private = await graph.assoc_count(list(ids), _RECEIVED)
    return Received(
        *(max(0, total - sum(private[atype].values())) for atype, total in zip(_RECEIVED, totals, strict=True))
    )
