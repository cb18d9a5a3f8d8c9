"""The policy that filters notifications, and the senders whose notifications it has filtered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta

from shoal.commands import notifications as commands
from shoal.core.model import NoticePolicy, Treatment
from shoal.graph.access import access_member
from shoal.http.pagination import PageQuery
from shoal.http.params import Id
from shoal.http.responses import raw
from shoal.mastodon_api.context import Context, One, Router, actor, cursor_of, paged
from shoal.mastodon_api.entities.notifications import (
    Merged,
    NotificationPolicy,
    NotificationRequest,
    OldNotificationPolicy,
    PolicySummary,
)
from shoal.mastodon_api.notifications import moment_of
from shoal.queries import notifications as queries
from shoal.queries.notifications import NoticeRequest

router = Router()

_RULES = {f"for_{name}": name for name in NoticePolicy.__struct_fields__}
"""The rules of the policy: the name in the API, and the name of the field."""
_OLD_RULES = {f"filter_{name}": name for name in NoticePolicy.__struct_fields__ if name != "limited_accounts"}


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a notification policy. Each rule is `accept`, `filter` or `drop`. A rule that is None is not changed."""

    for_not_following: Treatment | None = None
    for_not_followers: Treatment | None = None
    for_new_accounts: Treatment | None = None
    for_private_mentions: Treatment | None = None
    for_limited_accounts: Treatment | None = None


class OldPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a notification policy in the format of API v1: each rule is true (filter) or false (accept)."""

    filter_not_following: bool | None = None
    filter_not_followers: bool | None = None
    filter_new_accounts: bool | None = None
    filter_private_mentions: bool | None = None


class RequestIds(msgspec.Struct, frozen=True):
    id: Annotated[tuple[Id, ...], Meta(min_length=1, max_length=100)]


@router.get("/api/v2/notifications/policy", scope="read:notifications", answer=NotificationPolicy)
async def get_policy(context: Context, _params: None) -> object:
    """Show the notification policy, and how many notifications it has filtered."""
    return await _policy(context, await _own(context))


@router.patch("/api/v2/notifications/policy", scope="write:notifications", answer=NotificationPolicy)
async def change_policy(context: Context, params: Policy) -> object:
    """Change the notification policy."""
    return await _policy(context, await _changed(context, params, _RULES, Treatment))


@router.get("/api/v1/notifications/policy", scope="read:notifications", answer=OldNotificationPolicy)
async def get_policy_v1(context: Context, _params: None) -> object:
    """Show the notification policy in the format of API v1."""
    return await _old_policy(context, await _own(context))


@router.patch("/api/v1/notifications/policy", scope="write:notifications", answer=OldNotificationPolicy)
async def change_policy_v1(context: Context, params: OldPolicy) -> object:
    """Change the notification policy in the format of API v1."""
    return await _old_policy(context, await _changed(context, params, _OLD_RULES, _of_old))


@router.get("/api/v1/notifications/requests", scope="read:notifications", answer=list[NotificationRequest])
async def list_requests(context: Context, params: PageQuery) -> object:
    """List the senders of filtered notifications, most recent notification first."""
    cursor = cursor_of(params, 40, 80)
    page = await queries.requests_page(context.app.reads, actor(context), cursor)
    shown = [await _shown(context, item) for item in page.items]
    return paged(context, shown, [item.last for item in page.items], page.next, cursor)


@router.get("/api/v1/notifications/requests/{id}", scope="read:notifications", answer=NotificationRequest)
async def get_request(context: Context, params: One) -> object:
    """Show a sender of filtered notifications."""
    return await _shown(context, await queries.sender_request(context.app.reads, actor(context), params.id))


@router.post("/api/v1/notifications/requests/{id}/accept", scope="write:notifications", answer=dict)
async def accept(context: Context, params: One) -> None:
    """Accept the filtered notifications of a sender, and stop filtering the sender's notifications."""
    await commands.accept_requests(context.app.writes, actor(context), {params.id})


@router.post("/api/v1/notifications/requests/{id}/dismiss", scope="write:notifications", answer=dict)
async def dismiss(context: Context, params: One) -> None:
    """Dismiss the filtered notifications of a sender."""
    await commands.dismiss_requests(context.app.writes, actor(context), {params.id})


@router.post("/api/v1/notifications/requests/accept", scope="write:notifications", answer=dict)
async def accept_requests(context: Context, params: RequestIds) -> None:
    """Accept the filtered notifications of several senders, and stop filtering their notifications."""
    await commands.accept_requests(context.app.writes, actor(context), {*params.id})


@router.post("/api/v1/notifications/requests/dismiss", scope="write:notifications", answer=dict)
async def dismiss_requests(context: Context, params: RequestIds) -> None:
    """Dismiss the filtered notifications of several senders."""
    await commands.dismiss_requests(context.app.writes, actor(context), {*params.id})


@router.get("/api/v1/notifications/requests/merged", scope="read:notifications", answer=Merged)
async def merged(_context: Context, _params: None) -> object:
    """Return whether accepted notifications are already in the caller's list of notifications."""
    return Merged()


async def _own(context: Context) -> NoticePolicy:
    return (await access_member(context.app.reads.graph, actor(context))).notices


async def _changed(
    context: Context, params: Policy | OldPolicy, rules: Mapping[str, str], treatment: Callable[[Any], Treatment]
) -> NoticePolicy:
    changes = {rule: treatment(value) for name, rule in rules.items() if (value := getattr(params, name)) is not None}
    return await commands.set_policy(context.app.writes, actor(context), changes)


def _of_old(held: bool) -> Treatment:
    return Treatment.FILTER if held else Treatment.ACCEPT


async def _policy(context: Context, policy: NoticePolicy) -> NotificationPolicy:
    rules = {name: getattr(policy, rule) for name, rule in _RULES.items()}
    return NotificationPolicy(**rules, summary=await _summary(context))


async def _old_policy(context: Context, policy: NoticePolicy) -> OldNotificationPolicy:
    rules = {name: getattr(policy, rule) is not Treatment.ACCEPT for name, rule in _OLD_RULES.items()}
    return OldNotificationPolicy(**rules, summary=await _summary(context))


async def _summary(context: Context) -> PolicySummary:
    return PolicySummary(*await queries.held_back(context.app.reads, actor(context)))


async def _shown(context: Context, item: NoticeRequest) -> NotificationRequest:
    statuses = await context.app.present.each(actor(context), [item.entry] if item.entry else [])
    return NotificationRequest(
        id=str(item.sender.member.id),
        created_at=moment_of(item.first),
        updated_at=moment_of(item.last),
        notifications_count=str(item.count),
        account=raw(context.app.present.account(item.sender)),
        last_status=raw(statuses[item.entry.id]) if item.entry else UNSET,
    )
