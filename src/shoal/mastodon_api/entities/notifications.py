"""JSON entities of notifications, markers and conversations."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from shoal.core.model import Treatment
from shoal.mastodon_api.entities.moderation import Report
from shoal.mastodon_api.entities.statuses import Account, Status


class Notification(msgspec.Struct, kw_only=True):
    """A notification for an account."""

    id: str
    type: str
    group_key: str
    created_at: str
    account: Account
    status: Status | UnsetType = UNSET
    """The status that the notification is about. For a favourite or reblog, it is a status of the notified member."""
    report: Report | UnsetType = UNSET
    emoji: str | UnsetType = UNSET
    """The emoji of a reaction, or the name of a declared one."""
    refusal: str | UnsetType = UNSET
    """Why a moderator rejected held content; absent without a reason."""


class NotificationGroup(msgspec.Struct, kw_only=True):
    """Similar notifications. It contains only notifications of one page."""

    group_key: str
    notifications_count: int
    type: str
    most_recent_notification_id: str
    page_min_id: str
    page_max_id: str
    latest_page_notification_at: str
    sample_account_ids: list[str]
    """The accounts of the newest notifications in the group."""
    status_id: str | UnsetType = UNSET
    report: Report | UnsetType = UNSET
    emoji: str | UnsetType = UNSET
    """The emoji of a reaction, which is not grouped, or the name of a declared one."""
    refusal: str | UnsetType = UNSET
    """Why a moderator rejected held content; absent without a reason."""


class PartialAccount(msgspec.Struct, kw_only=True):
    """The fields of an account that an avatar needs."""

    id: str
    acct: str
    url: str
    avatar: str
    avatar_static: str
    locked: bool
    bot: bool


class GroupedNotificationsResults(msgspec.Struct, kw_only=True):
    """A page of groups, with their accounts and statuses."""

    accounts: list[Account]
    statuses: list[Status]
    notification_groups: list[NotificationGroup]
    partial_accounts: list[PartialAccount] | UnsetType = UNSET


class UnreadCount(msgspec.Struct):
    """The number of notifications after the read marker."""

    count: int


class PolicySummary(msgspec.Struct):
    """Counts of filtered notifications, each up to 100."""

    pending_requests_count: int
    pending_notifications_count: int


class NotificationPolicy(msgspec.Struct, kw_only=True):
    """A notification policy; each rule is `accept`, `filter` or `drop`."""

    for_not_following: Treatment
    for_not_followers: Treatment
    for_new_accounts: Treatment
    for_private_mentions: Treatment
    for_limited_accounts: Treatment
    summary: PolicySummary


class OldNotificationPolicy(msgspec.Struct, kw_only=True):
    """A notification policy in the format of API v1: each rule is false for `accept` and true for any other value."""

    filter_not_following: bool
    filter_not_followers: bool
    filter_new_accounts: bool
    filter_private_mentions: bool
    summary: PolicySummary


class NotificationRequest(msgspec.Struct, kw_only=True):
    """A sender of filtered notifications. `id` is the id of the sender's account."""

    id: str
    created_at: str
    updated_at: str
    notifications_count: str
    """The number as a string, at most 100."""
    account: Account
    last_status: Status | UnsetType = UNSET
    """The status of the newest filtered notification, if it has one."""


class Merged(msgspec.Struct):
    """Whether accepted notifications are merged into the list of notifications.

    It is always true, because accepting merges them at once.
    """

    merged: bool = True


class Marker(msgspec.Struct):
    """The position up to which a timeline was read."""

    last_read_id: str
    version: int
    updated_at: str


class Conversation(msgspec.Struct):
    """A thread of direct statuses."""

    id: str
    unread: bool
    accounts: list[Account]
    last_status: Status | None


class WebPushSubscription(msgspec.Struct):
    """A push subscription of a session, and the notifications pushed to it."""

    id: str
    endpoint: str
    standard: bool
    """Whether messages are encrypted by RFC 8291 and 8292. If not, they are encrypted by earlier drafts."""
    alerts: dict[str, bool]
    policy: str
    server_key: str
    """The public VAPID key of the server, in base64url."""
