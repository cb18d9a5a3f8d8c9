"""Trending posts, trending tags, and the tag cloud of a member.

Candidate posts are the most recently active posts on the server, whatever their age. A post trends if enough different members
reacted to it within three days, and if its author wants to be found; its score is the weight of the reactions. If few posts
trend, the most liked of the newest posts follow them. Only public posts are considered. The ranking does not depend on the viewer;
each viewer is shown the posts they may see.

Each member counts once for a post, by their newest like, share, emoji, comment or declared reaction with a weight. A reaction
weighs 2^-(age / half-life): 1 now, 1/2 after six hours, 1/16 after a day. For example, a post that Ann liked and shared just now
and Ben liked six hours ago weighs 1.5. This is exponential decay as in Cormode et al., "Forward decay" (ICDE 2009), measured from
the time of the query.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import asdict

from shoal.core.ids import EPOCH_MS, floor_at
from shoal.core.model import Member, Post
from shoal.core.visibility import STRANGER, is_sensitive, may_list, may_list_publicly
from shoal.graph.access import declared_reactions, members_by_id, objects_of, relations
from shoal.graph.cache.dependencies import compared
from shoal.graph.contract import Assoc, Cursor, Reader
from shoal.graph.payloads.posts import chosen_of, oldest_active, thread_position
from shoal.graph.schema import (
    ACTIVE,
    COMMENTED_BY,
    FOLLOWS_TAG,
    LIKED_BY,
    LIKES,
    POSTED,
    PUBLIC_LISTS,
    REACTED_BY,
    SHARED_BY,
    THREAD,
)
from shoal.queries.context import Popular, Reads, Trending
from shoal.queries.hydration import Entry, hydrate
from shoal.queries.tags import related_to_each
from shoal.search.contract import Ask
from shoal.tagcloud.cloud import MAX_WORDS, Counted, DailyUses, Shown, Word, check_words, levels, uses_of

HALF_LIFE_MS = 6 * 3_600_000
"""Time in which the weight of a reaction halves, in milliseconds."""
NEWEST = 100
"""Maximum number of reactions of each kind that are read for a post, newest first. A post with more gets too low a weight."""

_HALF_LIFE = float(floor_at(EPOCH_MS + HALF_LIFE_MS))

Column = npt.NDArray[np.int64]
Row = tuple[int, int, int]
"""The ids of a post and a member, and the time of a reaction as an id."""


class Reactions(NamedTuple):
    """Reactions as columns of equal length: a post, a member (once per post), and the time of the last reaction as a snowflake."""

    posts: Column
    members: Column
    times: Column

    def only(self, chosen: npt.NDArray[np.bool_ | np.int64]) -> Reactions:
        return Reactions(self.posts[chosen], self.members[chosen], self.times[chosen])

    def active(self) -> int:
        return len(np.unique(self.members))

    def members_of(self) -> dict[int, int]:
        ids, counts = np.unique(self.posts, return_counts=True)
        return dict(zip(ids.tolist(), counts.tolist(), strict=True))

    def weights(self, now: int) -> dict[int, float]:
        """Return the total weight of the reactions to each post at a time (Unix ms). A reaction dated in the future weighs 1."""
        ids, at = np.unique(self.posts, return_inverse=True)
        ages = np.maximum(floor_at(now) - self.times, 0) / _HALF_LIFE
        return dict(zip(ids.tolist(), np.bincount(at, np.exp2(-ages)).tolist(), strict=True))


_NOTHING = Reactions(*(np.empty(0, np.int64) for _ in range(3)))


async def reactions_to(graph: Reader, posts: Collection[Post], now: int) -> Reactions:
    """Return the reactions to these posts within the last three days. Seven reads.

    Authors' reactions to their own posts, reactions of suspended or silenced members, and declared reactions without a weight do
    not count. Comments count only if everyone may find them.
    """
    if not posts:
        return _NOTHING
    ids = [post.id for post in posts]
    part = Cursor(after=oldest_active(now), limit=NEWEST)
    liked, shared, reacted, comments, threads, declared = await asyncio.gather(
        graph.assoc_ranges(ids, LIKED_BY, part),
        graph.assoc_ranges(ids, SHARED_BY, part),
        graph.assoc_ranges(ids, REACTED_BY, part),
        graph.assoc_ranges(ids, COMMENTED_BY, part),
        graph.assoc_ranges([post.root_id or post.id for post in posts], THREAD, part),
        declared_reactions(graph),
    )
    if declared.reactions:
        reacted = {
            id_: [entry for entry in page if declared.favor(position.emoji for position in chosen_of(entry))]
            for id_, page in reacted.items()
        }
    lists = (liked, shared, reacted)
    acts = ((id_, entry.id2, entry.time) for pages in lists for id_, page in pages.items() for entry in page)
    rows = chain.from_iterable(chain(acts, _comments(comments, threads.values())))
    found = _newest(Reactions(*np.fromiter(rows, np.int64).reshape(-1, 3).T))
    found = found.only(_by_others(found, posts))
    members = await members_by_id(graph, np.unique(found.members).tolist())
    counted = [id_ for id_, member in members.items() if not (member.suspended or member.silenced)]
    return found.only(np.isin(found.members, counted))


def _comments(comments: Mapping[int, Sequence[Assoc]], threads: Iterable[Sequence[Assoc]]) -> Iterable[Row]:
    """Yield the post, author and time of each comment that everyone may find.

    `comments` lists these comments by post. The lists of the threads (`threads`) add the authors, so no comment has to be read.
    """
    found = {entry.id2 for page in comments.values() for entry in page}
    for page in threads:
        for entry in page:
            if entry.id2 in found:
                placement = thread_position(entry)
                yield placement.parent_id, placement.author_id, entry.time


def _newest(found: Reactions) -> Reactions:
    """Return the newest reaction of each member to each post."""
    order = np.lexsort((-found.times, found.members, found.posts))
    posts, members = found.posts[order], found.members[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (posts[1:] != posts[:-1]) | (members[1:] != members[:-1])
    return found.only(order[first])


def _by_others(found: Reactions, posts: Collection[Post]) -> npt.NDArray[np.bool_]:
    authors = {post.id: post.author_id for post in posts}
    by: Column = np.fromiter((authors[id_] for id_ in found.posts.tolist()), np.int64, len(found.posts))
    others: npt.NDArray[np.bool_] = found.members != by
    return others


_ACTIVE = 2_000
_OF_LIST = 500
"""Maximum number of active posts read per data source."""
_MOST = 200
"""Maximum of trending posts."""
_ENOUGH = 20
"""Number of trending posts below which liked posts are appended."""
_NEWEST = 1_000
"""Newest posts from which the appended ones are selected."""
_HALF_MS = 86_400_000
"""Age difference, in milliseconds, that halves the value of a like of an appended post.

