"""More and less: everything that the member asked for about their ranked feed, to be forgotten one by one or altogether."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import ranking
from shoal.graph.payloads.members import tastes_of
from shoal.http.convert import Id
from shoal.queries.hydration import profiles_by_id
from shoal.web import rows
from shoal.web.pages.settings.frame import SettingsQuery, saved_at, settings_page
from shoal.web.views.people import face_of
from shoal.web.views.said import Taps, said_of
from shoal.web.visit import Form, Visit


class ForgetForm(Form, frozen=True, kw_only=True):
    """A wish that is to be forgotten: about a member, about a tag, or every one."""

    author: Id = Id(0)
    tag: Annotated[str, Meta(max_length=400)] = ""


async def show(visit: Visit, query: SettingsQuery) -> Response:
    """Requests for more or less, the latest first, and the interests that were picked."""
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
    """Forget one wish, or all of them where none is named."""
    member, writes = visit.checked(asked), visit.front.writes
    if asked.author:
        await ranking.tap_author(writes, member.id, asked.author, 0)
    elif asked.tag:
        await ranking.tap_tag(writes, member.id, asked.tag, 0)
    else:
        await ranking.forget_taps(writes, member.id)
    return saved_at(visit, "feedback")


ROUTES = (
    rows.page("/settings/feedback", show, SettingsQuery),
    rows.form("/settings/feedback/forget", forget, ForgetForm),
)
