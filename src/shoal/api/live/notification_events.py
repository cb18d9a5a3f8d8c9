"""A notification, and a conversation, as those whom it concerns are told of it live: just as they are listed."""

from __future__ import annotations

from shoal.api import conversations, notifications
from shoal.api.context import Front
from shoal.api.http.replies import encode
from shoal.core.errors import NotFound
from shoal.queries import conversations as talks
from shoal.queries import notifications as notices


async def notification_json(front: Front, viewer: int, time: int, data: int = 0) -> bytes | None:
    """The viewer's notification by its time; None when it is not for them to see any more."""
    try:
        found = await notices.one(front.reads, viewer, time)
    except NotFound:
        return None
    return encode((await notifications.shown(front, viewer, (found,), data))[0])


async def conversation_json(front: Front, viewer: int, root_id: int, data: int = 0) -> bytes | None:
    """The viewer's conversation by the post that began it; None when there is nothing of it that they may see."""
    try:
        found = await talks.one(front.reads, viewer, root_id)
    except NotFound:
        return None
    return encode((await conversations.shown(front, viewer, (found,), data))[0])
