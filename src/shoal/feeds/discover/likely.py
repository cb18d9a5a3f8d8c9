"""Members whom a viewer is likely to want to follow, and what speaks for each.

Candidates are friends of friends, members who follow the viewer, authors whose posts the viewer liked, shared or saved, authors of
the newest posts with tags that interest the viewer and of those from around the viewer's place, and the most followed. What
speaks for them is read in bulk, and `core.ranking.people` makes a score of it. A member whose posts the viewer reported, more than
liked, is no candidate.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from shoal.core.places import MAX_RADIUS_KM, MIN_RADIUS_KM, Disk, distance_km
from shoal.core.ranking import people
from shoal.core.ranking.people import REASON_NAMES, FriendsOfFriends, PeopleFacts
from shoal.core.ranking.preferences import Interests
from shoal.core.ranking.terms import Column, best_first, scores
from shoal.feeds.discover import nearby
from shoal.feeds.discover.most_followed import most_followed
from shoal.feeds.foryou.interests import interests_of, wished
from shoal.feeds.hydrate import sight
from shoal.feeds.public import listed_publicly
from shoal.feeds.reads import Reads, Suggested
from shoal.graph.contract import Cursor
from shoal.graph.payloads.members import Tastes
from shoal.graph.schema import (
    BLOCKED_BY,
    BLOCKS,
    DISMISSES,
    FOLLOWED_BY,
    FOLLOWS,
    MUTES,
    REQUESTS,
    TAG_OF,
    AssocType,
    tag_id,
)

KNOWN = (FOLLOWS, REQUESTS, BLOCKS, BLOCKED_BY, MUTES, DISMISSES)
"""Associations from the viewer to members who are not suggested to them."""
_KEPT = 200
"""Candidates that are remembered: more than are shown, for some may not be shown a moment later."""
FRIENDS_OF_FRIENDS = 300
"""Friends of friends who are candidates: those with the strongest bonds."""
_FOLLOWERS = 100
_AUTHORS = 50
"""Authors whom the viewer likes, those with tags that interest the viewer, and those from around: so many of each."""
_TAGS = 10
_TAGGED_EACH = 30
_NEARBY = 60

Stands = Mapping[AssocType, Mapping[int, object]]


def is_known(stands: Stands, id_: int) -> bool:
    """Return whether a member is not to be suggested, by the viewer's associations of the types `KNOWN`."""
    return any(id_ in stands[atype] for atype in KNOWN)


async def likely(reads: Reads, viewer: int, tastes: Tastes) -> Suggested:
    """Return the 200 likeliest, none of whom the viewer knows or does not want. What the viewer has said of their interests counts.

    At most 22 reads, those of the viewer's interests among them.
    """
    popular = await most_followed(reads)
    if tastes.taste is not None and tastes.taste.off:
        # Nothing is ranked for this member: what is the same for everybody is left.
        return await _best(reads, viewer, popular, _Found())
    interests = await wished(reads, await interests_of(reads, viewer), tastes.wishes)
    found = await _found(reads, viewer, interests)
    return await _best(reads, viewer, [*_proposed(interests, found), *popular], found)


@dataclass
class _Found:
    """Facts that speak for members, by their ids."""

    near: FriendsOfFriends = field(default_factory=lambda: people.friends_of_friends({}, {}))
    followers: frozenset[int] = frozenset()
    liked: Mapping[int, float] = field(default_factory=dict)
    likes: Mapping[int, int] = field(default_factory=dict)
    affinities: Mapping[str, float] = field(default_factory=dict)
    tags: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    away: dict[int, float] = field(default_factory=dict)
    """Kilometres from the viewer's place to the nearest of their posts."""


