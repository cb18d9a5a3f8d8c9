"""The newest photos of several members at once: what somebody posts, at a glance, before one follows them."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.filters import FilterContext
from shoal.feeds.discover.tag_offers import has_media, is_presentable
from shoal.feeds.filtering import sieve_of
from shoal.feeds.hydrate import Entry, Row, sight
from shoal.feeds.reads import Reads
from shoal.graph.cache.coherence import one_request
from shoal.graph.contract import Cursor
from shoal.graph.schema import POSTED

_LOOKED_AT = 12
"""Newest posts of each member among which photos are looked for."""


async def portfolios(reads: Reads, viewer: int, member_ids: Sequence[int], each: int = 3) -> dict[int, list[Entry]]:
    """Return up to `each` posts with a picture for each member, newest first: posts that everybody may see.

    A fixed number of reads. Members without such posts are left out.
    """
    with one_request():
        lists = await reads.graph.assoc_ranges(list(member_ids), POSTED, Cursor(limit=_LOOKED_AT)) if member_ids else {}
        seen = sight(reads.graph, viewer, lasting=reads.lasting)
        ids = [entry.id2 for rows in lists.values() for entry in rows]
        rows = [row for row in await seen.look(ids, _own) if is_presentable(seen, row[1])]
        if not rows:
            return {}
        sieve = await sieve_of(reads.graph, viewer, FilterContext.PUBLIC)
        admitted = await sieve.admitted(await seen.entries(_first(rows, each)))
        found: dict[int, list[Entry]] = {}
        for entry in admitted:
            if not entry.filtered:
                found.setdefault(entry.post.author_id, []).append(entry)
        return found


def _own(row: Row) -> bool:
    return row[2] is None and has_media(row)


def _first(rows: Sequence[Row], each: int) -> list[Row]:
    """Return the first rows of each author."""
    kept: list[Row] = []
    counts: dict[int, int] = {}
    for row in rows:
        author = row[1].author_id
        counts[author] = counts.get(author, 0) + 1
        if counts[author] <= each:
            kept.append(row)
    return kept
