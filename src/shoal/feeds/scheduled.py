"""A member's scheduled posts, the most recently scheduled first."""

from __future__ import annotations

from typing import NamedTuple

from shoal.core.model import ScheduledPost
from shoal.feeds.merging.pull import check_limit
from shoal.feeds.object_lists import objects_page
from shoal.graph.contract import Cursor, Reader
from shoal.graph.schema import SCHEDULES


class Waiting(NamedTuple):
    """A page of scheduled posts. `next` is the `before` of the page that follows; None at the end."""

    posts: list[ScheduledPost]
    next: int | None


async def waiting(graph: Reader, member: int, cursor: Cursor) -> Waiting:
    """Return a page of the member's scheduled posts. Raises `InvalidInput` for a limit below 1."""
    check_limit(cursor)
    return Waiting(*await objects_page(graph, member, SCHEDULES, ScheduledPost, cursor))
