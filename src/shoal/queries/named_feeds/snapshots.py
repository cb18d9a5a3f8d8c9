"""Snapshots of ranked feeds: the posts in order, with the contributions that explain their scores."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from shoal.core.feeds.declarations import SPAN

MAX_GROUP_IDS = 10
"""Maximum ids of other posts that an entry of an aggregated feed names."""


class Contribution(NamedTuple):
    name: str
    """A term of a recipe, or a summand of an expression."""
    value: float


class Group(NamedTuple):
    """The posts that an entry of an aggregated feed represents."""

    size: int
    """Number of posts, with the shown one."""
    ids: tuple[int, ...]
    """Ids of the others, best first, at most 10."""


class Explanation(NamedTuple):
    """Why a post is in a feed, and at its position. The contributions, added in their order, are the score."""

    sources: tuple[str, ...]
    score: float | None = None
    """The score of a ranked feed; None for a feed in the order of time."""
    contributions: tuple[Contribution, ...] = ()
    lost: int = 0
    """Positions lost to diversity; negative if gained."""
    group: Group | None = None
    """The posts that the entry represents in an aggregated feed; None in any other feed."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A ranked feed as cached for an hour, as columns of packed little-endian numbers."""

    feed_id: int
    version: int
    """The version of the feed that was ranked."""
    viewer: int
    """0 for an anonymous viewer."""
    ids: bytes
    """Ids of posts, 8 bytes each."""
    sources: bytes
    """The sources of each post as bits, 4 bytes each."""
    labels: tuple[str, ...]
    names: tuple[str, ...]
    """The names of the contributions."""
    contributions: bytes
    """4 bytes each, one row per post."""
    lost: bytes
    """Positions lost to diversity, 2 bytes each."""
    groups: tuple[Group, ...] = ()
    """The group of each post in an aggregated feed; empty for any other."""

    def __len__(self) -> int:
        return len(self.ids) // 8

    def part(self, first: int, last: int) -> list[int]:
        """Return the ids of the posts at positions `first` to `last`, without `last`."""
        found: list[int] = np.frombuffer(self.ids, "<i8")[first:last].tolist()
        return found

    def position_of(self, id_: int) -> int | None:
        found = np.flatnonzero(np.frombuffer(self.ids, "<i8") == id_)
        return int(found[0]) if len(found) else None

    def explanations(self, first: int, last: int) -> list[Explanation]:
        """Return the explanations of the posts at positions `first` to `last`, without `last`."""
        rows = np.frombuffer(self.contributions, "<f4").reshape(-1, len(self.names))[first:last].tolist()
        masks = np.frombuffer(self.sources, "<u4")[first:last].tolist()
        lost = np.frombuffer(self.lost, "<i2")[first:last].tolist()
        groups = self.groups[first:last] or (None,) * len(masks)
        return [
            Explanation(
                sources=labels_of(mask, self.labels),
                score=_sum(row),
                contributions=tuple(map(Contribution, self.names, row)),
                lost=places,
                group=group,
            )
            for row, mask, places, group in zip(rows, masks, lost, groups, strict=True)
        ]

    def without(self, other: Snapshot) -> Snapshot:
        """Return this ranking without the posts of another one."""
        missing = np.isin(np.frombuffer(self.ids, "<i8"), np.frombuffer(other.ids, "<i8"), invert=True)
        return self._only(np.flatnonzero(missing))

    def followed_by(self, other: Snapshot, most: int) -> Snapshot:
        """Return at most `most` posts: first those of this ranking, then those of another one of the same version of the feed."""
        wide = 4 * len(self.names)
        return msgspec.structs.replace(
            self,
            ids=(self.ids + other.ids)[: 8 * most],
            sources=(self.sources + other.sources)[: 4 * most],
            contributions=(self.contributions + other.contributions)[: wide * most],
            lost=(self.lost + other.lost)[: 2 * most],
            groups=(*self.groups, *other.groups)[:most],
        )

    def _only(self, rows: npt.NDArray[np.intp]) -> Snapshot:
        return msgspec.structs.replace(
            self,
            ids=np.frombuffer(self.ids, "<i8")[rows].tobytes(),
            sources=np.frombuffer(self.sources, "<u4")[rows].tobytes(),
            contributions=np.frombuffer(self.contributions, "<f4").reshape(-1, len(self.names))[rows].tobytes(),
            lost=np.frombuffer(self.lost, "<i2")[rows].tobytes(),
            groups=tuple(self.groups[row] for row in rows.tolist()) if self.groups else (),
        )


def labels_of(mask: int, labels: Sequence[str]) -> tuple[str, ...]:
    return tuple(label for at, label in enumerate(labels) if mask >> at & 1)


def _sum(values: Sequence[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Snapshot)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    return _encoder.encode(snapshot)


def decode_snapshot(data: bytes) -> Snapshot | None:
    """Decode a snapshot; None if another version of Shoal wrote it in another format."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:
        return None


def aggregated(keys: Sequence[Hashable], ids: Sequence[int]) -> dict[int, Group]:
    """Return the position of the best post of each group, best first, with its group. Posts with the key None are not grouped.

    `keys` and `ids` are the groups and ids of posts, best first. For example, keys a, b, a, None and ids 4, 3, 2, 1 give the
    positions 0 (2 posts, 2 is the other), 1 and 3 (one post each).
    """
    members: dict[Hashable, list[int]] = {}
    for at, key in enumerate(keys):
        members.setdefault(("alone", at) if key is None else ("group", key), []).append(at)
    return {
        found[0]: Group(len(found), tuple(ids[at] for at in found[1 : 1 + MAX_GROUP_IDS])) for found in members.values()
    }


def diversified(authors: Sequence[int], author_most: int, most: int) -> list[int]:
    """Return up to `most` positions of posts, given best first by their authors, in a diverse order.

    Among any 20 consecutive posts, at most `author_most` are by one author. If all remaining posts are by authors at this maximum,
    an author with the fewest of these posts follows, so that no post is lost. For example, with one post by an author, the posts of
    a, a, b, a, c are returned in the order a, b, c, a, a.
    """
    waiting: dict[int, deque[int]] = {}
    for at, author in enumerate(authors):
        waiting.setdefault(author, deque()).append(at)
    free = [(positions[0], author) for author, positions in waiting.items()]
    exhausted: set[int] = set()
    recent: deque[int] = deque(maxlen=SPAN - 1)
    counts: Counter[int] = Counter()
    order: list[int] = []
    while len(order) < min(most, len(authors)):
        if free:
            author = heappop(free)[1]
        else:
            author = min(exhausted, key=lambda each: (counts[each], waiting[each][0]))
            exhausted.discard(author)
        order.append(waiting[author].popleft())
        if len(recent) == SPAN - 1:
            former = recent[0]
            counts[former] -= 1
            if former in exhausted and counts[former] < author_most:
                exhausted.discard(former)
                heappush(free, (waiting[former][0], former))
        recent.append(author)
        counts[author] += 1
        if waiting[author] and counts[author] < author_most:
            heappush(free, (waiting[author][0], author))
        elif waiting[author]:
            exhausted.add(author)
    return order
