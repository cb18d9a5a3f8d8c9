"""Statuses: create, show, edit and delete them, and their threads and revisions."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from shoal.commands import media, posts, reactions
from shoal.commands.posts import Draft
from shoal.commands.scheduled_posts import discard_media
from shoal.core.errors import InvalidInput, NotFound, UnexpectedMentions, Unfit
from shoal.core.licenses import License
from shoal.core.model import Media, Post, Revision, Share
from shoal.graph.access import access_member, access_post, own_object, own_post
from shoal.http.pagination import WithData, listed_data
from shoal.http.params import Id, Json, Upload
from shoal.http.responses import Reply, raw
from shoal.i18n import language_tag
from shoal.mastodon_api import scheduled_statuses
from shoal.mastodon_api.context import (
    Context,
    One,
    Router,
    StatusesOf,
    actor,
    cursor_of,
    entries_page,
    entry_of,
    show,
    show_taken_back,
)
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities import statuses as entities
from shoal.mastodon_api.entities.serializers import attachment
from shoal.mastodon_api.entities.statuses import Status, StatusContext, StatusEdit, StatusSource
from shoal.mastodon_api.polls import PollParams
from shoal.queries import threads
from shoal.queries.hydration import hydrate, profiles_by_id
from shoal.queries.posts import media_then, revisions

router = Router()

_Text = Annotated[str, Meta(max_length=200_000)]
_Ids = Annotated[tuple[Id, ...], Meta(max_length=100)]

MAX_BODY = 512 * 1024
"""Maximum bytes of the request body of a status: four times the text, and 64 KiB of data."""


class PlaceParams(msgspec.Struct, frozen=True):
    """The place of a status, with coordinates in degrees."""

    latitude: Annotated[float, Meta(ge=-90, le=90)]
    longitude: Annotated[float, Meta(ge=-180, le=180)]


class ShoalParams(msgspec.Struct, frozen=True):
    """Properties of a status that Mastodon does not have."""

    data: Json | None = None
    kind: Annotated[str, Meta(max_length=100)] = ""
    """The name of the kind whose schema `data` matches. An edit cannot change it."""
    place: PlaceParams | UnsetType | None = UNSET
    """In an edit, null removes the place."""
    license: License | None = None
    """The license of the attachments; by default the caller's `default_license`."""
    downloads: bool | None = None
    """Whether the images may be downloaded; by default the caller's `allows_downloads`."""


class EditedShoalParams(ShoalParams, frozen=True):
    """Changes to the properties of a status that Mastodon does not have."""

    visibility: Literal["unlisted", "private", "direct"] | None = None
    """The new visibility, which must be narrower than the current one."""


class MediaShoalParams(msgspec.Struct, frozen=True):
    """Properties of a file that Mastodon does not have."""

    shows_details: bool | None = None
    """Whether an image shows the details that the camera stored; by default the caller's `shows_photo_details`."""


class MediaParams(msgspec.Struct, frozen=True):
    """Changes to an attached file."""

    id: Id
    description: _Text | None = None
    focus: Annotated[str, Meta(max_length=100)] | None = None
    thumbnail: Upload | None = None
    """A preview image for a video or sound."""
    shoal: MediaShoalParams = MediaShoalParams()


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a new status or an edit. None means that the client did not send the field."""

    status: _Text | None = None
    spoiler_text: _Text | None = None
    sensitive: bool | None = None
    language: _Text | None = None
    media_ids: _Ids | None = None
    poll: PollParams | None = None
    quoted_status_id: Id | None = None
    shoal: ShoalParams = ShoalParams()


class NewStatus(Written, frozen=True, kw_only=True):
    in_reply_to_id: Id | None = None
    visibility: Literal["public", "unlisted", "private", "direct"] | None = None
    scheduled_at: scheduled_statuses.Moment = ""
    allowed_mentions: _Ids | None = None
    """The accounts that the text may mention. If it mentions another account, the request is refused."""


class Edit(Written, frozen=True, kw_only=True):
    id: Id
    media_attributes: Annotated[tuple[MediaParams, ...], Meta(max_length=100)] = ()
    shoal: EditedShoalParams = EditedShoalParams()


class Deletion(One, frozen=True):
    delete_media: bool = False
    """Whether to delete the status's media too. Otherwise, the media can be attached to another status."""


class StatusIds(WithData, frozen=True, kw_only=True):
    id: _Ids = ()


class ThreadContext(WithData, frozen=True, kw_only=True):
    id: Id


