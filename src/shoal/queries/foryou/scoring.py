"""Scoring for the ranked feed: exclude candidates by rule, read facts about the rest in bulk, and compute their scores.

Each exclusion rule has a name and does not depend on scores. The facts form a matrix with one row for each candidate, which
`core.ranking.terms` scores at once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.core.model import HELD, Media, MediaKind, Member, Post, Review, Visibility
from shoal.core.places import Location, Place, distance_km
from shoal.core.ranking import terms
from shoal.core.ranking.preferences import Interests, times_seen
from shoal.core.ranking.recipes import Recipe
from shoal.core.ranking.terms import CandidateFacts, Column, Matrix
from shoal.core.visibility import Relation, is_sensitive, may_list_publicly
from shoal.graph.access import declared_reactions
from shoal.graph.cache.lru import Recent
from shoal.graph.contract import Cursor
from shoal.graph.payloads.members import Personalization
from shoal.graph.schema import (
    BOOKMARKS,
    FOLLOWED_BY,
    FOLLOWS,
    LIKED_BY,
    LIKES,
    POSTED,
    REACTS,
    REPORTS_POST,
    SHARED_BY,
    SHARES,
)
from shoal.queries import lists, trends
from shoal.queries.context import Reads
from shoal.queries.foryou.sources import Proposal
from shoal.queries.hydration import Row, ViewerState, named_counts, viewer_state
from shoal.queries.public_timelines import in_country
from shoal.tagcloud.cloud import Word

OPEN_TO_FOLLOWERS = (Visibility.PUBLIC, Visibility.UNLISTED, Visibility.FOLLOWERS)


class Rule(StrEnum):
    """Why a visible post is not ranked for a viewer. `RULE_WORDS` has the texts."""

    OWN = "own"
    DIRECT = "direct"
    REPLY = "reply"
    OPTED_OUT = "opted_out"
    APART = "apart"
    LANGUAGE = "language"
    REPORTED = "reported"
    NOT_PUBLIC = "not_public"
    NOT_DISCOVERABLE = "not_discoverable"
    SENSITIVE = "sensitive"


RULE_WORDS: Mapping[Rule, str] = {
    Rule.OWN: "it is your own",
    Rule.DIRECT: "it is a direct post",
    Rule.REPLY: "it is a reply to another member's post, and hard to understand without it",
    Rule.OPTED_OUT: "its author keeps their posts out of ranked feeds",
    Rule.APART: "you read its author in a list of their own",
    Rule.LANGUAGE: "you follow its author in other languages only",
    Rule.REPORTED: "it was reported, and moderators have not cleared it",
    Rule.NOT_PUBLIC: "you do not follow its author, and it is not for public lists",
    Rule.NOT_DISCOVERABLE: "you do not follow its author, who does not want to be found",
    Rule.SENSITIVE: "you do not follow its author, and it is marked as sensitive",
}


def excluding_rule(viewer: int, post: Post, author: Member, relation: Relation, apart: frozenset[int]) -> Rule | None:
    """Return the rule that excludes a visible post from the viewer's ranked feed, or None.

    `apart`: followees whom the viewer reads in an exclusive list.
    """
    if author.id == viewer:
        return Rule.OWN
    if post.visibility not in OPEN_TO_FOLLOWERS:
        return Rule.DIRECT
    if post.parent_id and post.parent_author_id != author.id:
        return Rule.REPLY
    if not author.rankable:
        return Rule.OPTED_OUT
    if post.review is Review.UPHELD or (post.review in HELD and not relation.following):
        return Rule.REPORTED
    if relation.following:
        if author.id in apart:
            return Rule.APART
        wrong = relation.languages and post.language and post.language not in relation.languages
        return Rule.LANGUAGE if wrong else None
    if not may_list_publicly(viewer, post, author, relation):
        return Rule.NOT_PUBLIC
    if not author.discoverable:
        return Rule.NOT_DISCOVERABLE
    return Rule.SENSITIVE if is_sensitive(post, author) else None


Ids = npt.NDArray[np.int64]

_NEIGHBORS = 40
"""Number of newest followers, and of newest followees, of an author that are compared with the viewer's circle."""
_HOUR_MS = 3_600_000
_MARK_BITS = 14
"""Bits of the hash that pre-filters members by the viewer's circle, with a table of 16 KB."""
_COUNTS = (LIKED_BY, SHARED_BY)


