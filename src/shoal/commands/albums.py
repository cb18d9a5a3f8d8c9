"""Commands for photo albums.

A photo belongs to one of the member's posts and has the visibility of that post. A photo that an edit removes from its post is
hidden until the post has it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from shoal.commands.context import Claim, Writes, add_node, delete_owned, serialized
from shoal.commands.publishing import check_album
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.events import AlbumDeleted
from shoal.core.ids import shard_of
from shoal.core.model import Album, Post, Visibility
from shoal.core.text import check_text
from shoal.graph.access import count_of, own_object, own_post
from shoal.graph.changes import change_object
from shoal.graph.contract import Assoc, Batch, Cursor
from shoal.graph.payloads.members import MOST_PHOTOS, Collected, collected_of, encode_collected, in_order
from shoal.graph.schema import COLLECTS, OWNS_ALBUM


async def create(writes: Writes, member_id: int, title: str, description: str = "") -> Album:
    """Create an empty album.

    Raises `InvalidInput` if the member has too many, or for an empty title or a text that is too long, and `Rejected` by a check.
    """
    title, description = _checked_title(writes, title), _checked_description(writes, description)
    shard = shard_of(member_id)
    record = await check_album(writes, member_id, title, description)

    async def attempt(claim: Claim) -> Album:
        if await count_of(writes.graph, member_id, OWNS_ALBUM) >= writes.limits.albums:
            raise InvalidInput(f"at most {writes.limits.albums} albums")

        def build(id_: int) -> tuple[Album, Batch]:
            made = Album(id=id_, owner_id=member_id, title=title, description=description)
            batch = Batch(shard)
            claim(batch)
            batch.obj_add(made)
            batch.assoc_add(member_id, OWNS_ALBUM, id_, id_)
            record(batch)
            return made, batch

        return await add_node(writes, shard, build)

    return await serialized(writes, member_id, attempt)


async def update(
    writes: Writes, member_id: int, album_id: int, *, title: str | None = None, description: str | None = None
) -> Album:
    """Change the title or the description of an album; None keeps the current value.

    Raises `NotFound` for another member's album, `InvalidInput` for an empty title or a text that is too long, and `Rejected` by a
    check.
    """
    changes: dict[str, str] = {}
    if title is not None:
        changes["title"] = _checked_title(writes, title)
    if description is not None:
        changes["description"] = _checked_description(writes, description)
    if await writes.checks.in_force():
        await own_object(writes.graph, Album, member_id, album_id)
    record = await check_album(writes, member_id, *changes.values())
    return await change_object(
        writes.graph,
        lambda: own_object(writes.graph, Album, member_id, album_id),
        lambda album: msgspec.structs.replace(album, **changes),
        lambda batch, _before, _after: record(batch),
    )


async def delete(writes: Writes, member_id: int, album_id: int) -> None:
    """Delete an album; its photos are removed from it later, and the posts are kept.

    Raises `NotFound` for another member's album.
    """
    await delete_owned(writes, Album, OWNS_ALBUM, member_id, album_id, AlbumDeleted(album_id=album_id))


async def put_in(writes: Writes, member_id: int, album_id: int, post_id: int, media_ids: Sequence[int] = ()) -> None:
    """Append photos of the member's post to an album: those in `media_ids`, or all photos if `media_ids` is empty.

    Photos that are already in the album keep their position.

    Raises `NotFound` for an album or post of another member and for media that the post does not have, and `InvalidInput` for a
    post without media, a direct post, and an album that would be too large.
    """
    await own_object(writes.graph, Album, member_id, album_id)
    post = await own_post(writes.graph, member_id, post_id)
    requested = _requested_media(post, media_ids)

    async def attempt(claim: Claim) -> None:
        there = await _photos_of(writes, album_id)
        known = {assoc.id2 for assoc in there}
        new = [id_ for id_ in requested if id_ not in known]
        if len(there) + len(new) > writes.limits.album_photos:
            raise InvalidInput(f"an album has at most {writes.limits.album_photos} photos", field="media_ids")
        if not new:
            return
        batch = Batch(shard_of(member_id))
        claim(batch)
        batch.expect(album_id)
        batch.expect(post.id)
        first = 1 + max((collected_of(assoc).position for assoc in there), default=0)
        for index, id_ in enumerate(new, first):
            _put_photo(writes, batch, album_id, id_, Collected(post.id, index))
        await writes.commit(batch)

    await serialized(writes, member_id, attempt)


async def take_out(writes: Writes, member_id: int, album_id: int, media_ids: Sequence[int]) -> None:
    """Remove photos from an album, ignoring unknown ones. Raises `NotFound` for another member's album."""
    await own_object(writes.graph, Album, member_id, album_id)
    collected = (await writes.graph.assoc_get(album_id, (COLLECTS,), list(dict.fromkeys(media_ids))))[COLLECTS]
    if collected:
        batch = Batch(shard_of(member_id))
        for id_ in collected:
            batch.assoc_del(album_id, COLLECTS, id_, writes.new_id(batch.shard))
        await writes.graph.commit(batch)


