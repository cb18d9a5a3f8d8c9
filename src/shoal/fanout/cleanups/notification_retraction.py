"""Retraction of the notifications that a deleted post caused, page by page.

Some are not retracted: those of members who watched its author, shared it, or voted in its poll. Readers leave them
out. Retraction only keeps lists from filling up with entries that nobody may see.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shoal.core.events import PostDeleted
from shoal.fanout.effects import Effects
from shoal.fanout.notifications import forget
from shoal.graph.contract import MAX_TIME, Assoc, Cursor
from shoal.graph.payloads.notifications import Kind, Notice
from shoal.graph.payloads.posts import chosen_of
from shoal.graph.schema import LIKED_BY, REACTED_BY, SHARED_BY, AssocType

_PAGE = 200


async def forget_mentions(effects: Effects, event: PostDeleted, mark: int) -> int | None:
    """Retract the notifications of members whom the post mentioned."""
    notice = Notice(Kind.MENTION, event.author_id, event.post_id)
    await asyncio.gather(*(forget(effects, member, (notice,)) for member in event.mention_ids))
    return None


async def forget_likes(effects: Effects, event: PostDeleted, mark: int) -> int | None:
    """Retract the author's notifications of likes, while it is still known who liked the post."""
    return await _forget(effects, event, LIKED_BY, Kind.LIKE, mark)


async def forget_shares(effects: Effects, event: PostDeleted, mark: int) -> int | None:
    """Retract the author's notifications of shares, while it is still known who shared the post."""
    return await _forget(effects, event, SHARED_BY, Kind.SHARE, mark)


async def forget_reactions(effects: Effects, event: PostDeleted, mark: int) -> int | None:
    """Retract the author's notifications of emoji, while it is still known who put which on the post."""

    def notices(who: Assoc) -> list[Notice]:
        return [Notice(Kind.REACTION, who.id2, event.post_id, place.emoji) for place in chosen_of(who)]

    return await _forget_page(effects, event, REACTED_BY, notices, mark)


async def _forget(effects: Effects, event: PostDeleted, atype: AssocType, kind: Kind, mark: int) -> int | None:
    return await _forget_page(effects, event, atype, lambda who: [Notice(kind, who.id2, event.post_id)], mark)


async def _forget_page(
    effects: Effects, event: PostDeleted, atype: AssocType, notices: Callable[[Assoc], list[Notice]], mark: int
) -> int | None:
    page = await effects.graph.assoc_range(event.post_id, atype, Cursor(before=mark or MAX_TIME, limit=_PAGE))
    await forget(effects, event.author_id, [notice for who in page for notice in notices(who)])
    return page[-1].time if len(page) == _PAGE else None
