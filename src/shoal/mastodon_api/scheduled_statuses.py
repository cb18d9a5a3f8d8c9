"""Scheduled statuses: list, show, reschedule and cancel them, and their JSON entities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from shoal.commands import scheduled_posts
from shoal.commands.posts import Draft
from shoal.core.model import Media, ScheduledPost
from shoal.graph.access import own_object
from shoal.http.errors import RecordInvalid
from shoal.http.pagination import PageQuery
from shoal.http.params import Id
from shoal.i18n import language_tag
from shoal.mastodon_api.context import AppContext, Context, One, Router, actor, cursor_of, paged, show
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.serializers import attachment
from shoal.mastodon_api.entities.statuses import MediaAttachment
from shoal.queries.posts import waiting

router = Router()


class ScheduledPoll(msgspec.Struct, kw_only=True):
    """The poll of a scheduled status. It opens when the status is posted."""

    options: list[str]
    expires_in: int | None
    multiple: bool
    hide_totals: bool


class ScheduledParams(msgspec.Struct, kw_only=True):
    """Parameters of the status to post."""

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
    """Why the status could not be posted at its time."""


class ScheduledStatus(msgspec.Struct, kw_only=True):
    """A status that is scheduled to be posted."""

    id: str
    scheduled_at: str
    params: ScheduledParams
    media_attachments: list[MediaAttachment]
    shoal: ScheduledExtras | UnsetType = UNSET
    """Present if the status could not be posted at its time. It remains until the status is rescheduled or canceled."""


Moment = Annotated[str, Meta(max_length=100)]
"""An ISO 8601 date and time."""


class Rescheduled(msgspec.Struct, frozen=True):
    id: Id
    scheduled_at: Moment = ""


@router.get("/api/v1/scheduled_statuses", scope="read:statuses", answer=list[ScheduledStatus])
async def list_scheduled(context: Context, params: PageQuery) -> object:
    """List the caller's scheduled statuses, the most recently created first."""
    cursor = cursor_of(params)
    page = await waiting(context.app.graph, actor(context), cursor)
    body = await _entities(context.app, page.posts)
    return paged(context, body, [post.id for post in page.posts], page.next, cursor)


@router.get("/api/v1/scheduled_statuses/{id}", scope="read:statuses", answer=ScheduledStatus)
async def get_scheduled(context: Context, params: One) -> object:
    """Show a scheduled status."""
    return await _entity(context.app, await own_object(context.app.graph, ScheduledPost, actor(context), params.id))


@router.put("/api/v1/scheduled_statuses/{id}", scope="write:statuses", answer=ScheduledStatus)
async def reschedule(context: Context, params: Rescheduled) -> object:
    """Change the time of a scheduled status."""
    at = moment_of(params.scheduled_at)
    return await _entity(context.app, await scheduled_posts.put_off(context.app.writes, actor(context), params.id, at))


@router.delete("/api/v1/scheduled_statuses/{id}", scope="write:statuses", answer=dict)
async def cancel(context: Context, params: One) -> None:
    """Cancel a scheduled status."""
    await scheduled_posts.cancel(context.app.writes, actor(context), params.id)


async def plan(context: Context, draft: Draft, moment: str, *, request: str) -> object:
    """Schedule a status. If `request` is an idempotency key whose status has been posted already, return that status."""
    at = moment_of(moment)
    made = await scheduled_posts.schedule(
        context.app.writes, actor(context), draft, at, request=request, app_id=context.caller.app_id
    )
    if isinstance(made, ScheduledPost):
        return await _entity(context.app, made)
    return await show(context, made.id)


def moment_of(text: str) -> int:
    at = scheduled_posts.moment_of_text(text)
    if at is None:
        raise RecordInvalid("scheduled_at: expected an ISO 8601 date and time", field="scheduled_at")
    return at


async def _entity(app_context: AppContext, scheduled: ScheduledPost) -> ScheduledStatus:
    return (await _entities(app_context, [scheduled]))[0]


async def _entities(app_context: AppContext, scheduled: Sequence[ScheduledPost]) -> list[ScheduledStatus]:
    drafts = [(post, scheduled_posts.draft_of(post)) for post in scheduled]
    media = await app_context.graph.obj_get(list({id_ for _, draft in drafts for id_ in draft.media}))
    return [
        ScheduledStatus(
            id=str(post.id),
            scheduled_at=serializers.moment(post.at),
            params=_params(post, draft),
            media_attachments=[
                attachment(found, app_context.at) for id_ in draft.media if isinstance(found := media.get(id_), Media)
            ],
            shoal=ScheduledExtras(refused=post.refused) if post.refused else UNSET,
        )
        for post, draft in drafts
    ]


def _params(scheduled: ScheduledPost, draft: Draft) -> ScheduledParams:
    poll = draft.poll
    return ScheduledParams(
        text=draft.text,
        poll=ScheduledPoll(
            options=list(poll.options),
            expires_in=poll.seconds,
            multiple=poll.multiple,
            hide_totals=poll.hide_totals,
        )
        if poll
        else None,
        media_ids=list(map(str, draft.media)) or None,
        sensitive=bool(draft.sensitive),
        spoiler_text=draft.spoiler,
        visibility=serializers.WIRE_VISIBILITY[draft.visibility],
        in_reply_to_id=str(draft.parent_id) if draft.parent_id else None,
        language=language_tag(draft.language) or None,
        application_id=scheduled.app_id or None,
    )
