"""Posts that wait for their moment: the list, another moment for one, or none."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import scheduled_posts
from shoal.core.errors import InvalidInput
from shoal.core.model import Media
from shoal.http.convert import Id
from shoal.queries.posts import waiting
from shoal.web import rows
from shoal.web.pages.writing.compose import wrong_of
from shoal.web.paging import BeforeQuery, next_of
from shoal.web.rendering import page
from shoal.web.views.writing.planned import planned_of
from shoal.web.views.writing.writing import moment_in
from shoal.web.visit import Form, Visit

_SIZE = 20
_Word = Annotated[str, Meta(max_length=100)]


class RescheduleForm(Form, frozen=True, kw_only=True):
    """Another moment for a scheduled post, or its end."""

    id: Id
    do: Literal["move", "cancel"] = "move"
    at: _Word = ""
    zone: _Word = "UTC"


async def show(visit: Visit, query: BeforeQuery) -> Response:
    """The posts that wait."""
    return await _list(visit, query)


async def _list(visit: Visit, query: BeforeQuery, wrong: dict[int, str] | None = None, status: int = 200) -> Response:
    graph, member = visit.front.graph, visit.member
    found = await waiting(graph, member.id, query.cursor(_SIZE))
    drafts = [scheduled_posts.draft_of(one) for one in found.posts]
    nodes = await graph.obj_get(list({id_ for draft in drafts for id_ in draft.media}))
    media = {id_: node for id_, node in nodes.items() if isinstance(node, Media)}
    plans = [
        planned_of(visit, one, draft, media, (wrong or {}).get(one.id, ""))
        for one, draft in zip(found.posts, drafts, strict=True)
    ]
    following = next_of(visit, "/scheduled", found.next)
    title = visit.words.text("Scheduled posts")
    return await page(visit, "scheduled", status=status, title=title, plans=plans, next=following)


async def change(visit: Visit, asked: RescheduleForm) -> Response:
    """Move a scheduled post to another moment, or cancel it."""
    member, writes = visit.checked(asked), visit.front.writes
    if asked.do == "cancel":
        await scheduled_posts.cancel(writes, member.id, asked.id)
        return visit.go("/scheduled")
    try:
        await scheduled_posts.put_off(writes, member.id, asked.id, moment_in(asked.at, asked.zone))
    except InvalidInput as error:
        words = next(iter(wrong_of(visit, error).values()))
        return await _list(visit, BeforeQuery(), {asked.id: words}, status=422)
    return visit.go("/scheduled")


ROUTES = (
    rows.page("/scheduled", show, BeforeQuery),
    rows.form("/scheduled/{id}", change, RescheduleForm),
)
