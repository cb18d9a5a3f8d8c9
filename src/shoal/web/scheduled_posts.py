"""Scheduled posts: list, reschedule and cancel. A post that could not be published is listed with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import scheduled_posts
from shoal.commands.posts import Draft
from shoal.core.errors import InvalidInput
from shoal.core.model import Media, ScheduledPost
from shoal.i18n import When
from shoal.queries.posts import waiting
from shoal.web import routing
from shoal.web.compose import local_time, visibility_words, wrong_of
from shoal.web.compose_form import moment_in
from shoal.web.form_errors import bare, complaint, sentence
from shoal.web.rendering import BeforeQuery, next_of, page
from shoal.web.request_context import IdForm, PageContext
from shoal.web.view_models import Photo, photo_of


class Planned(msgspec.Struct, frozen=True):
    id: int
    when: When
    at: str
    """The publication time in UTC, in the format of a `datetime-local` field."""
    text: str
    spoiler: str
    photos: tuple[Photo, ...]
    visible_to: str
    options: tuple[str, ...]
    refused: str
    """Why the post could not be published; empty if publishing it has not failed."""
    wrong: str
    again: str


def refusal_of(ctx: PageContext, plan: ScheduledPost) -> str:
    field = plan.refused.partition(" ")[0].rstrip(":")
    text = bare(plan.refused, field if field in Draft.__struct_fields__ else "")
    return sentence(complaint(ctx.words, text)) if text else ""


def _planned(ctx: PageContext, plan: ScheduledPost, draft: Draft, media: Mapping[int, Media], wrong: str) -> Planned:
    return Planned(
        id=plan.id,
        when=ctx.when(plan.at),
        at=local_time(plan.at, "UTC"),
        text=draft.text,
        spoiler=draft.spoiler,
        photos=tuple(photo_of(ctx, media[id_]) for id_ in draft.media if id_ in media),
        visible_to=visibility_words(ctx.words)[draft.visibility][0],
        options=draft.poll.options if draft.poll else (),
        refused=refusal_of(ctx, plan),
        wrong=wrong,
        again=ctx.url("/compose", scheduled=plan.id),
    )


_SIZE = 20
_Word = Annotated[str, Meta(max_length=100)]


class RescheduleForm(IdForm, frozen=True, kw_only=True):
    do: Literal["move", "cancel"] = "move"
    at: _Word = ""
    zone: _Word = "UTC"


_NO_ERRORS: Mapping[int, str] = MappingProxyType({})


async def show(ctx: PageContext, query: BeforeQuery, wrong: Mapping[int, str] = _NO_ERRORS) -> Response:
    """List scheduled posts. `wrong` contains the errors of posts that could not be rescheduled, by post id."""
    graph, member = ctx.graph, ctx.member
    found = await waiting(graph, member.id, query.cursor(_SIZE))
    drafts = [scheduled_posts.draft_of(post) for post in found.posts]
    nodes = await graph.obj_get(list({id_ for draft in drafts for id_ in draft.media}))
    media = {id_: node for id_, node in nodes.items() if isinstance(node, Media)}
    plans = [
        _planned(ctx, scheduled, draft, media, wrong.get(scheduled.id, ""))
        for scheduled, draft in zip(found.posts, drafts, strict=True)
    ]
    following = next_of(ctx, "/scheduled", found.next)
    title = ctx.words.text("Scheduled posts")
    return await page(ctx, "scheduled", status=422 if wrong else 200, title=title, plans=plans, next=following)


async def change(ctx: PageContext, asked: RescheduleForm) -> Response:
    member, writes = ctx.checked(asked), ctx.writes
    if asked.do == "cancel":
        await scheduled_posts.cancel(writes, member.id, asked.id)
        return ctx.go("/scheduled")
    try:
        await scheduled_posts.put_off(writes, member.id, asked.id, moment_in(asked.at, asked.zone))
    except InvalidInput as error:
        (wrong,) = wrong_of(ctx, error).values()
        return await show(ctx, BeforeQuery(), {asked.id: wrong})
    return ctx.go("/scheduled")


ROUTES = (
    routing.page("/scheduled", show, BeforeQuery),
    routing.form("/scheduled/{id}", change, RescheduleForm),
)
