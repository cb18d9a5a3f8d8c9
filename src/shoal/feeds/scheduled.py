"""What a member has written for moments to come, the last one scheduled first."""

from __future__ import annotations

from typing import NamedTuple

from shoal.core.model import ScheduledPost
from shoal.feeds.pull import Cursor, check_limit
from shoal.graph.contract import Reader
from shoal.graph.schema import SCHEDULES


class Waiting(NamedTuple):
    """A page of it. `next` is the `before` of the page that follows; None at the end."""

    posts: list[ScheduledPost]
    next: int | None


async def waiting(graph: Reader, member: int, cursor: Cursor) -> Waiting:
    """A page of what waits. Raises `InvalidInput` for a limit below 1."""
    check_limit(cursor)
    found = await graph.assoc_range(
        member,
        SCHEDULES,
        before=cursor.before,
        after=cursor.after,
        limit=cursor.limit + 1,
        oldest_first=cursor.oldest_first,
    )
    here = found[: cursor.limit]
    nodes = await graph.obj_get([assoc.id2 for assoc in here])
    posts = [node for assoc in here if isinstance(node := nodes.get(assoc.id2), ScheduledPost)]
    if cursor.oldest_first:
        return Waiting(posts[::-1], here[0].time if here else None)
    return Waiting(posts, here[-1].time if len(found) > len(here) else None)
