"""Shares of a post that was narrowed: those that could not be made any more end, as if they had been taken back.

Readers see none of them in any case. Without this they would fill timelines, and be counted at the post.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shoal.core.events import PostNarrowed, ShareCreated
from shoal.core.model import OPEN, Post, Share, Visibility
from shoal.core.visibility import may_share
from shoal.fanout.cleanups.cleanup import end_share
from shoal.fanout.effects import Effects
from shoal.fanout.notifications import forget
from shoal.graph.access import association
from shoal.graph.contract import MAX_TIME, Assoc, Cursor
from shoal.graph.payloads.notifications import Kind, Notice
from shoal.graph.schema import SHARED_BY, SHARES

_PAGE = 200


async def end_of_narrowed(effects: Effects, event: PostNarrowed, mark: int) -> int | None:
    """End the vain shares of a post that was narrowed, page by page, newest first."""
    page = await effects.graph.assoc_range(event.post_id, SHARED_BY, Cursor(before=mark or MAX_TIME, limit=_PAGE))
    post = (await effects.graph.obj_get((event.post_id,))).get(event.post_id) if page else None
    if not isinstance(post, Post):
        return None
    shares = await effects.graph.obj_get([int.from_bytes(sharer.data) for sharer in page])
    vain = {share.author_id for share in shares.values() if isinstance(share, Share) and _is_vain(share, post)}
    await _end(effects, post, [sharer for sharer in page if sharer.id2 in vain])
    return page[-1].time if len(page) == _PAGE else None


async def end_of_late(effects: Effects, event: ShareCreated, mark: int) -> int | None:
    """End a share that was made while its post was being narrowed."""
    found = await effects.graph.obj_get((event.share_id, event.shared_id))
    share, post = found.get(event.share_id), found.get(event.shared_id)
    if not isinstance(share, Share) or not isinstance(post, Post) or not _is_vain(share, post):
        return None
    held = await association(effects.graph, share.author_id, SHARES, post.id)
    if held is not None:
        await _end(effects, post, [Assoc(share.author_id, held.time, held.data)])
    return None


def _is_vain(share: Share, post: Post) -> bool:
    """Return whether `services.reactions.share` would not make such a share."""
    wider = post.visibility is Visibility.FOLLOWERS and share.visibility in OPEN
    return wider or not may_share(share.author_id, post)


async def _end(effects: Effects, post: Post, sharers: Sequence[Assoc]) -> None:
    await asyncio.gather(*(end_share(effects, post.id, post.author_id, sharer) for sharer in sharers))
    await forget(effects, post.author_id, [Notice(Kind.SHARE, sharer.id2, post.id) for sharer in sharers])
