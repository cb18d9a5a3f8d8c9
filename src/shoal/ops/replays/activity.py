"""Members who were active of late: those who wrote, shared, liked or logged in, and those whose home timelines are warm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from shoal.core.ids import floor_at
from shoal.core.model import Post, Share, Token
from shoal.graph.access import members_by_id
from shoal.graph.contract import Cursor, Reader, Store
from shoal.graph.schema import LIKED_BY, AnyNode
from shoal.ops.checking.report import Progress
from shoal.timelines.contract import Timelines

PAGES = 200
OBJECTS_AT_ONCE = 1_000
_LIKES_EACH = 5
_MOST_WARM = 100_000
_MEMBERS_AT_ONCE = 500
FINDING = "active members"
"""The phase of which progress is told."""


class Active(NamedTuple):
    """Members who were active."""

    members: list[int]
    """In the order of their ids."""
    complete: bool
    """Whether everything that was made in that time was looked at; otherwise there are more than these."""


async def active_since(
    store: Store,
    timelines: Timelines,
    since: int,
    now: int,
    progress: Progress,
    *,
    pages: int = PAGES,
    page_size: int = OBJECTS_AT_ONCE,
) -> Active:
    """Return the members who were active between two moments (Unix ms).

    The objects of that time are read in at most so many pages. Where that is not enough, the pages begin at equal distances in
    time, and what lies between the end of one and the beginning of the next is not looked at.
    """
    found = set(await timelines.members(_MOST_WARM))
    after, complete = floor_at(since) - 1, True
    for at in range(pages):
        progress(FINDING, at, pages)
        begin = max(after, floor_at(since + (now - since) * at // pages) - 1)
        complete = complete and begin == after
        page = await store.obj_scan(begin, page_size)
        if not page:
            break
        found.update(_who(page, since))
        found.update(await _likers(store, page, since))
        after = page[-1].id
    else:
        complete = complete and not await store.obj_scan(after, 1)
    progress(FINDING, pages, pages)
    return Active(sorted(found), complete)


def _who(page: Sequence[AnyNode], since: int) -> Iterator[int]:
    """Yield the members who made these objects. An imported post is as old as it says."""
    for node in page:
        match node:
            case Post() if node.created_at >= since:
                yield node.author_id
            case Share():
                yield node.author_id
            case Token(member_id=member_id) if member_id:
                yield member_id


async def _likers(graph: Reader, page: Sequence[AnyNode], since: int) -> set[int]:
    """Return the members who liked these posts last."""
    posts = [node.id for node in page if isinstance(node, Post)]
    lists = await graph.assoc_ranges(posts, LIKED_BY, Cursor(after=floor_at(since) - 1, limit=_LIKES_EACH))
    return {row.id2 for rows in lists.values() for row in rows}


async def sample(graph: Reader, active: Active, most: int, seed: int) -> list[int]:
    """Return so many of the active members who are there and not suspended; the same ones for the same seed."""
    order = np.random.default_rng(seed).permutation(np.array(active.members, np.int64)).tolist()
    chosen: list[int] = []
    for at in range(0, len(order), _MEMBERS_AT_ONCE):
        asked = order[at : at + _MEMBERS_AT_ONCE]
        members = await members_by_id(graph, asked)
        chosen += [id_ for id_ in asked if id_ in members and not members[id_].suspended]
        if len(chosen) >= most:
            break
    return chosen[:most]
