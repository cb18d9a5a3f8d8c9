"""The scores of the posts of a ranked feed: terms of an expression as columns, or terms of a recipe."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.core.errors import Unauthenticated
from shoal.core.feeds.declarations import ByRecipe, FeedDeclaration
from shoal.core.feeds.expressions import (
    ABOUT_AUTHORS,
    COUNTED,
    PERSONAL,
    REACTION,
    SEEN,
    Columns,
    Expression,
    Value,
    contributions,
    scores,
)
from shoal.core.model import Post
from shoal.core.ranking import terms as recipe_terms
from shoal.core.ranking.preferences import Interests, times_seen
from shoal.core.ranking.recipes import TERM_NAMES
from shoal.core.visibility import is_sensitive
from shoal.graph.payloads.members import personalization_of
from shoal.graph.schema import COMMENTED_BY, LIKED_BY, SHARED_BY
from shoal.queries import trends
from shoal.queries.context import Reads
from shoal.queries.foryou.interests import interests_of, wished
from shoal.queries.foryou.scoring import by_score, content_facts, scoring_input
from shoal.queries.foryou.sources import Proposal
from shoal.queries.hydration import ViewerState, named_counts, profiles
from shoal.queries.named_feeds.sources import Belonging, OpenSource

_HOUR_MS = 3_600_000


class Ranked(NamedTuple):
    """The posts of a feed, best first."""

    found: list[Belonging]
    names: tuple[str, ...]
    contributions: npt.NDArray[np.float64]
    """One row per post, rounded to 32 bits."""


async def ranked(
    reads: Reads,
    viewer: int | None,
    declared: FeedDeclaration,
    values: Mapping[str, Value],
    seen: ViewerState,
    found: list[Belonging],
    sources: Sequence[OpenSource],
) -> Ranked:
    """Rank posts by the order of a feed. Posts with equal scores are in the order of time, newest first."""
    expression = declared.expression()
    if expression is not None:
        columns = await _columns(reads, viewer, expression, seen, [each.row[1] for each in found])
        names = tuple(summand.text for summand in expression.summands)
        return _best_first(found, names, contributions(expression, columns, values, len(found)))
    return await _by_recipe(reads, viewer, declared.order, found, sources)


def _best_first(found: list[Belonging], names: tuple[str, ...], contributed: npt.NDArray[np.float64]) -> Ranked:
    ids = np.array([each.row[0] for each in found], np.int64)
    order = recipe_terms.best_first(scores(contributed), ids)
    return Ranked([found[at] for at in order.tolist()], names, contributed[order])


async def _by_recipe(
    reads: Reads, viewer: int | None, order: Any, found: list[Belonging], sources: Sequence[OpenSource]
) -> Ranked:
    if viewer is None or not isinstance(order, ByRecipe):
        raise Unauthenticated("a feed that is ranked by a recipe needs a member: log in")
    personalization, interests = await asyncio.gather(
        personalization_of(reads.graph, viewer), interests_of(reads, viewer)
    )
    interests = await wished(reads, interests, personalization.feedback)
    proposed = {each.row[0]: Proposal(_flags(each.sources, sources), 0) for each in found}
    given = await scoring_input(reads, viewer, personalization, interests, proposed)
    best = by_score(given, order.recipe)
    contributed = recipe_terms.contributions(best.values, order.recipe).astype(np.float32).astype(np.float64)
    by_id = {each.row[0]: each for each in found}
    return _best_first([by_id[post.id] for post in best.posts], TERM_NAMES, contributed)


def _flags(mask: int, sources: Sequence[OpenSource]) -> int:
    flags = 0
    for at, source in enumerate(sources):
        if mask >> at & 1:
            flags |= source.flag
    return flags


async def _columns(
    reads: Reads, viewer: int | None, expression: Expression, seen: ViewerState, posts: Sequence[Post]
) -> Columns:
    """Return the columns of the terms that the expression uses. Terms that need no reads come with all posts."""
    used, authors = expression.terms, list({post.author_id for post in posts})
    ids = [post.id for post in posts]
    counts, reacted, about, recent, interests, memory = await asyncio.gather(
        _counts(reads, ids) if used & COUNTED else _nothing(),
        named_counts(reads.graph, ids) if expression.reactions else _nothing(),
        _about(seen, authors) if used & ABOUT_AUTHORS else _nothing(),
        trends.weights(reads, outdated=True) if "recent" in used else _nothing(),
        _interests(reads, viewer) if used & PERSONAL else _no_interests(),
        _memory(reads, viewer) if used & SEEN else _no_memory(),
    )
    now = reads.tags.clock()
    content = [content_facts(post, seen.media(post)) for post in posts] if used & {"described", "words"} else []
    columns: dict[str, Any] = {
        "age_hours": _numbers((now - post.created_at) / _HOUR_MS for post in posts),
        "media_count": _numbers(len(post.media) for post in posts),
        "described": _numbers(each.described for each in content),
        "words": _numbers(each.words for each in content),
        "tag_count": _numbers(len(post.tags) for post in posts),
        "seen": times_seen(memory, ids),
        "recent": _numbers(recent.get(id_, 0.0) for id_ in ids),
        "follows_author": np.array([seen.relationships[post.author_id].following for post in posts], np.bool_),
        "own": np.array([post.author_id == seen.viewer for post in posts], np.bool_),
        "reply": np.array([bool(post.parent_id) for post in posts], np.bool_),
        "sensitive": np.array([is_sensitive(post, seen.members[post.author_id]) for post in posts], np.bool_),
        "author": np.array([seen.members[post.author_id].name for post in posts], np.str_),
        "language": np.array([post.language for post in posts], np.str_),
        "tags": [post.tags for post in posts],
    }
    for name, atype in (("likes", LIKED_BY), ("shares", SHARED_BY), ("comments", COMMENTED_BY)):
        columns[name] = _numbers(counts.get(atype, {}).get(id_, 0) for id_ in ids)
    for name in expression.reactions:
        columns[REACTION + name] = _numbers(reacted.get(id_, {}).get(name, 0) for id_ in ids)
    for name in ABOUT_AUTHORS:
        columns[name] = _numbers(about[name][post.author_id] if about else 0 for post in posts)
    if interests is not None:
        columns["author_interest"] = _numbers(interests.authors.get(post.author_id, 0.0) for post in posts)
        columns["tag_interest"] = _numbers(
            max(-1.0, min(1.0, sum(interests.tags.get(tag, 0.0) for tag in post.tags))) for post in posts
        )
    else:
        columns["author_interest"] = columns["tag_interest"] = np.zeros(len(posts))
    return columns


def _numbers(values: Any) -> npt.NDArray[np.float64]:
    return np.fromiter(values, np.float64)


async def _nothing() -> Mapping[Any, Any]:
    return {}


async def _no_interests() -> Interests | None:
    return None


async def _no_memory() -> bytes:
    return b""


async def _memory(reads: Reads, viewer: int | None) -> bytes:
    seen = (await personalization_of(reads.graph, viewer)).seen if viewer is not None else None
    return seen.memory if seen is not None else b""


async def _counts(reads: Reads, ids: Sequence[int]) -> Mapping[Any, Mapping[int, int]]:
    return await reads.graph.assoc_count(ids, (LIKED_BY, SHARED_BY, COMMENTED_BY))


async def _about(seen: ViewerState, authors: Sequence[int]) -> Mapping[Any, Mapping[int, int]]:
    members = {id_: seen.members[id_] for id_ in authors}
    found = await profiles(seen.graph, members, seen.viewer, seen.relationships)
    return {
        "author_followers": {id_: each.followers for id_, each in found.items()},
        "author_posts": {id_: each.posts for id_, each in found.items()},
    }


async def _interests(reads: Reads, viewer: int | None) -> Interests | None:
    if viewer is None:
        return None
    feedback = (await personalization_of(reads.graph, viewer)).feedback
    return await wished(reads, await interests_of(reads, viewer), feedback)
