"""Declaration of endpoints, and what their handlers share: parameters, cursors and pages with a Link header.

A route kind holds common declarations, so a route is mostly one line and the type checker verifies each handler against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar, Unpack, overload
from urllib.parse import quote

import msgspec

from shoal.core.errors import NotFound
from shoal.core.model import Role
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.http.convert import Id
from shoal.http.pagination import PageQuery, StatusesQuery, link_header
from shoal.http.responses import Reply
from shoal.http.routes import Auth, Route
from shoal.mastodon_api.context import Context, Handler
from shoal.mastodon_api.entities.statuses import Status
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


FORM = 64 * 1024
"""Bytes of a multipart body besides its files."""

P = TypeVar("P", bound=msgspec.Struct)


class Words(TypedDict, total=False):
    """The declarations of a row besides its address, its handler and its parameters: see `Route`."""

    scope: str
    auth: Auth
    role: Role
    limit_class: str
    max_body: int
    answer: object
    also: tuple[tuple[int, str], ...]
    refuses: tuple[int, ...]
    what: str
    delivers: bool
    page: bool
    remembered: bool
    by_owner: bool
    once: bool
    stub: bool


@dataclass(frozen=True, slots=True)
class RouteKind:
    """Rows that have these words in common. Each may say more, and may say something else instead.

    A row without parameters needs a handler that is given None, and one with parameters a handler that takes them.
    """

    words: Words

    @overload
    def __call__(self, method: str, path: str, handler: Handler[None], **more: Unpack[Words]) -> Route: ...

    @overload
    def __call__(
        self, method: str, path: str, handler: Handler[P], *, params: type[P], **more: Unpack[Words]
    ) -> Route: ...

    def __call__(
        self,
        method: str,
        path: str,
        handler: Handler[Any],
        *,
        params: type[msgspec.Struct] | None = None,
        **more: Unpack[Words],
    ) -> Route:
        words: Words = {**self.words, **more}
        return Route(method, path, handler, params=params, **words)

    def having(self, **more: Unpack[Words]) -> RouteKind:
        """Rows that have these words in common as well."""
        return RouteKind({**self.words, **more})

    def taking(self, params: type[P]) -> KindTaking[P]:
        """Rows that take these parameters."""
        return KindTaking(self, params)


@dataclass(frozen=True, slots=True)
class KindTaking(Generic[P]):
    """Rows that have their parameters in common, too."""

    kind: RouteKind
    params: type[P]

    def __call__(self, method: str, path: str, handler: Handler[P], **more: Unpack[Words]) -> Route:
        return self.kind(method, path, handler, params=self.params, **more)

    def having(self, **more: Unpack[Words]) -> KindTaking[P]:
        """Rows that have these words in common as well."""
        return KindTaking(self.kind.having(**more), self.params)


route = RouteKind({"limit_class": "api"})
"""For members."""
public = route.having(auth="public")
"""For everybody; nobody asks who it is."""
oauth = public.having(once=True)
"""For everybody, in the words of OAuth: a parameter that comes twice is refused."""
seen = route.having(auth="optional")
"""For everybody; who has a token may see more."""
staff = route.having(role=Role.MODERATOR)
"""For those who look after the network."""
admin = route.having(role=Role.ADMIN)
"""For admins alone."""
one = route.taking(One)
"""For members, about one thing."""
page = route.taking(PageQuery)
"""For members, a page of something of theirs."""
statuses_page = route.having(answer=list[Status]).taking(StatusesQuery)
"""For members, a page of statuses."""
