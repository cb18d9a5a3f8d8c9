"""Schedule, reschedule, cancel and publish posts, and delete unused media.

If a scheduled post cannot be published at its time, it stays scheduled with the reason, and its author is notified. Publishing is
retried for 24 hours, because the author may be restored or a limit raised. After that the author has to choose another time or
cancel the post.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from shoal.commands import posts
from shoal.commands.context import Claim, Writes, add_node, serialized
from shoal.commands.media import with_media
from shoal.commands.posts import (
    Draft,
    decode_draft,
    encode_draft,
    first_made,
    made_before,
    plan_key,
    request_keys,
    take_keys,
)
from shoal.commands.publishing import held_media
from shoal.core.errors import Gone, InvalidInput, NotFound, ShoalError, Unfit
from shoal.core.events import PublishRefused
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Media, Post, ScheduledPost
from shoal.graph import media as life
from shoal.graph.access import count_of, objects_of, own_object
from shoal.graph.changes import change_object, put_on, retry_on_conflict, take_off
from shoal.graph.contract import Batch, Cursor, KeyTaken
from shoal.graph.media import hold
from shoal.graph.payloads.notifications import unpublished
from shoal.graph.schema import ATTACHED, NOTIFIED, SCHEDULES

LEAST_MS = 300_000
_MOST_MS = 10 * 366 * 86_400_000
_RETRY_MS = 300_000
RETRIED_MS = 86_400_000
"""Milliseconds after the scheduled time for which a failed publication is retried."""


async def schedule(
    writes: Writes, owner_id: int, draft: Draft, at: int, *, request: str = "", app_id: int = 0
) -> ScheduledPost | Post:
    """Schedule a post for a time (Unix ms) at least five minutes ahead. It is validated now, and again when published.

    If a `request` (an idempotency key) is repeated within an hour, the scheduled post of the first request is returned, or the
    published post if it is out already. Raises `InvalidInput` for an earlier time, a time more than ten years ahead, and too
    many scheduled posts, and the errors of `posts.create`.
    """
    shard = shard_of(owner_id)
    _check_moment(writes, at)
    keys = request_keys(writes, owner_id, request)
    if keys and (found := await made_before(writes, keys)) is not None:
        return found
    stored = encode_draft(await posts.checked(writes, owner_id, draft))

    async def attempt(claim: Claim) -> ScheduledPost | Post:
        if await count_of(writes.graph, owner_id, SCHEDULES) >= writes.limits.scheduled:
            raise InvalidInput(f"You have exceeded the limit of {writes.limits.scheduled} scheduled posts")

        async def add(media: Sequence[Media]) -> ScheduledPost:
            return await add_node(writes, shard, lambda new_id: build(new_id, media, claim))

        try:
            return await with_media(writes, owner_id, tuple(dict.fromkeys(draft.media)), add)
        except KeyTaken as error:
            return await first_made(writes, shard, error.id)

    def build(new_id: int, media: Sequence[Media], claim: Claim) -> tuple[ScheduledPost, Batch]:
        made = ScheduledPost(
            id=new_id,
            owner_id=owner_id,
            at=at,
            draft=stored,
            app_id=app_id,
            ticket_id=new_id,
        )
        batch = Batch(shard)
        claim(batch)
        batch.obj_add(made)
        batch.assoc_add(owner_id, SCHEDULES, made.id, made.id)
        put_on(batch, made.ticket_id, at, made.id)
        take_keys(batch, keys, made.id, milliseconds_of(new_id))
        hold(batch, media)
        return made, batch

    return await serialized(writes, owner_id, attempt)


async def put_off(writes: Writes, owner_id: int, id_: int, at: int) -> ScheduledPost:
    """Move a scheduled post to another time. Raises `NotFound`, and `InvalidInput` for a time that `schedule` would reject."""
    shard = shard_of(owner_id)
    _check_moment(writes, at)

    def extra(batch: Batch, before: ScheduledPost, after: ScheduledPost) -> None:
        now = writes.new_id(shard)
        _end_notice(batch, before, now)
        take_off(batch, before.ticket_id, now)
        put_on(batch, after.ticket_id, at, after.id)

    return await change_object(
        writes.graph,
        lambda: own_object(writes.graph, ScheduledPost, owner_id, id_),
        lambda before: msgspec.structs.replace(before, at=at, ticket_id=writes.new_id(shard), refused=""),
        extra,
    )


async def cancel(writes: Writes, owner_id: int, id_: int) -> None:
    await drop(writes, await own_object(writes.graph, ScheduledPost, owner_id, id_))


async def drop(writes: Writes, scheduled: ScheduledPost) -> None:
    """Delete a scheduled post. Raises `Conflict` if it was changed or published concurrently."""
    batch = Batch(shard_of(scheduled.owner_id))
    _remove(batch, scheduled, writes.new_id(batch.shard))
    await writes.graph.commit(batch)


async def publish(writes: Writes, scheduled: ScheduledPost) -> Post:
    """Publish a scheduled post, or hold it. The same commit deletes the scheduled post, so it is published exactly once.

    Raises the errors of `posts.create`, such as `Held` after it was held, and `Conflict` if the scheduled post was changed or
    published concurrently.
    """

    def end_plan(batch: Batch, id_: int, now: int) -> None:
        _remove(batch, scheduled, now)
        # With this key, a repeated request to schedule the post returns the published post.
        take_keys(batch, [plan_key(batch.shard, scheduled.id)], id_, milliseconds_of(now))

    return await posts.create(
        writes, scheduled.owner_id, draft_of(scheduled), app_id=scheduled.app_id, together_with=end_plan
    )


async def keep_refused(writes: Writes, scheduled: ScheduledPost, error: ShoalError, now: int) -> None:
    """Record that publishing failed at `now` (Unix ms), notify the author, and schedule a retry.

    The next attempt is five minutes later. Once the post is more than five minutes late, the delay is as long as the post is
    late. There are no retries after a day. Raises `Conflict` if the scheduled post was changed concurrently.
    """
    batch = Batch(shard_of(scheduled.owner_id))
    time, ticket, late = writes.new_id(batch.shard), writes.new_id(batch.shard), now - scheduled.at
    if late >= RETRIED_MS:
        ticket = 0
    version = scheduled.version + 1
    batch.obj_set(msgspec.structs.replace(scheduled, ticket_id=ticket, refused=reason_of(error), version=version))
    take_off(batch, scheduled.ticket_id, time)
    if ticket:
        put_on(batch, ticket, now + max(late, _RETRY_MS), scheduled.id)
    if not scheduled.refused:
        batch.emit(PublishRefused(scheduled_id=scheduled.id, time=time))
    await writes.graph.commit(batch)


def reason_of(error: ShoalError) -> str:
    """Return why a post cannot be published, for its author."""
    match error:
        case Gone():
            return "Your account was suspended"
        case NotFound():
            return "A post or file that this post refers to no longer exists"
    return str(error)


async def planned_media(writes: Writes, owner_id: int) -> set[int]:
    """Return the media of the member's scheduled, held and rejected posts."""
    plans = await writes.graph.assoc_range(owner_id, SCHEDULES, Cursor(limit=writes.limits.scheduled))
    scheduled = await objects_of(writes.graph, ScheduledPost, [plan.id2 for plan in plans])
    return {id_ for post in scheduled for id_ in draft_of(post).media} | await held_media(writes.graph, owner_id)


