"""Conversations: threads of direct statuses."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.commands import conversations as commands
from shoal.http.pagination import StatusesQuery, listed_data
from shoal.http.responses import raw
from shoal.mastodon_api.context import AppContext, Context, One, Router, actor, cursor_of, paged
from shoal.mastodon_api.entities.notifications import Conversation
from shoal.queries import conversations as queries

router = Router()


@router.get("/api/v1/conversations", scope="read:statuses", answer=list[Conversation])
async def list_conversations(context: Context, params: StatusesQuery) -> object:
    """List the caller's conversations, ordered by their newest status."""
    cursor = cursor_of(params)
    page = await queries.page(context.app.reads, actor(context), cursor)
    body = await shown(context.app, actor(context), page.items, listed_data(with_data=params.with_data))
    return paged(context, body, [item.time for item in page.items], page.next, cursor)


@router.post("/api/v1/conversations/{id}/read", scope="write:conversations", answer=Conversation)
async def read(context: Context, params: One) -> object:
    """Mark a conversation as read."""
    return await _marked(context, params, unread=False)


@router.post("/api/v1/conversations/{id}/unread", scope="write:conversations", answer=Conversation)
async def unread(context: Context, params: One) -> object:
    """Mark a conversation as unread."""
    return await _marked(context, params, unread=True)


@router.delete("/api/v1/conversations/{id}", scope="write:conversations", answer=dict)
async def remove(context: Context, params: One) -> None:
    """Remove a conversation from the list until it gets a new reply."""
    await commands.remove(context.app.writes, actor(context), params.id)


async def _marked(context: Context, params: One, *, unread: bool) -> Conversation:
    await commands.mark(context.app.writes, actor(context), params.id, unread=unread)
    found = await queries.one(context.app.reads, actor(context), params.id)
    return (await shown(context.app, actor(context), (found,)))[0]


async def shown(
    app_context: AppContext, viewer: int, items: Sequence[queries.Conversation], data: int = 0
) -> list[Conversation]:
    statuses = await app_context.present.each(viewer, [item.last for item in items], data)
    return [
        Conversation(
            id=str(item.root_id),
            unread=item.unread,
            accounts=[raw(app_context.present.account(profile)) for profile in item.people],
            last_status=raw(statuses[item.last.id]),
        )
        for item in items
    ]
