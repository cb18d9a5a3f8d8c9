"""Lists of accounts, and their timelines."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.commands import lists
from shoal.core.errors import InvalidInput
from shoal.core.feeds.declarations import NamedFeed
from shoal.core.model import MemberList, RepliesPolicy
from shoal.graph.access import access_member, own_object
from shoal.graph.contract import find_object
from shoal.graph.feed_lookup import feeds_of, followed_feeds, readable_feed
from shoal.graph.schema import LISTS
from shoal.http.params import Id, Limit
from shoal.mastodon_api import for_you
from shoal.mastodon_api.context import (
    Context,
    One,
    PageOf,
    Router,
    StatusesOf,
    actor,
    cursor_of,
    entries_page,
    people_page,
)
from shoal.mastodon_api.entities.serializers import UserList, user_list
from shoal.mastodon_api.entities.statuses import Account, Status
from shoal.queries import lists as queries
from shoal.queries import members
from shoal.queries.foryou.feed import FOR_YOU_LIST, for_you_list
from shoal.queries.named_feeds import feed as named_feeds

router = Router()

_Title = Annotated[str, Meta(max_length=20_000)]


class NewList(msgspec.Struct, frozen=True, kw_only=True):
    title: _Title = ""
    replies_policy: RepliesPolicy = RepliesPolicy.LIST
    exclusive: bool = False


class ListChanges(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    title: _Title | None = None
    replies_policy: RepliesPolicy | None = None
    exclusive: bool | None = None


class Accounts(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    account_ids: Annotated[tuple[Id, ...], Meta(max_length=500)] = ()


class AccountsOf(PageOf, frozen=True, kw_only=True):
    limit: Limit = Limit(-1)
    """0 returns all accounts."""


@router.get("/api/v1/lists", scope="read:lists", answer=list[UserList])
async def list_lists(context: Context, _params: None) -> object:
    """List the caller's lists, oldest first, then the named feeds that the caller owns or follows.

    If this server provides "For you" as a list, it is the first.
    """
    graph, member = context.app.graph, actor(context)
    ranked = [for_you_list(member)] if context.app.settings.for_you_list else []
    owned = await queries.owned(graph, member)
    feeds = [*await feeds_of(graph, member), *await followed_feeds(graph, member)]
    return [user_list(member_list) for member_list in (*ranked, *owned, *[_as_list(feed, member) for feed in feeds])]


def _is_for_you(context: Context, list_id: int) -> bool:
    return list_id == FOR_YOU_LIST and context.app.settings.for_you_list


def _as_list(feed: NamedFeed, member_id: int) -> MemberList:
    """Return a feed as a list without members."""
    return MemberList(id=feed.id, owner_id=member_id, title=feed.title)


async def _feed(context: Context, list_id: int) -> NamedFeed | None:
    """Return the feed with this id if the caller may read it; None for the id of a list, and for any other id."""
    if await find_object(context.app.graph, NamedFeed, list_id) is None:
        return None
    return await readable_feed(context.app.graph, actor(context), str(list_id))


async def _own(context: Context, list_id: int) -> MemberList:
    if _is_for_you(context, list_id):
        return for_you_list(actor(context))
    if (feed := await _feed(context, list_id)) is not None:
        return _as_list(feed, actor(context))
    return await own_object(context.app.graph, MemberList, actor(context), list_id)


async def _check_changeable(context: Context, list_id: int) -> None:
    if _is_for_you(context, list_id):
        raise InvalidInput(
            'id: the server generates the list "For you"; configure it at /api/shoal/v1/ranking',
            field="id",
        )
    if await _feed(context, list_id) is not None:
        raise InvalidInput("id: this list is a named feed; change it at /api/shoal/v1/feeds", field="id")


@router.get("/api/v1/lists/{id}", scope="read:lists", answer=UserList)
async def get_list(context: Context, params: One) -> object:
    """Show one of the caller's lists."""
    return user_list(await _own(context, params.id))


@router.post("/api/v1/lists", scope="write:lists", answer=UserList)
async def create(context: Context, params: NewList) -> object:
    """Create an empty list."""
    made = await lists.create(
        context.app.writes, actor(context), params.title, replies=params.replies_policy, exclusive=params.exclusive
    )
    return user_list(made)


@router.put("/api/v1/lists/{id}", scope="write:lists", answer=UserList)
async def update(context: Context, params: ListChanges) -> object:
    """Update one of the caller's lists."""
    await _check_changeable(context, params.id)
    changed = await lists.update(
        context.app.writes,
        actor(context),
        params.id,
        title=params.title,
        replies=params.replies_policy,
        exclusive=params.exclusive,
    )
    return user_list(changed)


@router.delete("/api/v1/lists/{id}", scope="write:lists", answer=dict)
async def delete(context: Context, params: One) -> None:
    """Delete one of the caller's lists."""
    await _check_changeable(context, params.id)
    await lists.delete(context.app.writes, actor(context), params.id)


@router.get("/api/v1/lists/{id}/accounts", scope="read:lists", answer=list[Account])
async def list_accounts(context: Context, params: AccountsOf) -> object:
    """List the accounts on one of the caller's lists, newest first; a limit of 0 returns all of them."""
    member = actor(context)
    await _own(context, params.id)
    cursor = cursor_of(params, 40, 80)
    if params.limit == 0:
        cursor = cursor.of(queries.MAX_MEMBERS)
    found = await members.page(context.app.reads, member, params.id, LISTS, cursor, followed_by=member)
    return people_page(context, found, cursor)


@router.post("/api/v1/lists/{id}/accounts", scope="write:lists", answer=dict)
async def add_accounts(context: Context, params: Accounts) -> None:
    """Add followed accounts to one of the caller's lists. If one of them cannot be added, none is."""
    await _check_changeable(context, params.id)
    await lists.put_on(context.app.writes, actor(context), params.id, params.account_ids)


@router.delete("/api/v1/lists/{id}/accounts", scope="write:lists", answer=dict)
async def remove_accounts(context: Context, params: Accounts) -> None:
    """Remove accounts from one of the caller's lists."""
    await _check_changeable(context, params.id)
    await lists.take_off(context.app.writes, actor(context), params.id, params.account_ids)


@router.get("/api/v1/accounts/{id}/lists", scope="read:lists", answer=list[UserList])
async def lists_with_account(context: Context, params: One) -> object:
    """List the caller's lists that contain an account."""
    await access_member(context.app.graph, params.id)
    found = await queries.with_member(context.app.graph, actor(context), params.id)
    return [user_list(member_list) for member_list in found]


@router.get("/api/v1/timelines/list/{id}", scope="read:lists", answer=list[Status], cached=True)
async def timeline(context: Context, params: StatusesOf) -> object:
    """List the newest statuses by the accounts on one of the caller's lists, or the statuses of a named feed.

    The list "For you" has the ranked feed.
    """
    if _is_for_you(context, params.id):
        return await for_you.as_list(context, params)
    cursor = cursor_of(params)
    if (feed := await _feed(context, params.id)) is not None:
        page = await named_feeds.list_page(context.app.reads, actor(context), feed, cursor)
        return await entries_page(context, page, cursor, with_data=params.with_data, filters_applied=True)
    page = await queries.page(context.app.reads, actor(context), params.id, cursor)
    return await entries_page(context, page, cursor, with_data=params.with_data)
