"""Notifications (plain and grouped), the notification policy, read markers, and conversations of direct posts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeAlias

from shoal.commands import conversations, notifications
from shoal.commands import notifications as notification_commands
from shoal.core.model import NoticePolicy, Treatment
from shoal.graph.access import access_member
from shoal.graph.payloads.members import HOME, NOTIFICATIONS, Mark, marks
from shoal.graph.payloads.notifications import GROUPED, Group, Kind
from shoal.library.acting import AnyMember, Owned, one_of, part, resolve
from shoal.queries import conversations as conversations_feed
from shoal.queries import notifications as feed
from shoal.queries import notifications as notification_queries
from shoal.queries.conversations import Conversation, ConversationPage
from shoal.queries.notifications import (
    GroupedPage,
    HeldBack,
    NoticeRequest,
    NoticeRequests,
    Notification,
    NotificationPage,
    NotificationQuery,
)

KindName: TypeAlias = Literal[
    "mention", "post", "like", "share", "edit", "poll", "follow", "request", "registration", "report"
]
TreatmentName: TypeAlias = Literal["accept", "filter", "drop"]
AnyNotification: TypeAlias = Notification | int
"""A notification, as itself or by its `time`."""


class OwnNotifications(Owned):
    """The notifications of a member."""

    async def page(
        self,
        before: int | None = None,
        limit: int = 40,
        *,
        kinds: Collection[Kind | KindName] | None = None,
        without: Collection[Kind | KindName] = (),
        actor: AnyMember | None = None,
        held: bool = False,
        after: int | None = None,
        oldest_first: bool = False,
    ) -> NotificationPage:
        """Return a page of notifications, newest first, filtered by kind and by the member who caused them.

        `held` includes notifications that the policy holds back. With `oldest_first`, the page has the oldest notifications newer
        than `after`, still newest first.

        Raises `InvalidInput` for a limit below 1 and for an unknown kind, and `NotFound` for an unknown user name.
        """
        query = await self._query(kinds, without, actor, held=held)
        return await feed.page(self._reads, self._owner, part(before, limit, after, oldest_first=oldest_first), query)

    async def grouped(
        self,
        before: int | None = None,
        limit: int = 40,
        *,
        kinds: Collection[Kind | KindName] | None = None,
        without: Collection[Kind | KindName] = (),
        actor: AnyMember | None = None,
        grouping: Collection[Kind | KindName] = GROUPED,
    ) -> GroupedPage:
        """Return a page of groups of notifications, ordered by their newest one. `grouping` are the kinds to group.

        Raises `InvalidInput` for a limit below 1 and for an unknown kind, and `NotFound` for an unknown user name.
        """
        query = await self._query(kinds, without, actor)
        together = GROUPED & _kinds(grouping)
        return await feed.grouped(self._reads, self._owner, part(before, limit), query, together)

    async def group(self, which: Group) -> list[Notification]:
        """Return the notifications of a group, newest first. Raises `NotFound` if there are none."""
        return await feed.of_group(self._reads, self._owner, which)

    async def get(self, which: AnyNotification) -> Notification:
        """Return a notification by its `time`. Raises `NotFound`."""
        return await feed.one(self._reads, self._owner, _time(which))

    async def unread(self, limit: int = 100, *, kinds: Collection[Kind | KindName] | None = None) -> int:
        """Count the notifications after the read marker, up to `limit`. Raises `InvalidInput` for an unknown kind."""
        return await feed.unread(self._reads, self._owner, limit, await self._query(kinds))

    async def unread_groups(self, limit: int = 100, *, kinds: Collection[Kind | KindName] | None = None) -> int:
        """Count the groups of notifications after the read marker, up to `limit`. Raises `InvalidInput` for an unknown kind."""
        return await feed.unread(self._reads, self._owner, limit, await self._query(kinds), GROUPED)

    async def dismiss(self, which: AnyNotification) -> None:
        """Dismiss a notification. Raises `NotFound`."""
        await notifications.dismiss(self._writes, self._owner, _time(which))

    async def dismiss_group(self, which: Group) -> None:
        """Dismiss all notifications of a group. Raises `Unavailable`."""
        await notifications.dismiss_group(self._writes, self._owner, which)

    async def clear(self) -> None:
        """Dismiss all notifications. Raises `Unavailable`."""
        await notifications.clear(self._writes, self._owner)

    async def policy(self) -> NoticePolicy:
        """Return the policy by which notifications are held back or dropped. Raises `Gone` for a suspended member."""
        return (await access_member(self._reads.graph, self._owner)).notices

    async def change_policy(
        self,
        *,
        not_following: Treatment | TreatmentName | None = None,
        not_followers: Treatment | TreatmentName | None = None,
        new_accounts: Treatment | TreatmentName | None = None,
        private_mentions: Treatment | TreatmentName | None = None,
        limited_accounts: Treatment | TreatmentName | None = None,
    ) -> NoticePolicy:
        """Change the given rules of the policy; None keeps a rule. Raises `InvalidInput` for an unknown treatment."""
        given = {
            "not_following": not_following,
            "not_followers": not_followers,
            "new_accounts": new_accounts,
            "private_mentions": private_mentions,
            "limited_accounts": limited_accounts,
        }
        changes = {rule: one_of(Treatment, value, rule) for rule, value in given.items() if value is not None}
        return await notification_commands.set_policy(self._writes, self._owner, changes)

    async def held_back(self) -> HeldBack:
        """Count the held notifications and their senders. Raises `Unavailable`."""
        return await notification_queries.held_back(self._reads, self._owner)

    async def requests(self, before: int | None = None, limit: int = 40) -> NoticeRequests:
        """Return a page of the senders of held notifications, newest first. Raises `InvalidInput` for a limit below 1."""
        return await notification_queries.requests_page(self._reads, self._owner, part(before, limit))

    async def request(self, sender: AnyMember) -> NoticeRequest:
        """Return a sender's held notifications in summary. Raises `NotFound`."""
        return await notification_queries.sender_request(self._reads, self._owner, await resolve(self._network, sender))

    async def accept(self, *senders: AnyMember) -> None:
        """Release the held notifications of these senders, and accept later ones. Raises `NotFound`."""
        await notification_commands.accept_requests(self._writes, self._owner, await self._ids(senders))

    async def refuse(self, *senders: AnyMember) -> None:
        """Dismiss the held notifications of these senders. Later ones are held again. Raises `NotFound`."""
        await notification_commands.dismiss_requests(self._writes, self._owner, await self._ids(senders))

    async def marks(self) -> dict[str, Mark]:
        """Return the read markers of `home` and `notifications` that are set. Raises `Unavailable`."""
        return await marks(self._reads.graph, self._owner, (HOME, NOTIFICATIONS))

    async def mark_read(self, *, home: int | None = None, notifications: int | None = None) -> dict[str, Mark]:
        """Set the read markers: the id of the newest entry read at home, and the `time` of the newest notification read.

        Raises `Unavailable`.
        """
        given = {HOME: home, NOTIFICATIONS: notifications}
        read = {name: id_ for name, id_ in given.items() if id_ is not None}
        return await notification_commands.set_markers(self._writes, self._owner, read)

    async def _query(
        self,
        kinds: Collection[Kind | KindName] | None,
        without: Collection[Kind | KindName] = (),
        actor: AnyMember | None = None,
        *,
        held: bool = False,
    ) -> NotificationQuery:
        by = 0 if actor is None else await resolve(self._network, actor)
        return NotificationQuery(None if kinds is None else _kinds(kinds), _kinds(without), by, held=held or bool(by))

    async def _ids(self, senders: tuple[AnyMember, ...]) -> set[int]:
        return {await resolve(self._network, who) for who in senders}


