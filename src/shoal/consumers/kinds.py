"""Index the posts of kinds: after a change of a post, and all posts of a kind after a change of its indexed paths."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from shoal.consumers.context import Effects
from shoal.core import events
from shoal.core.kind_index import kind_name
from shoal.core.kinds import PostKind
from shoal.graph.access import get_object
from shoal.graph.changes import change_object
from shoal.graph.contract import Cursor, find_object
from shoal.graph.kinds import index_post
from shoal.graph.schema import INDEX_OF, index_id
from shoal.outbox.runner import Outcome

_PAGE = 50


async def look_at_post(effects: Effects, event: events.KindPostChanged, _mark: int) -> Outcome:
    await index_post(effects.graph, event.post_id)
    return None


async def index_all(effects: Effects, event: events.KindChanged, mark: int) -> int | None:
    """Index the page of posts of a kind after the post `mark`, oldest first. After the last page, the new paths can be read.

    A post that was created with the former declaration, and is not listed yet, has its own event.
    """
    kind = await find_object(effects.graph, PostKind, event.kind_id)
    if kind is None or kind.schema_version != event.schema_version:
        # A later change of the kind has its own event.
        return None
    at = Cursor(after=mark, limit=_PAGE, oldest_first=True)
    page = await effects.graph.assoc_range(index_id(kind_name(kind.name)), INDEX_OF, at)
    await asyncio.gather(*(index_post(effects.graph, entry.id2) for entry in page))
    if len(page) == _PAGE:
        return max(entry.time for entry in page)
    await _finish(effects, event)
    return None


async def _finish(effects: Effects, event: events.KindChanged) -> None:
    async def read() -> PostKind:
        return await get_object(effects.graph, PostKind, event.kind_id)

    def change(kind: PostKind) -> PostKind:
        return replace(kind, building=()) if kind.schema_version == event.schema_version else kind

    await change_object(effects.graph, read, change)
