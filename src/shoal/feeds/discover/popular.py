"""Posts that many like and share these days, by authors who want to be found.

Only posts that everybody may see are considered, and they are the same for every viewer; then each viewer is shown
those that they may see.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from shoal.core.model import Member, Post
from shoal.core.visibility import STRANGER, is_sensitive, may_list, may_list_publicly
from shoal.discovery.contract import Ask
from shoal.feeds.hydrate import Entry, hydrate
from shoal.feeds.reads import Popular, Reads
from shoal.graph.access import members_by_id
from shoal.graph.schema import LIKED_BY, SHARED_BY

_NEWEST = 1_000
"""Posts that are considered."""
_MOST = 200
"""Posts that can trend at the same time."""
_HALF_MS = 86_400_000
"""Time in which the weight of a like halves, by the age of the post.

Scores are logarithms, or old posts would all have 0.
"""


async def page(reads: Reads, viewer: int | None, limit: int, offset: int = 0) -> list[Entry]:
    """Return part of the trending posts that the viewer may see: at most seven reads, and three more once a minute."""
    ids = [popular.id for popular in await _remembered(reads) if not popular.untrendable]
    found = await hydrate(reads.graph, viewer, ids[offset : offset + limit])
    # Some that were taken out a moment ago are still among those remembered.
    return [entry for entry in found if not entry.post.untrendable and _is_listed(entry)]


def _is_listed(entry: Entry) -> bool:
    return may_list_publicly(None, entry.post, entry.author.member, STRANGER)


async def judged(reads: Reads, limit: int, offset: int = 0) -> list[Entry]:
    """Return trending posts for moderators: as everybody sees them, and including those that are kept from trends, in
    the places that they would have.
    """
    ids = [popular.id for popular in await _remembered(reads)]
    return await hydrate(reads.graph, None, ids[offset : offset + limit])


async def _remembered(reads: Reads) -> list[Popular]:
    now = reads.tags.clock()
    found = reads.trending.get(None, now)
    if found is None:
        found = await _trending(reads, now)
        reads.trending.put(None, found, now)
    return found


async def _trending(reads: Reads, now: int) -> list[Popular]:
    newest = await reads.search.posts(Ask(), _NEWEST)
    nodes = await reads.graph.obj_get(newest)
    posts = [post for id_ in newest if isinstance(post := nodes.get(id_), Post)]
    authors = await members_by_id(reads.graph, list({post.author_id for post in posts}))
    shown = [post for post in posts if _is_for_everybody(post, authors)]
    counts = await reads.graph.assoc_count([post.id for post in shown], (LIKED_BY, SHARED_BY))
    scores = {
        post.id: math.log2(liked) - max(0, now - post.created_at) / _HALF_MS
        for post in shown
        if (liked := counts[LIKED_BY].get(post.id, 0) + counts[SHARED_BY].get(post.id, 0))
    }
    kept_out = {post.id for post in shown if post.untrendable}
    best = sorted(scores, key=lambda id_: (-scores[id_], -id_))[: _MOST + len(kept_out)]
    return [Popular(id_, untrendable=id_ in kept_out) for id_ in best]


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
