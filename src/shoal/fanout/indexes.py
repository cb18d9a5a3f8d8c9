"""The search index follows the graph: what changed is looked at, and its row is what the object is by then."""

from __future__ import annotations

import asyncio

from shoal.core.events import PostCreated, PostDeleted, PostUpdated, ProfileChanged, SuspensionChanged, TagsUsed
from shoal.fanout import tags
from shoal.fanout.effects import Effects


async def look_at_post(
    effects: Effects, event: PostCreated | PostUpdated | PostDeleted, mark: int
) -> asyncio.Future[None]:
    """A post is found as it is now, or no more; what is returned is done when that is safe, and then the event is, too."""
    return effects.search.look(effects.graph, (event.post_id,))


async def look_at_member(
    effects: Effects, event: ProfileChanged | SuspensionChanged, mark: int
) -> asyncio.Future[None]:
    """The same of a member."""
    return effects.search.look(effects.graph, (event.member_id,))


async def count_and_look(effects: Effects, event: TagsUsed, mark: int) -> asyncio.Future[None]:
    """Tags count in the cloud and in the index; also those of a post that only went out of sight, or came back."""
    counted = await tags.count(effects, event, mark)
    return asyncio.ensure_future(_both(counted, effects.search.look(effects.graph, (event.post_id,))))


async def _both(first: asyncio.Future[None], second: asyncio.Future[None]) -> None:
    # Others wait for the same futures: whoever gives up here takes only this wait along.
    await asyncio.gather(asyncio.shield(first), asyncio.shield(second))
