"""Interests of a member: their followees, and affinities to tags and authors.

Nothing is stored for them. They are derived from the member's newest likes, shares, bookmarks, reactions, comments and reports,
read in bulk and cached for a minute, and from friends of friends, cached for ten; `core.ranking.preferences` has the arithmetic.

The affinity to an author is the sum of the actions on their posts. That to a tag is the sum of the actions on its posts, each
divided among the tags of the post, and lower for a tag that is used a lot: the relevance feedback of Rocchio (1971) with the
inverse document frequency of Sparck Jones (1972).
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from shoal.core.model import Member, Post
from shoal.core.ranking.people import FOLLOWS_EACH, FriendsOfFriends, Ids, asked, friends_of_friends
from shoal.core.ranking.preferences import (
    FOLLOWED_STRENGTH,
    NO_FEEDBACK,
    Feedback,
    Interests,
    author_affinity,
    decay,
    pack,
    strongest,
    tag_affinity,
    tag_strengths,
    unpack,
    with_feedback,
)
from shoal.graph.access import declared_reactions, members_by_id
from shoal.graph.contract import Cursor, Reader
from shoal.graph.payloads.posts import chosen_of
from shoal.graph.schema import (
    BOOKMARKS,
    FOLLOWED_BY,
    FOLLOWS,
    FOLLOWS_TAG,
    LIKES,
    POSTED,
    REACTS,
    REPORTS_POST,
    SHARES,
    AssocType,
)
from shoal.queries.context import Near, Reads

MOST_FOLLOWEES = 5_000
_FOLLOWERS = 1_000
_FOLLOWED_TAGS = 200
_ACTS = 200
"""Newest actions of each kind that count."""
WEIGHED = 500
"""Number of newest followees considered for friends of friends. Of these, the follows of those who follow the fewest
members are read."""
_STRENGTHS: Mapping[AssocType, float] = {LIKES: 1.0, REACTS: 1.0, SHARES: 2.0, BOOKMARKS: 2.0, REPORTS_POST: -4.0}
_COMMENT_STRENGTH = 2.0
_OWN_STRENGTH = 1.0


class _Act(NamedTuple):
    post_id: int
    strength: float
    """Negative for a report."""


async def interests_of(reads: Reads, member: int) -> Interests:
    """Return a member's interests.

    It takes fourteen reads in five rounds, twelve in four if friends of friends are cached (ten minutes), and none if
    the interests are cached (one minute).
    """
    now = reads.tags.clock()
    cached = reads.interests.get(member, now)
    if cached is not None:
        return unpack(cached)
    found = await _derived(reads, member, now)
    reads.interests.put(member, pack(found), now)
    return found


async def wished(reads: Reads, interests: Interests, feedback: Feedback) -> Interests:
    """Return interests with the member's feedback applied, ignoring tags that admins have denied. Does not read the graph."""
    if feedback == NO_FEEDBACK:
        return interests
    shown = await reads.tags.shown_as({*feedback.picked, *feedback.tags})
    picked = tuple(tag for tag in feedback.picked if tag in shown)
    tags = {tag: taps for tag, taps in feedback.tags.items() if tag in shown}
    return with_feedback(interests, replace(feedback, picked=picked, tags=tags))