async def facts_of(
    reads: Reads,
    interests: Interests,
    seen: bytes,
    rows: Sequence[Row],
    proposals: Mapping[int, Proposal],
    viewer_state: ViewerState,
    growth: Mapping[str, float],
) -> CandidateFacts:
    """Return the facts about posts that terms are computed from.

    Three reads, two for authors not in the ten-minute cache, and five if a declared reaction has a weight, of which two are cached.
    """
    posts = [post for _, post, _ in rows]
    ids = [post.id for post in posts]
    authors = list({post.author_id for post in posts})
    now = reads.tags.clock()
    counts, reacted, received, around, stirred = await asyncio.gather(
        reads.graph.assoc_count(ids, _COUNTS),
        weighted_reactions(reads, ids),
        reads.graph.assoc_count(authors, (LIKED_BY, SHARED_BY, POSTED)),
        _neighbors(reads, [author for author in authors if not viewer_state.members[author].hides_connections]),
        trends.weights(reads, outdated=True),
    )
    circle = np.array(list({*interests.followees, *interests.followers}), np.int64)
    common = _in_common(around, circle)
    position = {author: at for at, author in enumerate(authors)}
    by = np.array([position[post.author_id] for post in posts], np.int64)
    liked = _column([counts[LIKED_BY].get(id_, 0) + counts[SHARED_BY].get(id_, 0) for id_ in ids])
    reactions = _column([received[LIKED_BY].get(id_, 0) + received[SHARED_BY].get(id_, 0) for id_ in authors])[by]
    posted = _column([received[POSTED].get(id_, 0) for id_ in authors])[by]
    contents = [_content_facts_of(post, viewer_state) for post in posts]
    return CandidateFacts(
        likes=liked,
        reactions=_column([reacted.get(id_, 0.0) for id_ in ids]),
        friend_likes=_column([proposals[id_].friends for id_ in ids]),
        friends_following=interests.near.of(np.array(authors, np.int64)).friends[by].astype(np.float64),
        tag_affinity=_by_tags(posts, interests.tags, sum, 0.0),
        author_affinity=_column([interests.authors.get(id_, 0.0) for id_ in authors])[by],
        distance_km=_distances(interests.place, posts),
        from_country=_from_country(interests.location, posts),
        rising=_by_tags(posts, growth, max, 1.0),
        recent=_column([stirred.get(id_, 0.0) for id_ in ids]),
        # Average reactions to the author's other posts, without this post.
        usual=np.maximum(0.0, reactions - liked) / np.maximum(1.0, posted - 1.0),
        common=_column([common.get(id_, 0) for id_ in authors])[by],
        viewer_circle=np.full(len(posts), float(len(circle))),
        author_circle=_column([len(around.get(id_, ())) for id_ in authors])[by],
        seen=times_seen(seen, ids),
        acted=_column([id_ in interests.acted for id_ in ids]),
        age_hours=(now - _column([post.created_at for post in posts])) / _HOUR_MS,
        described=_column([content.described for content in contents]),
        words=_column([content.words for content in contents]),
        author_reactions=reactions,
        photos=_column(
            [
                content.pictured and not (post.spoiler or is_sensitive(post, viewer_state.members[post.author_id]))
                for post, content in zip(posts, contents, strict=True)
            ]
        ),
    )


async def weighted_reactions(reads: Reads, post_ids: Sequence[int]) -> dict[int, float]:
    """Return for each post the number of its declared reactions, times their weights. Posts without any may be missing."""
    weights = (await declared_reactions(reads.graph)).weights
    if not weights:
        return {}
    found = await named_counts(reads.graph, post_ids)
    return {post: sum(weights.get(name, 0.0) * n for name, n in counts.items()) for post, counts in found.items()}


def _by_tags(
    posts: Sequence[Post], known: Mapping[str, float], together: Callable[[list[float]], float], without: float
) -> Column:
    """Return for each post the values of its tags, looked up in `known` and combined by `together`.

    `without` is the value of an unknown tag, and of a post without tags.
    """
    if not known:
        return np.full(len(posts), without)
    get = known.get
    return _column([together([get(tag, without) for tag in post.tags]) if post.tags else without for post in posts])


def _distances(here: Place | None, posts: Sequence[Post]) -> Column:
    """Return the kilometers from the place `here` to each post; NaN if either has no place."""
    if here is None:
        return np.full(len(posts), math.nan)
    return _column([math.nan if post.place is None else distance_km(*here, *post.place) for post in posts])