def draft_of(scheduled: ScheduledPost) -> Draft:
    return decode_draft(scheduled.draft)


def moment_of_text(text: str) -> int | None:
    """Parse an ISO 8601 or RFC 3339 time into Unix milliseconds. UTC is the default zone; invalid text gives None."""
    try:
        moment = datetime.fromisoformat(text.strip().upper())
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)
    except (ValueError, OverflowError):
        return None


def _remove(batch: Batch, scheduled: ScheduledPost, now: int) -> None:
    batch.obj_del(scheduled.id, scheduled.version)
    batch.assoc_del(scheduled.owner_id, SCHEDULES, scheduled.id, now)
    _end_notice(batch, scheduled, now)
    take_off(batch, scheduled.ticket_id, now)


def _end_notice(batch: Batch, scheduled: ScheduledPost, now: int) -> None:
    if scheduled.refused:
        batch.assoc_del(scheduled.owner_id, NOTIFIED, unpublished(scheduled).id, now)


def _check_moment(writes: Writes, at: int) -> None:
    delay = at - writes.new_id.now()
    if delay < LEAST_MS:
        raise InvalidInput("Scheduled at must be at least 5 minutes in the future", field="scheduled_at")
    if delay > _MOST_MS:
        raise InvalidInput("Scheduled at is more than ten years in the future", field="scheduled_at")


_MOST_POSTS = 1_000


async def discard_media(writes: Writes, owner_id: int, media_id: int) -> None:
    """Delete media and their files.

    Raises `NotFound` for another member's media, and `Unfit` for media of a scheduled or held post, or of a post or its edit
    history.
    """

    async def attempt() -> None:
        # Read the media before the posts: if a post attaches the media afterwards, their version changes and the deletion fails.
        media = await own_object(writes.graph, Media, owner_id, media_id)
        put = [assoc.id2 for assoc in await writes.graph.assoc_range(media_id, ATTACHED, Cursor(limit=_MOST_POSTS))]
        if await objects_of(writes.graph, Post, put):
            raise Unfit("Media attachment is currently used by a status")
        if media_id in await planned_media(writes, owner_id):
            raise Unfit("Media attachment is currently used by a scheduled status")
        await life.delete(writes.graph, writes.new_id, media)

    await retry_on_conflict(attempt)