Scores are logarithms, because plain scores of old posts would underflow to 0.
"""
_LEAST = 2
"""Minimum number of distinct members who must react for a post to trend."""


async def page(reads: Reads, viewer: int | None, limit: int, offset: int = 0) -> list[Entry]:
    """Return a range of the trending posts that the viewer may see: at most seven reads, and thirteen more once a minute."""
    found = await hydrate(reads.graph, viewer, await compared(partial(_part, reads, limit, offset)))
    # The cached list may contain posts that were excluded a moment ago.
    return [
        entry
        for entry in found
        if not entry.post.untrendable and may_list_publicly(None, entry.post, entry.author.member, STRANGER)
    ]


async def _part(reads: Reads, limit: int, offset: int) -> list[int]:
    return (await ids(reads))[offset : offset + limit]


async def ids(reads: Reads, *, outdated: bool = False) -> list[int]:
    """Return the trending posts in order, before visibility checks; thirteen reads once a minute.

    With `outdated`, the result may be ten minutes old, which avoids waiting.
    """
    return [popular.id for popular in (await _remembered(reads, outdated=outdated)).posts if not popular.untrendable]


async def weights(reads: Reads, *, outdated: bool = False) -> Mapping[int, float]:
    """Return the weight of the recent reactions to each candidate for the trending posts, cached like `ids`."""
    return (await _remembered(reads, outdated=outdated)).weights


async def reviewed(reads: Reads, limit: int, offset: int = 0) -> list[Entry]:
    """Return the trending posts for moderators, including posts that moderators excluded, in the order of their scores."""
    found = [popular.id for popular in (await _remembered(reads)).posts]
    return await hydrate(reads.graph, None, found[offset : offset + limit])


def threshold(active: int) -> int:
    """Return how many members must react to a post before it can trend, given the number of active members.

    The threshold is max(2, log4(active)), rounded down: 2 for up to 63 members, 3 from 64, 4 from 256, and from 1,024 on the 5 that
    Mastodon requires on a server of any size (`Trends::Statuses`, `threshold: 5`).
    """
    return max(_LEAST, (active.bit_length() - 1) // 2)


async def _remembered(reads: Reads, *, outdated: bool = False) -> Trending:
    now = reads.tags.clock()
    return await reads.trending.get(now, lambda: _found(reads, now), outdated=outdated)


async def _found(reads: Reads, now: int) -> Trending:
    found = await _trending(reads, now)
    if sum(not popular.untrendable for popular in found.posts) < _ENOUGH:
        found.posts.extend(await _liked(reads, now, {popular.id for popular in found.posts}))
    return found


async def _trending(reads: Reads, now: int) -> Trending:
    shown = await _for_everybody(reads, await _active(reads, now))
    found = await reactions_to(reads.graph, shown, now)
    least, members, stirred = threshold(found.active()), found.members_of(), found.weights(now)
    posts = _best(shown, {id_: weight for id_, weight in stirred.items() if members[id_] >= least})
    return Trending(posts, stirred)


async def _active(reads: Reads, now: int) -> list[int]:
    part = Cursor(after=oldest_active(now), limit=_OF_LIST)
    lists = await reads.graph.assoc_ranges(PUBLIC_LISTS, ACTIVE, part)
    found = sorted(((entry.time, entry.id2) for page in lists.values() for entry in page), reverse=True)
    return [id_ for _, id_ in found[:_ACTIVE]]


async def _liked(reads: Reads, now: int, others: Collection[int]) -> list[Popular]:
    """Return the posts with the most likes and shares for their age, of the newest posts except `others`. Four reads."""
    newest = await reads.search.posts(Ask(), _NEWEST)
    shown = await _for_everybody(reads, [id_ for id_ in newest if id_ not in others])
    counts = await reads.graph.assoc_count([post.id for post in shown], (LIKED_BY, SHARED_BY))
    scores = {
        post.id: math.log2(liked) - max(0, now - post.created_at) / _HALF_MS
        for post in shown
        if (liked := counts[LIKED_BY].get(post.id, 0) + counts[SHARED_BY].get(post.id, 0))
    }
    return _best(shown, scores)


def _best(posts: Sequence[Post], scores: Mapping[int, float]) -> list[Popular]:
    excluded = {post.id for post in posts if post.untrendable}
    best = sorted(scores, key=lambda id_: (-scores[id_], -id_))[: _MOST + len(excluded)]
    return [Popular(id_, untrendable=id_ in excluded) for id_ in best]


async def _for_everybody(reads: Reads, ids: Sequence[int]) -> list[Post]:
    """Return the posts with these ids that are allowed to trend. Two reads."""
    posts = await objects_of(reads.graph, Post, ids)
    authors = await members_by_id(reads.graph, list({post.author_id for post in posts}))
    return [post for post in posts if _is_for_everybody(post, authors)]


def _is_for_everybody(post: Post, authors: Mapping[int, Member]) -> bool:
    author = authors.get(post.author_id)
    return (
        author is not None
        and author.discoverable
        and not is_sensitive(post, author)
        and not post.parent_id
        and may_list(None, post, author, STRANGER)
        and may_list_publicly(None, post, author, STRANGER)
    )


FOR_YOU = "for_you"
_FALLBACKS = ("rising", "day", "week", "all")
_FOLLOWED = 200
_RECENT = 40
_SEEDS = 5
"""Number of a member's strongest tags whose related tags are read, each from `_SEED_POSTS` posts."""
_SEED_POSTS = 80
_POPULAR = 40