async def _derived(reads: Reads, member: int, now: int) -> Interests:
    graph = reads.graph
    declared = await declared_reactions(graph)
    followees, followers, followed_tags, own, *acts = await asyncio.gather(
        graph.assoc_range(member, FOLLOWS, Cursor(limit=MOST_FOLLOWEES)),
        graph.assoc_range(member, FOLLOWED_BY, Cursor(limit=_FOLLOWERS)),
        graph.assoc_range(member, FOLLOWS_TAG, Cursor(limit=_FOLLOWED_TAGS)),
        graph.assoc_range(member, POSTED, Cursor(limit=_ACTS)),
        *[graph.assoc_range(member, atype, Cursor(limit=_ACTS)) for atype in _STRENGTHS],
    )
    by_type = dict(zip(_STRENGTHS, acts, strict=True))
    ids = {row.id2 for rows in (own, *acts) for row in rows}
    nodes, near = await asyncio.gather(
        reads.lasting.obj_get([member, *ids]),
        _near(reads, member, np.array([row.id2 for row in followees[:WEIGHED]], np.int64), now),
    )
    posts = {id_: node for id_, node in nodes.items() if isinstance(node, Post)}
    mine = [posts[row.id2] for row in own if row.id2 in posts]
    owner = nodes.get(member)
    location = owner.location if isinstance(owner, Member) else None
    done = [
        _Act(row.id2, strength * decay(row.time, now))
        for atype, strength in _STRENGTHS.items()
        for row in by_type[atype]
        if atype is not REACTS or declared.favor(position.emoji for position in chosen_of(row))
    ]
    tags = _tag_strengths(posts, done, mine, now)
    for row in followed_tags:
        tags[row.data.decode()] += FOLLOWED_STRENGTH
    tag_affinities = await _tag_affinities(reads, tags)
    liked = [posts[row.id2] for row in by_type[LIKES] if row.id2 in posts]
    liked_tags = Counter(tag for post in liked if post.media for tag in post.tags if tag in tag_affinities)
    return Interests(
        followees=tuple(row.id2 for row in followees),
        followers=frozenset(row.id2 for row in followers),
        followed_tags=frozenset(row.data.decode() for row in followed_tags),
        tags=tag_affinities,
        authors=_author_affinities([row.id2 for row in followees], posts, done, mine, now, member),
        likes=Counter(post.author_id for post in liked),
        liked_tags=liked_tags,
        acted=frozenset(
            [row.id2 for atype, rows in by_type.items() if atype is not REPORTS_POST for row in rows]
            + [post.parent_id for post in mine if post.parent_id]
        ),
        place=(location and location.place) or next((post.place for post in mine if post.place is not None), None),
        location=location,
        picked=(),
        near=near,
    )


async def _near(reads: Reads, member: int, followees: Ids, now: int) -> FriendsOfFriends:
    """Return a member's friends of friends. Takes three reads, or one if the cached result is still valid.

    Followees who hide their connections or are suspended are skipped.
    """
    cached = reads.near.get(member, now)
    if (
        cached is not None
        and np.array_equal(cached.followees, followees)
        and np.array_equal(cached.shown, await _open(reads.graph, cached.asked.tolist()))
    ):
        return cached.found
    graph, ids = reads.graph, followees.tolist()
    follows = (await graph.assoc_count(ids, (FOLLOWS,)))[FOLLOWS] if ids else {}
    closest = asked(ids, follows)
    shown, lists = await asyncio.gather(
        _open(graph, closest), graph.assoc_ranges(closest, FOLLOWS, Cursor(limit=FOLLOWS_EACH))
    )
    open_ = compress(closest, shown.tolist())
    found = friends_of_friends(
        {id_: [row.id2 for row in lists[id_] if row.id2 != member] for id_ in open_ if id_ in lists}, follows
    )
    reads.near.put(member, Near(followees, np.array(closest, np.int64), shown, found), now)
    return found


async def _open(graph: Reader, ids: Sequence[int]) -> npt.NDArray[np.bool_]:
    members = await members_by_id(graph, ids)
    found = [
        (candidate := members.get(id_)) is not None and not (candidate.hides_connections or candidate.suspended)
        for id_ in ids
    ]
    return np.array(found, np.bool_)


def _tag_strengths(
    posts: Mapping[int, Post], acts: Iterable[_Act], mine: Iterable[Post], now: int
) -> defaultdict[str, float]:
    own = [_Act(post.id, _OWN_STRENGTH * decay(post.id, now)) for post in mine]
    return tag_strengths((posts[act.post_id].tags, act.strength) for act in (*acts, *own) if act.post_id in posts)


async def _tag_affinities(reads: Reads, strengths: Mapping[str, float]) -> dict[str, float]:
    """Return the strongest affinities to tags, without tags denied by admins."""
    counted = await reads.tags.counted(strengths) if strengths else {}
    return strongest(
        {name: tag_affinity(strength, counted[name].uses) for name, strength in strengths.items() if name in counted}
    )


def _author_affinities(
    followees: Iterable[int],
    posts: Mapping[int, Post],
    acts: Iterable[_Act],
    mine: Iterable[Post],
    now: int,
    member: int,
) -> dict[int, float]:
    found = defaultdict(float, dict.fromkeys(followees, FOLLOWED_STRENGTH))
    for act in acts:
        if act.post_id in posts:
            found[posts[act.post_id].author_id] += act.strength
    for post in mine:
        if post.parent_id:
            found[post.parent_author_id] += _COMMENT_STRENGTH * decay(post.id, now)
    found.pop(member, None)
    return {author: author_affinity(strength) for author, strength in found.items()}
