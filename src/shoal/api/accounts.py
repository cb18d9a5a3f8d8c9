"""Accounts as others see them, by id or name, with their statuses, followers and followees."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.entities.statuses import Account, Received, Status
from shoal.api.http.convert import Id
from shoal.api.http.pages import StatusesQuery, listed_data
from shoal.api.listing import One, PageOf, cursor_of, entries_page, people_page, profile_of
from shoal.commands import members
from shoal.core.errors import Gone, NotFound
from shoal.core.text import canonical_tag
from shoal.graph.access import access_member
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, AssocType
from shoal.queries import members as member_queries
from shoal.queries import posts
from shoal.queries.hydration import profiles_by_id
from shoal.queries.posts import MemberFeedQuery, pinned


class AccountIds(msgspec.Struct, frozen=True):
    """Ids of several accounts."""

    id: Annotated[tuple[Id, ...], Meta(max_length=100)] = ()


class Lookup(msgspec.Struct, frozen=True):
    """A name as people write it: `ann`, `@ann`, `ann@our.domain`."""

    acct: Annotated[str, Meta(max_length=400)]


class Statuses(StatusesQuery, frozen=True, kw_only=True):
    """An account, and which of its statuses to list."""

    id: Id
    only_media: bool = False
    exclude_replies: bool = False
    exclude_reblogs: bool = False
    pinned: bool = False
    tagged: Annotated[str, Meta(max_length=400)] = ""


async def several(context: Context, params: AccountIds) -> object:
    """List accounts by id; those that do not exist any more are left out."""
    front = context.deps
    return front.present.accounts(await profiles_by_id(front.graph, context.caller.member_id, params.id))


async def one(context: Context, params: One) -> object:
    """Show an account by id."""
    front = context.deps
    await access_member(front.graph, params.id)
    return front.present.account(await profile_of(context, params.id))


async def lookup(context: Context, params: Lookup) -> object:
    """Show an account by name."""
    front = context.deps
    name, _, domain = params.acct.strip().removeprefix("@").partition("@")
    if domain.lower() not in {"", front.at.domain.lower(), front.at.netloc.lower()}:
        raise NotFound("Record not found")
    member = await members.find(front.writes, name)
    if member is None or member.pending:
        raise NotFound("Record not found")
    if member.suspended:
        raise Gone
    return front.present.account(await profile_of(context, member.id))


async def statuses(context: Context, params: Statuses) -> object:
    """List the statuses that an account posted and shared, or those that it pinned."""
    front = context.deps
    await access_member(front.graph, params.id)
    tag = canonical_tag(params.tagged.removeprefix("#"))
    if params.tagged and not tag:
        return b"[]"
    query = MemberFeedQuery(
        only_media=params.only_media,
        no_comments=params.exclude_replies,
        no_shares=params.exclude_reblogs,
        tag=tag,
    )
    cursor = cursor_of(params)
    if params.pinned:
        entries = await pinned(front.reads, context.caller.member_id, params.id, cursor, query)
        return await front.present.page(context.caller.member_id, entries, listed_data(wanted=params.with_data))
    page = await posts.authored_page(front.reads, context.caller.member_id, params.id, cursor, query)
    return await entries_page(context, page, cursor, data=listed_data(wanted=params.with_data))


async def followers(context: Context, params: PageOf) -> object:
    """List the followers of an account, newest first; none where the account hides them."""
    return await _connections(context, params, FOLLOWED_BY)


async def following(context: Context, params: PageOf) -> object:
    """List the accounts that an account follows, newest first; none where it hides them."""
    return await _connections(context, params, FOLLOWS)


async def _connections(context: Context, params: PageOf, atype: AssocType) -> object:
    front = context.deps
    viewer, member = context.caller.member_id, await access_member(front.graph, params.id)
    if member.hides_connections and viewer != member.id:
        return b"[]"
    cursor = cursor_of(params, 40, 80)
    return people_page(context, await member_queries.page(front.reads, viewer, params.id, atype, cursor), cursor)


async def received(context: Context, params: One) -> object:
    """Count the likes and shares of the posts of an account that the caller may find: `{"likes": n, "shares": n}`."""
    front = context.deps
    await access_member(front.graph, params.id)
    found = await member_queries.received(front.reads, context.caller.member_id, params.id)
    return {"likes": found.likes, "shares": found.shares}


LOOKUP_ROUTES = (
    rows.seen(
        "GET",
        "/api/v1/accounts",
        several,
        scope="read:accounts",
        params=AccountIds,
        answer=list[Account],
    ),
    rows.seen(
        "GET",
        "/api/v1/accounts/lookup",
        lookup,
        scope="read:accounts",
        params=Lookup,
        answer=Account,
    ),
)

ROUTES = (
    rows.seen("GET", "/api/v1/accounts/{id}", one, scope="read:accounts", params=One, answer=Account, remembered=True),
    rows.seen(
        "GET",
        "/api/v1/accounts/{id}/statuses",
        statuses,
        scope="read:statuses",
        params=Statuses,
        answer=list[Status],
        remembered=True,
    ),
    rows.seen(
        "GET",
        "/api/v1/accounts/{id}/followers",
        followers,
        scope="read:accounts",
        params=PageOf,
        answer=list[Account],
        remembered=True,
    ),
    rows.seen(
        "GET",
        "/api/v1/accounts/{id}/following",
        following,
        scope="read:accounts",
        params=PageOf,
        answer=list[Account],
        remembered=True,
    ),
)

RECEIVED_ROUTES = (
    rows.seen(
        "GET",
        "/api/shoal/v1/accounts/{id}/received",
        received,
        scope="read:accounts",
        params=One,
        answer=Received,
    ),
)
