"""Lists on their way out: the cursor that a client asks for, and a page with the Link header to its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from shoal.api.context import Context
from shoal.api.http.convert import Id
from shoal.api.http.pages import PageQuery, link_header
from shoal.api.http.replies import Reply
from shoal.core.errors import NotFound
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.queries.hydration import Entry, Profile, hydrate, hydrate_taken_back, profiles_by_id
from shoal.queries.members import MemberPage
from shoal.queries.pipeline import Page


class One(msgspec.Struct, frozen=True):
    """One thing by its id, from the path."""

    id: Id


class PageOf(PageQuery, frozen=True, kw_only=True):
    """A page of something that one thing has."""

    id: Id


class StatusesOf(PageOf, frozen=True, kw_only=True):
    """A page of statuses that one thing has."""

    with_data: bool = False
    """See `WithData`."""


def cursor_of(query: PageQuery, default: int = 20, maximum: int = 40) -> Cursor:
    """The part of a feed that the query asks for."""
    before, limit = query.max_id or MAX_TIME, query.size(default, maximum)
    if query.min_id:
        return Cursor(before, query.min_id, limit, oldest_first=True)
    return Cursor(before, query.since_id, limit)


async def entries_page(
    context: Context, page: Page, cursor: Cursor, *, data: int = 0, filters_applied: bool = False
) -> Reply:
    """Return a page of statuses; those of others include their data if it has at most `data` bytes.

    With `filters_applied` the entries already list the caller's filters that match them.
    """
    front = context.deps
    body = await front.present.page(context.caller.member_id, page.entries, data, filters_applied=filters_applied)
    return paged(context, body, [entry.id for entry in page.entries], page.next, cursor)


def people_page(context: Context, people: MemberPage, cursor: Cursor) -> Reply:
    """A page of accounts; its cursors are the times of the associations, which stand in the Link header only."""
    front = context.deps
    return paged(context, front.present.accounts(people.profiles), people.times, people.next, cursor)


def paged(context: Context, body: bytes, cursors: Sequence[int], after: int | None, cursor: Cursor) -> Reply:
    """A JSON array with the cursors of its items, newest first; `after` is where the next page begins, None at the end."""
    last = after or (cursors[-1] if cursors else None)
    first = cursors[0] if cursors else after
    link = link_header(address_of(context), first, last, limit=cursor.limit, more=after is not None)
    return Reply(body, headers=(("Link", link),) if link else ())


def address_of(context: Context) -> str:
    """The address of the request below our own root, whatever a proxy in front made of it."""
    front = context.deps
    scope = context.request.scope
    return f"{front.at.root}{quote(scope['path'])}?{scope['query_string'].decode('latin-1')}"


async def entry_of(context: Context, id_: int) -> Entry:
    """A post or share as the caller sees it. Raises `NotFound`."""
    front = context.deps
    found = await hydrate(front.graph, context.caller.member_id, (id_,), unasked=False)
    if not found:
        raise NotFound("Record not found")
    return found[0]


async def show(context: Context, id_: int) -> bytes:
    """A status as the caller sees it. Raises `NotFound`."""
    front = context.deps
    return await front.present.status(context.caller.member_id, await entry_of(context, id_))


async def show_taken_back(context: Context, id_: int) -> bytes:
    """A status that the caller takes something of their own back from, whether they may still see it or not."""
    front = context.deps
    entry = await hydrate_taken_back(front.graph, actor(context), id_)
    if entry is None:
        raise NotFound("Record not found")
    return await front.present.status(actor(context), entry)


async def profile_of(context: Context, member_id: int) -> Profile:
    """A member with their numbers. Raises `NotFound`."""
    front = context.deps
    found = await profiles_by_id(front.graph, context.caller.member_id, (member_id,))
    if not found:
        raise NotFound("Record not found")
    return found[0]


def actor(context: Context) -> int:
    """The member who calls. Routes with `auth="user"` have one."""
    member_id = context.caller.member_id
    if member_id is None:
        raise NotFound("Record not found")
    return member_id