def _from_country(location: Location | None, posts: Sequence[Post]) -> Column:
    """Return for each post 1 if it was posted from the country of the location, otherwise 0."""
    if location is None:
        return np.zeros(len(posts))
    return _column([in_country(post, location) for post in posts])


def _column(values: Sequence[float]) -> Column:
    return np.array(values, np.float64)


class ContentFacts(NamedTuple):
    described: float
    """Fraction of the media of a post that have a description; NaN without media."""
    words: int
    """Number of words without tags."""
    pictured: bool
    """Whether one of the media is a photo or video."""


_known: Recent[int, tuple[Post, tuple[Media, ...], ContentFacts]] = Recent(20_000)
"""Facts about the content of posts, by id; valid while the post and its media are unchanged."""


def _content_facts_of(post: Post, viewer_state: ViewerState) -> ContentFacts:
    media = viewer_state.media(post) if post.media else ()
    known = _known.get(post.id)
    if known is not None and known[0] is post and known[1] == media:
        return known[2]
    found = content_facts(post, media)
    _known.put(post.id, (post, media, found))
    return found


def content_facts(post: Post, media: Sequence[Media]) -> ContentFacts:
    described = sum(bool(item.description) for item in media) / len(media) if media else math.nan
    return ContentFacts(described, _plain_words(post.text), any(item.kind is not MediaKind.AUDIO for item in media))


def _plain_words(text: str) -> int:
    words = text.split()
    return len(words) - len([word for word in words if word[0] == "#"]) if "#" in text else len(words)


async def _neighbors(reads: Reads, authors: Sequence[int]) -> dict[int, Ids]:
    """Return the newest followers and followees of each author. Two reads; none for authors in the ten-minute cache."""
    now = reads.tags.clock()
    known = {author: cached for author in authors if (cached := reads.neighbors.get(author, now)) is not None}
    if missing := [author for author in authors if author not in known]:
        followers, followees = await asyncio.gather(
            reads.lasting.assoc_ranges(missing, FOLLOWED_BY, Cursor(limit=_NEIGHBORS)),
            reads.lasting.assoc_ranges(missing, FOLLOWS, Cursor(limit=_NEIGHBORS)),
        )
        for author in missing:
            rows = (*followers.get(author, ()), *followees.get(author, ()))
            known[author] = np.unique(np.array([row.id2 for row in rows], np.int64))
            reads.neighbors.put(author, known[author], now)
    return known


def _in_common(around: Mapping[int, Ids], circle: Ids) -> dict[int, int]:
    """Return for each author how many of their followers and followees (`around`) are also the viewer's (`circle`)."""
    if not around:
        return {}
    owners = np.repeat(np.arange(len(around)), [len(found) for found in around.values()])
    ids = np.concatenate(list(around.values()))
    # Few ids are in `circle`. A hash table excludes most of the ids that are not in it, and only the remaining ids need
    # the slower binary search.
    marked = np.zeros(1 << _MARK_BITS, np.bool_)
    marked[_marks(circle)] = True
    likely = marked[_marks(ids)]
    shared = owners[likely][_among(ids[likely], np.sort(circle))]
    return dict(zip(around, np.bincount(shared, minlength=len(around)).tolist(), strict=True))


def _among(ids: Ids, circle: Ids) -> npt.NDArray[np.bool_]:
    """Return for each id whether it is in the sorted array `circle`, which may be empty only if `ids` is."""
    if not len(ids):
        return np.zeros(0, np.bool_)
    found: npt.NDArray[np.bool_] = circle[np.minimum(np.searchsorted(circle, ids), len(circle) - 1)] == ids
    return found


def _marks(ids: Ids) -> npt.NDArray[np.uint64]:
    return (ids.view(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)) >> np.uint64(64 - _MARK_BITS)


async def _growth(reads: Reads) -> dict[str, float]:
    """Return for each rising tag its uses of today and yesterday relative to two average days of the week before."""
    return {word.name: _grown(word) for word in (await reads.tags.cloud("rising")).words}


def _grown(word: Word) -> float:
    latest = sum(day.uses for day in word.days[:2])
    before = sum(day.uses for day in word.days[2:]) * 2 / max(1, len(word.days) - 2)
    return (1.0 + latest) / (1.0 + before)


_ACTS = (LIKES, SHARES, BOOKMARKS, REACTS)
_OWN_POSTS = 20
"""Number of the viewer's newest posts that are searched for comments of the last minute."""


