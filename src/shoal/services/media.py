"""Pictures: upload, describe, discard."""

from __future__ import annotations

import math

import msgspec

from shoal.core.errors import InvalidInput, NotFound
from shoal.core.ids import shard_of
from shoal.core.model import Media
from shoal.core.text import check_text
from shoal.graph.access import access_member
from shoal.graph.contract import Batch
from shoal.graph.schema import OWNS, import_key
from shoal.services.writes import Writes, add_node


async def upload(
    writes: Writes,
    owner_id: int,
    data: bytes,
    *,
    description: str = "",
    focus: tuple[float, float] = (0.0, 0.0),
    id_: int = 0,
    record: str = "",
) -> Media:
    """Store a picture of the member's, to be used in posts.

    An import may give an `id_` of its own and the name of its `record`, which is recognised for ever.

    Raises `TooLarge` or `Unsupported` for a file that is not taken, `InvalidInput` for one that cannot be decoded.
    """
    description = check_text(description, field="description", maximum=writes.limits.description)
    focus = _checked_focus(focus)
    owner = await access_member(writes.graph, owner_id)
    shard = shard_of(owner_id)
    key = import_key(shard, record)
    if record and (found := (await writes.graph.key_get((key,))).get(key)):
        return await own_media(writes, owner_id, found)
    placed = await writes.media.place(owner.name, id_ or writes.new_id(shard), data)

    def build(new_id: int) -> tuple[Media, Batch]:
        media = Media(
            id=id_ or new_id,
            owner_id=owner_id,
            description=description,
            focus=focus,
            **msgspec.structs.asdict(placed),
        )
        batch = Batch(shard)
        batch.obj_add(media)
        batch.assoc_add(owner_id, OWNS, media.id, media.id)
        if record:
            batch.key_add(key, media.id)
        return media, batch

    try:
        return await add_node(writes, shard, build)
    except Exception:
        # Refused for certain. When the caller goes away, the commit goes on, and the files belong to it.
        await writes.media.remove((placed.key, placed.preview_key))
        raise


async def describe(
    writes: Writes,
    owner_id: int,
    media_id: int,
    *,
    description: str | None = None,
    focus: tuple[float, float] | None = None,
) -> Media:
    """Change what is said of a picture. Raises `NotFound` for anybody else's."""
    media = await own_media(writes, owner_id, media_id)
    changed = described(writes, media, description=description, focus=focus)
    batch = Batch(shard_of(owner_id))
    batch.obj_set(changed)
    await writes.graph.commit(batch)
    return changed


def described(
    writes: Writes, media: Media, *, description: str | None = None, focus: tuple[float, float] | None = None
) -> Media:
    """What a picture would become, checked; nothing is done."""
    if description is not None:
        description = check_text(description, field="description", maximum=writes.limits.description)
    return msgspec.structs.replace(
        media,
        version=media.version + 1,
        description=media.description if description is None else description,
        focus=media.focus if focus is None else _checked_focus(focus),
    )


async def discard(writes: Writes, owner_id: int, media_id: int) -> None:
    """Delete a picture and its files. Raises `NotFound` for anybody else's."""
    media = await own_media(writes, owner_id, media_id)
    shard = shard_of(owner_id)
    batch = Batch(shard)
    batch.obj_del(media.id)
    batch.assoc_del(owner_id, OWNS, media.id, writes.new_id(shard))
    await writes.graph.commit(batch)
    await writes.media.remove((media.key, media.preview_key))


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
