"""Ranking of members to follow, as an explainable sum.

As for posts (`terms`), a reason has a value between 0 and 1 and a weight, a contribution is their product, and a score is the sum
of the contributions. Each followee who follows the candidate adds a bond of 1 / sqrt(follows), so a followee who follows many
members adds little. With weights 6 for friends and 0.6 for followers:

    candidate  followed by                              bonds  followers  contributions  score
    a          two followees, who follow 4 and 16       0.75   63         0.81   0.18    0.99
    b          one followee, who follows 10,000         0.01   1,023      0.01   0.30    0.31

Resource allocation (Zhou, Lü and Zhang 2009) uses 1 / follows, Adamic and Adar (2003) use 1 / log(follows). The square root is in
between; it predicted more of the follows that were removed from a real graph for a test (`shoal bench discovery-quality`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from shoal.core.ranking.terms import Column, Matrix

Ids = npt.NDArray[np.int64]

ASKED = 200
FOLLOWS_EACH = 100
"""Maximum number of follows read per followee, newest first."""
MOST_FOUND = 1_000
"""Maximum number of friends of friends, by the sum of their bonds."""
_FRIENDS_DOUBLINGS = 6
_FOLLOWERS_DOUBLINGS = 20
_HALF_TAGS = 1.0


class PeopleWeights(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of the reasons to suggest a member. The first two were fitted to measurements, the others were chosen."""

    friends: float = 6.0
    followers: float = 0.6
    follows_you: float = 2.0
    liked: float = 3.0
    tags: float = 2.0
    nearby: float = 1.0

    def row(self) -> tuple[float, ...]:
        return tuple(getattr(self, name) for name in REASON_NAMES)


REASON_NAMES: tuple[str, ...] = PeopleWeights.__struct_fields__
WEIGHTS = PeopleWeights()


class FriendsOfFriends(NamedTuple):
    """Members followed by a member's followees, in columns of equal length, in descending order of `bonds`; 18 bytes per row."""

    ids: Ids
    friends: npt.NDArray[np.uint16]
    """Number of the followees in `asked` who follow each member."""
    bonds: npt.NDArray[np.float32]
    """Sum of 1 / sqrt(follows) over the followees in `asked` who follow each member."""
    named: npt.NDArray[np.uint16]
    """Indices in `asked` of the two followees with the fewest follows who follow each member: shape (ids, 2)."""
    asked: Ids
    """The followees whose follows were read, fewest follows first, and a final 0, which means none."""

    @property
    def first(self) -> Ids:
        """For each member, the ids of two followees who follow that member: the two who follow the fewest members.

        Shape (ids, 2); 0 if there is none.
        """
        found: Ids = self.asked[self.named]
        return found

    def of(self, ids: Ids) -> FriendsOfFriends:
        """Return the columns for these members, which must be distinct.

        A member whom none of the followees follows has 0 in `friends` and in `bonds`.
        """
        _, matched, here = np.intersect1d(ids, self.ids, assume_unique=True, return_indices=True)
        # Ids that are not found get the index of the empty row, which is appended as the last row.
        at = np.full(len(ids), len(self.ids))
        at[matched] = here
        empty_row = np.full((1, 2), len(self.asked) - 1, np.uint16)
        return FriendsOfFriends(
            ids,
            np.append(self.friends, np.uint16(0))[at],
            np.append(self.bonds, np.float32(0))[at],
            np.vstack((self.named, empty_row))[at],
            self.asked,
        )


def asked(followees: Sequence[int], follows: Mapping[int, int]) -> list[int]:
    """Return the followees whose own follows are read: the 200 who follow the fewest members, as their follows mean the most."""
    return sorted(followees, key=lambda id_: follows.get(id_, 0))[:ASKED]


