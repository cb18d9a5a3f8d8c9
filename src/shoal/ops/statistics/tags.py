"""Uses of a tag in a period: read from the tag's list, a bounded part of it."""

from __future__ import annotations

from typing import NamedTuple

from shoal.core.errors import InvalidInput
from shoal.core.ids import floor_at
from shoal.core.model import Post, Visibility
from shoal.graph.contract import Cursor, Reader
from shoal.graph.schema import TAG_OF
from shoal.ops.statistics.figures import DAY_MS, Period

MOST = 10_000
"""Uses of one period."""
_PAGE = 1_000


class TaggedPost(NamedTuple):
    """A public post that has the tag."""

    day: int
    author_id: int
    language: str


async def uses(graph: Reader, tag: int, period: Period, *, most: int = MOST) -> list[TaggedPost]:
    """Every use in the period. Raises `InvalidInput` where there are too many to read."""
    found: list[TaggedPost] = []
    before, after = floor_at((period.last + 1) * DAY_MS), floor_at(period.first * DAY_MS) - 1
    for _ in range(most // _PAGE + 1):
        page = await graph.assoc_range(tag, TAG_OF, Cursor(before=before, after=after, limit=_PAGE))
        nodes = await graph.obj_get([assoc.id2 for assoc in page])
        found += [use for node in nodes.values() if isinstance(node, Post) and (use := _use(node, period))]
        if len(page) < _PAGE:
            return found
        before = page[-1].time
    raise InvalidInput(f"start_at: the tag was used more than {most} times; choose a shorter period", field="start_at")


class TagUseReader:
    """Uses of tags as one request asks for them: each period of a tag is read once, however many figures come of it."""

    def __init__(self, graph: Reader) -> None:
        self._graph = graph
        self._read: dict[tuple[int, Period], list[TaggedPost]] = {}

    async def of(self, tag: int, period: Period) -> list[TaggedPost]:
        """See `uses`."""
        if (tag, period) not in self._read:
            self._read[tag, period] = await uses(self._graph, tag, period)
        return self._read[tag, period]


def _use(post: Post, period: Period) -> TaggedPost | None:
    """A use counts like those of the tag cloud: in public posts in sight."""
    day = post.created_at // DAY_MS
    if post.visibility is not Visibility.PUBLIC or post.hidden or not period.first <= day <= period.last:
        return None
    return TaggedPost(day, post.author_id, post.language)
