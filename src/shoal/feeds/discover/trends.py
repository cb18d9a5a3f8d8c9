"""Trending tags, and the tag cloud made for one member."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shoal.core.model import Post
from shoal.core.visibility import may_list
from shoal.feeds.discover.related import related_to_each
from shoal.feeds.reads import Reads
from shoal.graph.access import members_by_id, relations
from shoal.graph.cache.dependencies import compared
from shoal.graph.contract import Cursor
from shoal.graph.schema import FOLLOWS_TAG, LIKES, POSTED
from shoal.tagcloud.cloud import MAX_WORDS, Counted, DailyUses, Shown, Word, check_words, levels, uses_of

FOR_YOU = "for_you"
_FALLBACKS = ("rising", "day", "week", "all")
_FOLLOWED = 200
_RECENT = 40
"""Own posts, and likes, that are considered."""
_SEEDS = 5
"""How many of a member's own tags bring related ones, each from as many posts as `_SEED_POSTS`."""
_SEED_POSTS = 80
_POPULAR = 40


class _Interest(NamedTuple):
    """The strength of a member's interest in a tag, 0 to 2, and the reason that is shown."""

    strength: float
    why: str
    verb: str = ""
    """The member's relationship to it: follow, use, like."""


async def trending(reads: Reads, limit: int, offset: int = 0) -> list[Word]:
    """Return tags on the rise; where too few, then those of the day, of the week and of all time; each once."""
    found: dict[str, Word] = {}
    for order in _FALLBACKS:
        if len(found) < offset + limit:
            for word in (await reads.tags.cloud(order)).words:
                found.setdefault(word.name, word)
    return list(found.values())[offset : offset + limit]


async def rising(reads: Reads, limit: int, offset: int = 0) -> list[DailyUses]:
    """As `trending`, without the reasons."""

    async def ask() -> list[DailyUses]:
        return [uses_of(word) for word in await trending(reads, limit, offset)]

    return await compared(ask)


async def for_you(reads: Reads, viewer: int, limit: int = MAX_WORDS) -> Shown:
    """Make the cloud of the tags that a member follows, uses and likes, of related ones, and of those that many use.

    At most nine reads of the graph, and one of the cloud's store besides two for related tags.
    """
    check_words(limit)
    own = await _own(reads, viewer)
    alike = await _alike(reads, own)
    base = await reads.tags.cloud("week")
    everyone = base if len(base.words) >= limit else await reads.tags.cloud("all")
    interests = {
        word.name: _Interest(0.05, "many use it") for word in (*base.words[:_POPULAR], *everyone.words[:_POPULAR])
    }
    interests |= _stronger(alike, own)
    counted = await reads.tags.counted(interests)
    weighed = sorted(
        ((interests[name].strength * _liveliness(tag), tag, interests[name].why) for name, tag in counted.items()),
        key=lambda found: (-found[0], found[1].name),
    )
    return _as_shown(base, _once(weighed)[:limit])


async def _own(reads: Reads, viewer: int) -> dict[str, _Interest]:
    """Return the tags that the member follows, uses and likes; six reads."""
    graph = reads.graph
    followed, posted, liked = await asyncio.gather(
        graph.assoc_range(viewer, FOLLOWS_TAG, Cursor(limit=_FOLLOWED)),
        graph.assoc_range(viewer, POSTED, Cursor(limit=_RECENT)),
        graph.assoc_range(viewer, LIKES, Cursor(limit=_RECENT)),
    )
    nodes = await graph.obj_get([row.id2 for row in (*posted, *liked)])
    posts = [post for row in posted if isinstance(post := nodes.get(row.id2), Post)]
    likes = await _still_seen(reads, viewer, [post for row in liked if isinstance(post := nodes.get(row.id2), Post)])
    found: dict[str, _Interest] = {}
    for interest in (
        {tag: _Interest(0.7 * n / (n + 2), f"you like posts with #{tag}", "like") for tag, n in _tags(likes).items()},
        {tag: _Interest(n / (n + 2), f"you use #{tag}", "use") for tag, n in _tags(posts).items()},
        {row.data.decode(): _Interest(1.0, f"you follow #{row.data.decode()}", "follow") for row in followed},
    ):
        found = _stronger(found, interest)
    shown = await reads.tags.shown_as(found)
    return {name: interest for name, interest in found.items() if name in shown}


async def _still_seen(reads: Reads, viewer: int, posts: Sequence[Post]) -> list[Post]:
    """Return the liked posts that the viewer may still be shown, by authors who are not muted."""
    ids = {post.author_id for post in posts}
    authors, stands = await asyncio.gather(members_by_id(reads.graph, list(ids)), relations(reads.graph, viewer, ids))
    return [post for post in posts if may_list(viewer, post, authors.get(post.author_id), stands[post.author_id])]


async def _alike(reads: Reads, own: Mapping[str, _Interest]) -> dict[str, _Interest]:
    """Return the tags related to those that interest the member most; three reads."""
    seeds = sorted(own, key=lambda name: (-own[name].strength, name))[:_SEEDS]
    found: dict[str, _Interest] = {}
    for seed, tags in (await related_to_each(reads, seeds, _SEED_POSTS)).items():
        strength, why = own[seed].strength, f"like #{seed}, which you {own[seed].verb}"
        found = _stronger(found, {tag.name: _Interest(0.8 * strength * tag.likeness, why) for tag in tags})
    return found


def _tags(posts: Sequence[Post]) -> Counter[str]:
    return Counter(tag for post in posts for tag in post.tags)


def _stronger(one: Mapping[str, _Interest], other: Mapping[str, _Interest]) -> dict[str, _Interest]:
    """Unite the interests: strengths add up, and the reason is that of the stronger."""
    both = {**one, **other}
    for name in one.keys() & other.keys():
        first = max(one[name], other[name], key=lambda interest: interest.strength)
        both[name] = first._replace(strength=one[name].strength + other[name].strength)
    return both


def _liveliness(tag: Counted) -> float:
    """Return a weight from 1 on: of two tags that interest the member equally, the one that others use more of late
    comes first.
    """
    return 1.0 + math.log2(1.0 + tag.reasons.warmth["week"])


def _once(weighed: Sequence[tuple[float, Counted, str]]) -> list[tuple[float, Counted, str]]:
    """Keep one entry for tags that are merged: the one that weighs most."""
    first: dict[str, tuple[float, Counted, str]] = {}
    for found in weighed:
        first.setdefault(found[1].name, found)
    return list(first.values())


def _as_shown(base: Shown, weighed: Sequence[tuple[float, Counted, str]]) -> Shown:
    sizes = levels([weight for weight, _, _ in weighed])
    words = [
        Word(
            name=tag.name,
            form=tag.form,
            uses=tag.uses,
            days=tag.days,
            reasons=tag.reasons,
            merged=tag.merged,
            weight=weight,
            level=level,
            why=why,
        )
        for (weight, tag, why), level in zip(weighed, sizes, strict=True)
    ]
    return Shown(order=FOR_YOU, version=base.version, at=base.at, complete_to=base.complete_to, words=words)