async def arrange(writes: Writes, member_id: int, album_id: int, media_ids: Sequence[int]) -> None:
    """Move photos to the front of an album, in the given order; the other photos keep their order.

    Ids of media outside the album are ignored.

    Raises `NotFound` for another member's album.
    """
    await own_object(writes.graph, Album, member_id, album_id)

    async def attempt(claim: Claim) -> None:
        there = {assoc.id2: assoc for assoc in in_order(await _photos_of(writes, album_id))}
        order = list(dict.fromkeys([*(id_ for id_ in media_ids if id_ in there), *there]))
        batch = Batch(shard_of(member_id))
        claim(batch)
        batch.expect(album_id)
        for id_, photo in _moved(there, order):
            _put_photo(writes, batch, album_id, id_, photo)
        if batch.assocs:
            await writes.commit(batch)

    await serialized(writes, member_id, attempt)


def _moved(there: dict[int, Assoc], order: Sequence[int]) -> Iterable[tuple[int, Collected]]:
    """Yield the photos whose stored `position` changes. Existing positions are reused, so most photos keep theirs."""
    positions = sorted(collected_of(assoc).position for assoc in there.values())
    if len(set(positions)) < len(positions):
        # Concurrent additions can have produced equal positions.
        positions = list(range(1, len(positions) + 1))
    for id_, position in zip(order, positions, strict=True):
        photo = collected_of(there[id_])
        if photo.position != position:
            yield id_, photo._replace(position=position)


def _put_photo(writes: Writes, batch: Batch, album_id: int, media_id: int, photo: Collected) -> None:
    batch.assoc_add(album_id, COLLECTS, media_id, writes.new_id(batch.shard), encode_collected(photo))


async def _photos_of(writes: Writes, album_id: int) -> list[Assoc]:
    return await writes.graph.assoc_range(album_id, COLLECTS, Cursor(limit=MOST_PHOTOS))


def _requested_media(post: Post, media_ids: Sequence[int]) -> list[int]:
    if post.visibility is Visibility.DIRECT:
        raise InvalidInput("photos of direct messages cannot be added to an album", field="status_id")
    if not post.media:
        raise InvalidInput("this post has no photos", field="status_id")
    requested = list(dict.fromkeys(media_ids or post.media))
    if not set(requested) <= set(post.media):
        raise NotFound("Record not found")
    return requested


def _checked_title(writes: Writes, title: str) -> str:
    title = check_text(title.strip(), field="title", maximum=writes.limits.album_title)
    if not title:
        raise InvalidInput("Title can't be blank", field="title")
    return title


def _checked_description(writes: Writes, description: str) -> str:
    return check_text(description.strip(), field="description", maximum=writes.limits.album_description)
