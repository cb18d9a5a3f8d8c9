"""Notifications, single and in groups, and the markers of read positions.

A group holds the notifications of one type about one status within half a day.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta

from shoal.commands import notifications as commands
from shoal.core.errors import NotFound
from shoal.core.ids import MAX_ID, milliseconds_of
from shoal.core.media_files import still_of
from shoal.graph.payloads.members import HOME, NOTIFICATIONS, Mark, marks
from shoal.graph.payloads.notifications import GROUPED, STRETCHES, Group, Kind, group_of
from shoal.http.pagination import StatusesQuery, listed_data, page_size
from shoal.http.params import Id, Limit
from shoal.http.responses import raw
from shoal.mastodon_api.context import AppContext, Context, One, Router, actor, cursor_of, paged
from shoal.mastodon_api.entities import moderation as moderation_entities
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.notifications import (
    GroupedNotificationsResults,
    Marker,
    Notification,
    NotificationGroup,
    PartialAccount,
    UnreadCount,
)
from shoal.mastodon_api.entities.statuses import Account
from shoal.push.messages import WIRE_KINDS
from shoal.queries import notifications as queries
from shoal.queries.hydration import Entry, Profile
from shoal.queries.notifications import NotificationQuery

router = Router()

KINDS = {wire: kind for kind, wire in WIRE_KINDS.items()}

Types = Annotated[tuple[Annotated[str, Meta(max_length=100)], ...], Meta(max_length=100)]


class NotificationsQuery(StatusesQuery, frozen=True, kw_only=True):
    """A page of notifications, by type and account. Unknown types match nothing."""

    types: Types = ()
    exclude_types: Types = ()
    account_id: Id | None = None
    """Only notifications from this account, including notifications that the policy filtered."""
    include_filtered: bool = False


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters for counting unread notifications: which of them to count, and up to which number (`limit`)."""

    types: Types = ()
    exclude_types: Types = ()
    account_id: Id | None = None
    limit: Limit = Limit(0)

    def most(self) -> int:
        """Return the number up to which notifications are counted: `limit` (default: 100), at most 1,000."""
        return page_size(self.limit, 100, 1_000)


def query_of(params: NotificationsQuery | Unread) -> NotificationQuery:
    kinds = kinds_of(params.types) if params.types else None
    held = isinstance(params, NotificationsQuery) and (params.include_filtered or params.account_id is not None)
    return NotificationQuery(kinds, kinds_of(params.exclude_types), params.account_id or 0, held=held)


def kinds_of(types: Sequence[str]) -> frozenset[Kind]:
    return frozenset(KINDS[name] for name in types if name in KINDS)


@router.get("/api/v1/notifications", scope="read:notifications", answer=list[Notification], cached=True)
async def list_notifications(context: Context, params: NotificationsQuery) -> object:
    """List the caller's notifications, newest first."""
    cursor = cursor_of(params, 40, 80)
    page = await queries.page(context.app.reads, actor(context), cursor, query_of(params))
    body = await shown(context.app, actor(context), page.items, listed_data(with_data=params.with_data))
    return paged(context, body, [item.time for item in page.items], page.next, cursor)


@router.get("/api/v1/notifications/{id}", scope="read:notifications", answer=Notification)
async def get_notification(context: Context, params: One) -> object:
    """Return a single notification."""
    found = await queries.one(context.app.reads, actor(context), params.id)
    return (await shown(context.app, actor(context), (found,)))[0]


@router.post("/api/v1/notifications/dismiss", scope="write:notifications", answer=dict)
@router.post("/api/v1/notifications/{id}/dismiss", scope="write:notifications", answer=dict)
async def dismiss(context: Context, params: One) -> None:
    """Dismiss a single notification."""
    await commands.dismiss(context.app.writes, actor(context), params.id)


@router.post("/api/v1/notifications/clear", scope="write:notifications", answer=dict)
async def clear(context: Context, _params: None) -> None:
    """Delete all of the account's notifications."""
    await commands.clear(context.app.writes, actor(context))


@router.get("/api/v1/notifications/unread_count", scope="read:notifications", answer=UnreadCount)
async def unread_count(context: Context, params: Unread) -> object:
    """Count the notifications after the `notifications` marker, up to `limit` (default 100)."""
    return UnreadCount(await queries.unread(context.app.reads, actor(context), params.most(), query_of(params)))


async def shown(
    app_context: AppContext, viewer: int, items: Sequence[queries.Notification], data: int = 0
) -> list[Notification]:
    statuses = await app_context.present.each(viewer, [item.entry for item in items if item.entry], data)
    return [_notification(app_context, item, statuses.get(item.notice.about) if item.entry else None) for item in items]


