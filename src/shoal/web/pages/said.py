"""Feedback of a member on a post (more or less like it), and a sheet of everything else one can do with it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import ranking
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.ranking.terms import TITLES
from shoal.http.convert import Id
from shoal.queries.foryou.preview import effect_of
from shoal.queries.hydration import hydrate
from shoal.web import rows
from shoal.web.rendering import page, part
from shoal.web.views.posts import post_of
from shoal.web.visit import Form, Visit

_STEPS = {"more": 1, "less": -1, "forget": 0}


class MoreQuery(msgspec.Struct, frozen=True):
    """A post, and the page on which one asked."""

    id: Id
    to: Annotated[str, Meta(max_length=2_000)] = "/"


class Feedback(Form, frozen=True, kw_only=True):
    """More or less of a post's author (`more`, `less`), or of one of its tags (`more:tag`)."""

    id: Id
    step: Annotated[str, Meta(max_length=420)]


async def more(visit: Visit, asked: MoreQuery) -> Response:
    """Everything that one can do with a post, besides its buttons."""
    entries = await hydrate(visit.front.reads.graph, visit.viewer_id, (asked.id,), unasked=False)
    if not entries:
        raise NotFound("There is no such post")
    post, token = post_of(visit, entries[0]), visit.browser.form_token
    muted = entries[0].thread_muted
    if visit.partial:
        return part(visit, "choices", post=post, muted=muted, to=asked.to, token=token)
    title = visit.words.text("More about this post")
    return await page(visit, "choices", title=title, post=post, muted=muted, to=asked.to, token=token)


async def say(visit: Visit, asked: Feedback) -> Response:
    """Count a tap for more or less like a post; the answer says what it moves."""
    member = visit.checked(asked)
    direction, _, tag = asked.step.partition(":")
    if direction not in _STEPS:
        raise InvalidInput("step: more, less or forget", field="step")
    tapped = await ranking.tap_post(visit.front.writes, member.id, asked.id, _STEPS[direction], tag)
    effect = await effect_of(visit.front.reads, member.id, *tapped)
    if visit.partial:
        return part(visit, "effect", effect=effect, title=visit.words.text(TITLES[effect.term]))
    return visit.back(asked)


ROUTES = (
    rows.page("/posts/{id}/more", more, MoreQuery),
    rows.form("/posts/{id}/feedback", say, Feedback),
)
