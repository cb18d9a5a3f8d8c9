"""Pictures, videos and sounds: upload, describe, discard."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from shoal.core.errors import InvalidInput, NotAllowed, NotFound, ShoalError, Unfit, is_refusal
from shoal.core.events import MediaUploaded
from shoal.core.ids import shard_of
from shoal.core.model import Media, MediaKind, MediaState, Post
from shoal.core.text import check_text
from shoal.graph.access import access_member
from shoal.graph.changes import change_object
from shoal.graph.contract import Batch
from shoal.graph.schema import ATTACHED, OWNS, import_key
from shoal.media.library import Poster
from shoal.media.sniff import GIF, sniff_clip
from shoal.services.writes import Writes, add_node

_KEYS = ("key", "preview_key", "original_key")
_MOST_POSTS = 1_000
"""In how many posts media are looked for."""
_NOT_READY = "Cannot attach files that have not finished processing. Try again in a moment!"
_NOT_TOGETHER = "Cannot attach a video to a post that already contains images"


async def upload(
    writes: Writes,
    owner_id: int,
    data: bytes,
    *,
    description: str = "",
    focus: tuple[float, float] = (0.0, 0.0),
    thumbnail: bytes | None = None,
    id_: int = 0,
    record: str = "",
) -> Media:
    """Store a picture, video or sound of the member's, to be used in posts. A picture is ready; others become so a little later.

    `thumbnail` is the picture of a video or sound. An import may give an `id_` of its own and the name of its `record`, which is
    recognised for ever; it brings pictures only.

    Raises `TooLarge` or `Unsupported` for a file that is not taken, `InvalidInput` for one that cannot be decoded.
    """
    description = check_text(description, field="description", maximum=writes.limits.description)
    focus = _checked_focus(focus)
    owner = await access_member(writes.graph, owner_id)
    shard = shard_of(owner_id)
    key = import_key(shard, record)
    if record and (found := (await writes.graph.key_get((key,))).get(key)):
        return await own_media(writes, owner_id, found)
    placing = _place_clip if not record and writes.media.is_clip(data) else _place_picture
    placed = await placing(writes, owner.name, id_ or writes.new_id(shard), data, thumbnail)

    def build(new_id: int) -> tuple[Media, Batch]:
        media = Media(id=id_ or new_id, owner_id=owner_id, description=description, focus=focus, **placed)
        batch = Batch(shard)
        batch.obj_add(media)
        batch.assoc_add(owner_id, OWNS, media.id, media.id)
        if media.state is MediaState.PROCESSING:
            batch.emit(MediaUploaded(media_id=media.id))
        if record:
            batch.key_add(key, media.id)
        return media, batch

    try:
        return await add_node(writes, shard, build)
    except ShoalError as error:
        # When the caller goes away, the commit goes on, and the files belong to it.
        if is_refusal(error) and not await _is_there(writes, id_):
            await writes.media.remove(placed[name] for name in _KEYS if name in placed)
        raise


async def _is_there(writes: Writes, id_: int) -> bool:
    """Whether an import has stored this before. A file is named after what is in it, so that one has the same files."""
    return bool(id_) and id_ in await writes.graph.obj_get((id_,))


async def _place_picture(
    writes: Writes, owner_name: str, media_id: int, data: bytes, _thumbnail: bytes | None
) -> dict[str, Any]:
    return msgspec.structs.asdict(await writes.media.place(owner_name, media_id, data))


async def _place_clip(
    writes: Writes, owner_name: str, media_id: int, data: bytes, thumbnail: bytes | None
) -> dict[str, Any]:
    """As it came; what is shown of it is made by the consequence."""
    sniffed = sniff_clip(data)
    kind = MediaKind.AUDIO if sniffed and sniffed.content_type.startswith("audio/") else MediaKind.VIDEO
    poster = await writes.media.place_poster(owner_name, media_id, thumbnail) if thumbnail else Poster()
    try:
        kept = await writes.media.keep(owner_name, media_id, data)
    except Exception:
        await writes.media.remove((poster.preview_key,))
        raise
    return {
        "kind": kind if sniffed else MediaKind.GIFV,
        "state": MediaState.PROCESSING,
        "content_type": sniffed.content_type if sniffed else GIF,
        "original_key": kept,
        **msgspec.structs.asdict(poster),
    }


async def describe(
    writes: Writes,
    owner_id: int,
    media_id: int,
    *,
    description: str | None = None,
    focus: tuple[float, float] | None = None,
    thumbnail: bytes | None = None,
) -> Media:
    """Change what is said of media, and the picture of a video or sound. Raises `NotFound` for anybody else's."""
    media = await own_media(writes, owner_id, media_id)
    described(writes, media, description=description, focus=focus)
    poster: dict[str, Any] = {}
    if thumbnail and media.kind is not MediaKind.IMAGE:
        owner = await access_member(writes.graph, owner_id)
        poster = msgspec.structs.asdict(await writes.media.place_poster(owner.name, media_id, thumbnail))
    replaced: list[str] = []

    def change(held: Media) -> Media:
        replaced[:] = [held.preview_key]
        return msgspec.structs.replace(described(writes, held, description=description, focus=focus), **poster)

    try:
        changed = await change_object(writes.graph, lambda: own_media(writes, owner_id, media_id), change)
    except ShoalError as error:
        if is_refusal(error):
            await writes.media.remove({poster.get("preview_key", "")} - {media.preview_key, ""})
        raise
    await writes.media.remove({*replaced} - {changed.preview_key})
    return changed