def friends_of_friends(lists: Mapping[int, Sequence[int]], follows: Mapping[int, int]) -> FriendsOfFriends:
    """Return the friends of friends, at most 1,000, given the list of follows of each followee.

    `follows` has the total number of follows of each followee, which may exceed the length of the list.
    """
    # Use a fixed order, since the rounding of a sum of floats depends on the order.
    closest = sorted(lists, key=lambda id_: (follows.get(id_, 0), -id_))
    lengths = [len(lists[friend]) for friend in closest]
    found = np.fromiter((id_ for friend in closest for id_ in lists[friend]), np.int64, sum(lengths))
    owners = np.repeat(np.arange(len(closest), dtype=np.uint16), lengths)
    degrees = np.array(
        [max(follows.get(friend, 0), length, 1) for friend, length in zip(closest, lengths, strict=True)]
    )
    ids, first, at, counts = np.unique(found, return_index=True, return_inverse=True, return_counts=True)
    bonds = np.bincount(at, np.repeat(degrees**-0.5, lengths), len(ids))
    # Remove the first occurrence of each id, which belongs to the closest followee. The next occurrence belongs to the second
    # closest.
    rest = np.delete(np.arange(len(found)), first)
    again, second = np.unique(found[rest], return_index=True)
    named = np.full((len(ids), 2), len(closest), np.uint16)
    named[:, 0] = owners[first]
    named[np.searchsorted(ids, again), 1] = owners[rest[second]]
    best = np.lexsort((-ids, -bonds))[:MOST_FOUND]
    return FriendsOfFriends(
        ids[best],
        counts[best].astype(np.uint16),
        bonds[best].astype(np.float32),
        named[best],
        np.array([*closest, 0], np.int64),
    )


class PeopleFacts(NamedTuple):
    """Facts about candidates for suggestions, as float64 columns of equal length: one column per reason to suggest a member."""

    bonds: Column
    """Sum of 1 / sqrt(follows) over the followees who follow the candidate."""
    followers: Column
    follows_you: Column
    """1 if the candidate follows the viewer, else 0."""
    liked: Column
    """The viewer's affinity to the candidate's posts, 0 to 1."""
    tags: Column
    """Sum of the viewer's affinities to tags that the candidate used recently."""
    distance_km: Column
    """From the location of the viewer to that of the candidate's nearest post; NaN if one of them is unknown."""


def values(facts: PeopleFacts, *, near_km: float) -> Matrix:
    """Return the value of every reason for every candidate, 0 to 1, as a matrix of shape (candidates, reasons)."""
    with np.errstate(invalid="ignore"):
        columns = {
            "friends": np.minimum(np.log2(1.0 + facts.bonds) / _FRIENDS_DOUBLINGS, 1.0),
            "followers": np.minimum(np.log2(1.0 + facts.followers) / _FOLLOWERS_DOUBLINGS, 1.0),
            "follows_you": np.clip(facts.follows_you, 0.0, 1.0),
            "liked": np.clip(facts.liked, 0.0, 1.0),
            "tags": np.maximum(facts.tags, 0.0) / (np.maximum(facts.tags, 0.0) + _HALF_TAGS),
            "nearby": np.nan_to_num(1.0 / (1.0 + (facts.distance_km / near_km) ** 2), nan=0.0),
        }
    return np.stack([columns[name] for name in REASON_NAMES], axis=1)


def contributions(found: npt.NDArray[np.floating], weights: PeopleWeights = WEIGHTS) -> Matrix:
    contributed: Matrix = np.multiply(found, weights.row(), dtype=np.float64)
    return contributed


def words_of(name: str, number: float, named: Sequence[str] = ()) -> str:
    """Describe a reason to suggest a member in English.

    `number` is the number of followees, followers, liked posts or tags, or the distance in km. `named` has the
    user names of some of these followees, the tags, or the town where the viewer lives.
    """
    match name:
        case "friends":
            return _friends(round(number), named)
        case "followers":
            return "followed by one member" if number == 1 else f"followed by {number:,.0f} members"
        case "follows_you":
            return "follows you"
        case "liked":
            return _liked(round(number))
        case "tags":
            return f"posts with {_listed([f'#{tag}' for tag in named])}, which {'interests' if len(named) == 1 else 'interest'} you"
        case "nearby":
            here = f"{named[0]}, where you live" if named else "where you post"
            return f"posts from {here}" if number < 1 else f"posts from about {number:,.0f} km from {here}"
    raise ValueError(f"name: expected one of {', '.join(REASON_NAMES)} (got {name!r})")


def _friends(count: int, named: Sequence[str]) -> str:
    if not named:
        return "one person you follow follows them" if count == 1 else f"{count:,} people you follow follow them"
    others = count - len(named)
    names = [f"@{name}" for name in named]
    if others > 0:
        names.append("one other you follow" if others == 1 else f"{others:,} others you follow")
        return f"{_listed(names)} follow them"
    return f"{_listed(names)}, whom you follow, {'follows' if count == 1 else 'follow'} them"


def _liked(count: int) -> str:
    if not count:
        return "you shared, saved or answered their posts"
    return "you liked one of their posts" if count == 1 else f"you liked {count:,} of their posts"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
