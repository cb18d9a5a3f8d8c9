"""Convert uploaded videos and audio, and delete files that nothing references.

A conversion runs concurrently with other jobs, and its job ends with it. It is idempotent, and keeps a deletion or a description
that was made in the meantime. File keys are used only once, so a released file cannot be referenced again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from shoal.consumers.context import Effects
from shoal.core import events
from shoal.core.errors import InvalidInput
from shoal.core.ids import shard_of
from shoal.core.model import Media, MediaState, Member
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, find_object
from shoal.graph.media import charge
from shoal.media.library import StoredClip


async def convert(effects: Effects, event: events.MediaUploaded, mark: int) -> asyncio.Future[None]:
    # Schedule conversions fairly by shard instead of by member: all media of a member are on one shard, few members share a
    # shard, and its number is known without a read.
    return effects.workshop.begin(event.media_id, shard_of(event.media_id), lambda: _make(effects, event.media_id))


async def _make(effects: Effects, media_id: int) -> None:
    library, media = effects.workshop.library, await find_object(effects.graph, Media, media_id)
    if media is None:
        return
    if media.state is not MediaState.PROCESSING:
        # An earlier run converted the media, but may have crashed before it removed the original file.
        await library.remove((media.original_key,))
        return
    try:
        clip = await library.store_clip(media.original_key)
    except InvalidInput as error:
        failed = {"state": MediaState.FAILED, "failure": str(error), "file_bytes": 0}
        await _changed(effects, media_id, lambda media: msgspec.structs.replace(media, **failed))
        await library.remove((media.original_key,))
        return
    shown = await _changed(effects, media_id, lambda media: _ready(media, clip))
    keys = {media.original_key, clip.key, clip.poster.preview_key}
    # Remove the original. Also remove the converted files if the media were deleted during the conversion, and the generated
    # preview if the media have their own preview.
    await library.remove(keys - ({shown.key, shown.preview_key} if shown else set()))


async def _changed(effects: Effects, media_id: int, change: Callable[[Media], Media]) -> Media | None:
    """Apply a change to media that are still processing, and return them; None if they were deleted.

    Media that another run has already converted are returned unchanged, because both runs make identical files.
    """

    async def attempt() -> Media | None:
        media = await find_object(effects.graph, Media, media_id)
        if media is None or media.state is not MediaState.PROCESSING:
            return media
        changed = msgspec.structs.replace(change(media), version=media.version + 1)
        batch = Batch(shard_of(media.owner_id))
        batch.obj_set(changed)
        owner = await find_object(effects.graph, Member, media.owner_id)
        if owner is not None:
            charge(batch, owner, changed.stored - media.stored)
        await effects.graph.commit(batch)
        return changed

    return await retry_on_conflict(attempt)


def _ready(media: Media, clip: StoredClip) -> Media:
    facts = clip.facts
    own = media.preview_key
    poster = {} if own else msgspec.structs.asdict(clip.poster)
    return msgspec.structs.replace(
        media,
        state=MediaState.READY,
        kind=clip.kind,
        content_type=clip.content_type,
        key=clip.key,
        size=clip.size,
        file_bytes=clip.size,
        width=facts.width,
        height=facts.height,
        duration=facts.duration,
        frame_rate=f"{facts.frame_rate.numerator}/{facts.frame_rate.denominator}" if facts.width else "",
        bitrate=facts.bitrate,
        sound=facts.sound,
        **poster,
    )


async def remove_files(effects: Effects, event: events.FilesReleased, mark: int) -> None:
    await effects.workshop.library.remove(event.keys)
