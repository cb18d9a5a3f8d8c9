"""Decide about held content: approve, reject or withdraw it.

An approval publishes the content and deletes the held object in one commit, so content is published once, however many moderators
decide at the same time. A repeated decision has the result of the first for 30 days.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from shoal.commands import media, members, posts
from shoal.commands.audit import note
from shoal.commands.context import Writes
from shoal.commands.posts import decode_draft, plan_key, take_keys
from shoal.commands.publishing import files_kept, leave_queue, release_files, remove
from shoal.core.audit import AuditTarget, AuditVerb, member_target
from shoal.core.errors import Gone, NotFound, Unfit
from shoal.core.events import HeldDecided
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Member
from shoal.core.publishing import MAX_REASON, HeldContent
from shoal.core.text import check_text
from shoal.graph.access import get_object, own_object
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, find_object

_KEPT_MS = 30 * 86_400_000
"""Milliseconds for which an approval is recognized when it is repeated."""


async def approve(writes: Writes, id_: int) -> int:
    """Publish held content. Return the id of the post, or of the changed post, member or media.

    Raises `NotFound` for content that is unknown or was withdrawn, and `Unfit` if it was rejected or cannot be published, for
    example because the post or its files have been changed since, or a post that it answers was deleted.
    """

    async def attempt() -> int:
        held = await find_object(writes.graph, HeldContent, id_)
        if held is None:
            return await _approved_before(writes, id_)
        if held.rejected_at:
            raise Unfit("This was rejected already")

        target = await _target(writes, held)

        def end(batch: Batch, published_id: int, now: int) -> None:
            remove(batch, held, now)
            key, _ = plan_key(batch.shard, held.id)
            take_keys(batch, [(key, _KEPT_MS)], published_id, milliseconds_of(now))
            note(writes, batch, AuditVerb.HELD_APPROVED, target, content=held.kind)
            post_id = published_id if held.kind in {"post", "edit"} else 0
            batch.emit(HeldDecided(member_id=held.owner_id, about=post_id, approved=True, time=now))

        try:
            return await _PUBLISH[held.kind](writes, held, end)
        except Gone as error:
            raise Unfit("The account of the author was suspended") from error
        except NotFound as error:
            raise Unfit("A post or file that this needs no longer exists: reject it") from error

    return await retry_on_conflict(attempt)


async def _approved_before(writes: Writes, id_: int) -> int:
    key, _ = plan_key(shard_of(id_), id_)
    found = (await writes.graph.key_get((key,))).get(key)
    if found is None:
        raise NotFound("Record not found")
    return found


_End = Callable[[Batch, int, int], None]


async def _publish_post(writes: Writes, held: HeldContent, end: _End) -> int:
    draft = decode_draft(held.content)
    made = await posts.create(writes, held.owner_id, draft, app_id=held.app_id, together_with=end, approved=held)
    return made.id


async def _publish_edit(writes: Writes, held: HeldContent, end: _End) -> int:
    draft = decode_draft(held.content)
    await posts.update(writes, held.owner_id, held.target_id, draft, together_with=end, approved=held)
    return held.target_id


async def _publish_profile(writes: Writes, held: HeldContent, end: _End) -> int:
    await members.apply_held(writes, held, end)
    if await find_object(writes.graph, HeldContent, held.id) is not None:
        # The profile has these values already, so nothing was committed.
        batch = Batch(shard_of(held.owner_id))
        end(batch, held.owner_id, writes.new_id(batch.shard))
        await writes.graph.commit(batch)
    return held.owner_id


async def _publish_description(writes: Writes, held: HeldContent, end: _End) -> int:
    await media.describe(writes, held.owner_id, held.target_id, description=held.text, together_with=end, approved=held)
    return held.target_id


_PUBLISH: dict[str, Callable[[Writes, HeldContent, _End], Awaitable[int]]] = {
    "post": _publish_post,
    "edit": _publish_edit,
    "profile": _publish_profile,
    "media": _publish_description,
}


async def reject(writes: Writes, id_: int, reason: str = "") -> HeldContent:
    """Reject held content for a reason that its author sees. It stays in the author's list until the author deletes it.

    Rejecting it again changes nothing. Raises `NotFound` for content that is unknown or was withdrawn, `Unfit` if it was approved,
    and `InvalidInput` for a reason that is too long.
    """
    reason = check_text(reason, field="reason", maximum=MAX_REASON)

    async def attempt() -> HeldContent:
        held = await find_object(writes.graph, HeldContent, id_)
        if held is None:
            await _approved_before(writes, id_)
            raise Unfit("This was approved already")
        if held.rejected_at:
            return held
        batch = Batch(shard_of(held.owner_id))
        now = writes.new_id(batch.shard)
        rejected = replace(held, rejected_at=milliseconds_of(now), refusal=reason, files=(), version=held.version + 1)
        batch.obj_set(rejected)
        leave_queue(batch, held, now)
        release_files(batch, held, await files_kept(writes.graph, held))
        note(writes, batch, AuditVerb.HELD_REJECTED, await _target(writes, held), content=held.kind)
        batch.emit(HeldDecided(member_id=held.owner_id, about=held.id, approved=False, time=now))
        await writes.graph.commit(batch)
        return rejected

    return await retry_on_conflict(attempt)


async def withdraw(writes: Writes, owner_id: int, id_: int) -> None:
    """Delete the owner's held or rejected content. Raises `NotFound` for any other."""

    async def attempt() -> None:
        held = await own_object(writes.graph, HeldContent, owner_id, id_)
        batch = Batch(shard_of(owner_id))
        remove(batch, held, writes.new_id(batch.shard))
        release_files(batch, held, await files_kept(writes.graph, held))
        await writes.graph.commit(batch)

    await retry_on_conflict(attempt)


async def _target(writes: Writes, held: HeldContent) -> AuditTarget:
    return member_target(await get_object(writes.graph, Member, held.owner_id))
