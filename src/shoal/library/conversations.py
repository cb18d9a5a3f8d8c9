"""Conversations: threads of direct posts that a member has a part in."""

from __future__ import annotations

from typing import TypeAlias

from shoal.commands import conversations
from shoal.library.arguments import part
from shoal.queries import conversations as feed
from shoal.queries.conversations import Conversation, ConversationPage
from shoal.wiring import Network

AnyConversation: TypeAlias = Conversation | int
"""A conversation, as itself or by the id of the post that began it."""


class OwnConversations:
    """The conversations of a member."""

    def __init__(self, network: Network, owner: int) -> None:
        self._writes = network.writes
        self._reads = network.reads
        self._owner = owner

    async def page(self, before: int | None = None, limit: int = 20) -> ConversationPage:
        """A page of the conversations, the one with the newest post first. Raises `InvalidInput` for a limit below 1."""
        return await feed.page(self._reads, self._owner, part(before, limit))

    async def get(self, which: AnyConversation) -> Conversation:
        """A conversation as it is now. Raises `NotFound`."""
        return await feed.one(self._reads, self._owner, _id(which))

    async def mark_read(self, which: AnyConversation) -> None:
        """Mark a conversation as read up to its newest post. Raises `NotFound`."""
        await conversations.mark(self._writes, self._owner, _id(which), unread=False)

    async def mark_unread(self, which: AnyConversation) -> None:
        """Mark a conversation as not read. Raises `NotFound`."""
        await conversations.mark(self._writes, self._owner, _id(which), unread=True)

    async def remove(self, which: AnyConversation) -> None:
        """Take a conversation off the list until its next post. Raises `NotFound`."""
        await conversations.remove(self._writes, self._owner, _id(which))


def _id(which: AnyConversation) -> int:
    return which if isinstance(which, int) else which.root_id
