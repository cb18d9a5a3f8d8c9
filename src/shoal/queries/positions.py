"""Entries by position in the union of many lists.

A position is the index of a stored entry, whether or not the viewer may see it; 0 is the newest. A hidden entry leaves a gap, and
later entries keep their positions. A deleted entry has no position. With b hidden:

    stored, newest first     a b c d e
    positions                0 1 2 3 4
    from 0 to 2              a c        from 3 to 4: d e

An entry that several sources contain (its author and a tag, or two tags) has one adjacent position for each of them, and is
returned at the first.

Positions are found by counting, without reading newer entries. The store counts the entries of a list that are newer than a time
in O(log n). The time is estimated from the length of each list and its first and last entry, and corrected by each count. So a
position in f lists of n entries costs f counts of O(log n) for each estimate, of which evenly distributed lists need one or two,
and up to `NEAR_PER_LIST` entries of each list that are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from shoal.graph.contract import MAX_TIME, Cursor, Reader
from shoal.graph.schema import POSTED, TAG_OF, AssocType
from shoal.queries.pagination import Sources, pull

Counts = NDArray[np.int64]

NEAR = 128
NEAR_PER_LIST = 2
"""Up to this many entries before a position (in total, and per list) are read instead of counted, because counting
costs more."""
NEWEST_PER_LIST = 6
"""Number of newest entries per list that are read instead of counted. `pull` reads about twice as many, from the cache."""
_PARTS = 4
"""Parts into which the range is divided after a wrong estimate."""
_POINTS, _NARROWINGS = 8, 6
"""To estimate a time: number of times compared, and number of rounds. Each round divides the range between two of these times."""


async def stored(graph: Reader, sources: Sources, first: int, last: int) -> list[int]:
    """Return the ids at positions `first` to `last` of the lists merged newest first.

    An id that is in several lists is at several positions. It is omitted if it is also at the position before `first`.
    """
    begin = max(first - 1, 0)
    before, newer = await _near(graph, sources, begin)
    found = (await _from(graph, sources, before, last + 1 - newer))[begin - newer :]
    ids = list(dict.fromkeys(found))
    return ids[1:] if first else ids


async def _near(graph: Reader, sources: Sources, position: int) -> tuple[int, int]:
    """Return a time just after that of the entry at a position, and the number of entries not older: at most `position`."""
    lists = sum(map(len, sources.values()))
    if position < max(NEAR, NEWEST_PER_LIST * lists):
        return MAX_TIME, 0
    near = max(NEAR, NEAR_PER_LIST * lists)
    held, density = await _density(graph, sources)
    if density.total <= position:
        return 0, density.total
    # Invariant: more than `position` entries are not older than `low`; `newer` entries, at most `position`, are not older
    # than `high`.
    low, high, newer, parts = density.oldest, density.newest + 1, 0, 1
    while position - newer >= near and high - low > 1:
        estimate = min(max(density.time_of(position - near // 2), low + 1), high - 1)
        # After a wrong first estimate, also try times that divide the range evenly: the entries may be concentrated at a few
        # moments.
        times = {estimate, *(high - (high - low) * part // parts for part in range(1, parts))}
        for time, counts in await _not_older(graph, held, sorted(times, reverse=True)):
            density.cut(time, counts, position)
            if (count := int(counts.sum())) > position:
                low = time
                break
            high, newer = time, count
        parts = _PARTS
    return high, newer


class _Density:
    """An estimate of how the entries of several lists are distributed over time, for finding the entry at a position.

    The entries of a list are assumed to be evenly distributed over an interval, which `cut` narrows with each exact count.
    """

    def __init__(self, counts: Sequence[int], oldest: Sequence[int], newest: Sequence[int]) -> None:
        self.total = sum(counts)
        self.oldest, self.newest = min(oldest, default=0), max(newest, default=0)
        self._newer, self._not_older = np.zeros(len(counts), np.int64), np.array(counts, np.int64)
        self._low, self._high = np.array(oldest, np.float64), np.array(newest, np.float64)

    def cut(self, time: int, counts: Counts, position: int) -> None:
        """Narrow the interval around `position`. `counts` has the exact number of entries not older than `time`, by list."""
        if counts.sum() > position:
            self._not_older, self._low = counts, np.maximum(self._low, time)
        else:
            self._newer, self._high = counts, np.minimum(self._high, time)

    def time_of(self, position: int) -> int:
        entries = (self._not_older - self._newer) / np.maximum(self._high - self._low, 1.0)
        sought = position - self._newer.sum()
        low, high = float(self._low.min()), float(self._high.max())
        for _ in range(_NARROWINGS):
            step = (high - low) / _POINTS
            times = low + step * np.arange(_POINTS)
            newer = entries @ (self._high[:, None] - np.clip(times, self._low[:, None], self._high[:, None]))
            # Move `low` to the last of `times` that has more than `sought` newer entries. Rounding errors may leave no such time.
            low += step * max(int(np.count_nonzero(newer > sought)) - 1, 0)
            high = low + step
        return int(high)


async def _density(graph: Reader, sources: Sources) -> tuple[Sources, _Density]:
    """Return the lists that have entries, and the initial `_Density`, from the length, oldest and newest entry of each list."""
    held: dict[AssocType, list[int]] = {}
    counts: list[int] = []
    oldest: list[int] = []
    newest: list[int] = []
    for atype, id1s in sources.items():
        lengths = (await graph.assoc_count(id1s, (atype,)))[atype] if id1s else {}
        last = await graph.assoc_ranges(list(lengths), atype, Cursor(limit=1))
        first = await graph.assoc_ranges(list(lengths), atype, Cursor(limit=1, oldest_first=True))
        held[atype] = [id1 for id1 in lengths if id1 in last and id1 in first]
        counts += [lengths[id1] for id1 in held[atype]]
        oldest += [first[id1][0].time for id1 in held[atype]]
        newest += [last[id1][0].time for id1 in held[atype]]
    return held, _Density(counts, oldest, newest)


async def _not_older(graph: Reader, sources: Sources, times: Sequence[int]) -> list[tuple[int, Counts]]:
    counts: list[list[int]] = []
    for atype, id1s in sources.items():
        if id1s:
            found = await graph.assoc_ranks(id1s, atype, [time - 1 for time in times])
            counts += [found[id1] for id1 in id1s]
    return list(zip(times, np.array(counts, np.int64).T, strict=True))


async def _from(graph: Reader, sources: Sources, before: int, limit: int) -> list[int]:
    """Return the newest `limit` entries before a time. An entry that is in several lists is returned once for each."""
    part = Cursor(before=before, limit=limit)
    posted = await pull(graph, {POSTED: sources.get(POSTED, ())}, part)
    if not (tags := sources.get(TAG_OF, ())):
        return posted
    # After `limit` entries were found, entries older than these cannot be in the result: the next read excludes them.
    part = _down_to(part, posted)
    part = _down_to(part, await pull(graph, {TAG_OF: tags}, part))
    tagged = await graph.assoc_ranges(tags, TAG_OF, part)
    lists = [posted, *([entry.time for entry in entries] for entries in tagged.values())]
    return list(islice(merge(*lists, reverse=True), limit))


def _down_to(part: Cursor, ids: Sequence[int]) -> Cursor:
    return part._replace(after=ids[-1] - 1) if len(ids) == part.limit else part
