"""Apply, undo and delete bulk actions, page by page.

A changed post and its mark are committed together, so a step that runs again finds the mark and changes nothing. Undo reverts only
marked posts, and removes their marks.
"""

from __future__ import annotations

import asyncio
from functools import partial

from msgspec.structs import replace

from shoal.consumers.context import Effects
from shoal.core import events
from shoal.core.bulk_moderation import BulkAction, BulkState, needs
from shoal.core.ids import shard_of
from shoal.core.model import Post
from shoal.graph.access import association
from shoal.graph.changes import change_object, retry_on_conflict
from shoal.graph.contract import Batch, Cursor, find_object
from shoal.graph.payloads.moderation import bulk_batch, mark, unmark
from shoal.graph.schema import BULK_ACTIONS, BULK_CHANGED, EVERYBODY

_PAGE = 50
_MOST_MARKS = 200
"""Upper bound of the bulk actions that change one post: no more actions are stored."""
_FINISHED = {BulkState.APPLYING: BulkState.APPLIED, BulkState.UNDOING: BulkState.UNDONE}
_WORKING = {*_FINISHED, BulkState.DELETING}


async def carry_out(effects: Effects, event: events.BulkActionDue, at: int) -> int | None:
    """Process the page of posts that begins at the position `at`, and return the position of the next one."""
    action = await find_object(effects.graph, BulkAction, event.action_id)
    if action is None or action.state not in _WORKING:
        return None
    page = action.post_ids[at : at + _PAGE]
    await asyncio.gather(*(retry_on_conflict(partial(_step, effects, action.id, post_id)) for post_id in page))
    if at + _PAGE < len(action.post_ids):
        return at + _PAGE
    await _finish(effects, action)
    return None


async def _step(effects: Effects, action_id: int, post_id: int) -> None:
    graph = effects.graph
    # Read the post before the state: if a worker that lost its lease is late, and the action was undone since, it finds the new
    # state, or its commit conflicts with that of the undo.
    post = await find_object(graph, Post, post_id)
    marked = await association(graph, post_id, BULK_CHANGED, action_id)
    action = await find_object(graph, BulkAction, action_id)
    if action is None or action.state not in _WORKING:
        return
    applying = action.state is BulkState.APPLYING
    if applying is bool(marked) or (applying and (post is None or not needs(post, action.verb))):
        return
    now = effects.new_id(shard_of(post_id))
    if post is None or action.state is BulkState.DELETING or (not applying and needs(post, action.verb)):
        # The mark ends, and the post stays as it is: it was deleted, or changed back by a moderator or the author.
        batch = Batch(shard_of(post_id))
    else:
        batch = await bulk_batch(graph, post, action.verb, on=applying, now=now, at=effects.new_id.now())
    if marked:
        unmark(batch, marked, post_id, now)
    else:
        mark(batch, post_id, action, now)
    await graph.commit(batch)


async def _finish(effects: Effects, action: BulkAction) -> None:
    graph = effects.graph
    if action.state is BulkState.DELETING:
        batch = Batch(shard_of(EVERYBODY))
        batch.obj_del(action.id, action.version)
        batch.assoc_del(EVERYBODY, BULK_ACTIONS, action.id, effects.new_id(batch.shard))
        await graph.commit(batch)
        return
    marks = await graph.assoc_ranges(action.post_ids, BULK_CHANGED, Cursor(limit=_MOST_MARKS))
    changed = sum(any(entry.id2 == action.id for entry in page) for page in marks.values())

    async def read() -> BulkAction:
        return await find_object(graph, BulkAction, action.id) or action

    def finished(stored: BulkAction) -> BulkAction:
        if stored.state is not action.state:
            return stored
        return replace(stored, state=_FINISHED[action.state], changed=changed)

    await change_object(graph, read, finished)


async def clear_marks(effects: Effects, event: events.PostDeleted, _mark: int) -> None:
    """Remove the marks of bulk actions from a deleted post."""
    page = await effects.graph.assoc_range(event.post_id, BULK_CHANGED, Cursor(limit=_MOST_MARKS))
    if not page:
        return
    batch = Batch(shard_of(event.post_id))
    for each in page:
        unmark(batch, each, event.post_id, effects.new_id(batch.shard))
    await effects.graph.commit(batch)
