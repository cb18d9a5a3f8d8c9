"""Media attachments in the compose form: upload, processing state, description and focal point."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Set
from typing import Literal

import msgspec
from starlette.responses import Response

from shoal.commands import media
from shoal.core.errors import NotFound, ShoalError, TooMany
from shoal.core.model import Media, MediaKind, Member
from shoal.graph.access import own_object
from shoal.http.params import Id, Upload
from shoal.http.rate_limits import RateKey
from shoal.http.routes import Route
from shoal.settings import Settings
from shoal.web import routing
from shoal.web.compose_form import FileOfPost, picture_of
from shoal.web.form_errors import error_text
from shoal.web.photo_details import summary_of
from shoal.web.rendering import part
from shoal.web.request_context import Form, PageContext
from shoal.web.view_models import Photo, photo_of


class PictureCard(msgspec.Struct, frozen=True):
    id: int
    photo: Photo
    what: str
    """The kind of media as one word, such as "photo"."""
    describe: str
    """Placeholder in the field of the description."""
    description: str
    across: int
    down: int
    cut: bool
    """Whether previews may crop the media, so that it has a focal point."""
    details: str
    """The details that the camera stored, in one line; empty without details."""
    shows_details: bool
    made_from: str
    first: bool = False
    last: bool = False
    lacks: bool = False
    """Whether the member was asked for a description and the media still has none."""
    opens: bool = False
    """Whether the fields of the card are visible: those of the first picture without a description."""


class Refused(msgspec.Struct, frozen=True):
    name: str
    words: str


def _card(ctx: PageContext, media: Media, file_fields: FileOfPost | None = None) -> PictureCard:
    """Return the card of a file in the compose form.

    `file_fields` are the fields as typed; by default, they have the stored values.
    """
    _, file_fields = ctx.words.text, file_fields or picture_of(media)
    is_picture = media.kind is MediaKind.IMAGE
    what, describe = {
        MediaKind.IMAGE: (_("Picture"), _("Describe this photo for people who can't see it")),
        MediaKind.AUDIO: (_("Audio"), _("Describe this audio for people who can't hear it")),
    }.get(media.kind, (_("Video"), _("Describe this video for people who can't see or hear it")))
    return PictureCard(
        media.id,
        photo_of(ctx, media),
        what,
        describe,
        file_fields.description,
        file_fields.across,
        file_fields.down,
        is_picture,
        summary_of(ctx.words, media.details),
        file_fields.shows_details,
        file_fields.made_from,
    )


def cards_of(
    ctx: PageContext, media: Sequence[Media], file_fields: Sequence[FileOfPost], *, lacking: Set[int]
) -> tuple[PictureCard, ...]:
    """Return the cards of a form's files in order. The files in `lacking` are marked as without a description."""
    there = {file.id: file for file in media}
    cards = [_card(ctx, there[field.id], field) for field in file_fields if field.id in there]
    without = [n for n, card in enumerate(cards) if card.id in lacking]
    return tuple(
        msgspec.structs.replace(
            card, first=n == 0, last=n == len(cards) - 1, lacks=n in without, opens=[n] == without[:1]
        )
        for n, card in enumerate(cards)
    )


_AT_ONCE = 2


class NewFile(Form, frozen=True, kw_only=True):
    file: Upload


class FileQuery(msgspec.Struct, frozen=True):
    """A file of the member. With `only="state"`, the response contains only the processing state."""

    id: Id
    only: Literal["", "state"] = ""


async def upload(ctx: PageContext, asked: NewFile) -> Response:
    member = ctx.checked(asked)
    made = await _store(ctx, member, asked.file)
    if isinstance(made, Refused):
        return part(ctx, "refused_file", status=422, refused=made)
    return part(ctx, "picture_card", card=_card(ctx, made))


async def show(ctx: PageContext, asked: FileQuery) -> Response:
    """Show the card of a file, or only its processing state."""
    found = await own_object(ctx.graph, Media, ctx.member.id, asked.id)
    name = "picture_state" if asked.only else "picture_card"
    return part(ctx, name, card=_card(ctx, found))


async def take_files(
    ctx: PageContext, member: Member, files: Sequence[Upload]
) -> tuple[tuple[FileOfPost, ...], tuple[Refused, ...]]:
    """Store the files of a form. Return the stored files in order, and the refused files with their errors."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(file: Upload) -> Media | Refused:
        async with slots:
            return await _store(ctx, member, file, counted=False)

    made = await asyncio.gather(*map(one, files))
    pictures = tuple(picture_of(each) for each in made if isinstance(each, Media))
    return pictures, tuple(each for each in made if isinstance(each, Refused))


async def _store(ctx: PageContext, member: Member, file: Upload, *, counted: bool = True) -> Media | Refused:
    """Store a file. With `counted=False`, first count the file against the upload limit."""
    try:
        if not counted:
            await _count(ctx, member)
        return await media.upload(ctx.writes, member.id, file.data)
    except ShoalError as error:
        return Refused(file.filename[-80:] or ctx.words.text("This file"), error_text(ctx.words, error))
    finally:
        file.close()


async def _count(ctx: PageContext, member: Member) -> None:
    """Count a file against the upload limit. Raises `TooMany`."""
    window = await ctx.app.limiter.take(RateKey("media", member.id))
    if window is not None and window.wait:
        raise TooMany(ctx.words.text("You uploaded many files. Please wait a few minutes."), retry_after=window.wait)


async def own_files(ctx: PageContext, member: Member, ids: Sequence[int]) -> list[Media]:
    nodes = await ctx.graph.obj_get(list(dict.fromkeys(ids))) if ids else {}
    found = [nodes.get(id_) for id_ in ids]
    return [node for node in found if isinstance(node, Media) and node.owner_id == member.id]


async def check_descriptions(ctx: PageContext, member: Member, file_fields: Sequence[FileOfPost]) -> None:
    """Raise the errors that `describe_pictures` would raise (`NotFound`, `InvalidInput`), without storing anything."""
    own = {file.id: file for file in await own_files(ctx, member, [field.id for field in file_fields])}
    for field in file_fields:
        if field.id not in own:
            raise NotFound("There is no such file")
        media.described(ctx.writes, own[field.id], **field.changes)


async def describe_pictures(ctx: PageContext, member: Member, file_fields: Sequence[FileOfPost]) -> None:
    """Store the descriptions, focal points and choices of details that the member changed in the form.

    Values that the member did not change are not stored, because they may have been changed elsewhere. Raises `NotFound` and
    `InvalidInput`.
    """
    there = {file.id for file in await own_files(ctx, member, [field.id for field in file_fields])}
    for field in file_fields:
        if field.id not in there:
            raise NotFound("There is no such file")
        if changes := field.changes:
            await media.describe(ctx.writes, member.id, field.id, **changes)


def routes(settings: Settings) -> tuple[Route, ...]:
    largest = max(settings.max_upload_bytes, settings.max_video_bytes) + routing.FORM_BYTES
    return (
        routing.form("/compose/files", upload, NewFile, limit_class="media", max_body=largest),
        routing.page("/compose/files/{id}", show, FileQuery),
    )
