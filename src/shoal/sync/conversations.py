"""Conversations: threads of direct posts that a member has a part in.

Made from `shoal.library.notifications` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from shoal.library import notifications as awaited
from shoal.library.notifications import AnyConversation
from shoal.queries.conversations import Conversation, ConversationPage
from shoal.sync.calling import Calling


class OwnConversations(Calling):
    """The conversations of a member."""

    _awaited: awaited.OwnConversations

    def page(self, before: int | None = None, limit: int = 20) -> ConversationPage:
        """A page of the conversations, the one with the newest post first. Raises `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.page(before, limit))

    def get(self, which: AnyConversation) -> Conversation:
        """A conversation as it is now. Raises `NotFound`."""
        return self._loop.call(self._awaited.get(which))

    def mark_read(self, which: AnyConversation) -> None:
        """Mark a conversation as read up to its newest post. Raises `NotFound`."""
        self._loop.call(self._awaited.mark_read(which))

    def mark_unread(self, which: AnyConversation) -> None:
        """Mark a conversation as not read. Raises `NotFound`."""
        self._loop.call(self._awaited.mark_unread(which))

    def remove(self, which: AnyConversation) -> None:
        """Take a conversation off the list until its next post. Raises `NotFound`."""
        self._loop.call(self._awaited.remove(which))