async def _found(reads: Reads, viewer: int, interests: Interests) -> _Found:
    """Return what speaks for members, among them authors of posts with tags of interest and from around. Seven reads."""
    tags = sorted((tag for tag, force in interests.tags.items() if force > 0), key=lambda tag: -interests.tags[tag])
    tagged, around = await asyncio.gather(
        reads.graph.assoc_ranges([tag_id(tag) for tag in tags[:_TAGS]], TAG_OF, Cursor(limit=_TAGGED_EACH)),
        _around(reads, interests),
    )
    found = _Found(
        interests.near,
        interests.followers,
        interests.authors,
        interests.likes,
        {tag: interests.tags[tag] for tag in tags},
    )
    seen = sight(reads.graph, viewer)
    rows = await seen.look(list(dict.fromkeys([*(row.id2 for rows in tagged.values() for row in rows), *around])))
    for _, post, _ in rows:
        if not listed_publicly(seen, post) or not seen.members[post.author_id].rankable:
            continue
        if shared := found.affinities.keys() & post.tags:
            found.tags[post.author_id] |= shared
        if interests.place is not None and post.place is not None:
            away = distance_km(*interests.place, *post.place)
            found.away[post.author_id] = min(away, found.away.get(post.author_id, math.inf))
    return found


async def _around(reads: Reads, interests: Interests) -> list[int]:
    if interests.place is None:
        return []
    radius = min(max(reads.recipe.near_km, MIN_RADIUS_KM), MAX_RADIUS_KM)
    return await nearby.newest(reads, Disk(*interests.place, radius), _NEARBY)


def _proposed(interests: Interests, found: _Found) -> Iterable[int]:
    """Return the candidates of the viewer's own, besides the most followed."""
    followed = set(interests.followees)
    near = [id_ for id_ in found.near.ids.tolist() if id_ not in followed][:FRIENDS_OF_FRIENDS]
    followers = sorted(found.followers - followed, reverse=True)[:_FOLLOWERS]
    forces = {id_: force for id_, force in found.liked.items() if force > 0 and id_ not in followed}
    liked = sorted(forces, key=lambda id_: -forces[id_])[:_AUTHORS]
    tagged = sorted(found.tags.keys() - followed, key=lambda id_: (-len(found.tags[id_]), -id_))[:_AUTHORS]
    around = sorted(found.away.keys() - followed, key=lambda id_: (found.away[id_], -id_))[:_AUTHORS]
    return (*near, *followers, *liked, *tagged, *around)


async def _best(reads: Reads, viewer: int, proposed: Sequence[int], found: _Found) -> Suggested:
    """Return the best candidates; two reads."""
    ids = [id_ for id_ in dict.fromkeys(proposed) if id_ != viewer and found.liked.get(id_, 0.0) >= 0]
    stands = await reads.graph.assoc_get(viewer, KNOWN, ids)
    ids = [id_ for id_ in ids if not is_known(stands, id_)]
    followers = (await reads.graph.assoc_count(ids, (FOLLOWED_BY,)))[FOLLOWED_BY] if ids else {}
    through = found.near.of(np.array(ids, np.int64))
    facts = PeopleFacts(
        bonds=through.bonds.astype(np.float64),
        followers=_column([followers.get(id_, 0) for id_ in ids]),
        follows_you=_column([id_ in found.followers for id_ in ids]),
        liked=_column([found.liked.get(id_, 0.0) for id_ in ids]),
        tags=_column([sum([found.affinities[tag] for tag in found.tags.get(id_, ())]) for id_ in ids]),
        distance_km=_column([found.away.get(id_, math.nan) for id_ in ids]),
    )
    numbers: dict[str, npt.NDArray[np.number]] = {
        "friends": through.friends,
        "followers": facts.followers,
        "follows_you": facts.follows_you,
        "liked": _column([found.likes.get(id_, 0) for id_ in ids]),
        "tags": _column([len(found.tags.get(id_, ())) for id_ in ids]),
        "nearby": facts.distance_km,
    }
    values = people.values(facts, near_km=reads.recipe.near_km)
    order = best_first(scores(people.contributions(values)), np.array(ids, np.int64))[:_KEPT]
    return Suggested(
        ids=[ids[n] for n in order],
        values=values[order],
        numbers=np.stack([numbers[name] for name in REASON_NAMES], axis=1)[order],
        friends=through.first[order],
        tags=[_strongest(found, ids[n]) for n in order],
    )


def _column(values: Sequence[float]) -> Column:
    return np.array(values, np.float64)


def _strongest(found: _Found, member: int) -> tuple[str, ...]:
    """Return up to two tags of a member that interest the viewer most."""
    return tuple(sorted(found.tags.get(member, ()), key=lambda tag: (-found.affinities[tag], tag))[:2])
