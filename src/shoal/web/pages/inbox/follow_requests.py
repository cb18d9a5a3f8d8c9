"""Members who ask to follow: let them, or do not."""

from __future__ import annotations

from typing import Literal

from starlette.responses import Response

from shoal.commands import relationships
from shoal.graph.schema import REQUESTED_BY
from shoal.http.convert import Id
from shoal.queries import members
from shoal.web import rows
from shoal.web.paging import BeforeQuery, next_of
from shoal.web.rendering import page, part
from shoal.web.views.people import people_of
from shoal.web.visit import Form, Visit


class FollowAnswerForm(Form, frozen=True, kw_only=True):
    """The answer to somebody who asks to follow."""

    id: Id
    do: Literal["accept", "reject"]


async def requests(visit: Visit, query: BeforeQuery) -> Response:
    """A page of the members who ask to follow."""
    member = visit.member
    found = await members.page(visit.front.reads, member.id, member.id, REQUESTED_BY, query.cursor(members.PAGE))
    persons = await people_of(visit, found.profiles)
    following = next_of(visit, "/requests", found.next)
    if visit.partial:
        return part(visit, "askers", people=persons, next=following)
    title = visit.words.text("Follow requests")
    return await page(visit, "requests", title=title, people=persons, next=following, locked=member.locked)


async def answer(visit: Visit, asked: FollowAnswerForm) -> Response:
    """Let somebody follow, or do not."""
    member = visit.checked(asked)
    verb = relationships.authorize_request if asked.do == "accept" else relationships.reject_request
    await verb(visit.front.writes, member.id, asked.id)
    if visit.partial:
        return part(visit, "answered", accepted=asked.do == "accept")
    return visit.back(asked, "/requests")


ROUTES = (
    rows.page("/requests", requests, BeforeQuery),
    rows.form("/requests/{id}", answer, FollowAnswerForm),
)
