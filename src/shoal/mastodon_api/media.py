"""Media attachments: upload, show, describe and delete. Images are ready when the upload returns, videos and sounds later."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.commands import media
from shoal.commands.scheduled_posts import discard_media
from shoal.core.errors import Unfit
from shoal.core.model import Media, MediaState
from shoal.graph.access import own_object
from shoal.http.middleware import outside
from shoal.http.params import Id, Upload
from shoal.http.responses import Reply
from shoal.mastodon_api.context import FORM, Context, One, Router, actor
from shoal.mastodon_api.entities.serializers import attachment
from shoal.mastodon_api.entities.statuses import MediaAttachment
from shoal.mastodon_api.statuses import MediaShoalParams, focus_of
from shoal.settings import Settings

router = Router(scope="write:media", answer=MediaAttachment)

_Text = Annotated[str, Meta(max_length=20_000)]
_Focus = Annotated[str, Meta(max_length=100)]

_WAIT_SECONDS = 30.0
"""Seconds that the synchronous upload waits for the file to be processed."""
_POLL_SECONDS = 0.2
_FAILED = "Error processing thumbnail for uploaded media"
_PROCESSING = (202, "It is being processed; `url` is null until it is ready.")


class NewMedia(msgspec.Struct, frozen=True):
    file: Upload
    """An image, video or sound; the type is detected from its content."""
    thumbnail: Upload | None = None
    """A preview image for a video or sound."""
    description: _Text = ""
    """A description of the file, for people who cannot see or hear it."""
    focus: _Focus = ""
    """The focal point of crops: two numbers from -1 to 1, separated by a comma."""
    shoal: MediaShoalParams = MediaShoalParams()


class MediaChanges(msgspec.Struct, frozen=True):
    """Changes to a file's description, thumbnail, focus and details. A field that is None is not changed."""

    id: Id
    thumbnail: Upload | None = None
    description: _Text | None = None
    focus: _Focus | None = None
    shoal: MediaShoalParams = MediaShoalParams()


def _thumbnail_body(settings: Settings) -> int:
    return settings.max_upload_bytes + FORM


def _upload_body(settings: Settings) -> int:
    return max(settings.max_upload_bytes, settings.max_video_bytes) + _thumbnail_body(settings)


@router.post("/api/v2/media", limit_class="media", max_body=_upload_body, also=(_PROCESSING,))
async def upload(context: Context, params: NewMedia) -> object:
    """Upload an image, video or sound to attach to a status."""
    return _shown(context, await _uploaded(context, params), 202)


@router.post("/api/v1/media", limit_class="media", max_body=_upload_body, also=(_PROCESSING,))
async def upload_and_wait(context: Context, params: NewMedia) -> object:
    """Upload a file and wait until it is processed, for at most 30 seconds."""
    made = await _uploaded(context, params)
    until = time.monotonic() + _WAIT_SECONDS
    while made.state is MediaState.PROCESSING and time.monotonic() < until:
        async with outside(context.request.scope):
            await asyncio.sleep(_POLL_SECONDS)
        made = await own_object(context.app.writes.graph, Media, actor(context), made.id)
    return _shown(context, made, 202)


@router.get("/api/v1/media/{id}", also=((206, "It is still being processed."),))
async def get_media(context: Context, params: One) -> object:
    """Show one of the caller's files; the status is 206 while it is being processed."""
    return _shown(context, await own_object(context.app.writes.graph, Media, actor(context), params.id), 206)


@router.put("/api/v1/media/{id}", max_body=_thumbnail_body)
async def describe(context: Context, params: MediaChanges) -> object:
    """Change the description, focus or thumbnail of one of the caller's files, or whether the file shows its details."""
    changed = await media.describe(
        context.app.writes,
        actor(context),
        params.id,
        description=params.description,
        focus=focus_of(params.focus) if params.focus else None,
        shows_details=params.shoal.shows_details,
        thumbnail=params.thumbnail.data if params.thumbnail else None,
    )
    return attachment(changed, context.app.at)


@router.delete("/api/v1/media/{id}", answer=dict)
async def delete(context: Context, params: One) -> None:
    """Delete one of the caller's files that no status or scheduled status uses."""
    await discard_media(context.app.writes, actor(context), params.id)


async def _uploaded(context: Context, params: NewMedia) -> Media:
    try:
        return await media.upload(
            context.app.writes,
            actor(context),
            params.file.data,
            description=params.description,
            focus=focus_of(params.focus) if params.focus else (0.0, 0.0),
            shows_details=params.shoal.shows_details,
            thumbnail=params.thumbnail.data if params.thumbnail else None,
        )
    finally:
        # Free the memory of the uploaded file before the request waits until a video is processed.
        params.file.close()


def _shown(context: Context, made: Media, unready: int) -> Reply:
    if made.state is MediaState.FAILED:
        raise Unfit(made.failure or _FAILED, field="file")
    return Reply(attachment(made, context.app.at), 200 if made.state is MediaState.READY else unready)