def _kinds(given: Collection[Kind | KindName]) -> frozenset[Kind]:
    return frozenset(one_of(Kind, kind, "kinds") for kind in given)


def _time(which: AnyNotification) -> int:
    return which if isinstance(which, int) else which.time


AnyConversation: TypeAlias = Conversation | int
"""A conversation, as itself or by the id of its first post."""


class OwnConversations(Owned):
    """The conversations of a member."""

    async def page(self, before: int | None = None, limit: int = 20) -> ConversationPage:
        """Return a page of the conversations, ordered by their newest post. Raises `InvalidInput` for a limit below 1."""
        return await conversations_feed.page(self._reads, self._owner, part(before, limit))

    async def get(self, which: AnyConversation) -> Conversation:
        """Return a conversation. Raises `NotFound`."""
        return await conversations_feed.one(self._reads, self._owner, _id(which))

    async def mark_read(self, which: AnyConversation) -> None:
        """Mark a conversation as read up to its newest post. Raises `NotFound`."""
        await conversations.mark(self._writes, self._owner, _id(which), unread=False)

    async def mark_unread(self, which: AnyConversation) -> None:
        """Mark a conversation as unread. Raises `NotFound`."""
        await conversations.mark(self._writes, self._owner, _id(which), unread=True)

    async def remove(self, which: AnyConversation) -> None:
        """Remove a conversation from the list until its next post. Raises `NotFound`."""
        await conversations.remove(self._writes, self._owner, _id(which))


def _id(which: AnyConversation) -> int:
    return which if isinstance(which, int) else which.root_id
