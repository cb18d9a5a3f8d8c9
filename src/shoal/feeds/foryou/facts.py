"""CandidateFacts about candidates, read in bulk: a row of the matrix that `core.ranking.terms` scores for each post."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from shoal.core.model import Media, Post
from shoal.core.places import Place, distance_km
from shoal.core.ranking.preferences import Interests, times_seen
from shoal.core.ranking.terms import CandidateFacts, Column
from shoal.feeds.discover import popular
from shoal.feeds.foryou.sources import Proposal
from shoal.feeds.hydrate import Row, Sight
from shoal.feeds.reads import Reads
from shoal.graph.cache.lru import Recent
from shoal.graph.contract import Cursor
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, LIKED_BY, POSTED, SHARED_BY
from shoal.tagcloud.cloud import Word

Ids = npt.NDArray[np.int64]

_NEIGHBOURS = 40
"""Newest followers, and newest followees, by which an author is compared with the viewer."""
_HOUR_MS = 3_600_000
_MARK_BITS = 14
"""Bits of the hash by which members around the viewer are told from most others: a table of 16 KB."""
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
    by = _positions(posts, authors)
    liked = _column([counts[LIKED_BY].get(id_, 0) + counts[SHARED_BY].get(id_, 0) for id_ in ids])
    reactions = _column([received[LIKED_BY].get(id_, 0) + received[SHARED_BY].get(id_, 0) for id_ in authors])[by]
    posted = _column([received[POSTED].get(id_, 0) for id_ in authors])[by]
    said = [_said(post, sight) for post in posts]
    return CandidateFacts(
        likes=liked,
        friend_likes=_column([proposals[id_].friends for id_ in ids]),
        friends_following=interests.near.of(np.array(authors, np.int64)).friends[by].astype(np.float64),
        tag_affinity=_by_tags(posts, interests.tags, sum, 0.0),
        author_affinity=_column([interests.authors.get(id_, 0.0) for id_ in authors])[by],
        distance_km=_distances(interests.place, posts),
        rising=_by_tags(posts, growth, max, 1.0),
        recent=_column([stirred.get(id_, 0.0) for id_ in ids]),
        # What another post of the author gets on average, than the one at hand.
        usual=np.maximum(0.0, reactions - liked) / np.maximum(1.0, posted - 1.0),
        common=_column([common.get(id_, 0) for id_ in authors])[by],
        viewer_circle=np.full(len(posts), float(len(circle))),
        author_circle=_column([len(around.get(id_, ())) for id_ in authors])[by],
        seen=times_seen(seen, ids),
        acted=_column([id_ in interests.acted for id_ in ids]),
        age_hours=(now - _column([post.created_at for post in posts])) / _HOUR_MS,
        described=_column([described for described, _ in said]),
        words=_column([words for _, words in said]),
        author_reactions=reactions,
    )


def _positions(posts: Sequence[Post], authors: Sequence[int]) -> Ids:
    """Return where the author of each post stands among the authors."""
    at = {author: position for position, author in enumerate(authors)}
    return np.array([at[post.author_id] for post in posts], np.int64)


def _by_tags(
    posts: Sequence[Post], known: Mapping[str, float], together: Callable[[list[float]], float], without: float
) -> Column:
    """Return what is known of the tags of each post, together.

    `without`: for a tag of which nothing is known, and for a post without tags.
    """
    if not known:
        return np.full(len(posts), without)
    get = known.get
    return _column([together([get(tag, without) for tag in post.tags]) if post.tags else without for post in posts])


def _distances(here: Place | None, posts: Sequence[Post]) -> Column:
    """Return the kilometres from here to each post; NaN where one of them has no place."""
    if here is None:
        return np.full(len(posts), math.nan)
    return _column([_away(here, post.place) for post in posts])


def _away(here: Place, there: Place | None) -> float:
    return math.nan if there is None else distance_km(*here, *there)


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
    said = described, _plain_words(post.text)
    _known.put(post.id, (post, media, said))
    return said


def _plain_words(text: str) -> int:
    words = text.split()
    return len(words) - len([word for word in words if word[0] == "#"]) if "#" in text else len(words)


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
    ids = np.concatenate(list(around.values()))
    # Most are not in the circle, and most of those are ruled out by a hash: to compare all of them exactly means to sort them.
    marked = np.zeros(1 << _MARK_BITS, np.bool_)
    marked[_marks(circle)] = True
    likely = marked[_marks(ids)]
    shared = owners[likely][_among(ids[likely], np.sort(circle))]
    return dict(zip(around, np.bincount(shared, minlength=len(around)).tolist(), strict=True))


def _among(ids: Ids, circle: Ids) -> npt.NDArray[np.bool_]:
    """Return whether each is in the circle, which is sorted and not empty where any id is asked for."""
    if not len(ids):
        return np.zeros(0, np.bool_)
    found: npt.NDArray[np.bool_] = circle[np.minimum(np.searchsorted(circle, ids), len(circle) - 1)] == ids
    return found


def _marks(ids: Ids) -> npt.NDArray[np.uint64]:
    """Return a hash of each id (Fibonacci hashing: Knuth, The Art of Computer Programming 3, 6.4)."""
    return (ids.view(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)) >> np.uint64(64 - _MARK_BITS)


async def _growth(reads: Reads) -> dict[str, float]:
    """Return the growth of tags on the rise: uses of today and yesterday over those of two ordinary days of the week before."""
    return {word.name: _grown(word) for word in (await reads.tags.cloud("rising")).words}


def _grown(word: Word) -> float:
    latest = sum(day.uses for day in word.days[:2])
    before = sum(day.uses for day in word.days[2:]) * 2 / max(1, len(word.days) - 2)
    return (1.0 + latest) / (1.0 + before)
