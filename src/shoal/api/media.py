"""Pictures: upload, look at, describe. They are ready when the upload is answered."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import present
from shoal.api.calls import Context
from shoal.api.convert import Id, Upload
from shoal.api.front import Front
from shoal.api.listing import One, actor
from shoal.api.statuses import focus_of
from shoal.services import media

_Text = Annotated[str, Meta(max_length=20_000)]
_Focus = Annotated[str, Meta(max_length=100)]


class NewMedia(msgspec.Struct, frozen=True):
    """A picture, and what is said of it."""

    file: Upload
    description: _Text = ""
    focus: _Focus = ""


class Described(msgspec.Struct, frozen=True):
    """What is said of a picture: None stays as it is."""

    id: Id
    description: _Text | None = None
    focus: _Focus | None = None


async def upload(context: Context, params: NewMedia) -> object:
    """Store a picture, to be used in statuses."""
    front: Front = context.deps
    made = await media.upload(
        front.writes,
        actor(context),
        params.file.data,
        description=params.description,
        focus=focus_of(params.focus) if params.focus else (0.0, 0.0),
    )
    return present.attachment(made, front.at)


async def one(context: Context, params: One) -> object:
    """An own picture."""
    front: Front = context.deps
    return present.attachment(await media.own_media(front.writes, actor(context), params.id), front.at)


async def describe(context: Context, params: Described) -> object:
    """Say something else of an own picture."""
    front: Front = context.deps
    focus = focus_of(params.focus) if params.focus else None
    changed = await media.describe(front.writes, actor(context), params.id, description=params.description, focus=focus)
    return present.attachment(changed, front.at)
