"""Notifications, markers and conversations."""

from __future__ import annotations

from functools import partial

from shoal.api import conversations, grouped, markers, notice_policy, notifications
from shoal.api.entities.notifications import (
    Conversation,
    GroupedNotificationsResults,
    Marker,
    Merged,
    Notification,
    NotificationPolicy,
    NotificationRequest,
    OldNotificationPolicy,
    UnreadCount,
)
from shoal.api.entities.statuses import Account
from shoal.api.http.calls import Route
from shoal.api.http.pages import StatusesQuery
from shoal.api.listing import One
from shoal.api.rows import one, page, route
from shoal.settings import Settings

_V1, _V2 = "/api/v1/notifications", "/api/v2/notifications"

_read = partial(route, "GET", scope="read:notifications")
_write = partial(route, "POST", scope="write:notifications", answer=dict)


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (*_one_by_one(), *_in_groups(), *_policy(), *_places())


def _one_by_one() -> tuple[Route, ...]:
    return (
        _read(_V1, notifications.several, params=notifications.Several, answer=list[Notification]),
        _read(f"{_V1}/unread_count", notifications.unread_count, params=notifications.Unread, answer=UnreadCount),
        _write(f"{_V1}/clear", notifications.clear),
        _write(f"{_V1}/dismiss", notifications.dismiss, params=One),
        one("GET", f"{_V1}/{{id}}", notifications.one, scope="read:notifications", answer=Notification),
        one("POST", f"{_V1}/{{id}}/dismiss", notifications.dismiss, scope="write:notifications", answer=dict),
    )


def _in_groups() -> tuple[Route, ...]:
    one_group = partial(_read, params=grouped.OneGroup)
    return (
        _read(_V2, grouped.several, params=grouped.Groups, answer=GroupedNotificationsResults),
        _read(f"{_V2}/unread_count", grouped.unread_count, params=grouped.UnreadGroups, answer=UnreadCount),
        one_group(f"{_V2}/{{group_key}}", grouped.one, answer=GroupedNotificationsResults),
        one_group(f"{_V2}/{{group_key}}/accounts", grouped.accounts, answer=list[Account]),
        _write(f"{_V2}/{{group_key}}/dismiss", grouped.dismiss, params=grouped.OneGroup),
    )


def _policy() -> tuple[Route, ...]:
    change = partial(route, "PATCH", scope="write:notifications")
    requests, request = f"{_V1}/requests", f"{_V1}/requests/{{id}}"
    return (
        _read(f"{_V2}/policy", notice_policy.policy, answer=NotificationPolicy),
        change(f"{_V2}/policy", notice_policy.change_policy, params=notice_policy.Policy, answer=NotificationPolicy),
        _read(f"{_V1}/policy", notice_policy.old_policy, answer=OldNotificationPolicy),
        change(
            f"{_V1}/policy",
            notice_policy.change_old_policy,
            params=notice_policy.OldPolicy,
            answer=OldNotificationPolicy,
        ),
        page("GET", requests, notice_policy.requests, scope="read:notifications", answer=list[NotificationRequest]),
        _read(f"{requests}/merged", notice_policy.merged, answer=Merged),
        _write(f"{requests}/accept", notice_policy.accept_several, params=notice_policy.Several),
        _write(f"{requests}/dismiss", notice_policy.dismiss_several, params=notice_policy.Several),
        _read(request, notice_policy.request, params=One, answer=NotificationRequest),
        _write(f"{request}/accept", notice_policy.accept, params=One),
        _write(f"{request}/dismiss", notice_policy.dismiss, params=One),
    )


def _places() -> tuple[Route, ...]:
    here = "/api/v1/conversations"
    change = partial(one, scope="write:conversations", answer=Conversation)
    return (
        route(
            "GET",
            "/api/v1/markers",
            markers.show,
            scope="read:statuses",
            params=markers.Wanted,
            answer=dict[str, Marker],
        ),
        route(
            "POST",
            "/api/v1/markers",
            markers.mark,
            scope="write:statuses",
            params=markers.Places,
            answer=dict[str, Marker],
        ),
        route(
            "GET",
            here,
            conversations.several,
            scope="read:statuses",
            params=StatusesQuery,
            answer=list[Conversation],
        ),
        change("POST", f"{here}/{{id}}/read", conversations.read),
        change("POST", f"{here}/{{id}}/unread", conversations.unread),
        one("DELETE", f"{here}/{{id}}", conversations.remove, scope="write:conversations", answer=dict),
    )
