"""Keeping the search index up to date: a changed object is read again, and its row made from what it is by then."""

from __future__ import annotations

import asyncio

from shoal.core.events import (
    MediaDescribed,
    MemberRemoved,
    PostCreated,
    PostDeleted,
    PostNarrowed,
    PostUpdated,
    ProfileChanged,
    SuspensionChanged,
    TagsUsed,
)
from shoal.fanout import tags
from shoal.fanout.effects import Effects
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.graph.schema import ATTACHED
from shoal.outbox.runner import Outcome

_PAGE = 500
"""Posts with the same media that are indexed together."""


async def look_at_post(
    effects: Effects, event: PostCreated | PostUpdated | PostNarrowed | PostDeleted, mark: int
) -> asyncio.Future[None]:
    """Index a post as it is now, or remove it. The future is done, and with it the event, once that is durable."""
    return effects.search.look(effects.graph, (event.post_id,))


async def look_at_member(
    effects: Effects, event: ProfileChanged | SuspensionChanged | MemberRemoved, mark: int
) -> asyncio.Future[None]:
    """Index a member as they are now, or remove them. The future is done once that is durable."""
    return effects.search.look(effects.graph, (event.member_id,))


async def look_at_posts_with(effects: Effects, event: MediaDescribed, mark: int) -> Outcome:
    """Index posts anew whose media have another description, page by page, newest first."""
    page = await effects.graph.assoc_range(event.media_id, ATTACHED, Cursor(before=mark or MAX_TIME, limit=_PAGE))
    if not page:
        return None
    safe = effects.search.look(effects.graph, [put.id2 for put in page])
    if len(page) < _PAGE:
        return safe
    # Others wait for the same future: a step that is given up takes only this wait along.
    await asyncio.shield(safe)
    return page[-1].time


async def count_and_look(effects: Effects, event: TagsUsed, mark: int) -> asyncio.Future[None]:
    """Count tags in the cloud and index the post; also when the post was only hidden, or is visible again."""
    counted = await tags.count(effects, event, mark)
    return asyncio.ensure_future(_both(counted, effects.search.look(effects.graph, (event.post_id,))))


async def _both(first: asyncio.Future[None], second: asyncio.Future[None]) -> None:
    # Others wait for the same futures: whoever gives up here takes only this wait along.
    await asyncio.gather(asyncio.shield(first), asyncio.shield(second))
