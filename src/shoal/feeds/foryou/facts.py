"""CandidateFacts about candidates, read in bulk: a row of the matrix that `core.ranking.terms` scores for each post."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from shoal.core.model import Media, Post
from shoal.core.places import Place, distance_km
from shoal.core.ranking.interests import Interests
from shoal.core.ranking.seen import times_seen
from shoal.core.ranking.terms import CandidateFacts, Column
from shoal.feeds.discover import popular
from shoal.feeds.foryou.sources import Proposal
from shoal.feeds.hydrate import Row, Sight
from shoal.feeds.reads import Reads
from shoal.graph.cache.recent import Recent
from shoal.graph.contract import Cursor
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, LIKED_BY, POSTED, SHARED_BY, AssocType
from shoal.tagcloud.words import Word

Ids = npt.NDArray[np.int64]

_NEIGHBOURS = 40
"""Newest followers, and newest followees, by which an author is compared with the viewer."""
_HOUR_MS = 3_600_000
_COUNTS = (LIKED_BY, SHARED_BY)


async def facts_of(
    reads: Reads,
    interests: Interests,
    seen: bytes,
    rows: Sequence[Row],
    proposals: Mapping[int, Proposal],
    sight: Sight,
) -> CandidateFacts:
    """Return the facts about posts that were looked at: three reads, two more for authors not met within ten minutes."""
    posts = [post for _, post, _ in rows]
    ids = [post.id for post in posts]
    authors = list({post.author_id for post in posts})
    now = reads.tags.clock()
    counts, received, around, growth, stirred = await asyncio.gather(
        reads.graph.assoc_count(ids, _COUNTS),
        reads.graph.assoc_count(authors, (LIKED_BY, SHARED_BY, POSTED)),
        _neighbours(reads, [author for author in authors if not sight.members[author].hides_connections]),
        _growth(reads),
        popular.weights(reads, outdated=True),
    )
    circle = np.array(list({*interests.followees, *interests.followers}), np.int64)
    common = _in_common(around, circle)
    liked = [counts[LIKED_BY].get(id_, 0) + counts[SHARED_BY].get(id_, 0) for id_ in ids]
    by = [post.author_id for post in posts]
    said = [_said(post, sight) for post in posts]
    tags, growing = interests.tags, growth
    return CandidateFacts(
        likes=_column(liked),
        friend_likes=_column([proposals[id_].friends for id_ in ids]),
        friends_following=_column([interests.friends.get(author, 0) for author in by]),
        tag_affinity=_column([sum([tags.get(tag, 0.0) for tag in post.tags]) for post in posts]),
        author_affinity=_column([interests.authors.get(author, 0.0) for author in by]),
        distance_km=_column([_away(interests.place, post.place) for post in posts]),
        rising=_column([max([growing.get(tag, 1.0) for tag in post.tags], default=1.0) for post in posts]),
        recent=_column([stirred.get(id_, 0.0) for id_ in ids]),
        usual=_column([_usual(received, author, own) for author, own in zip(by, liked, strict=True)]),
        common=_column([common.get(author, 0) for author in by]),
        viewer_circle=np.full(len(posts), float(len(circle))),
        author_circle=_column([len(around.get(author, ())) for author in by]),
        seen=times_seen(seen, ids),
        acted=_column([id_ in interests.acted for id_ in ids]),
        age_hours=_column([(now - post.created_at) / _HOUR_MS for post in posts]),
        described=_column([described for described, _ in said]),
        words=_column([words for _, words in said]),
        author_reactions=_column([_reactions(received, author) for author in by]),
    )


def _reactions(received: Mapping[AssocType, Mapping[int, int]], author: int) -> int:
    return received[LIKED_BY].get(author, 0) + received[SHARED_BY].get(author, 0)


def _usual(received: Mapping[AssocType, Mapping[int, int]], author: int, own: int) -> float:
    """Return the likes and shares that another post of the author gets on average, than one that got `own` of them."""
    return max(0, _reactions(received, author) - own) / max(1, received[POSTED].get(author, 0) - 1)


def _away(here: Place | None, there: Place | None) -> float:
    return math.nan if here is None or there is None else distance_km(*here, *there)


def _column(values: Sequence[float]) -> Column:
    return np.array(values, np.float64)


_known: Recent[int, tuple[Post, tuple[Media, ...], tuple[float, int]]] = Recent(20_000)
"""Descriptions and words of posts, by id; valid as long as the post and its media are the same."""


def _said(post: Post, sight: Sight) -> tuple[float, int]:
    """Return the part of the media of a post that are described (NaN: it has none), and its words without tags."""
    media = sight.media(post) if post.media else ()
    known = _known.get(post.id)
    if known is not None and known[0] is post and known[1] == media:
        return known[2]
    described = sum(bool(item.description) for item in media) / len(media) if media else math.nan
    said = described, sum(not word.startswith("#") for word in post.text.split())
    _known.put(post.id, (post, media, said))
    return said


async def _neighbours(reads: Reads, authors: Sequence[int]) -> dict[int, Ids]:
    """Return the newest followers and followees of each author; two reads, none for authors met within ten minutes."""
    now = reads.tags.clock()
    known = {author: held for author in authors if (held := reads.neighbours.get(author, now)) is not None}
    if missing := [author for author in authors if author not in known]:
        followers, followees = await asyncio.gather(
            reads.lasting.assoc_ranges(missing, FOLLOWED_BY, Cursor(limit=_NEIGHBOURS)),
            reads.lasting.assoc_ranges(missing, FOLLOWS, Cursor(limit=_NEIGHBOURS)),
        )
        for author in missing:
            rows = (*followers.get(author, ()), *followees.get(author, ()))
            known[author] = np.unique(np.array([row.id2 for row in rows], np.int64))
            reads.neighbours.put(author, known[author], now)
    return known


def _in_common(around: Mapping[int, Ids], circle: Ids) -> dict[int, int]:
    """Return how many members around each author are around the viewer too."""
    if not around:
        return {}
    owners = np.repeat(np.arange(len(around)), [len(found) for found in around.values()])
    shared = np.isin(np.concatenate(list(around.values())), circle)
    return dict(zip(around, np.bincount(owners[shared], minlength=len(around)).tolist(), strict=True))


async def _growth(reads: Reads) -> dict[str, float]:
    """Return the growth of tags on the rise: uses of today and yesterday over those of two ordinary days of the week before."""
    return {word.name: _grown(word) for word in (await reads.tags.cloud("rising")).words}


def _grown(word: Word) -> float:
    latest = sum(day.uses for day in word.days[:2])
    before = sum(day.uses for day in word.days[2:]) * 2 / max(1, len(word.days) - 2)
    return (1.0 + latest) / (1.0 + before)
