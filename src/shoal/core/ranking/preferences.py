"""A member's ranking preferences: interests derived from activity, explicit feedback, recipe, and seen posts.

The strength of an action halves every month. Sums of strengths become affinities in (-1, 1) as x / (|x| + half): with half 3, one
share (2) makes 0.4, ten make 0.87, one report (-4) makes -0.57. Each "more" or "less like this" (in the code: a tap) moves an
affinity by 0.4, at most five times per direction; a tag that the member selected as an interest moves it by 0.5.

Seen posts take 32 bits each (29 bits of a hash of the id, 3 of count). The newest thousand are stored, in at most 4 KB. With a
thousand entries, one in 537,000 candidates is wrongly taken for seen.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar, cast

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from shoal.core.errors import InvalidInput
from shoal.core.ids import SPREAD, milliseconds_of
from shoal.core.model import Node
from shoal.core.places import Location, Place
from shoal.core.ranking.people import FriendsOfFriends
from shoal.core.ranking.recipes import Recipe
from shoal.core.text import canonical_tag

_HALF_LIFE_MS = 30 * 86_400_000
_HALF_TAG = 0.5
_MOST_TAGS = 100
_HALF_AUTHOR = 3.0
FOLLOWED_STRENGTH = 2.0
"""Strength of following a member or a tag."""


class Interests(NamedTuple):
    """A member's follows, followers, and affinities to tags and authors, derived from the member's actions."""

    followees: tuple[int, ...]
    """Ids of the followed members, newest follow first; at most 5,000."""
    followers: frozenset[int]
    """Ids of the newest thousand followers."""
    followed_tags: frozenset[str]
    tags: Mapping[str, float]
    """Affinity to tags, -1 to 1; 0 for missing ones."""
    authors: dict[int, float]
    """Affinity to authors, -1 to 1; includes every followee."""
    likes: Mapping[int, int]
    """Number of the member's newest 200 liked posts per author."""
    liked_tags: Mapping[str, int]
    """Number of those with photos per tag, for tags with an affinity."""
    acted: frozenset[int]
    """Posts that the member recently liked, shared, saved, reacted to or commented on."""
    place: Place | None
    """The town where the member lives or, if that is unknown, the place of their newest post that has one."""
    location: Location | None
    """Where the member says that they live."""
    picked: tuple[str, ...]
    """The tags that the member selected as interests; empty before `with_feedback`."""
    near: FriendsOfFriends

    @property
    def known(self) -> bool:
        return bool(self.followees or self.tags or self.authors)


class PackedInterests(NamedTuple):
    """Interests as they are cached: packed into a few kilobytes, a tenth of the size of `Interests`."""

    data: bytes
    near: FriendsOfFriends


_Unpacked = tuple[
    tuple[int, ...],
    frozenset[int],
    frozenset[str],
    dict[str, float],
    dict[int, float],
    dict[int, int],
    tuple[int, ...],
    frozenset[int],
    Place | None,
    Location | None,
    tuple[str, ...],
]
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Unpacked)


def pack(interests: Interests) -> PackedInterests:
    followees = frozenset(interests.followees)
    usual = author_affinity(FOLLOWED_STRENGTH)
    explicit = {id_: force for id_, force in interests.authors.items() if force != usual or id_ not in followees}
    # Store only the values of `liked_tags`, in the order of `interests.tags`, which has the names of the tags.
    liked = tuple(interests.liked_tags.get(tag, 0) for tag in interests.tags)
    *others, near = interests._replace(authors=explicit, liked_tags=liked)  # type: ignore[arg-type]  # as `_Unpacked`
    return PackedInterests(_encoder.encode(others), near)


def unpack(packed: PackedInterests) -> Interests:
    others: _Unpacked = _decoder.decode(packed.data)
    found = Interests(*others, packed.near)  # type: ignore[arg-type]  # the numbers of liked photos, replaced below
    liked = cast("tuple[int, ...]", found.liked_tags)
    return found._replace(
        authors=dict.fromkeys(found.followees, author_affinity(FOLLOWED_STRENGTH)) | found.authors,
        liked_tags={tag: number for tag, number in zip(found.tags, liked, strict=True) if number},
    )


def decay(id_: int, now: int) -> float:
    """Return the remaining weight of an action at `now` (Unix ms), 0 to 1. `id_` is an id with the time of the action."""
    return float(2.0 ** (-max(0, now - milliseconds_of(id_)) / _HALF_LIFE_MS))


