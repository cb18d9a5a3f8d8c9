"""Feedback on ranking (more or less like this): the menu of a post, and the settings page that lists and deletes feedback."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import ranking
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.ranking.terms import TITLES
from shoal.graph.payloads.members import tastes_of
from shoal.http.params import Id
from shoal.queries.foryou.preview import effect_of
from shoal.queries.hydration import hydrate, profiles_by_id
from shoal.web import routing
from shoal.web.rendering import page, part
from shoal.web.request_context import Form, Visit
from shoal.web.settings_layout import SettingsQuery, saved_at, settings_page
from shoal.web.view_models import face_of, post_of

_STEPS = {"more": 1, "less": -1, "forget": 0}


class MoreQuery(msgspec.Struct, frozen=True):
    id: Id
    to: Annotated[str, Meta(max_length=2_000)] = "/"


class Feedback(Form, frozen=True, kw_only=True):
    """`step` is `more` or `less` for the author of a post, or `more:tag` for one of its tags."""

    id: Id
    step: Annotated[str, Meta(max_length=420)]


async def more(visit: Visit, asked: MoreQuery) -> Response:
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
    """Record feedback on a post; the response says what it changes."""
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
    routing.page("/posts/{id}/more", more, MoreQuery),
    routing.form("/posts/{id}/feedback", say, Feedback),
)


class Taps(NamedTuple):
    icon: str
    words: str


def said_of(visit: Visit, taps: int) -> Taps:
    """Return the icon and text for a number of taps; negative numbers are taps for less."""
    words = visit.words
    if taps > 0:
        return Taps("thumbs-up", words.plural("asked for more", "asked for more, %(n)s times", taps) % {"n": taps})
    return Taps("thumbs-down", words.plural("asked for less", "asked for less, %(n)s times", -taps) % {"n": -taps})


class ForgetForm(Form, frozen=True, kw_only=True):
    """The feedback to delete: about an author, about a tag, or, with neither, all of it."""

    author: Id = Id(0)
    tag: Annotated[str, Meta(max_length=400)] = ""


async def show(visit: Visit, query: SettingsQuery) -> Response:
    """List the feedback, latest first, and the interests that the member picked."""
    member, graph = visit.member, visit.front.graph
    wishes = (await tastes_of(graph, member.id)).wishes
    profiles = {one.member.id: one for one in await profiles_by_id(graph, member.id, list(wishes.authors))}
    people = [
        (face_of(visit, profiles[id_].member), said_of(visit, taps))
        for id_, taps in reversed(wishes.authors.items())
        if id_ in profiles
    ]
    tags: list[tuple[str, Taps]] = [(tag, said_of(visit, taps)) for tag, taps in reversed(wishes.tags.items())]
    return await settings_page(visit, "feedback", saved=query.saved, people=people, tags=tags, picked=wishes.picked)


async def forget(visit: Visit, asked: ForgetForm) -> Response:
    """Delete one item of feedback, or all of it if none is named."""
    member, writes = visit.checked(asked), visit.front.writes
    if asked.author:
        await ranking.tap_author(writes, member.id, asked.author, 0)
    elif asked.tag:
        await ranking.tap_tag(writes, member.id, asked.tag, 0)
    else:
        await ranking.forget_taps(writes, member.id)
    return saved_at(visit, "feedback")


SETTINGS_ROUTES = (
    routing.page("/settings/feedback", show, SettingsQuery),
    routing.form("/settings/feedback/forget", forget, ForgetForm),
)
