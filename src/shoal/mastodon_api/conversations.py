"""Conversations: threads of direct statuses."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.commands import conversations as verbs
from shoal.http.pagination import StatusesQuery, listed_data
from shoal.http.responses import raw
from shoal.mastodon_api import context as endpoints
from shoal.mastodon_api.context import Context, Front, One, actor, cursor_of, paged
from shoal.mastodon_api.entities.notifications import Conversation
from shoal.queries import conversations as feed


async def several(context: Context, params: StatusesQuery) -> object:
    """The caller's conversations, that which went on last first."""
    front = context.deps
    cursor = cursor_of(params)
    page = await feed.page(front.reads, actor(context), cursor)
    body = msgspec.json.encode(await shown(front, actor(context), page.items, listed_data(wanted=params.with_data)))
    return paged(context, body, [item.time for item in page.items], page.next, cursor)


async def read(context: Context, params: One) -> object:
    """The conversation is read."""
    return await _marked(context, params, unread=False)


async def unread(context: Context, params: One) -> object:
    """The conversation is to be read again."""
    return await _marked(context, params, unread=True)


async def remove(context: Context, params: One) -> object:
    """The conversation leaves the list, until somebody writes in it."""
    front = context.deps
    await verbs.remove(front.writes, actor(context), params.id)
    return {}


async def _marked(context: Context, params: One, *, unread: bool) -> Conversation:
    front = context.deps
    await verbs.mark(front.writes, actor(context), params.id, unread=unread)
    found = await feed.one(front.reads, actor(context), params.id)
    return (await shown(front, actor(context), (found,)))[0]


async def shown(front: Front, viewer: int, items: Sequence[feed.Conversation], data: int = 0) -> list[Conversation]:
    """Conversations on their way out; their statuses are made together."""
    statuses = await front.present.each(viewer, [item.last for item in items], data)
    return [
        Conversation(
            id=str(item.root_id),
            unread=item.unread,
            accounts=[raw(front.present.account(profile)) for profile in item.people],
            last_status=raw(statuses[item.last.id]),
        )
        for item in items
    ]


_HERE = "/api/v1/conversations"

_change = endpoints.one.having(scope="write:conversations", answer=Conversation)

ROUTES = (
    endpoints.route(
        "GET",
        _HERE,
        several,
        scope="read:statuses",
        params=StatusesQuery,
        answer=list[Conversation],
    ),
    _change("POST", f"{_HERE}/{{id}}/read", read),
    _change("POST", f"{_HERE}/{{id}}/unread", unread),
    endpoints.one("DELETE", f"{_HERE}/{{id}}", remove, scope="write:conversations", answer=dict),
)