class ScoringInput(NamedTuple):
    """Posts to be scored for a viewer, with one row of facts each. Independent of any recipe."""

    posts: list[Post]
    facts: CandidateFacts | None
    """None if there are no posts."""
    rising: Sequence[str] = ()
    """Tags whose use grows, fastest first."""


class Scored(NamedTuple):
    """Scored posts, the highest score first."""

    posts: list[Post]
    values: Matrix
    """The value of every term, one row per post, rounded to 32 bits."""
    author_reactions: Column
    """Likes and shares of all posts of each author."""
    photos: Column
    """1 for posts that show a photo or video."""
    rising: Sequence[str] = ()
    """Tags whose use grows, fastest first."""

    def only(self, rows: Sequence[int]) -> Scored:
        at = list(rows)
        posts = [self.posts[row] for row in at]
        return self._replace(
            posts=posts,
            values=self.values[at],
            author_reactions=self.author_reactions[at],
            photos=self.photos[at],
        )


async def scored(
    reads: Reads,
    viewer: int,
    personalization: Personalization,
    recipe: Recipe,
    interests: Interests,
    proposed: Mapping[int, Proposal],
) -> Scored:
    """Return the proposed posts that the viewer may see and no rule excludes, best first."""
    return by_score(await scoring_input(reads, viewer, personalization, interests, proposed), recipe)


async def scoring_input(
    reads: Reads,
    viewer: int,
    personalization: Personalization,
    interests: Interests,
    proposed: Mapping[int, Proposal],
    *,
    since: int = 0,
) -> ScoringInput:
    """Return the proposed posts that the viewer may see and no rule excludes, with the facts needed to score them.

    `since`: posts from before this time (Unix ms) are excluded.
    """
    seen = viewer_state(reads.graph, viewer)
    admitted, acted = await _admitted(seen, viewer, proposed)
    rows = [row for row in admitted if row[1].created_at >= since]
    if not rows:
        return ScoringInput([], None)
    memory = personalization.seen.memory if personalization.seen is not None else b""
    interests = interests._replace(acted=interests.acted | acted)
    growth = await _growth(reads)
    facts = await facts_of(reads, interests, memory, rows, proposed, seen, growth)
    rising = sorted((tag for tag in growth if growth[tag] > 1), key=lambda tag: -growth[tag])
    return ScoringInput([post for _, post, _ in rows], facts, rising)


def by_score(found: ScoringInput, recipe: Recipe) -> Scored:
    if found.facts is None:
        return Scored([], np.empty((0, len(terms.TERMS))), np.empty(0), np.empty(0))
    values = terms.values(found.facts, half_life_hours=recipe.half_life_hours, near_km=recipe.near_km)
    # A cached ranking stores 32-bit values: round now, so that explained scores match the order.
    values = values.astype(np.float32).astype(np.float64)
    ids = np.array([post.id for post in found.posts], np.int64)
    order = terms.best_first(terms.scores(terms.contributions(values, recipe)), ids)
    unordered = Scored(found.posts, values, found.facts.author_reactions, found.facts.photos, found.rising)
    return unordered.only(order.tolist())


async def _admitted(
    seen: ViewerState, viewer: int, proposed: Mapping[int, Proposal]
) -> tuple[list[Row], frozenset[int]]:
    """Return the posts that the viewer may see and no rule excludes, and the ids of posts that the viewer acted on.

    Interests are cached for a minute, but a post that the viewer has just liked must drop in rank immediately.
    """
    rows, apart = await asyncio.gather(seen.look(list(proposed)), lists.set_apart(seen.graph, viewer))
    members, relationships = seen.members, seen.relationships
    rows = [
        row
        for row in rows
        if excluding_rule(viewer, row[1], members[row[1].author_id], relationships[row[1].author_id], apart) is None
    ]
    found, own = await asyncio.gather(
        seen.graph.assoc_get(viewer, (REPORTS_POST, *_ACTS), [row[0] for row in rows]),
        seen.graph.assoc_range(viewer, POSTED, Cursor(limit=_OWN_POSTS)),
    )
    written = (await seen.graph.obj_get([row.id2 for row in own])).values() if own else ()
    acted = {id_ for act in _ACTS for id_ in found[act]} | {
        post.parent_id for post in written if isinstance(post, Post)
    }
    return [row for row in rows if row[0] not in found[REPORTS_POST]], frozenset(acted)