class _Interest(NamedTuple):
    """The strength of a member's interest in a tag, 0 to 2, and the displayed reason."""

    strength: float
    why: str
    verb: str = ""
    """What the member does with the tag: follow, use or like."""


async def trending(reads: Reads, limit: int, offset: int = 0) -> list[Word]:
    """Return the rising tags, followed by the top tags of the day, the week and all time. Each tag occurs once."""
    found: dict[str, Word] = {}
    for order in _FALLBACKS:
        if len(found) < offset + limit:
            for word in (await reads.tags.cloud(order)).words:
                found.setdefault(word.name, word)
    return list(found.values())[offset : offset + limit]


async def rising(reads: Reads, limit: int, offset: int = 0) -> list[DailyUses]:
    """Return the tags that `trending` returns, each with its uses per day."""

    async def ask() -> list[DailyUses]:
        return [uses_of(word) for word in await trending(reads, limit, offset)]

    return await compared(ask)


async def for_you(reads: Reads, viewer: int, limit: int = MAX_WORDS) -> Shown:
    """Return a cloud of the tags that a member follows, uses and likes, of related tags, and of popular ones.

    At most nine graph reads, one read of the cloud's store, and two for related tags.
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
    """Return those of the liked posts that the viewer may still see, without posts by muted authors."""
    ids = {post.author_id for post in posts}
    authors, relationships = await asyncio.gather(
        members_by_id(reads.graph, list(ids)), relations(reads.graph, viewer, ids)
    )
    return [
        post for post in posts if may_list(viewer, post, authors.get(post.author_id), relationships[post.author_id])
    ]


async def _alike(reads: Reads, own: Mapping[str, _Interest]) -> dict[str, _Interest]:
    """Return the tags related to the member's strongest interests; three reads."""
    seeds = sorted(own, key=lambda name: (-own[name].strength, name))[:_SEEDS]
    found: dict[str, _Interest] = {}
    for seed, tags in (await related_to_each(reads, seeds, _SEED_POSTS)).items():
        strength, why = own[seed].strength, f"like #{seed}, which you {own[seed].verb}"
        found = _stronger(found, {tag.name: _Interest(0.8 * strength * tag.likeness, why) for tag in tags})
    return found


