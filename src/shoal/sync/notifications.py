"""Notifications of a member: in a list or in groups, the policy that holds some back, and the marks of what was read.

Made from `shoal.library.notifications` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from collections.abc import Collection

from shoal.core.model import NoticePolicy, Treatment
from shoal.graph.payloads.members import Mark
from shoal.graph.payloads.notifications import GROUPED, Group, Kind
from shoal.library import notifications as awaited
from shoal.library.acting import AnyMember
from shoal.library.notifications import AnyNotification, KindName, TreatmentName
from shoal.queries.notifications import (
    GroupedPage,
    HeldBack,
    NoticeRequest,
    NoticeRequests,
    Notification,
    NotificationPage,
)
from shoal.sync.calling import Calling


class OwnNotifications(Calling):
    """The notifications of a member."""

    _awaited: awaited.OwnNotifications

    def page(
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
        """A page of notifications, newest first: of these kinds, caused by this member, with those `held` back or without.

        Raises `InvalidInput` for a limit below 1 and for another kind, and `NotFound` for a name that nobody has.
        """
        return self._loop.call(
            self._awaited.page(
                before,
                limit,
                kinds=kinds,
                without=without,
                actor=actor,
                held=held,
                after=after,
                oldest_first=oldest_first,
            )
        )

    def grouped(
        self,
        before: int | None = None,
        limit: int = 40,
        *,
        kinds: Collection[Kind | KindName] | None = None,
        without: Collection[Kind | KindName] = (),
        actor: AnyMember | None = None,
        grouping: Collection[Kind | KindName] = GROUPED,
    ) -> GroupedPage:
        """A page of groups of notifications, the one with the newest first; `grouping` are the kinds put together.

        Raises `InvalidInput` for a limit below 1 and for another kind, and `NotFound` for a name that nobody has.
        """
        return self._loop.call(
            self._awaited.grouped(before, limit, kinds=kinds, without=without, actor=actor, grouping=grouping)
        )

    def group(self, which: Group) -> list[Notification]:
        """The notifications of a group, newest first. Raises `NotFound` for an empty one."""
        return self._loop.call(self._awaited.group(which))

    def get(self, which: AnyNotification) -> Notification:
        """A notification by its `time`. Raises `NotFound`."""
        return self._loop.call(self._awaited.get(which))

    def unread(self, limit: int = 100, *, kinds: Collection[Kind | KindName] | None = None) -> int:
        """Count the notifications since the mark of what was read, up to `limit`. Raises `InvalidInput` for another kind."""
        return self._loop.call(self._awaited.unread(limit, kinds=kinds))

    def unread_groups(self, limit: int = 100, *, kinds: Collection[Kind | KindName] | None = None) -> int:
        """Count the groups since the mark of what was read, up to `limit`. Raises `InvalidInput` for another kind."""
        return self._loop.call(self._awaited.unread_groups(limit, kinds=kinds))

    def dismiss(self, which: AnyNotification) -> None:
        """Dismiss a notification. Raises `NotFound`."""
        self._loop.call(self._awaited.dismiss(which))

    def dismiss_group(self, which: Group) -> None:
        """Dismiss all notifications of a group. Raises `Unavailable`."""
        self._loop.call(self._awaited.dismiss_group(which))

    def clear(self) -> None:
        """Dismiss all notifications. Raises `Unavailable`."""
        self._loop.call(self._awaited.clear())

    def policy(self) -> NoticePolicy:
        """The rules by which notifications are held back or dropped. Raises `Gone` for a suspended member."""
        return self._loop.call(self._awaited.policy())

    def change_policy(
        self,
        *,
        not_following: Treatment | TreatmentName | None = None,
        not_followers: Treatment | TreatmentName | None = None,
        new_accounts: Treatment | TreatmentName | None = None,
        private_mentions: Treatment | TreatmentName | None = None,
        limited_accounts: Treatment | TreatmentName | None = None,
    ) -> NoticePolicy:
        """Change the given rules; None stays. Raises `InvalidInput` for another treatment."""
        return self._loop.call(
            self._awaited.change_policy(
                not_following=not_following,
                not_followers=not_followers,
                new_accounts=new_accounts,
                private_mentions=private_mentions,
                limited_accounts=limited_accounts,
            )
        )

    def held_back(self) -> HeldBack:
        """Count the notifications that are held back, and their senders. Raises `Unavailable`."""
        return self._loop.call(self._awaited.held_back())

    def requests(self, before: int | None = None, limit: int = 40) -> NoticeRequests:
        """A page of senders whose notifications are held back, newest first. Raises `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.requests(before, limit))

    def request(self, sender: AnyMember) -> NoticeRequest:
        """A sender whose notifications are held back. Raises `NotFound`."""
        return self._loop.call(self._awaited.request(sender))

    def accept(self, *senders: AnyMember) -> None:
        """Show the held notifications of these senders, and hold back none of theirs from now on. Raises `NotFound`."""
        self._loop.call(self._awaited.accept(*senders))

    def refuse(self, *senders: AnyMember) -> None:
        """Dismiss the held notifications of these senders; later ones are held back again. Raises `NotFound`."""
        self._loop.call(self._awaited.refuse(*senders))

    def marks(self) -> dict[str, Mark]:
        """The newest that was read of `home` and of `notifications`, as far as they were marked. Raises `Unavailable`."""
        return self._loop.call(self._awaited.marks())

    def mark_read(self, *, home: int | None = None, notifications: int | None = None) -> dict[str, Mark]:
        """Mark what was read: the id of the newest entry of home, and the `time` of the newest notification.

        Raises `Unavailable`.
        """
        return self._loop.call(self._awaited.mark_read(home=home, notifications=notifications))
