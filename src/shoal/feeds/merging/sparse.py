"""Pages of a list of which few entries may be wanted: a page looks at a bounded part of it.

Unlike `feeds.paging`, a page without anything is not the end: its cursor leads on, in either direction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from shoal.feeds.merging.pull import check_limit
from shoal.graph.contract import Assoc, Cursor

LOOKS = 25
"""Reads of one page: after so many it comes short, and its cursor goes on from there."""

Item = TypeVar("Item")


async def look_through(
    cursor: Cursor,
    at_once: int,
    read: Callable[[Cursor], Awaitable[Sequence[Assoc]]],
    sift: Callable[[Sequence[Assoc]], Awaitable[Sequence[Item]]],
    place: Callable[[Item], int],
) -> tuple[list[Item], int | None]:
    """Return a page of what `sift` keeps, newest first, and the `before` of the page that follows; None at the end.

    `read` gives `at_once` entries, more than the limit, and fewer only at the end of the list; `place` says where an item stands
    in it. A page of the oldest that has nothing yet returns where it came to: pages above and below begin there. Raises
    `InvalidInput` for a limit below 1.
    """
    check_limit(cursor)
    found: list[Item] = []
    at, ended = cursor, False
    for _ in range(LOOKS):
        listed = await read(at.of(at_once))
        found += await sift(listed)
        ended = len(listed) < at_once
        if ended or len(found) > cursor.limit:
            break
        at = at.past(listed[-1].time)
    here = found[: cursor.limit]
    reached = None if ended else at.after if cursor.oldest_first else at.before
    if cursor.oldest_first:
        return here[::-1], place(here[0]) if here else reached
    return here, place(here[-1]) if len(found) > cursor.limit else reached
