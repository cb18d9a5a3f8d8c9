"""The search index follows the graph: what changed is looked at, and its row is what the object is by then."""

from __future__ import annotations

import asyncio

from shoal.core.events import (
    MediaDescribed,
    MemberRejected,
    PostCreated,
    PostDeleted,
    PostUpdated,
    ProfileChanged,
    SuspensionChanged,
    TagsUsed,
)
from shoal.fanout import tags
from shoal.fanout.effects import Effects
from shoal.graph.contract import MAX_TIME
from shoal.graph.schema import ATTACHED
from shoal.outbox import Outcome

_PAGE = 500
"""Posts with the same media that are looked at together."""


async def look_at_post(
    effects: Effects, event: PostCreated | PostUpdated | PostDeleted, mark: int
) -> asyncio.Future[None]:
    """A post is found as it is now, or no more; what is returned is done when that is safe, and then the event is, too."""
    return effects.search.look(effects.graph, (event.post_id,))


async def look_at_member(
    effects: Effects, event: ProfileChanged | SuspensionChanged | MemberRejected, mark: int
) -> asyncio.Future[None]:
    """The same of a member."""
    return effects.search.look(effects.graph, (event.member_id,))


async def look_at_posts_with(effects: Effects, event: MediaDescribed, mark: int) -> Outcome:
    """Posts are found by what is said of their media now; page by page, newest first."""
    page = await effects.graph.assoc_range(event.media_id, ATTACHED, before=mark or MAX_TIME, limit=_PAGE)
    if not page:
        return None
    safe = effects.search.look(effects.graph, [put.id2 for put in page])
    if len(page) < _PAGE:
        return safe
    # Others wait for the same future: a step that is given up takes only this wait along.
    await asyncio.shield(safe)
    return page[-1].time


async def count_and_look(effects: Effects, event: TagsUsed, mark: int) -> asyncio.Future[None]:
    """Tags count in the cloud and in the index; also those of a post that only went out of sight, or came back."""
    counted = await tags.count(effects, event, mark)
    return asyncio.ensure_future(_both(counted, effects.search.look(effects.graph, (event.post_id,))))


async def _both(first: asyncio.Future[None], second: asyncio.Future[None]) -> None:
    # Others wait for the same futures: whoever gives up here takes only this wait along.
    await asyncio.gather(asyncio.shield(first), asyncio.shield(second))
