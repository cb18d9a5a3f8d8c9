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
from shoal.graph.access import own_object
from shoal.graph.contract import Cursor
from shoal.graph.feed_lookup import feeds_of, followed_feeds
from shoal.graph.schema import FOLLOWS, LISTS
from shoal.http.params import Id
from shoal.queries import lists as feed
from shoal.queries import members, search, tags
from shoal.queries.pipeline import filtered
from shoal.queries.search import ResultRange
from shoal.web import routing
from shoal.web.form_errors import error_text
from shoal.web.rendering import BeforeQuery, feed_page, next_of, page, part
from shoal.web.request_context import Form, IdForm, PageContext, Text
from shoal.web.timelines import home_tabs
from shoal.web.view_models import Face, face_of, tag_path


class ListView(msgspec.Struct, frozen=True):
    id: int
    title: str
    path: str
    members: str
    exclusive: bool


def _list_view(ctx: PageContext, shown: MemberList, members: int = 0) -> ListView:
    number = ctx.words.counted("%(n)s person", "%(n)s people", members)
    return ListView(shown.id, shown.title, ctx.url(f"/lists/{shown.id}"), number, shown.exclusive)


_TAGS = 200
_FOUND = 12
_Typed = Annotated[str, Meta(max_length=400)]


class ListPath(BeforeQuery, frozen=True, kw_only=True):
    id: Id
    q: _Typed = ""


class ListForm(Form, frozen=True, kw_only=True):
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
    ctx: PageContext,
    _query: BeforeQuery | None = None,
    asked: ListForm | None = None,
    wrong: InvalidInput | None = None,
) -> Response:
    member, reads = ctx.member, ctx.reads
    owned = await feed.owned(ctx.graph, member.id)
    counts = (await ctx.graph.assoc_count([list_.id for list_ in owned], (LISTS,)))[LISTS] if owned else {}
    followed = await tags.followed(reads, member.id, Cursor(limit=_TAGS))
    names = [assoc.data.decode() for assoc in followed.tags]
    return await page(
        ctx,
        "lists",
        title=ctx.words.text("Lists, feeds and tags"),
        lists=[_list_view(ctx, list_, counts.get(list_.id, 0)) for list_ in owned],
        feeds=[
            (shown.title, ctx.url(f"/feeds/{shown.name or shown.id}"))
            for shown in (*await feeds_of(ctx.graph, member.id), *await followed_feeds(ctx.graph, member.id))
        ],
        tags=[(name, tag_path(ctx, name)) for name in names],
        typed=asked or ListForm(),
        wrong=error_text(ctx.words, wrong),
    )


async def create(ctx: PageContext, asked: ListForm) -> Response:
    member = ctx.checked(asked)
    try:
        made = await lists.create(ctx.writes, member.id, asked.title, replies=asked.replies, exclusive=asked.exclusive)
    except InvalidInput as error:
        return await several(ctx, asked=asked, wrong=error)
    return ctx.go(f"/lists/{made.id}/edit")


async def timeline(ctx: PageContext, path: ListPath) -> Response:
    member, reads = ctx.member, ctx.reads
    shown = await own_object(ctx.graph, MemberList, member.id, path.id)
    found = await feed.page(reads, member.id, path.id, path.cursor(), direct=False)
    entries = await filtered(reads.graph, member.id, found.entries, FilterContext.HOME)
    tab = f"list-{shown.id}"
    return await feed_page(
        ctx,
        "list",
        entries,
        next_of(ctx, f"/lists/{shown.id}", found.next),
        title=isolated(shown.title),
        shown=_list_view(ctx, shown),
        tab=tab,
        tabs=[] if ctx.partial else await home_tabs(ctx, tab),
        end=ctx.words.text("You've seen all posts of this list."),
    )


async def edit(ctx: PageContext, path: ListPath) -> Response:
    """Show the settings of a list, its members, and followees to add."""
    member = ctx.member
    shown = await own_object(ctx.graph, MemberList, member.id, path.id)
    if ctx.partial:
        there = {listed.id for listed in await _members(ctx, shown)}
        found = await _found(ctx, path.q, there)
        return part(ctx, "list_offers", found=found, shown=_list_view(ctx, shown), q=path.q)
    return await _edit(ctx, shown, path.q)


async def change(ctx: PageContext, asked: ListForm) -> Response:
    member, writes = ctx.checked(asked), ctx.writes
    shown = await own_object(ctx.graph, MemberList, member.id, asked.id)
    if asked.do == "delete":
        await lists.delete(writes, member.id, shown.id)
        return ctx.go("/lists")
    try:
        await lists.update(
            writes, member.id, shown.id, title=asked.title, replies=asked.replies, exclusive=asked.exclusive
        )
    except InvalidInput as error:
        return await _edit(ctx, shown, "", asked, error)
    return ctx.go(f"/lists/{shown.id}")


async def put(ctx: PageContext, asked: ListedForm) -> Response:
    member, writes = ctx.checked(asked), ctx.writes
    try:
        if asked.do == "put":
            # The member is on the list already if the button was pressed twice.
            with suppress(Taken):
                await lists.put_on(writes, member.id, asked.id, (asked.member,))
        else:
            await lists.take_off(writes, member.id, asked.id, (asked.member,))
    except InvalidInput as error:
        shown = await own_object(ctx.graph, MemberList, member.id, asked.id)
        return await _edit(ctx, shown, asked.q, None, error)
    return ctx.go(f"/lists/{asked.id}/edit", q=asked.q)


async def _edit(
    ctx: PageContext, shown: MemberList, q: str, asked: ListForm | None = None, wrong: InvalidInput | None = None
) -> Response:
    view = _list_view(ctx, shown)
    there = await _members(ctx, shown)
    typed = asked or ListForm(id=Id(shown.id), title=shown.title, replies=shown.replies, exclusive=shown.exclusive)
    return await page(
        ctx,
        "list_edit",
        title=ctx.words.text("Edit %(title)s") % {"title": isolated(view.title)},
        shown=view,
        members=there,
        found=await _found(ctx, q, {member.id for member in there}),
        q=q,
        typed=typed,
        wrong=error_text(ctx.words, wrong),
        field=wrong.field if wrong else "",
    )


async def _members(ctx: PageContext, shown: MemberList) -> list[Face]:
    cursor = Cursor(limit=feed.MAX_MEMBERS)
    found = await members.page(ctx.reads, shown.owner_id, shown.id, LISTS, cursor, followed_by=shown.owner_id)
    return [face_of(ctx, profile.member) for profile in found.profiles]


async def _found(ctx: PageContext, q: str, there: set[int]) -> list[Face]:
    """Return followees who match the query, or the newest followees if it is empty. The list's members (`there`) are left out."""
    member, reads = ctx.member, ctx.reads
    if text := q.strip():
        found = ResultRange(4 * _FOUND)
        profiles = await search.members(reads, member.id, text.removeprefix("@"), found, following=True)
    else:
        profiles = (await members.page(reads, member.id, member.id, FOLLOWS, Cursor(limit=4 * _FOUND))).profiles
    return [face_of(ctx, profile.member) for profile in profiles if profile.member.id not in there][:_FOUND]


ROUTES = (
    routing.page("/lists", several, BeforeQuery),
    routing.form("/lists", create, ListForm),
    routing.page("/lists/{id}", timeline, ListPath),
    routing.page("/lists/{id}/edit", edit, ListPath),
    routing.form("/lists/{id}", change, ListForm),
    routing.form("/lists/{id}/members", put, ListedForm),
)