def described(
    writes: Writes, media: Media, *, description: str | None = None, focus: tuple[float, float] | None = None
) -> Media:
    """What a picture would become, checked; nothing is done."""
    if description is not None:
        description = check_text(description, field="description", maximum=writes.limits.description)
    return msgspec.structs.replace(
        media,
        description=media.description if description is None else description,
        focus=media.focus if focus is None else _checked_focus(focus),
    )


async def discard(writes: Writes, owner_id: int, media_id: int) -> None:
    """Delete media and their files.

    Raises `NotFound` for anybody else's, `Unfit` for what a post has, or had before an edit: its history shows it.
    """
    media = await own_media(writes, owner_id, media_id)
    put = [assoc.id2 for assoc in await writes.graph.assoc_range(media_id, ATTACHED, limit=_MOST_POSTS)]
    if any(isinstance(node, Post) for node in (await writes.graph.obj_get(put)).values()):
        raise Unfit("Media attachment is currently used by a status")
    batch = Batch(shard_of(owner_id))
    now = writes.new_id(batch.shard)
    batch.obj_del(media.id)
    batch.assoc_del(owner_id, OWNS, media.id, now)
    for post_id in put:
        # A post that is gone, and not cleared away yet.
        batch.assoc_del(media.id, ATTACHED, post_id, now)
    await writes.graph.commit(batch)
    await writes.media.remove(getattr(media, name) for name in _KEYS)


def attach(batch: Batch, post_id: int, ids: Iterable[int], now: int) -> None:
    """Note in the commit of a post that it has these media, which fails where one of them has gone in between."""
    for id_ in ids:
        batch.assoc_add(id_, ATTACHED, post_id, now)
        batch.expect(id_)


async def check_attachable(writes: Writes, owner_id: int, ids: Sequence[int]) -> None:
    """Raise `NotFound`, `NotAllowed` or `Unfit` unless a post of the member's may have these media together."""
    found = await writes.graph.obj_get(ids) if ids else {}
    kinds: list[MediaKind] = []
    for id_ in dict.fromkeys(ids):
        node = found.get(id_)
        if not isinstance(node, Media):
            raise NotFound("Record not found")
        if node.owner_id != owner_id:
            raise NotAllowed("This action is not allowed")
        if node.state is not MediaState.READY:
            raise Unfit(_NOT_READY, field="media_ids")
        kinds.append(node.kind)
    if len(kinds) > 1 and any(kind is not MediaKind.IMAGE for kind in kinds):
        raise Unfit(_NOT_TOGETHER, field="media_ids")


async def own_media(writes: Writes, owner_id: int, media_id: int) -> Media:
    """A picture of this member. Raises `NotFound` for anybody else's."""
    node = (await writes.graph.obj_get((media_id,))).get(media_id)
    if not isinstance(node, Media) or node.owner_id != owner_id:
        raise NotFound("Record not found")
    return node


def _checked_focus(focus: tuple[float, float]) -> tuple[float, float]:
    if not all(math.isfinite(part) and -1 <= part <= 1 for part in focus):
        raise InvalidInput("focus: two numbers from -1 to 1", field="focus")
    return float(focus[0]), float(focus[1])
