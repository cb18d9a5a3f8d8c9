"""Posts that trend: many different members react to them at this moment, and their authors want to be found.

Posts are looked for among the most recently active ones of the whole network, however old they are. Each is scored by the
weight of its reactions (`feeds/reactions.py`), and trends if enough different members reacted within three days. Where
few trend, those that many like among the newest posts come behind them.

Only posts that everybody may see are considered, and they are the same for every viewer; then each viewer is shown
those that they may see.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from shoal.core.model import Member, Post
from shoal.core.visibility import STRANGER, is_sensitive, may_list, may_list_publicly
from shoal.discovery.contract import Ask
from shoal.feeds.hydrate import Entry, hydrate
from shoal.feeds.reactions import reactions_to
from shoal.feeds.reads import Popular, Reads, Trending
from shoal.graph.access import members_by_id
from shoal.graph.cache.dependencies import compared
from shoal.graph.contract import Cursor
from shoal.graph.payloads.posts import oldest_active
from shoal.graph.schema import ACTIVE, LIKED_BY, PUBLIC_LISTS, SHARED_BY

_ACTIVE = 2_000
"""Active posts that are considered, the most recently active ones."""
_OF_LIST = 500
"""Active posts that are read of each data source."""
_MOST = 200
"""Posts that can trend at the same time."""
_ENOUGH = 20
"""Where fewer posts trend, others come behind them."""
_NEWEST = 1_000
"""Posts of which these others are."""
_HALF_MS = 86_400_000
"""Time in which the weight of a like halves among these others, by the age of the post.

Scores are logarithms, or old posts would all have 0.
"""
_LEAST = 2
"""Different members without whom nothing trends: one alone is no trend."""


async def page(reads: Reads, viewer: int | None, limit: int, offset: int = 0) -> list[Entry]:
    """Return part of the trending posts that the viewer may see: at most seven reads, and thirteen more once a minute."""
    found = await hydrate(reads.graph, viewer, await compared(partial(_part, reads, limit, offset)))
    # Some that were taken out a moment ago are still among those remembered.
    return [entry for entry in found if not entry.post.untrendable and _is_listed(entry)]


async def _part(reads: Reads, limit: int, offset: int) -> list[int]:
    return (await ids(reads))[offset : offset + limit]


async def ids(reads: Reads, *, outdated: bool = False) -> list[int]:
    """Return the trending posts, the first first, before a check who may see them; thirteen reads once a minute.

    With `outdated`, the answer may be ten minutes old, so that nobody waits for another.
    """
    return [popular.id for popular in (await _remembered(reads, outdated=outdated)).posts if not popular.untrendable]


async def weights(reads: Reads, *, outdated: bool = False) -> Mapping[int, float]:
    """Return the weight of the reactions of late to each post that may trend (`feeds/reactions.py`); as `ids` does."""
    return (await _remembered(reads, outdated=outdated)).weights


def _is_listed(entry: Entry) -> bool:
    return may_list_publicly(None, entry.post, entry.author.member, STRANGER)


async def judged(reads: Reads, limit: int, offset: int = 0) -> list[Entry]:
    """Return trending posts for moderators: as everybody sees them, and including those that are kept from trends, in
    the places that they would have.
    """
    found = [popular.id for popular in (await _remembered(reads)).posts]
    return await hydrate(reads.graph, None, found[offset : offset + limit])


def threshold(active: int) -> int:
    """Return how many different members must react for a post to trend, where so many react to anything at all.

    One more for four times as many: max(2, log4(active)), rounded down. That is 2 for up to 63 members, 3 from 64, 4 from 256,
    and from 1,024 on the 5 that Mastodon asks for in a network of any size (`Trends::Statuses`, `threshold: 5`).
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
    """Return the posts that trend. Nine reads."""
    shown = await _for_everybody(reads, await _active(reads, now))
    found = await reactions_to(reads.graph, shown, now)
    least, members, stirred = threshold(found.active()), found.members_of(), found.weights(now)
    posts = _best(shown, {id_: weight for id_, weight in stirred.items() if members[id_] >= least})
    return Trending(posts, stirred)


async def _active(reads: Reads, now: int) -> list[int]:
    """Return the most recently active posts."""
    part = Cursor(after=oldest_active(now), limit=_OF_LIST)
    lists = await reads.graph.assoc_ranges(PUBLIC_LISTS, ACTIVE, part)
    found = sorted(((entry.time, entry.id2) for page in lists.values() for entry in page), reverse=True)
    return [id_ for _, id_ in found[:_ACTIVE]]


async def _liked(reads: Reads, now: int, others: Collection[int]) -> list[Popular]:
    """Return posts that many like and share for their age, besides those others. Four reads."""
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
    kept_out = {post.id for post in posts if post.untrendable}
    best = sorted(scores, key=lambda id_: (-scores[id_], -id_))[: _MOST + len(kept_out)]
    return [Popular(id_, untrendable=id_ in kept_out) for id_ in best]


async def _for_everybody(reads: Reads, ids: Sequence[int]) -> list[Post]:
    """Return those of these posts that may trend. Two reads."""
    nodes = await reads.graph.obj_get(ids)
    posts = [post for id_ in ids if isinstance(post := nodes.get(id_), Post)]
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
