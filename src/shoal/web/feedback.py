"""Feedback on ranking ("more like this", "less like this"): a post's menu, and the settings page to list and delete it."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import ranking
from shoal.core.errors import InvalidInput
from shoal.core.ranking.terms import TITLES
from shoal.graph.payloads.members import personalization_of
from shoal.http.params import Id
from shoal.queries.foryou.preview import effect_of
from shoal.queries.hydration import profiles_by_id
from shoal.web import routing
from shoal.web.rendering import page, part
from shoal.web.request_context import Form, IdForm, Line, PageContext, TagName
from shoal.web.settings_layout import SettingsQuery, saved_at, settings_page
from shoal.web.view_models import entry_with_id, face_of, post_of

_STEPS = {"more": 1, "less": -1, "forget": 0}


class MoreQuery(msgspec.Struct, frozen=True):
    id: Id
    to: Line = "/"


class Feedback(IdForm, frozen=True, kw_only=True):
    """Feedback on a post.

    `step` is `more`, `less` or `forget`, which is about the author of the post. With a tag, such as `more:tag`, it is
    about this tag of the post.
    """

    step: Annotated[str, Meta(max_length=420)]


async def more(ctx: PageContext, asked: MoreQuery) -> Response:
    entry = await entry_with_id(ctx, asked.id)
    views: dict[str, Any] = {
        "post": post_of(ctx, entry),
        "muted": entry.thread_muted,
        "to": asked.to,
        "token": ctx.browser.form_token,
    }
    if ctx.partial:
        return part(ctx, "choices", **views)
    return await page(ctx, "choices", title=ctx.words.text("More options"), **views)


async def say(ctx: PageContext, asked: Feedback) -> Response:
    member = ctx.checked(asked)
    direction, _, tag = asked.step.partition(":")
    if direction not in _STEPS:
        raise InvalidInput("step: must be more, less or forget", field="step")
    tapped = await ranking.tap_post(ctx.writes, member.id, asked.id, _STEPS[direction], tag)
    effect = await effect_of(ctx.reads, member.id, *tapped)
    if ctx.partial:
        return part(ctx, "effect", effect=effect, title=ctx.words.text(TITLES[effect.term]))
    return ctx.back(asked)


class Taps(NamedTuple):
    icon: str
    words: str


def _taps(ctx: PageContext, taps: int) -> Taps:
    """Return an icon and a text for a sum of feedback: a positive sum means "more like this", a negative sum "less like this"."""
    counted = ctx.words.counted
    if taps > 0:
        return Taps("thumbs-up", counted("You asked for more", "You asked for more (%(n)s times)", taps))
    return Taps("thumbs-down", counted("You asked for less", "You asked for less (%(n)s times)", -taps))


class ForgetForm(Form, frozen=True, kw_only=True):
    """The form that deletes feedback: the feedback about an author, about a tag, or, if neither is given, all feedback."""

    author: Id = Id(0)
    tag: TagName = ""


async def show(ctx: PageContext, query: SettingsQuery) -> Response:
    member, graph = ctx.member, ctx.graph
    feedback = (await personalization_of(graph, member.id)).feedback
    profiles = {
        profile.member.id: profile for profile in await profiles_by_id(graph, member.id, list(feedback.authors))
    }
    people = [
        (face_of(ctx, profiles[id_].member), _taps(ctx, taps))
        for id_, taps in reversed(feedback.authors.items())
        if id_ in profiles
    ]
    tags = [(tag, _taps(ctx, taps)) for tag, taps in reversed(feedback.tags.items())]
    return await settings_page(ctx, "feedback", saved=query.saved, people=people, tags=tags, picked=feedback.picked)


async def forget(ctx: PageContext, asked: ForgetForm) -> Response:
    member, writes = ctx.checked(asked), ctx.writes
    if asked.author:
        await ranking.tap_author(writes, member.id, asked.author, 0)
    elif asked.tag:
        await ranking.tap_tag(writes, member.id, asked.tag, 0)
    else:
        await ranking.forget_taps(writes, member.id)
    return saved_at(ctx, "feedback")


ROUTES = (
    routing.page("/posts/{id}/more", more, MoreQuery),
    routing.form("/posts/{id}/feedback", say, Feedback),
    routing.page("/settings/feedback", show, SettingsQuery),
    routing.form("/settings/feedback/forget", forget, ForgetForm),
)
