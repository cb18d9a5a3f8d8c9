"""Every feed: a skeleton of ids, hydrated in bulk, filtered, and refilled until the page is full."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from shoal.feeds.hydrate import Entry, hydrate
from shoal.feeds.pull import Cursor, check_limit
from shoal.graph.contract import Reader

_SLACK = 4
"""How many ids more than the page are asked for, so that a few that fall away cost no second question."""
_TURNS = 25
"""After so many refills in vain a page may come short: its cursor goes on from there."""


class Page(NamedTuple):
    """Entries, always newest first. `next` is the `before` of the page that follows; None at the end."""

    entries: list[Entry]
    next: int | None


Skeleton = Callable[[Cursor], Awaitable[list[int]]]
"""Gives up to `cursor.limit` ids in the cursor's direction; fewer only at the end."""
Keep = Callable[[Sequence[Entry]], Awaitable[list[Entry]]]


async def keep_all(entries: Sequence[Entry]) -> list[Entry]:
    """The filter of a feed that has none of its own."""
    return list(entries)


async def read_page(
    graph: Reader,
    viewer: int | None,
    cursor: Cursor,
    skeleton: Skeleton,
    keep: Keep = keep_all,
    *,
    unasked: bool = True,
) -> Page:
    """A page of what the viewer may see: `skeleton` proposes ids, `keep` is the feed's own filter.

    Whom the viewer mutes is left out of what comes `unasked`. Raises `InvalidInput` for a limit below 1.
    """
    check_limit(cursor)
    kept: list[Entry] = []
    at, ended = cursor, False
    for _ in range(_TURNS):
        missing = cursor.limit - len(kept)
        ids = await skeleton(at.of(missing + _SLACK))
        # One more than is missing tells whether another page follows; the rest is looked at when some of these fall away.
        for part in (ids[: missing + 1], ids[missing + 1 :]):
            if part and len(kept) <= cursor.limit:
                kept += await keep(await hydrate(graph, viewer, part, unasked=unasked))
                at = at.past(part[-1])
        ended = len(ids) < missing + _SLACK
        if ended or len(kept) > cursor.limit:
            break
    if len(kept) > cursor.limit:
        kept, ended = kept[: cursor.limit], False
        at = at.past(kept[-1].id)
    if cursor.oldest_first:
        # The page that follows a page of the oldest is older than all of it.
        return Page(kept[::-1], kept[0].id if kept else None)
    return Page(kept, None if ended else at.before)
