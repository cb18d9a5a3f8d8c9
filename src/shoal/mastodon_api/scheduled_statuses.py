"""Scheduled statuses: list, show, reschedule and cancel them, and their JSON entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from shoal.commands import scheduled_posts
from shoal.commands.posts import Draft
from shoal.core.model import Media, ScheduledPost
from shoal.graph.access import own_object
from shoal.graph.schema import AnyNode
from shoal.http.errors import RecordInvalid
from shoal.http.pagination import PageQuery
from shoal.http.params import Id
from shoal.i18n import language_tag
from shoal.mastodon_api import context as endpoints
from shoal.mastodon_api.context import Context, Front, One, actor, cursor_of, paged, show
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.serializers import attachment
from shoal.mastodon_api.entities.statuses import MediaAttachment
from shoal.queries.posts import waiting


class ScheduledPoll(msgspec.Struct, kw_only=True):
    """The poll that will come with the status; it is open from then on."""

    options: list[str]
    expires_in: int | None
    multiple: bool
    hide_totals: bool


class ScheduledParams(msgspec.Struct, kw_only=True):
    """Parameters of the status to be posted."""

    text: str
    poll: ScheduledPoll | None
    media_ids: list[str] | None
    sensitive: bool
    spoiler_text: str
    visibility: str
    in_reply_to_id: str | None
    language: str | None
    application_id: int | None
    idempotency: None = None
    scheduled_at: None = None
    with_rate_limit: bool = False


class ScheduledExtras(msgspec.Struct):
    """Facts about a scheduled status that Mastodon does not report."""

    refused: str
    """Why it could not be posted at its time."""


class ScheduledStatus(msgspec.Struct, kw_only=True):
    """A status for a moment to come."""

    id: str
    scheduled_at: str
    params: ScheduledParams
    media_attachments: list[MediaAttachment]
    shoal: ScheduledExtras | UnsetType = UNSET
    """Present if the status could not be posted at its time. It stays until it is given another time, or canceled."""


Moment = Annotated[str, Meta(max_length=100)]
"""As in ISO 8601."""

_encode = msgspec.json.Encoder().encode


class Rescheduled(msgspec.Struct, frozen=True):
    """Another moment for a scheduled status."""

    id: Id
    scheduled_at: Moment = ""


async def several(context: Context, params: PageQuery) -> object:
    """List the caller's scheduled statuses, the one scheduled last first."""
    front = context.deps
    cursor = cursor_of(params)
    page = await waiting(front.graph, actor(context), cursor)
    body = _encode(await _shown(front, page.posts))
    return paged(context, body, [one.id for one in page.posts], page.next, cursor)


async def one(context: Context, params: One) -> object:
    """A scheduled status by id."""
    front = context.deps
    scheduled = await own_object(front.graph, actor(context), params.id, ScheduledPost)
    return (await _shown(front, [scheduled]))[0]


async def move(context: Context, params: Rescheduled) -> object:
    """Schedule a status for another moment."""
    front = context.deps
    at = moment_of(params.scheduled_at)
    return (await _shown(front, [await scheduled_posts.put_off(front.writes, actor(context), params.id, at)]))[0]


async def cancel(context: Context, params: One) -> object:
    """A scheduled status is not to be posted."""
    front = context.deps
    await scheduled_posts.cancel(front.writes, actor(context), params.id)
    return None


async def plan(context: Context, draft: Draft, moment: str, *, request: str) -> object:
    """Schedule a status. A request that is repeated after its moment is answered with the status itself."""
    front = context.deps
    at = moment_of(moment)
    made = await scheduled_posts.schedule(
        front.writes, actor(context), draft, at, request=request, app_id=context.caller.app_id
    )
    if isinstance(made, ScheduledPost):
        return (await _shown(front, [made]))[0]
    return await show(context, made.id)


def moment_of(text: str) -> int:
    """Unix milliseconds. Raises `RecordInvalid`."""
    at = scheduled_posts.moment_of_text(text)
    if at is None:
        raise RecordInvalid("scheduled_at: a date and time as in ISO 8601", field="scheduled_at")
    return at


async def _shown(front: Front, scheduled: Sequence[ScheduledPost]) -> list[ScheduledStatus]:
    drafts = [(one, scheduled_posts.draft_of(one)) for one in scheduled]
    pictures = await front.graph.obj_get(list({id_ for _, draft in drafts for id_ in draft.media}))
    return [
        ScheduledStatus(
            id=str(one.id),
            scheduled_at=serializers.moment(one.at),
            params=_params(one, draft),
            media_attachments=_attachments(front, draft, pictures),
            shoal=ScheduledExtras(refused=one.refused) if one.refused else UNSET,
        )
        for one, draft in drafts
    ]


def _attachments(front: Front, draft: Draft, pictures: Mapping[int, AnyNode]) -> list[MediaAttachment]:
    found = (pictures.get(id_) for id_ in draft.media)
    return [attachment(media, front.at) for media in found if isinstance(media, Media)]


def _params(scheduled: ScheduledPost, draft: Draft) -> ScheduledParams:
    asked = draft.poll
    return ScheduledParams(
        text=draft.text,
        poll=ScheduledPoll(
            options=list(asked.options),
            expires_in=asked.seconds,
            multiple=asked.multiple,
            hide_totals=asked.hide_totals,
        )
        if asked
        else None,
        media_ids=list(map(str, draft.media)) or None,
        sensitive=bool(draft.sensitive),
        spoiler_text=draft.spoiler,
        visibility=serializers.WIRE_VISIBILITY[draft.visibility],
        in_reply_to_id=str(draft.parent_id) if draft.parent_id else None,
        language=language_tag(draft.language) or None,
        application_id=scheduled.app_id or None,
    )


ROUTES = (
    endpoints.page(
        "GET",
        "/api/v1/scheduled_statuses",
        several,
        scope="read:statuses",
        answer=list[ScheduledStatus],
    ),
    endpoints.one("GET", "/api/v1/scheduled_statuses/{id}", one, scope="read:statuses", answer=ScheduledStatus),
    endpoints.route(
        "PUT",
        "/api/v1/scheduled_statuses/{id}",
        move,
        scope="write:statuses",
        params=Rescheduled,
        answer=ScheduledStatus,
    ),
    endpoints.one("DELETE", "/api/v1/scheduled_statuses/{id}", cancel, scope="write:statuses", answer=dict),
)
