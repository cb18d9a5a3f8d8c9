"""Members who reacted to posts of late, by a like, a share, an emoji or a comment, and how much that weighs now.

Each member counts once for a post, by their newest reaction. A reaction weighs 2^-(age / half-life): 1 now, 1/2 six hours
later, 1/16 after a day. For example, a post that Ann liked and shared just now and Ben liked six hours ago weighs 1.5.
This is exponential decay as in Cormode et al., "Forward decay" (ICDE 2009), here from the moment of asking.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.core.ids import EPOCH_MS, floor_at
from shoal.core.model import Post
from shoal.graph.access import members_by_id
from shoal.graph.contract import Assoc, Cursor, Reader
from shoal.graph.payloads.posts import oldest_active, placed
from shoal.graph.schema import COMMENTED_BY, LIKED_BY, REACTED_BY, SHARED_BY, THREAD

HALF_LIFE_MS = 6 * 3_600_000
"""Time in which the weight of a reaction halves, in milliseconds."""
NEWEST = 100
"""Reactions of each kind that are looked at, the newest; of a post with more the weight is too low."""

_HALF_LIFE = float(floor_at(EPOCH_MS + HALF_LIFE_MS))

Column = npt.NDArray[np.int64]
Row = tuple[int, int, int]
"""The ids of a post and of a member, and the time of a reaction as an id."""


class Reactions(NamedTuple):
    """Columns of one length: posts, members who reacted to them, each once for a post, and when they did so last, as an id."""

    posts: Column
    members: Column
    times: Column

    def only(self, chosen: npt.NDArray[np.bool_ | np.int64]) -> Reactions:
        """Return some of them: those that are marked, or at these places."""
        return Reactions(self.posts[chosen], self.members[chosen], self.times[chosen])

    def active(self) -> int:
        """Return how many members reacted to any of the posts."""
        return len(np.unique(self.members))

    def members_of(self) -> dict[int, int]:
        """Return how many members reacted to each post."""
        ids, counts = np.unique(self.posts, return_counts=True)
        return dict(zip(ids.tolist(), counts.tolist(), strict=True))

    def weights(self, now: int) -> dict[int, float]:
        """Return the weight of the reactions to each post at a moment (Unix ms). One from the future weighs 1."""
        ids, at = np.unique(self.posts, return_inverse=True)
        ages = np.maximum(floor_at(now) - self.times, 0) / _HALF_LIFE
        return dict(zip(ids.tolist(), np.bincount(at, np.exp2(-ages)).tolist(), strict=True))


_NOTHING = Reactions(*(np.empty(0, np.int64) for _ in range(3)))


async def reactions_to(graph: Reader, posts: Collection[Post], now: int) -> Reactions:
    """Return who reacted to these posts within the last three days. Six reads.

    Authors do not react to their own posts. Members who are suspended or silenced do not count, and of comments only
    those that everybody may find.
    """
    if not posts:
        return _NOTHING
    ids = [post.id for post in posts]
    part = Cursor(after=oldest_active(now), limit=NEWEST)
    *lists, comments, threads = await asyncio.gather(
        graph.assoc_ranges(ids, LIKED_BY, part),
        graph.assoc_ranges(ids, SHARED_BY, part),
        graph.assoc_ranges(ids, REACTED_BY, part),
        graph.assoc_ranges(ids, COMMENTED_BY, part),
        graph.assoc_ranges([post.root_id or post.id for post in posts], THREAD, part),
    )
    acts = ((id_, entry.id2, entry.time) for pages in lists for id_, page in pages.items() for entry in page)
    found = _newest(_columns(chain(acts, _comments(comments, threads.values()))))
    found = found.only(_by_others(found, posts))
    members = await members_by_id(graph, np.unique(found.members).tolist())
    counted = [id_ for id_, member in members.items() if not (member.suspended or member.silenced)]
    return found.only(np.isin(found.members, counted))


def _comments(comments: Mapping[int, Sequence[Assoc]], threads: Iterable[Sequence[Assoc]]) -> Iterable[Row]:
    """Give the post, the author and the time of each comment.

    The list of a post has the comments that everybody may find, and that of a thread says who wrote them: so no comment
    has to be read.
    """
    found = {entry.id2 for page in comments.values() for entry in page}
    for page in threads:
        for entry in page:
            if entry.id2 in found:
                place = placed(entry)
                yield place.parent_id, place.author_id, entry.time


def _columns(rows: Iterable[Row]) -> Reactions:
    return Reactions(*np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, 3).T)


def _newest(found: Reactions) -> Reactions:
    """Keep the newest reaction of each member to each post."""
    order = np.lexsort((-found.times, found.members, found.posts))
    posts, members = found.posts[order], found.members[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (posts[1:] != posts[:-1]) | (members[1:] != members[:-1])
    return found.only(order[first])


def _by_others(found: Reactions, posts: Collection[Post]) -> npt.NDArray[np.bool_]:
    """Tell which reactions are not by the author of the post."""
    authors = {post.id: post.author_id for post in posts}
    by: Column = np.fromiter((authors[id_] for id_ in found.posts.tolist()), np.int64, len(found.posts))
    others: npt.NDArray[np.bool_] = found.members != by
    return others