@router.post("/api/v1/statuses", scope="write:statuses", answer=Status, delivers=True, max_body=MAX_BODY)
async def create(context: Context, params: NewStatus) -> object:
    """Create or schedule a status. If a request repeats an Idempotency-Key within an hour, it returns the first status."""
    _refuse_quotes(params)
    author = await access_member(context.app.graph, actor(context))
    draft = Draft(
        text=params.status or "",
        spoiler=params.spoiler_text or "",
        sensitive=author.default_sensitive if params.sensitive is None else params.sensitive,
        visibility=serializers.VISIBILITY[params.visibility] if params.visibility else author.default_visibility,
        language=language_tag(params.language or "") or author.default_language,
        media=params.media_ids or (),
        parent_id=params.in_reply_to_id or 0,
        place=_place(params.shoal),
        data=params.shoal.data.value if params.shoal.data else None,
        kind=params.shoal.kind,
        poll=params.poll.draft() if params.poll else None,
        license=params.shoal.license,
        downloads=params.shoal.downloads,
        allowed_mentions=params.allowed_mentions,
    )
    key = context.request.headers.get("idempotency-key", "")
    try:
        if params.scheduled_at:
            return await scheduled_statuses.plan(context, draft, params.scheduled_at, request=key)
        made = await posts.create(context.app.writes, author.id, draft, request=key, app_id=context.caller.app_id)
    except UnexpectedMentions as error:
        profiles = await profiles_by_id(context.app.graph, author.id, error.member_ids)
        return Reply({"error": str(error), "unexpected_accounts": raw(context.app.present.accounts(profiles))}, 422)
    return await show(context, made.id)


@router.put(
    "/api/v1/statuses/{id}",
    scope="write:statuses",
    answer=Status,
    max_body=lambda settings: MAX_BODY + settings.max_upload_bytes * 4 // 3,
)
async def update(context: Context, params: Edit) -> object:
    """Edit one of the caller's statuses. Its previous version is kept."""
    _refuse_quotes(params)
    author = actor(context)
    post = await own_post(context.app.graph, author, params.id)
    media_changes = [(item, _changes_of(item)) for item in params.media_attributes]
    for item, changes in media_changes:
        # Check all fields before anything is changed.
        attached = media.described(
            context.app.writes, await own_object(context.app.writes.graph, Media, author, item.id), **changes
        )
        if item.thumbnail:
            media.check_takes_thumbnail(attached)
    narrower = serializers.VISIBILITY[params.shoal.visibility] if params.shoal.visibility else None
    await posts.update(context.app.writes, author, post.id, _edited(post, params), visibility=narrower)
    for item, changes in media_changes:
        thumbnail = item.thumbnail.data if item.thumbnail else None
        await media.describe(context.app.writes, author, item.id, thumbnail=thumbnail, **changes)
    return await show(context, post.id)


def _changes_of(item: MediaParams) -> dict[str, Any]:
    focus = focus_of(item.focus) if item.focus else None
    return {"description": item.description, "focus": focus, "shows_details": item.shoal.shows_details}


def _edited(post: Post, params: Edit) -> Draft:
    given, extra = params, params.shoal
    return Draft(
        text=post.text if given.status is None else given.status,
        spoiler=post.spoiler if given.spoiler_text is None else given.spoiler_text,
        sensitive=given.sensitive,
        language=post.language if given.language is None else given.language,
        media=post.media if given.media_ids is None else given.media_ids,
        place=post.place if extra.place is UNSET else _place(extra),
        data=extra.data.value if extra.data else post.data,
        kind=extra.kind,
        poll=given.poll.draft() if given.poll else None,
        license=extra.license,
        downloads=extra.downloads,
    )


def _place(extra: ShoalParams) -> tuple[float, float] | None:
    return (extra.place.latitude, extra.place.longitude) if isinstance(extra.place, PlaceParams) else None


def _refuse_quotes(params: Written) -> None:
    """Raise an error for a quote of a status. Without the quoted status, the new one would make no sense."""
    if params.quoted_status_id is not None:
        raise InvalidInput("quotes are not supported on this server", field="quoted_status_id")


def focus_of(text: str) -> tuple[float, float]:
    try:
        x, y = map(float, text.split(","))
    except ValueError:
        raise InvalidInput("focus: expected two numbers from -1 to 1, separated by a comma", field="focus") from None
    return x, y


