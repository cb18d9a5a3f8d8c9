"""Lists of members, each with its own timeline, and the tags that a member follows."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import lists
from shoal.core.errors import InvalidInput, Taken
from shoal.core.filters import FilterContext
from shoal.core.model import MemberList, RepliesPolicy
from shoal.core.text import isolated
from shoal.graph.access import own_list
from shoal.graph.contract import Cursor
from shoal.graph.schema import FOLLOWS, LISTS
from shoal.http.params import Id
from shoal.queries import lists as feed
from shoal.queries import members, search, tags
from shoal.queries.pipeline import filtered
from shoal.queries.search import ResultRange
from shoal.web import routing
from shoal.web.form_errors import told
from shoal.web.rendering import BeforeQuery, feed_page, next_of, page, part
from shoal.web.request_context import Form, IdForm, Text, Visit
from shoal.web.timelines import home_tabs
from shoal.web.view_models import Face, face_of, tag_path


class ListView(msgspec.Struct, frozen=True):
    id: int
    title: str
    path: str
    members: str
    exclusive: bool


def _list_view(visit: Visit, shown: MemberList, members: int = 0) -> ListView:
    number = visit.words.counted("%(n)s person", "%(n)s people", members)
    return ListView(shown.id, shown.title, visit.url(f"/lists/{shown.id}"), number, shown.exclusive)


_TAGS = 200
_FOUND = 12
"""Followees suggested for a list."""
_Typed = Annotated[str, Meta(max_length=400)]


class ListPath(BeforeQuery, frozen=True, kw_only=True):
    id: Id
    q: _Typed = ""


class ListForm(Form, frozen=True, kw_only=True):
    """The settings of a list. An `id` of 0 creates one."""

    id: Id = Id(0)
    title: Text = ""
    replies: RepliesPolicy = RepliesPolicy.LIST
    exclusive: bool = False
    do: Literal["keep", "delete"] = "keep"


class ListedForm(IdForm, frozen=True, kw_only=True):
    member: Id
    do: Literal["put", "take"]
    q: _Typed = ""


async def several(
    visit: Visit, _query: BeforeQuery | None = None, asked: ListForm | None = None, wrong: InvalidInput | None = None
) -> Response:
    member, reads = visit.member, visit.reads
    owned = await feed.owned(visit.graph, member.id)
    counts = (await visit.graph.assoc_count([one.id for one in owned], (LISTS,)))[LISTS] if owned else {}
    followed = await tags.followed(reads, member.id, Cursor(limit=_TAGS))
    names = [assoc.data.decode() for assoc in followed.tags]
    return await page(
        visit,
        "lists",
        title=visit.words.text("Lists and tags"),
        lists=[_list_view(visit, one, counts.get(one.id, 0)) for one in owned],
        tags=[(name, tag_path(visit, name)) for name in names],
        typed=asked or ListForm(),
        wrong=told(visit.words, wrong),
    )


async def create(visit: Visit, asked: ListForm) -> Response:
    """Create a list and redirect to the choice of its members."""
    member = visit.checked(asked)
    try:
        made = await lists.create(
            visit.writes, member.id, asked.title, replies=asked.replies, exclusive=asked.exclusive
        )
    except InvalidInput as error:
        return await several(visit, asked=asked, wrong=error)
    return visit.go(f"/lists/{made.id}/edit")


async def timeline(visit: Visit, path: ListPath) -> Response:
    member, reads = visit.member, visit.reads
    shown = await own_list(visit.graph, member.id, path.id)
    found = await feed.page(reads, member.id, path.id, path.cursor(), direct=False)
    entries = await filtered(reads.graph, member.id, found.entries, FilterContext.HOME)
    tab = f"list-{shown.id}"
    return await feed_page(
        visit,
        "list",
        entries,
        next_of(visit, f"/lists/{shown.id}", found.next),
        title=isolated(shown.title),
        shown=_list_view(visit, shown),
        tab=tab,
        tabs=[] if visit.partial else await home_tabs(visit, tab),
        end=visit.words.text("That is all that those on this list have posted."),
    )


async def edit(visit: Visit, path: ListPath) -> Response:
    """Show the settings of a list, its members, and followees who can be added."""
    member = visit.member
    shown = await own_list(visit.graph, member.id, path.id)
    if visit.partial:
        there = {one.id for one in await _members(visit, shown)}
        found = await _found(visit, path.q, there)
        return part(visit, "list_offers", found=found, shown=_list_view(visit, shown), q=path.q)
    return await _edit(visit, shown, path.q)


async def change(visit: Visit, asked: ListForm) -> Response:
    member, writes = visit.checked(asked), visit.writes
    shown = await own_list(visit.graph, member.id, asked.id)
    if asked.do == "delete":
        await lists.delete(writes, member.id, shown.id)
        return visit.go("/lists")
    try:
        await lists.update(
            writes, member.id, shown.id, title=asked.title, replies=asked.replies, exclusive=asked.exclusive
        )
    except InvalidInput as error:
        return await _edit(visit, shown, "", asked, error)
    return visit.go(f"/lists/{shown.id}")


async def put(visit: Visit, asked: ListedForm) -> Response:
    member, writes = visit.checked(asked), visit.writes
    try:
        if asked.do == "put":
            # The member is on the list already if the button was pressed twice.
            with suppress(Taken):
                await lists.put_on(writes, member.id, asked.id, (asked.member,))
        else:
            await lists.take_off(writes, member.id, asked.id, (asked.member,))
    except InvalidInput as error:
        shown = await own_list(visit.graph, member.id, asked.id)
        return await _edit(visit, shown, asked.q, None, error)
    return visit.go(f"/lists/{asked.id}/edit", q=asked.q)


async def _edit(
    visit: Visit, shown: MemberList, q: str, asked: ListForm | None = None, wrong: InvalidInput | None = None
) -> Response:
    view = _list_view(visit, shown)
    there = await _members(visit, shown)
    typed = asked or ListForm(id=Id(shown.id), title=shown.title, replies=shown.replies, exclusive=shown.exclusive)
    return await page(
        visit,
        "list_edit",
        title=visit.words.text("Change %(title)s") % {"title": isolated(view.title)},
        shown=view,
        members=there,
        found=await _found(visit, q, {one.id for one in there}),
        q=q,
        typed=typed,
        wrong=told(visit.words, wrong),
        field=wrong.field if wrong else "",
    )


async def _members(visit: Visit, shown: MemberList) -> list[Face]:
    cursor = Cursor(limit=feed.MAX_MEMBERS)
    found = await members.page(visit.reads, shown.owner_id, shown.id, LISTS, cursor, followed_by=shown.owner_id)
    return [face_of(visit, one.member) for one in found.profiles]


async def _found(visit: Visit, q: str, there: set[int]) -> list[Face]:
    """Return followees who match the query, or without a query the newest ones. Members of the list are left out."""
    member, reads = visit.member, visit.reads
    if text := q.strip():
        found = ResultRange(4 * _FOUND)
        profiles = await search.members(reads, member.id, text.removeprefix("@"), found, following=True)
    else:
        profiles = (await members.page(reads, member.id, member.id, FOLLOWS, Cursor(limit=4 * _FOUND))).profiles
    return [face_of(visit, one.member) for one in profiles if one.member.id not in there][:_FOUND]


ROUTES = (
    routing.page("/lists", several, BeforeQuery),
    routing.form("/lists", create, ListForm),
    routing.page("/lists/{id}", timeline, ListPath),
    routing.page("/lists/{id}/edit", edit, ListPath),
    routing.form("/lists/{id}", change, ListForm),
    routing.form("/lists/{id}/members", put, ListedForm),
)
