"""Interests of a member as values, and the arithmetic of affinities.

A member's acts on posts have strengths: a share counts more than a like, a report against. A strength halves with every month.
Sums of strengths become affinities between -1 and 1 as x / (|x| + half), where half is the sum that makes an affinity of 1/2. So
with half 3 one share (2) of an author's post makes 0.4, ten make 0.87, and one report (-4) makes -0.57.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from shoal.core.ids import milliseconds_of
from shoal.core.places import Place
from shoal.core.ranking.people import FriendsOfFriends

_HALF_LIFE_MS = 30 * 86_400_000
_HALF_TAG = 0.5
_MOST_TAGS = 100
_HALF_AUTHOR = 3.0
FOLLOWED_STRENGTH = 2.0
"""Strength of a follow, of a member or of a tag."""


class Interests(NamedTuple):
    """A member's ties and affinities, as their own acts show them."""

    followees: tuple[int, ...]
    """Newest first; at most 5,000."""
    followers: frozenset[int]
    """The newest thousand."""
    followed_tags: frozenset[str]
    tags: Mapping[str, float]
    """Affinity to tags, -1 to 1; 0 for those that are not there."""
    authors: dict[int, float]
    """Affinity to authors, likewise; every followee is there."""
    likes: Mapping[int, int]
    """How many of the newest 200 posts that the member liked are by an author."""
    acted: frozenset[int]
    """Posts that the member liked, shared, saved, reacted to or commented on of late."""
    place: Place | None
    """Where their newest post with a place was made."""
    near: FriendsOfFriends
    """Whom followees follow."""

    @property
    def known(self) -> bool:
        """Whether anything is known of what the member cares about."""
        return bool(self.followees or self.tags or self.authors)


class PackedInterests(NamedTuple):
    """Interests as they are remembered: a few kilobytes, where sets and dictionaries take ten times as much."""

    data: bytes
    near: FriendsOfFriends


_Unpacked = tuple[
    tuple[int, ...],
    frozenset[int],
    frozenset[str],
    dict[str, float],
    dict[int, float],
    dict[int, int],
    frozenset[int],
    Place | None,
]
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Unpacked)


def pack(interests: Interests) -> PackedInterests:
    """Return interests in little room; `near` is packed already. That a followee is followed and nothing else is not said twice."""
    followees = frozenset(interests.followees)
    usual = author_affinity(FOLLOWED_STRENGTH)
    told = {id_: force for id_, force in interests.authors.items() if force != usual or id_ not in followees}
    *others, near = interests._replace(authors=told)
    return PackedInterests(_encoder.encode(others), near)


def unpack(packed: PackedInterests) -> Interests:
    """Return interests that were packed."""
    others: _Unpacked = _decoder.decode(packed.data)
    found = Interests(*others, packed.near)
    return found._replace(authors=dict.fromkeys(found.followees, author_affinity(FOLLOWED_STRENGTH)) | found.authors)


def decay(id_: int, now: int) -> float:
    """Return how much an act still counts, 0 to 1, from an id of its moment."""
    return float(2.0 ** (-max(0, now - milliseconds_of(id_)) / _HALF_LIFE_MS))


def affinity(strength: float, half: float) -> float:
    """Return the affinity, between -1 and 1, for a sum of strengths."""
    return strength / (abs(strength) + half)


def tag_strengths(acts: Iterable[tuple[Sequence[str], float]]) -> defaultdict[str, float]:
    """Return the sum of strengths for each tag, from the tags of each post and the strength of the act on it, which they share."""
    found: defaultdict[str, float] = defaultdict(float)
    for tags, strength in acts:
        for tag in tags:
            found[tag] += strength / len(tags)
    return found


def author_affinity(strength: float) -> float:
    """Return the affinity to an author, from the strengths of a follow and of acts on their posts."""
    return affinity(strength, _HALF_AUTHOR)


def tag_affinity(strength: float, uses: int) -> float:
    """Return the affinity to a tag that so many posts carry; the more do, the less an act says."""
    return affinity(strength / math.log2(2.0 + uses), _HALF_TAG)


def strongest(affinities: Mapping[str, float]) -> dict[str, float]:
    """Return the 100 affinities to tags that are farthest from 0, in the order in which they came."""
    if len(affinities) <= _MOST_TAGS:
        return dict(affinities)
    kept = set(heapq.nlargest(_MOST_TAGS, affinities, key=lambda tag: abs(affinities[tag])))
    return {tag: force for tag, force in affinities.items() if tag in kept}
