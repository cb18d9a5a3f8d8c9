"""Tags of posts are counted; those of a suspended member count no longer."""

from __future__ import annotations

import asyncio
from functools import partial

from shoal.core.events import SuspensionChanged, TagsUsed
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import HIDDEN_WITH_AUTHOR, Member, Post
from shoal.fanout.effects import Effects
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.graph.payloads.posts import hidden_batch
from shoal.graph.schema import POSTED
from shoal.tagcloud.contract import TagChange, Use

_PAGE = 100


async def count(effects: Effects, event: TagsUsed, mark: int) -> asyncio.Future[None]:
    """The use is in an increment; what is returned is done when that is safe, and then the event is, too."""
    changes = tuple(TagChange(*change) for change in event.changes)
    return effects.tags.count(Use(event.post_id, event.version, event.author_id, event.written, event.at, changes))


async def follow_author(effects: Effects, event: SuspensionChanged, mark: int) -> int | None:
    """The posts of a member go out of sight with their author and come back, newest first; a page at a time."""
    author = (await effects.graph.obj_get((event.member_id,))).get(event.member_id)
    if not isinstance(author, Member):
        return None
    before = mark or MAX_TIME
    page = await effects.graph.assoc_range(author.id, POSTED, Cursor(before=before, limit=_PAGE))
    await asyncio.gather(*(_follow(effects, entry.id2, author.id) for entry in page))
    return page[-1].time if len(page) == _PAGE else None


async def _follow(effects: Effects, post_id: int, author_id: int) -> None:
    # After a change it is looked at again: the author may have come back, and the event of that may have been worked off.
    while await retry_on_conflict(partial(_follow_once, effects, post_id, author_id)):
        continue


async def _follow_once(effects: Effects, post_id: int, author_id: int) -> bool:
    """Hide or reveal one post as its author is now; whether that made a difference."""
    found = await effects.graph.obj_get((post_id, author_id))
    post, author = found.get(post_id), found.get(author_id)
    if not isinstance(post, Post) or not isinstance(author, Member):
        return False
    why = post.hidden | HIDDEN_WITH_AUTHOR if author.suspended else post.hidden & ~HIDDEN_WITH_AUTHOR
    if why == post.hidden:
        return False
    at = milliseconds_of(effects.new_id(shard_of(author_id)))
    await effects.graph.commit(hidden_batch(post, why, at)[1])
    return True