def _notification(app_context: AppContext, item: queries.Notification, status: bytes | None) -> Notification:
    return Notification(
        id=str(item.time),
        type=WIRE_KINDS[item.notice.kind],
        group_key=key_of(group_of(item.notice, item.time), item.time),
        created_at=moment_of(item.time),
        account=raw(app_context.present.account(item.actor)),
        status=UNSET if status is None else raw(status),
        report=reported(app_context, item),
        emoji=item.notice.emoji or UNSET,
        refusal=item.refusal or UNSET,
    )


def moment_of(time: int) -> str:
    return serializers.moment(milliseconds_of(time))


def reported(app_context: AppContext, item: queries.Notification) -> moderation_entities.Report | msgspec.UnsetType:
    if item.report is None or item.target is None:
        return UNSET
    return moderation_entities.report(item.report, raw(app_context.present.account(item.target)))


def key_of(group: Group | None, time: int) -> str:
    if group is None:
        return f"ungrouped-{time}"
    about = f"{group.about}-" if group.about else ""
    kind = f"{_NAMED}{group.name}" if group.name else WIRE_KINDS[group.kind]
    return f"{kind}-{about}{group.stretch}"


_SAMPLE = 8
"""Maximum number of accounts shown per group."""
_UNGROUPED = re.compile(r"ungrouped-(\d{1,19})")
_GROUPED = re.compile(r"(?:(favourite|reblog)-(\d{1,19})|follow)-(\d{1,9})")
_NAMED = "reaction-"
_GROUPED_NAMED = re.compile(r"reaction-([a-z][a-z0-9_]{0,31})-(\d{1,19})-(\d{1,9})")

Expand = Literal["full", "partial_avatars"]


class GroupsPage(NotificationsQuery, frozen=True, kw_only=True):
    """A page of notification groups. With `partial_avatars`, only the first account of each group is complete."""

    grouped_types: Types = ()
    expand_accounts: Expand = "full"


class UnreadGroups(Unread, frozen=True, kw_only=True):
    grouped_types: Types = ()


class OneGroup(msgspec.Struct, frozen=True):
    group_key: Annotated[str, Meta(max_length=100)]


@router.get("/api/v2/notifications", scope="read:notifications", answer=GroupedNotificationsResults)
async def list_groups(context: Context, params: GroupsPage) -> object:
    """List the caller's notifications in groups, most recent notification first."""
    cursor = cursor_of(params, 40, 80)
    page = await queries.grouped(
        context.app.reads, actor(context), cursor, query_of(params), _kinds(params.grouped_types)
    )
    results = await _results(
        context.app, actor(context), page.groups, params.expand_accounts, listed_data(with_data=params.with_data)
    )
    return paged(context, results, [item.time for item in page.items], page.next, cursor)


@router.get("/api/v2/notifications/{group_key}", scope="read:notifications", answer=GroupedNotificationsResults)
async def get_group(context: Context, params: OneGroup) -> object:
    """Show a group of notifications."""
    group, items = await _found(context, params.group_key)
    return await _results(context.app, actor(context), (queries.Grouped(group, items),), "full")


@router.get("/api/v2/notifications/{group_key}/accounts", scope="read:notifications", answer=list[Account])
async def group_accounts(context: Context, params: OneGroup) -> object:
    """List the accounts in a group of notifications, newest first."""
    _, items = await _found(context, params.group_key)
    return context.app.present.accounts(_people(items))


@router.post("/api/v2/notifications/{group_key}/dismiss", scope="write:notifications", answer=dict)
async def dismiss_group(context: Context, params: OneGroup) -> None:
    """Dismiss a group of notifications."""
    key = _parsed(params.group_key)
    if isinstance(key, Group):
        await commands.dismiss_group(context.app.writes, actor(context), key)
    else:
        await commands.dismiss(context.app.writes, actor(context), key)


@router.get("/api/v2/notifications/unread_count", scope="read:notifications", answer=UnreadCount)
async def unread_group_count(context: Context, params: UnreadGroups) -> object:
    """Count the groups of notifications after the `notifications` marker, up to `limit` (default 100)."""
    kinds = _kinds(params.grouped_types)
    return UnreadCount(await queries.unread(context.app.reads, actor(context), params.most(), query_of(params), kinds))


def _kinds(types: Sequence[str]) -> frozenset[Kind]:
    return GROUPED & kinds_of(types) if types else GROUPED


async def _found(context: Context, text: str) -> tuple[Group | None, list[queries.Notification]]:
    key = _parsed(text)
    if isinstance(key, Group):
        return key, await queries.of_group(context.app.reads, actor(context), key)
    return None, [await queries.one(context.app.reads, actor(context), key)]