def affinity(strength: float, half: float) -> float:
    """Map a sum of strengths to an affinity between -1 and 1; the strength `half` gives 0.5."""
    return strength / (abs(strength) + half)


def tag_strengths(acts: Iterable[tuple[Sequence[str], float]]) -> defaultdict[str, float]:
    """Return the sum of the strengths of actions per tag.

    Each action is given as the tags of its post and its strength, which is divided equally among the tags.
    """
    found: defaultdict[str, float] = defaultdict(float)
    for tags, strength in acts:
        for tag in tags:
            found[tag] += strength / len(tags)
    return found


def author_affinity(strength: float) -> float:
    return affinity(strength, _HALF_AUTHOR)


def tag_affinity(strength: float, uses: int) -> float:
    """Return the affinity to a tag that `uses` posts have. Actions count less for common tags."""
    return affinity(strength / math.log2(2.0 + uses), _HALF_TAG)


def strongest(affinities: Mapping[str, float]) -> dict[str, float]:
    """Return the 100 tag affinities farthest from 0, keeping their order."""
    if len(affinities) <= _MOST_TAGS:
        return dict(affinities)
    retained = set(heapq.nlargest(_MOST_TAGS, affinities, key=lambda tag: abs(affinities[tag])))
    return {tag: force for tag, force in affinities.items() if tag in retained}


TAP = 0.4
MOST_TAPS = 5
PICKED = 0.5
MOST_PICKED = 50
MOST_REMEMBERED = 100
"""Maximum number of authors, and of tags, whose taps are stored: the most recently tapped ones."""

MOST_BYTES = 8_192
"""Maximum bytes of a member's feedback as stored."""
_MOST_PICKED_BYTES = 4_096

K = TypeVar("K", int, str)


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """Explicit feedback on what a member wants to see. A tap is a click on "more like this" (1) or "less like this" (-1)."""

    picked: tuple[str, ...] = ()
    """Tags, in canonical form, that the member selected as interests."""
    authors: dict[int, int] = {}
    """Sum of taps by author id, -5 to 5; the most recently tapped author is last."""
    tags: dict[str, int] = {}
    """Sum of taps by canonical tag, -5 to 5; the most recently tapped tag is last."""


NO_FEEDBACK = Feedback()


def tapped(taps: Mapping[K, int], key: K, step: int) -> dict[K, int]:
    """Return the sums of taps by key after one more tap on `key`.

    `step` is 1 for "more like this", -1 for "less"; 0 removes the key's sum.
    """
    count = max(-MOST_TAPS, min(MOST_TAPS, taps.get(key, 0) + step)) if step else 0
    others = {other: number for other, number in taps.items() if other != key}
    retained = dict(list(others.items())[-(MOST_REMEMBERED - 1) :])
    return retained | {key: count} if count else others


def check_picked(picked: tuple[str, ...]) -> None:
    """Raise `InvalidInput` for more than 50 selected tags, or for more than 4,096 bytes of them."""
    if len(picked) > MOST_PICKED:
        raise InvalidInput(f"tags: at most {MOST_PICKED} tags", field="tags")
    if len(encode_feedback(Feedback(picked=picked))) > _MOST_PICKED_BYTES:
        raise InvalidInput(f"tags: at most {_MOST_PICKED_BYTES:,} bytes for all tags together", field="tags")


def fitting(feedback: Feedback) -> Feedback:
    """Return the feedback, without its oldest taps if its encoding would exceed 8,192 bytes."""
    while len(encode_feedback(feedback)) > MOST_BYTES and (feedback.authors or feedback.tags):
        authors, tags = dict(feedback.authors), dict(feedback.tags)
        longer: dict[int, int] | dict[str, int] = tags if tags and len(tags) >= len(authors) else authors
        del longer[next(iter(longer))]  # type: ignore[arg-type]  # a key of its own
        feedback = replace(feedback, authors=authors, tags=tags)
    return feedback


def folded(feedback: Feedback) -> Feedback:
    """Return the feedback with tags in canonical form, without tags whose canonical form is too long.

    If two tags have one canonical form, their taps are added.
    """
    picked = tuple(tag for tag in dict.fromkeys(map(canonical_tag, feedback.picked)) if tag)
    taps: dict[str, int] = {}
    for name, count in feedback.tags.items():
        tag = canonical_tag(name)
        taps[tag] = max(-MOST_TAPS, min(MOST_TAPS, taps.pop(tag, 0) + count))
    return replace(feedback, picked=picked, tags={tag: count for tag, count in taps.items() if tag and count})