@router.delete("/api/v1/statuses/{id}", scope="write:statuses", limit_class="delete", answer=Status)
async def delete(context: Context, params: Deletion) -> object:
    """Delete one of the caller's statuses or shares. The response contains its text, with which a client can create it again."""
    author = actor(context)
    node = (await context.app.graph.obj_get((params.id,))).get(params.id)
    if not isinstance(node, Post | Share) or node.author_id != author:
        raise NotFound("Record not found")
    deleted = await show_taken_back(context, node.id)
    if isinstance(node, Post):
        await posts.delete(context.app.writes, author, node.id)
        for picture in node.media if params.delete_media else ():
            # Do not delete a file that another status uses. A file that is already deleted is no error.
            with contextlib.suppress(NotFound, Unfit):
                await discard_media(context.app.writes, author, picture)
    else:
        await reactions.unshare(context.app.writes, author, node.id)
    text = node.text if isinstance(node, Post) else ""
    return b'%b,"text":%b}' % (deleted[:-1], msgspec.json.encode(text))


@router.get("/api/v1/statuses/{id}", auth="optional", scope="read:statuses", answer=Status, cached=True)
async def get_status(context: Context, params: One) -> object:
    """Show a status by id."""
    return await show(context, params.id)


@router.get("/api/v1/statuses", auth="optional", scope="read:statuses", answer=list[Status])
async def list_statuses(context: Context, params: StatusIds) -> object:
    """List statuses by id, omitting statuses that the caller may not see."""
    viewer = context.caller.member_id
    found = await hydrate(context.app.graph, viewer, params.id, unasked=False)
    return await context.app.present.page(viewer, found, listed_data(with_data=params.with_data))


@router.get("/api/v1/statuses/{id}/context", auth="optional", scope="read:statuses", answer=StatusContext, cached=True)
async def thread_context(context: Context, params: ThreadContext) -> object:
    """Return the ancestors and descendants of a status in its thread."""
    viewer = context.caller.member_id
    above, below = (60, 60) if viewer is None else (4_096, 4_096)
    thread = await threads.thread(context.app.reads, viewer, params.id, above=above, below=below)
    extras = entities.ContextExtras(f"{context.app.at.root}/api/shoal/v1/statuses/{params.id}/replies")
    data = listed_data(with_data=params.with_data)
    return b'{"ancestors":%b,"descendants":%b%b}' % (
        await context.app.present.page(viewer, thread.above, data),
        await context.app.present.page(viewer, thread.below, data),
        b',"shoal":' + msgspec.json.encode(extras) if thread.more else b"",
    )


@router.get("/api/shoal/v1/statuses/{id}/replies", auth="optional", scope="read:statuses", answer=list[Status])
async def replies(context: Context, params: StatusesOf) -> object:
    """List the direct replies to a status, newest first."""
    cursor = cursor_of(params)
    page = await threads.replies(context.app.reads, context.caller.member_id, params.id, cursor)
    return await entries_page(context, page, cursor, with_data=params.with_data)


@router.get("/api/v1/statuses/{id}/source", scope="read:statuses", answer=StatusSource)
async def source(context: Context, params: One) -> object:
    """Return the source text of a status, for editing."""
    post = await access_post(context.app.graph, context.caller.member_id, params.id)
    return entities.StatusSource(str(post.id), post.text, post.spoiler)


@router.get("/api/v1/statuses/{id}/history", auth="optional", scope="read:statuses", answer=list[StatusEdit])
async def history(context: Context, params: One) -> object:
    """List the revisions of a status, oldest first. The last one is the current version. Very old revisions may be missing."""
    entry = await entry_of(context, params.id)
    post = entry.post
    wordings = await revisions(context.app.graph, context.caller.member_id, params.id)
    media_by_id = await context.app.graph.obj_get(
        list({id_ for wording in wordings for id_ in wording.media} | set(post.media))
    )
    account = raw(context.app.present.account(entry.author))
    options_now = tuple(option.title for option in entry.poll.poll.options) if entry.poll else ()
    sensitized = entry.author.member.sensitized and context.caller.member_id != post.author_id

    def edit(wording: Revision | Post, written: int) -> entities.StatusEdit:
        options = wording.options if isinstance(wording, Revision) else options_now
        return entities.StatusEdit(
            content=context.app.at.html(wording.text, post.mentions),
            spoiler_text=wording.spoiler,
            sensitive=wording.sensitive or (sensitized and bool(wording.media)),
            created_at=serializers.moment(written),
            account=account,
            poll=entities.PollEdit(list(map(entities.PollEditOption, options))) if options else UNSET,
            media_attachments=[
                attachment(each, context.app.at, downloads=post.downloads)
                for each in media_then(wording, media_by_id).values()
            ],
        )

    return [*(edit(wording, wording.written) for wording in wordings), edit(post, post.edited_at or post.created_at)]
