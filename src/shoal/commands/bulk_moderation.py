"""Bulk moderation: create previews, and apply or undo them. Consumers change the posts (`consumers/bulk_moderation.py`).

Applying commits one entry of the audit log, and undoing another. Stored actions are limited: for a new one, the oldest preview is
deleted, or the oldest action if there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from msgspec.structs import replace

from shoal.commands.audit import note
from shoal.commands.context import Writes, add_node
from shoal.core.audit import AuditTarget, AuditVerb, TargetKind
from shoal.core.bulk_moderation import MAX_ACTIONS, MAX_POSTS, PREVIEW_MS, BulkAction, BulkQuery, BulkState, Verb
from shoal.core.errors import Gone, InvalidInput, NotFound, Unfit
from shoal.core.events import BulkActionDue
from shoal.core.ids import milliseconds_of, shard_of
from shoal.graph.access import get_object, objects_of
from shoal.graph.changes import change_object
from shoal.graph.contract import Batch, Cursor, Reader
from shoal.graph.schema import BULK_ACTIONS, EVERYBODY

_SHARD = shard_of(EVERYBODY)
_FINISHED = (BulkState.PREVIEW, BulkState.UNDONE, BulkState.APPLIED)
"""The states in which an action may be deleted, in the order of deletion."""


async def create(
    writes: Writes, query: BulkQuery, verb: Verb, post_ids: Sequence[int], *, read: int = 0, reached: int = 0
) -> BulkAction:
    """Store a preview: the posts that a checked query found, newest first. Raises `InvalidInput` for too many posts."""
    if len(post_ids) > MAX_POSTS:
        raise InvalidInput(f"a bulk action has at most {MAX_POSTS} posts (got {len(post_ids)})", field="query")
    await _delete_oldest(writes)

    def build(id_: int) -> tuple[BulkAction, Batch]:
        action = BulkAction(
            id=id_,
            query=query,
            verb=verb,
            post_ids=tuple(post_ids),
            actor_name=writes.actor.name,
            read=read,
            reached=reached,
        )
        batch = Batch(_SHARD)
        batch.obj_add(action)
        batch.assoc_add(EVERYBODY, BULK_ACTIONS, id_, id_)
        return action, batch

    return await add_node(writes, _SHARD, build)


async def _delete_oldest(writes: Writes) -> None:
    """Delete the previews that have expired, and finished actions beyond the maximum: previews first, and each the oldest first."""
    actions = await stored(writes.graph)
    now = writes.new_id.now()
    gone = [action for action in actions if action.state is BulkState.PREVIEW and _expired(action, now)]
    others = [action for action in actions if action.state in _FINISHED and action not in gone]
    others.sort(key=lambda action: (_FINISHED.index(action.state), action.id))
    for action in (*gone, *others[: max(0, len(actions) - len(gone) - MAX_ACTIONS + 1)]):
        # Only from the state that was read, so that a preview that is applied concurrently stays.
        with suppress(NotFound, Unfit):
            await _change(writes, action.id, {action.state}, lambda each: replace(each, state=BulkState.DELETING), None)


async def stored(graph: Reader) -> list[BulkAction]:
    """Return the stored previews and actions, newest first."""
    listed = await graph.assoc_range(EVERYBODY, BULK_ACTIONS, Cursor(limit=2 * MAX_ACTIONS))
    found = await objects_of(graph, BulkAction, [entry.id2 for entry in listed])
    return [action for action in found if action.state is not BulkState.DELETING]


async def apply(writes: Writes, action_id: int) -> BulkAction:
    """Apply a preview to the posts that it found. Idempotent: an applied action does not change.

    The posts change soon after, also if this process is killed. The reason of `writes.because` is stored with the action. Raises
    `NotFound`, `Gone` for a preview that is older than a day, and `Unfit` for an action that was undone.
    """

    def applying(action: BulkAction) -> BulkAction:
        now = writes.new_id.now()
        if _expired(action, now):
            raise Gone("this preview is older than a day: create another one")
        return replace(action, state=BulkState.APPLYING, applied_at=now, reason=writes.actor.reason)

    done = {BulkState.APPLYING, BulkState.APPLIED}
    return await _change(writes, action_id, {BulkState.PREVIEW}, applying, AuditVerb.POSTS_CHANGED, done)


async def undo(writes: Writes, action_id: int) -> BulkAction:
    """Undo an applied action: restore the posts that it changed. Idempotent. Raises `NotFound`, and `Unfit` for a preview."""

    def undoing(action: BulkAction) -> BulkAction:
        return replace(action, state=BulkState.UNDOING, undone_at=writes.new_id.now())

    done = {BulkState.UNDOING, BulkState.UNDONE}
    return await _change(writes, action_id, {BulkState.APPLIED}, undoing, AuditVerb.POSTS_RESTORED, done)


def _expired(action: BulkAction, now: int) -> bool:
    return milliseconds_of(action.id) < now - PREVIEW_MS


_WRONG = {
    BulkState.PREVIEW: "this action is a preview: apply it first",
    BulkState.APPLYING: "this action is being applied: try again when it is done",
    BulkState.APPLIED: "this action is applied already",
    BulkState.UNDOING: "this action is being undone",
    BulkState.UNDONE: "this action was undone: create another preview",
    BulkState.DELETING: "this action is being deleted",
}


async def _change(
    writes: Writes,
    action_id: int,
    possible: set[BulkState],
    change: Callable[[BulkAction], BulkAction],
    verb: AuditVerb | None,
    done: Collection[BulkState] = (),
) -> BulkAction:
    """Change an action in one of the `possible` states, and start the work. An action that is `done` does not change."""

    def changed(action: BulkAction) -> BulkAction:
        if action.state in done:
            return action
        if action.state not in possible:
            raise Unfit(_WRONG[action.state])
        return change(action)

    def extra(batch: Batch, _before: BulkAction, after: BulkAction) -> None:
        batch.emit(BulkActionDue(action_id=action_id))
        if verb is not None:
            target = AuditTarget(TargetKind.BULK_ACTION, action_id)
            note(writes, batch, verb, target, action=after.verb, posts=len(after.post_ids))

    return await change_object(writes.graph, lambda: get_object(writes.graph, BulkAction, action_id), changed, extra)
