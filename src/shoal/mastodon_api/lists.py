"""Lists of accounts, and their timelines."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.commands import lists
from shoal.core.errors import InvalidInput
from shoal.core.model import MemberList, RepliesPolicy
from shoal.graph.access import access_member, own_object
from shoal.graph.schema import LISTS
from shoal.http.pagination import listed_data
from shoal.http.params import Id, Limit
from shoal.mastodon_api import context as endpoints
from shoal.mastodon_api import for_you
from shoal.mastodon_api.context import Context, One, PageOf, StatusesOf, actor, cursor_of, entries_page, people_page
from shoal.mastodon_api.entities import serializers as people_entities
from shoal.mastodon_api.entities.serializers import UserList
from shoal.mastodon_api.entities.statuses import Account, Status
from shoal.queries import lists as feed
from shoal.queries import members
from shoal.queries.foryou.feed import FOR_YOU_LIST, for_you_list

_Title = Annotated[str, Meta(max_length=20_000)]


class NewList(msgspec.Struct, frozen=True, kw_only=True):
    """A list to be made."""

    title: _Title = ""
    replies_policy: RepliesPolicy = RepliesPolicy.LIST
    exclusive: bool = False


class ListChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a list. A field that is None keeps its value."""

    id: Id
    title: _Title | None = None
    replies_policy: RepliesPolicy | None = None
    exclusive: bool | None = None


class Accounts(msgspec.Struct, frozen=True, kw_only=True):
    """Some accounts, and the list that they come to or leave."""

    id: Id
    account_ids: Annotated[tuple[Id, ...], Meta(max_length=500)] = ()


class AccountsOf(PageOf, frozen=True, kw_only=True):
    """A page of the accounts on a list."""

    limit: Limit = Limit(-1)
    """0: all of them."""


async def several(context: Context, _params: None) -> object:
    """The caller's lists, oldest first; before them "For you", where this server shows it as a list."""
    front = context.deps
    ranked = [for_you_list(actor(context))] if front.settings.for_you_list else []
    owned = await feed.owned(front.graph, actor(context))
    return [people_entities.user_list(one) for one in (*ranked, *owned)]


def _is_for_you(context: Context, list_id: int) -> bool:
    return list_id == FOR_YOU_LIST and context.deps.settings.for_you_list


async def _own(context: Context, list_id: int) -> MemberList:
    if _is_for_you(context, list_id):
        return for_you_list(actor(context))
    return await own_object(context.deps.graph, actor(context), list_id, MemberList)


def _check_changeable(context: Context, list_id: int) -> None:
    if _is_for_you(context, list_id):
        raise InvalidInput(
            'id: the list "For you" is made by the server; what is in it is decided at /api/shoal/v1/ranking',
            field="id",
        )


async def one(context: Context, params: One) -> object:
    """An own list."""
    return people_entities.user_list(await _own(context, params.id))


async def create(context: Context, params: NewList) -> object:
    """A new list, of nobody."""
    front = context.deps
    made = await lists.create(
        front.writes, actor(context), params.title, replies=params.replies_policy, exclusive=params.exclusive
    )
    return people_entities.user_list(made)


async def update(context: Context, params: ListChanges) -> object:
    """Change an own list."""
    front = context.deps
    _check_changeable(context, params.id)
    changed = await lists.update(
        front.writes,
        actor(context),
        params.id,
        title=params.title,
        replies=params.replies_policy,
        exclusive=params.exclusive,
    )
    return people_entities.user_list(changed)


async def delete(context: Context, params: One) -> object:
    """Delete an own list."""
    front = context.deps
    _check_changeable(context, params.id)
    await lists.delete(front.writes, actor(context), params.id)
    return {}


async def accounts(context: Context, params: AccountsOf) -> object:
    """List the accounts on a list of the caller's, newest first; all of them for a limit of 0."""
    front = context.deps
    member = actor(context)
    await _own(context, params.id)
    cursor = cursor_of(params, 40, 80)
    if params.limit == 0:
        cursor = cursor.of(feed.MAX_MEMBERS)
    found = await members.page(front.reads, member, params.id, LISTS, cursor, followed_by=member)
    return people_page(context, found, cursor)


async def put_on(context: Context, params: Accounts) -> object:
    """Put accounts that the caller follows on an own list: all of them, or none."""
    front = context.deps
    _check_changeable(context, params.id)
    await lists.put_on(front.writes, actor(context), params.id, params.account_ids)
    return {}


async def take_off(context: Context, params: Accounts) -> object:
    """Take accounts off an own list."""
    front = context.deps
    _check_changeable(context, params.id)
    await lists.take_off(front.writes, actor(context), params.id, params.account_ids)
    return {}


async def with_account(context: Context, params: One) -> object:
    """Return the caller's lists that contain an account."""
    front = context.deps
    await access_member(front.graph, params.id)
    found = await feed.with_member(front.graph, actor(context), params.id)
    return [people_entities.user_list(one) for one in found]


async def timeline(context: Context, params: StatusesOf) -> object:
    """The newest by those on an own list; of "For you", where this server shows it as a list, the best."""
    front = context.deps
    if _is_for_you(context, params.id):
        return await for_you.as_list(context, params)
    cursor = cursor_of(params)
    page = await feed.page(front.reads, actor(context), params.id, cursor)
    return await entries_page(context, page, cursor, data=listed_data(wanted=params.with_data))


ROUTES = (
    endpoints.route("GET", "/api/v1/lists", several, scope="read:lists", answer=list[UserList]),
    endpoints.route("POST", "/api/v1/lists", create, scope="write:lists", params=NewList, answer=UserList),
    endpoints.one("GET", "/api/v1/lists/{id}", one, scope="read:lists", answer=UserList),
    endpoints.route("PUT", "/api/v1/lists/{id}", update, scope="write:lists", params=ListChanges, answer=UserList),
    endpoints.one("DELETE", "/api/v1/lists/{id}", delete, scope="write:lists", answer=dict),
    endpoints.route(
        "GET",
        "/api/v1/lists/{id}/accounts",
        accounts,
        scope="read:lists",
        params=AccountsOf,
        answer=list[Account],
    ),
    endpoints.route(
        "POST",
        "/api/v1/lists/{id}/accounts",
        put_on,
        scope="write:lists",
        params=Accounts,
        answer=dict,
    ),
    endpoints.route(
        "DELETE",
        "/api/v1/lists/{id}/accounts",
        take_off,
        scope="write:lists",
        params=Accounts,
        answer=dict,
    ),
    endpoints.one("GET", "/api/v1/accounts/{id}/lists", with_account, scope="read:lists", answer=list[UserList]),
    endpoints.route(
        "GET",
        "/api/v1/timelines/list/{id}",
        timeline,
        scope="read:lists",
        params=StatusesOf,
        answer=list[Status],
        remembered=True,
    ),
)