def encode_feedback(feedback: Feedback) -> bytes:
    return msgspec.json.encode(feedback)


def with_feedback(interests: Interests, feedback: Feedback) -> Interests:
    if feedback == NO_FEEDBACK:
        return interests
    tags, authors = dict(interests.tags), dict(interests.authors)
    for tag in feedback.picked:
        tags[tag] = _bounded(tags.get(tag, 0.0) + PICKED)
    for tag, taps in feedback.tags.items():
        tags[tag] = _bounded(tags.get(tag, 0.0) + TAP * taps)
    for author, taps in feedback.authors.items():
        authors[author] = _bounded(authors.get(author, 0.0) + TAP * taps)
    return interests._replace(tags=tags, authors=authors, picked=feedback.picked)


def _bounded(value: float) -> float:
    return max(-1.0, min(1.0, value))


class FeedPreferences(Node, frozen=True, tag="taste"):
    member_id: int
    document: bytes = b""
    """The member's own recipe as JSON; empty to use the server's recipe.

    It is stored as bytes, so that a recipe that this version cannot read does not make the whole object unreadable.
    """
    off: bool = False
    """Whether ranking is off: the For You feed shows the home timeline."""
    said: bytes = b""
    """The member's feedback as JSON, stored as bytes like `document`; empty for none."""

    @property
    def recipe(self) -> Recipe | None:
        """The member's own recipe; None if there is none, or if this version of Shoal cannot read it."""
        return _decoded(self.document) if self.document else None

    @property
    def feedback(self) -> Feedback:
        """The member's feedback; empty if this version of Shoal cannot read it."""
        return _decode_feedback(self.said) if self.said else NO_FEEDBACK


class SeenPosts(Node, frozen=True, tag="seen_posts"):
    member_id: int
    memory: bytes = b""
    """The seen posts, as encoded by `add_seen`."""


@lru_cache(maxsize=1_024)
def _decoded(document: bytes) -> Recipe | None:
    try:
        return msgspec.json.decode(document, type=Recipe)
    except msgspec.MsgspecError:
        return None


@lru_cache(maxsize=1_024)
def _decode_feedback(document: bytes) -> Feedback:
    try:
        return msgspec.json.decode(document, type=Feedback)
    except msgspec.MsgspecError:
        return NO_FEEDBACK


MOST = 1_000
MOST_TIMES = 7
_TIMES_BITS = 3

_Marks = npt.NDArray[np.uint32]


def add_seen(data: bytes, ids: Iterable[int]) -> bytes:
    """Add one view of each of these posts, in order, to a record of seen posts, and return its encoded form."""
    times = dict(zip(*_entries(data), strict=True))
    latest = [int(mark) for mark in _marks(list(dict.fromkeys(ids)))]
    retained = {mark: min(times.get(mark, 0) + 1, MOST_TIMES) for mark in reversed(latest)}
    for mark, seen in times.items():
        retained.setdefault(mark, seen)
    packed = [mark << _TIMES_BITS | seen for mark, seen in retained.items()]
    return np.array(packed[:MOST], "<u4").tobytes()


def times_seen(data: bytes, ids: Sequence[int]) -> npt.NDArray[np.float64]:
    """Return how often each post was seen, according to a record of seen posts: shape (ids,)."""
    if not data or not ids:
        return np.zeros(len(ids))
    packed = np.frombuffer(data, "<u4")
    order = np.argsort(packed)
    known = packed[order] >> _TIMES_BITS
    marks = _marks(ids)
    at = np.minimum(np.searchsorted(known, marks), len(known) - 1)
    found: npt.NDArray[np.float64] = np.where(known[at] == marks, packed[order][at] & MOST_TIMES, 0).astype(np.float64)
    return found


def _marks(ids: Sequence[int]) -> _Marks:
    return (np.array(ids, np.uint64) * np.uint64(SPREAD) >> np.uint64(32 + _TIMES_BITS)).astype(np.uint32)


def _entries(data: bytes) -> tuple[list[int], list[int]]:
    packed = np.frombuffer(data, "<u4")
    return (packed >> _TIMES_BITS).tolist(), (packed & MOST_TIMES).tolist()