def _tags(posts: Sequence[Post]) -> Counter[str]:
    return Counter(tag for post in posts for tag in post.tags)


def _stronger(one: Mapping[str, _Interest], other: Mapping[str, _Interest]) -> dict[str, _Interest]:
    """Merge two sets of interests: the strengths for a tag add up, and the stronger interest determines the reason."""
    both = {**one, **other}
    for name in one.keys() & other.keys():
        first = max(one[name], other[name], key=lambda interest: interest.strength)
        both[name] = first._replace(strength=one[name].strength + other[name].strength)
    return both


def _liveliness(tag: Counted) -> float:
    return 1.0 + math.log2(1.0 + tag.reasons.warmth["week"])


def _once(weighed: Sequence[tuple[float, Counted, str]]) -> list[tuple[float, Counted, str]]:
    """Return the tags without repetition: the first of the entries of each tag. A merged tag has several entries."""
    first: dict[str, tuple[float, Counted, str]] = {}
    for found in weighed:
        first.setdefault(found[1].name, found)
    return list(first.values())


def _as_shown(base: Shown, weighed: Sequence[tuple[float, Counted, str]]) -> Shown:
    sizes = levels([weight for weight, _, _ in weighed])
    words = [
        Word(**asdict(tag), weight=weight, level=level, why=why)
        for (weight, tag, why), level in zip(weighed, sizes, strict=True)
    ]
    return Shown(order=FOR_YOU, version=base.version, at=base.at, complete_to=base.complete_to, words=words)
