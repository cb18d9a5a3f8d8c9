"""A post that is deleted takes with it what members were notified of because of it, page by page.

Of those that are left - who watched its author, shared it, or voted in its poll - readers see none: this is to keep lists
from filling up with what nobody may see.
"""

from __future__ import annotations

import asyncio

from shoal.core.events import PostDeleted
from shoal.fanout.effects import Effects
from shoal.fanout.notifications import forget
from shoal.graph.contract import MAX_TIME
from shoal.graph.payloads.notifications import Kind, Notice
from shoal.graph.schema import LIKED_BY, SHARED_BY, AssocType

_PAGE = 200


async def forget_mentions(effects: Effects, event: PostDeleted, mark: int) -> int | None:
    """Of those whom it named."""
    notice = Notice(Kind.MENTION, event.author_id, event.post_id)
    await asyncio.gather(*(forget(effects, member, (notice,)) for member in event.mention_ids))
    return None


async def forget_likes(effects: Effects, event: PostDeleted, mark: int) -> int | None:
    """Of its author, while it is still known who liked it."""
    return await _forget(effects, event, LIKED_BY, Kind.LIKE, mark)


async def forget_shares(effects: Effects, event: PostDeleted, mark: int) -> int | None:
    """Of its author, while it is still known who shared it."""
    return await _forget(effects, event, SHARED_BY, Kind.SHARE, mark)


async def _forget(effects: Effects, event: PostDeleted, atype: AssocType, kind: Kind, mark: int) -> int | None:
    page = await effects.graph.assoc_range(event.post_id, atype, before=mark or MAX_TIME, limit=_PAGE)
    await forget(effects, event.author_id, [Notice(kind, who.id2, event.post_id) for who in page])
    return page[-1].time if len(page) == _PAGE else None
