"""The life cycle of media: unattached, attached to posts, released by the last post, and deleted with their files.

The media object records since when it is unattached (`unused_since`), and every attachment, release, check and deletion creates a
new version of it. So when two of these collide, one fails, and is checked and tried again. Each media object has at most one ticket
in the schedule (agenda). When it is due, media that have been unattached for a day are deleted; attached media only lose the
ticket. The commit of the deletion emits an event that deletes the files.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from shoal.core.events import FilesReleased
from shoal.core.ids import IdMaker, milliseconds_of, shard_of
from shoal.core.media_files import files_of, id_in
from shoal.core.model import Media, Member
from shoal.graph.changes import put_on, retry_on_conflict, take_off
from shoal.graph.contract import Batch, Cursor, Graph, find_object
from shoal.graph.schema import ATTACHED, OWNS, Key, file_key

UNUSED_MS = 24 * 60 * 60 * 1_000
_AT_ONCE = 16
"""Maximum number of attachments to deleted posts that the deletion of media removes itself."""


def key_of_files(media: Media) -> Key | None:
    """Return the unique key for finding a media object by the id in its file names; None if that is the object's own id."""
    id_ = id_in(media.key or media.original_key)
    return file_key(shard_of(id_), id_) if id_ and id_ != media.id else None


def charge(batch: Batch, owner: Member, by: int) -> None:
    """Add `by` bytes to the owner's media usage. A concurrent change fails the batch with `Conflict`."""
    if by:
        batch.obj_set(replace(owner, media_bytes=max(0, owner.media_bytes + by), version=owner.version + 1))


def add(batch: Batch, media: Media, owner: Member, now: int) -> Media:
    made = replace(media, unused_since=milliseconds_of(now), ticket_id=media.id)
    batch.obj_add(made)
    batch.assoc_add(owner.id, OWNS, made.id, made.id)
    put_on(batch, made.id, made.unused_since + UNUSED_MS, made.id)
    if (key := key_of_files(made)) is not None:
        batch.key_add(key, made.id)
    charge(batch, owner, made.stored)
    return made


def attach(batch: Batch, post_id: int, media: Iterable[Media], now: int) -> None:
    for each in media:
        batch.assoc_add(each.id, ATTACHED, post_id, now)
        batch.obj_set(replace(each, unused_since=0, let_go=False, held=False, version=each.version + 1))


def hold(batch: Batch, media: Iterable[Media]) -> None:
    """Increment the version of media that a scheduled post uses.

    A concurrent deletion of the media then conflicts, and its retry finds that they are in use.
    """
    for each in media:
        batch.obj_set(replace(each, version=each.version + 1))


def plan(batch: Batch, media: Media, ticket: int, at: int) -> Media:
    """Schedule the next check of a media object at `at` (Unix ms) with a new ticket. Returns the object as the batch stores it."""
    now = ticket
    if media.ticket_id:
        take_off(batch, media.ticket_id, now)
    put_on(batch, ticket, at, media.id)
    planned = replace(media, ticket_id=ticket, version=media.version + 1)
    batch.obj_set(planned)
    return planned


async def release(graph: Graph, new_id: IdMaker, post_id: int, media_id: int) -> None:
    """Detach media from a deleted post. If no other post uses them, they become unattached and are no longer served."""

    async def attempt() -> None:
        media = await find_object(graph, Media, media_id)
        attached = await graph.assoc_get(media_id, (ATTACHED,), (post_id,))
        if not attached[ATTACHED]:
            return
        batch = Batch(shard_of(media_id))
        now = new_id(batch.shard)
        batch.assoc_del(media_id, ATTACHED, post_id, now)
        others = [put for put in await graph.assoc_range(media_id, ATTACHED, Cursor(limit=2)) if put.id2 != post_id]
        if media is not None:
            _let_go(batch, media, now, last=not others)
        await graph.commit(batch)

    await retry_on_conflict(attempt)


def _let_go(batch: Batch, media: Media, now: int, *, last: bool) -> None:
    changed = replace(media, version=media.version + 1)
    if last:
        changed = replace(changed, unused_since=milliseconds_of(now), let_go=True, ticket_id=media.ticket_id or now)
        if not media.ticket_id:
            put_on(batch, now, changed.unused_since + UNUSED_MS, media.id)
    batch.obj_set(changed)


async def delete(graph: Graph, new_id: IdMaker, media: Media) -> None:
    """Delete this version of media, subtract its bytes from the owner's usage, and emit an event that deletes its files.

    Raises `Conflict` if the media were changed concurrently.
    """
    owner = await find_object(graph, Member, media.owner_id)
    left = await graph.assoc_range(media.id, ATTACHED, Cursor(limit=_AT_ONCE))
    batch = Batch(shard_of(media.owner_id))
    now = new_id(batch.shard)
    batch.obj_del(media, media.version)
    batch.assoc_del(media.owner_id, OWNS, media.id, now)
    for put in left:
        # The posts in `left` are deleted, but their associations with the media have not been deleted yet.
        batch.assoc_del(media.id, ATTACHED, put.id2, now)
    take_off(batch, media.ticket_id, now)
    if (key := key_of_files(media)) is not None:
        batch.key_del(key, media.id)
    if owner is not None:
        charge(batch, owner, -media.stored)
    batch.emit(FilesReleased(keys=files_of(media)))
    await graph.commit(batch)
