"""Media: upload, look at, describe, delete. A picture is ready when the upload is answered, others a little later."""

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
from shoal.http.routes import Route
from shoal.mastodon_api import context as endpoints
from shoal.mastodon_api.context import Context, One, actor
from shoal.mastodon_api.entities.serializers import attachment
from shoal.mastodon_api.entities.statuses import MediaAttachment
from shoal.mastodon_api.statuses import focus_of
from shoal.settings import Settings

_Text = Annotated[str, Meta(max_length=20_000)]
_Focus = Annotated[str, Meta(max_length=100)]

_PATIENCE_SECONDS = 30.0
"""How long an old client waits for its answer, before it is told to come again."""
_LOOK_SECONDS = 0.2
_FAILED = "Error processing thumbnail for uploaded media"


class NewMedia(msgspec.Struct, frozen=True):
    """A file, and what is said of it."""

    file: Upload
    """A picture, video or sound; what it is, its bytes say."""
    thumbnail: Upload | None = None
    """The picture of a video or sound."""
    description: _Text = ""
    """A description of the file, for people who cannot see or hear it."""
    focus: _Focus = ""
    """The point that a crop keeps: two numbers from -1 to 1, divided by a comma."""


class Described(msgspec.Struct, frozen=True):
    """Changes to a file's description, thumbnail and focus. A field that is None keeps its value."""

    id: Id
    thumbnail: Upload | None = None
    description: _Text | None = None
    focus: _Focus | None = None


async def upload(context: Context, params: NewMedia) -> object:
    """Store a picture, video or sound, to be used in statuses."""
    return _shown(context, await _uploaded(context, params), 202)


async def upload_and_wait(context: Context, params: NewMedia) -> object:
    """Upload a file and answer when it is ready, or after half a minute."""
    front = context.deps
    made = await _uploaded(context, params)
    until = time.monotonic() + _PATIENCE_SECONDS
    while made.state is MediaState.PROCESSING and time.monotonic() < until:
        async with outside(context.request.scope):
            await asyncio.sleep(_LOOK_SECONDS)
        made = await own_object(front.writes.graph, actor(context), made.id, Media)
    return _shown(context, made, 202)


async def one(context: Context, params: One) -> object:
    """An own file; 206 until it is ready."""
    front = context.deps
    return _shown(context, await own_object(front.writes.graph, actor(context), params.id, Media), 206)


async def describe(context: Context, params: Described) -> object:
    """Say something else of an own file, or give it another picture."""
    front = context.deps
    changed = await media.describe(
        front.writes,
        actor(context),
        params.id,
        description=params.description,
        focus=focus_of(params.focus) if params.focus else None,
        thumbnail=params.thumbnail.data if params.thumbnail else None,
    )
    return attachment(changed, front.at)


async def delete(context: Context, params: One) -> object:
    """Delete an own file that stands in no status and that no scheduled one names."""
    front = context.deps
    await discard_media(front.writes, actor(context), params.id)
    return {}


async def _uploaded(context: Context, params: NewMedia) -> Media:
    front = context.deps
    try:
        return await media.upload(
            front.writes,
            actor(context),
            params.file.data,
            description=params.description,
            focus=focus_of(params.focus) if params.focus else (0.0, 0.0),
            thumbnail=params.thumbnail.data if params.thumbnail else None,
        )
    finally:
        # While the request waits for a video to be made, it does not need the upload any more.
        params.file.close()


def _shown(context: Context, made: Media, unready: int) -> Reply:
    front = context.deps
    if made.state is MediaState.FAILED:
        raise Unfit(made.failure or _FAILED, field="file")
    return Reply(attachment(made, front.at), 200 if made.state is MediaState.READY else unready)


_LATER = (202, "It is being processed; `url` is null until it is ready.")
_NOT_YET = (206, "It is still being processed.")


def routes(settings: Settings) -> tuple[Route, ...]:
    """The rows; the settings say how large an upload may be."""
    picture = settings.max_upload_bytes + endpoints.FORM
    new = endpoints.route.having(
        scope="write:media",
        limit_class="media",
        max_body=max(settings.max_upload_bytes, settings.max_video_bytes) + picture,
        answer=MediaAttachment,
        also=(_LATER,),
    ).taking(NewMedia)
    mine = endpoints.route.having(scope="write:media")
    return (
        new("POST", "/api/v1/media", upload_and_wait),
        new("POST", "/api/v2/media", upload),
        mine("GET", "/api/v1/media/{id}", one, params=One, answer=MediaAttachment, also=(_NOT_YET,)),
        mine(
            "PUT",
            "/api/v1/media/{id}",
            describe,
            params=Described,
            max_body=picture,
            answer=MediaAttachment,
        ),
        mine("DELETE", "/api/v1/media/{id}", delete, params=One, answer=dict),
    )
