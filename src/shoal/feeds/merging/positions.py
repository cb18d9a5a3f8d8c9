"""Entries of many lists together, by position: 0 is the newest that is stored.

A position is that of a stored entry, whether the viewer may see it or not; so it is found by counting what the lists have, and
nothing newer is read. What may not be shown leaves a gap: the answer has fewer entries, and those behind keep their positions.
What was deleted has no position. With b hidden:

    stored, newest first     a b c d e
    positions                0 1 2 3 4
    from 0 to 2              a c        from 3 to 4: d e

An entry that several sources bring (its author and a tag, or two tags) has one position for each of them, next to each other,
and is at the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from itertools import islice

from shoal.feeds.merging.pull import Sources, pull
from shoal.graph.contract import MAX_TIME, Cursor, Reader
from shoal.graph.schema import POSTED, TAG_OF

NEAR = 512
NEAR_PER_LIST = 16
"""So many entries before a position are read rather than counted, and at least so many for each list: a count costs more."""
_AROUND = 1 / 32
"""How far beside the likely place of a position the entries are counted too, as a share of the time where it must be."""


async def stored(graph: Reader, sources: Sources, first: int, last: int) -> list[int]:
    """Return the ids at these positions in the union of the lists, newest first.

    One more is read before them: an entry that has the position before too is not at `first`.
    """
    begin = max(first - 1, 0)
    before, newer = await _near(graph, sources, begin)
    found = (await _from(graph, sources, before, last + 1 - newer))[begin - newer :]
    ids = list(dict.fromkeys(found))
    return ids[1:] if first else ids


async def _near(graph: Reader, sources: Sources, position: int) -> tuple[int, int]:
    """Return a time, and how many entries are not older: at most `position`, and not much fewer."""
    near = max(NEAR, NEAR_PER_LIST * sum(map(len, sources.values())))
    if position < near:
        return MAX_TIME, 0
    if (span := await _span(graph, sources)) is None:
        return MAX_TIME, 0
    low, high = span
    older, newer = await _not_older(graph, sources, span)
    if older <= position:
        return low, older
    if newer > position:
        return MAX_TIME, 0
    # More than `position` are not older than `low`, and no more than that not older than `high`.
    even = True
    while position - newer >= near and high - low > 1:
        times = _guesses(low, high, (position - near // 2 - newer) / (older - newer), even=even)
        even = False
        for time, count in zip(times, await _not_older(graph, sources, times), strict=True):
            if count > position:
                low, older = time, count
                break
            high, newer = time, count
    return high, newer


def _guesses(low: int, high: int, share: float, *, even: bool) -> list[int]:
    """Return times between two, newest first: around that with this share of the entries behind it, if they come evenly.

    Unless they are taken to be `even`, the quarters of the time are among them, so that it is cut into a quarter at worst.
    """
    shares = [share - _AROUND, share, share + _AROUND, *(() if even else (0.25, 0.5, 0.75))]
    times = {high - int((high - low) * share) for share in shares}
    return sorted((time for time in times if low < time < high), reverse=True) or [(low + high) // 2]


async def _span(graph: Reader, sources: Sources) -> tuple[int, int] | None:
    """Return the time of the oldest entry of all lists, and the moment after that of the newest."""
    times = []
    for atype, id1s in sources.items():
        if id1s:
            for first in (Cursor(limit=1), Cursor(limit=1, oldest_first=True)):
                times += [page[0].time for page in (await graph.assoc_ranges(id1s, atype, first)).values()]
    return (min(times), max(times) + 1) if times else None


async def _not_older(graph: Reader, sources: Sources, times: Sequence[int]) -> list[int]:
    """Return how many entries of all lists together are not older than each of these times."""
    counts = [0] * len(times)
    for atype, id1s in sources.items():
        if id1s:
            for ranks in (await graph.assoc_ranks(id1s, atype, [time - 1 for time in times])).values():
                counts = [count + rank for count, rank in zip(counts, ranks, strict=True)]
    return counts


async def _from(graph: Reader, sources: Sources, before: int, limit: int) -> list[int]:
    """Return the newest `limit` entries from before a time, each as often as a source brings it."""
    part = Cursor(before=before, limit=limit)
    posted = await pull(graph, {POSTED: sources.get(POSTED, ())}, part)
    if not (tags := sources.get(TAG_OF, ())):
        return posted
    # Nothing older than the last of `limit` entries is among the first `limit`, however many sources bring them.
    part = _down_to(part, posted)
    part = _down_to(part, await pull(graph, {TAG_OF: tags}, part))
    tagged = await graph.assoc_ranges(tags, TAG_OF, part)
    lists = [posted, *([entry.time for entry in entries] for entries in tagged.values())]
    return list(islice(merge(*lists, reverse=True), limit))


def _down_to(part: Cursor, ids: Sequence[int]) -> Cursor:
    return part._replace(after=ids[-1] - 1) if len(ids) == part.limit else part
