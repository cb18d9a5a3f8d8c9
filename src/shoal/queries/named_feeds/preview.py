"""Previews of named feeds: what a declaration would show now, and how that differs from another one.

Nothing is stored or cached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from shoal.core.feeds.declarations import FeedDeclaration, NamedFeed, values_of
from shoal.core.ranking.comparison import overlap, rank_biased_overlap
from shoal.graph.cache.coherence import one_request
from shoal.graph.cache.dependencies import do_not_cache
from shoal.graph.contract import Cursor
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry
from shoal.queries.named_feeds.feed import FeedEntry, by_time, part, rank
from shoal.queries.named_feeds.snapshots import Explanation
from shoal.queries.pagination import check_limit


class TriedEntry(NamedTuple):
    entry: Entry
    why: Explanation
    before: int | None
    """Its position in the other feed, starting at 1; None if it is not among the first entries there, and without another feed."""


class Comparison(NamedTuple):
    """The first entries of a feed compared with those of another one."""

    overlap: float
    """The number of common entries, divided by the number of entries of the longer list."""
    rank_biased_overlap: float
    """0 (disjoint) to 1 (equal), with more weight on the first positions."""
    lost: list[FeedEntry]
    """The first entries of the other feed that are not among those of this one."""


class FeedDryRun(NamedTuple):
    entries: list[TriedEntry]
    comparison: Comparison | None
    """None without another feed."""


async def dry_run(
    reads: Reads,
    viewer: int | None,
    declared: FeedDeclaration,
    limit: int,
    *,
    other: FeedDeclaration | None = None,
    parameters: Mapping[str, object] | None = None,
) -> FeedDryRun:
    """Return the first entries that a checked declaration would show now, compared with those of another one.

    `parameters` are those of `declared`; the other one has its defaults. Raises `InvalidInput` for an invalid limit or parameter,
    and `Unauthenticated` for an anonymous reader if one of them is ranked by a recipe.
    """
    check_limit(Cursor(limit=limit))
    do_not_cache()
    with one_request():
        shown = await first_entries(reads, viewer, declared, limit, parameters)
        if other is None:
            return FeedDryRun([TriedEntry(entry, why, None) for entry, why in shown], None)
        before = await first_entries(reads, viewer, other, limit)
        ids, former = [[each.entry.id for each in entries] for entries in (shown, before)]
        positions = {id_: position for position, id_ in enumerate(former, 1)}
        comparison = Comparison(
            overlap(former, ids),
            rank_biased_overlap(former, ids),
            [each for each in before if each.entry.id not in set(ids)],
        )
        return FeedDryRun([TriedEntry(entry, why, positions.get(entry.id)) for entry, why in shown], comparison)


async def first_entries(
    reads: Reads,
    viewer: int | None,
    declared: FeedDeclaration,
    limit: int,
    parameters: Mapping[str, object] | None = None,
    *,
    pulled: bool = False,
) -> list[FeedEntry]:
    """Return the first entries of a declaration. For `pulled`, see `open_sources`."""
    values = values_of(declared, parameters or {})
    feed = NamedFeed(id=0, owner_id=viewer or 0, title="", declaration=declared)
    if not declared.ranked:
        return (await by_time(reads, viewer, feed, Cursor(limit=limit), pulled=pulled)).entries
    shown, _ = await part(reads, viewer, await rank(reads, viewer, feed, values, pulled=pulled), 0, limit)
    return shown