def _parsed(text: str) -> Group | int:
    """Parse the key of a notification group, or of a single notification. Raises `NotFound` for an invalid key."""
    if match := _UNGROUPED.fullmatch(text):
        return int(match[1])
    if match := _GROUPED.fullmatch(text):
        kind, about, stretch = KINDS[match[1] or "follow"], int(match[2] or 0), int(match[3])
        if about <= MAX_ID and STRETCHES[0] <= stretch < STRETCHES[1]:
            return Group(kind, about, stretch)
    if match := _GROUPED_NAMED.fullmatch(text):
        name, about, stretch = match[1], int(match[2]), int(match[3])
        if about <= MAX_ID and STRETCHES[0] <= stretch < STRETCHES[1]:
            return Group(Kind.REACTION, about, stretch, name)
    raise NotFound("Record not found")


async def _results(
    app_context: AppContext, viewer: int, groups: Sequence[queries.Grouped], expand: Expand, data: int = 0
) -> GroupedNotificationsResults:
    samples = [_people(group.items)[:_SAMPLE] for group in groups]
    every = {profile.member.id: profile for sample in samples for profile in sample}
    whole = every if expand == "full" else {sample[0].member.id: sample[0] for sample in samples}
    entries: dict[int, Entry] = {item.entry.id: item.entry for group in groups for item in group.items if item.entry}
    statuses = await app_context.present.each(viewer, list(entries.values()), data)
    return GroupedNotificationsResults(
        accounts=[raw(app_context.present.account(profile)) for profile in whole.values()],
        statuses=list(map(raw, statuses.values())),
        notification_groups=[_group(app_context, *pair) for pair in zip(groups, samples, strict=True)],
        partial_accounts=UNSET
        if expand == "full"
        else [_partial(app_context, profile) for id_, profile in every.items() if id_ not in whole],
    )


def _group(app_context: AppContext, found: queries.Grouped, sample: Sequence[Profile]) -> NotificationGroup:
    newest, oldest = found.items[0], found.items[-1]
    return NotificationGroup(
        group_key=key_of(found.group, newest.time),
        notifications_count=len(found.items),
        type=WIRE_KINDS[newest.notice.kind],
        most_recent_notification_id=str(newest.time),
        page_min_id=str(oldest.time),
        page_max_id=str(newest.time),
        latest_page_notification_at=moment_of(newest.time),
        sample_account_ids=[str(profile.member.id) for profile in sample],
        status_id=str(newest.entry.id) if newest.entry else UNSET,
        report=reported(app_context, newest),
        emoji=newest.notice.emoji or UNSET,
        refusal=newest.refusal or UNSET,
    )


def _people(items: Sequence[queries.Notification]) -> list[Profile]:
    return list({item.actor.member.id: item.actor for item in items}.values())


def _partial(app_context: AppContext, profile: Profile) -> PartialAccount:
    member = profile.member
    avatar = app_context.at.avatar(member.avatar)
    return PartialAccount(
        id=str(member.id),
        acct=member.name,
        url=app_context.at.account(member.name),
        avatar=avatar,
        avatar_static=app_context.at.avatar(still_of(member.avatar)),
        locked=member.locked,
        bot=member.bot,
    )


class MarkersQuery(msgspec.Struct, frozen=True):
    timeline: Annotated[tuple[Annotated[str, Meta(max_length=100)], ...], Meta(max_length=100)] = ()


class MarkerPosition(msgspec.Struct, frozen=True):
    """The id of the newest item that the caller has read in a timeline."""

    last_read_id: Id | None = None


class MarkerPositions(msgspec.Struct, frozen=True):
    home: MarkerPosition | None = None
    notifications: MarkerPosition | None = None


@router.get("/api/v1/markers", scope="read:statuses", answer=dict[str, Marker])
async def get_markers(context: Context, params: MarkersQuery) -> object:
    """Show the markers of these timelines (`home`, `notifications`). A marker that was never set is omitted."""
    names = [name for name in (HOME, NOTIFICATIONS) if name in params.timeline]
    return _markers(await marks(context.app.graph, actor(context), names))


@router.post("/api/v1/markers", scope="write:statuses", answer=dict[str, Marker])
async def set_markers(context: Context, params: MarkerPositions) -> object:
    """Set markers, and return their new values."""
    given = {HOME: params.home, NOTIFICATIONS: params.notifications}
    read = {name: marker.last_read_id for name, marker in given.items() if marker and marker.last_read_id is not None}
    return _markers(await commands.set_markers(context.app.writes, actor(context), read))


def _markers(found: Mapping[str, Mark]) -> dict[str, Marker]:
    return {name: Marker(str(mark.last_read_id), mark.version, moment_of(mark.time)) for name, mark in found.items()}
