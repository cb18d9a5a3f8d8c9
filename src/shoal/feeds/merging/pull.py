"""The newest entries of many lists, without reading the lists to their ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.core.errors import InvalidInput
from shoal.graph.contract import Assoc, Cursor, Reader
from shoal.graph.schema import AssocType

Sources = Mapping[AssocType, Sequence[int]]
"""Lists to merge: for each type of list, the objects that they belong to."""


def check_limit(at: Cursor) -> None:
    """Raise `InvalidInput` for a limit below 1: after an empty page there is nothing to go on from."""
    if at.limit < 1:
        raise InvalidInput("limit: at least 1", field="limit")


async def pull(graph: Reader, sources: Sources, at: Cursor) -> list[int]:
    """Return the first `at.limit` distinct times in the union of the lists, in the cursor's direction; exact, two reads
    a type.

    First a few entries of every list. The `limit`-th of those bounds the answer, so a second read asks only the lists
    whose few entries all lie within the bound, and only up to it.
    """
    found: set[int] = set()
    for atype, id1s in sources.items():
        if id1s:
            found |= (await _pull(graph, atype, id1s, at)).keys()
    return sorted(found, reverse=not at.oldest_first)[: at.limit]


async def pull_entries(graph: Reader, atype: AssocType, id1s: Sequence[int], at: Cursor) -> list[Assoc]:
    """As `pull`, of lists of one type that share no time: the entries themselves."""
    found = await _pull(graph, atype, id1s, at)
    return [found[time] for time in sorted(found, reverse=not at.oldest_first)[: at.limit]]


async def _pull(graph: Reader, atype: AssocType, id1s: Sequence[int], at: Cursor) -> dict[int, Assoc]:
    few = min(at.limit, 2 + 2 * at.limit // len(id1s))
    lists = await _read(graph, atype, id1s, at.of(few))
    times = _by_time(lists)
    bounded = at
    if len(times) >= at.limit:
        bounded = _until(at, sorted(times, reverse=not at.oldest_first)[at.limit - 1])
    more = [
        id1
        for id1, page in lists.items()
        if len(page) == few < at.limit and bounded.after < page[-1].time < bounded.before
    ]
    return times | _by_time(await _read(graph, atype, more, bounded)) if more else times


def _until(at: Cursor, bound: int) -> Cursor:
    """Limit the stretch: nothing past the bound can be in the answer."""
    return at._replace(before=bound) if at.oldest_first else at._replace(after=bound)


async def _read(graph: Reader, atype: AssocType, id1s: Sequence[int], at: Cursor) -> dict[int, list[Assoc]]:
    return await graph.assoc_ranges(id1s, atype, at)


def _by_time(lists: Mapping[int, Sequence[Assoc]]) -> dict[int, Assoc]:
    return {entry.time: entry for page in lists.values() for entry in page}
