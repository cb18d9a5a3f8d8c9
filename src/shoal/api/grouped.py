"""Notifications in groups: what is alike, about the same status, in the same half of a day, is one entry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta

from shoal.api import rows
from shoal.api.context import Context, Front
from shoal.api.entities.notifications import GroupedNotificationsResults, NotificationGroup, PartialAccount, UnreadCount
from shoal.api.entities.statuses import Account
from shoal.api.http.pages import listed_data
from shoal.api.http.replies import raw
from shoal.api.listing import actor, cursor_of, paged
from shoal.api.notifications import (
    KINDS,
    NotificationsQuery,
    Types,
    Unread,
    key_of,
    kinds_of,
    moment_of,
    query_of,
    reported,
)
from shoal.commands import notifications as verbs
from shoal.core.errors import NotFound
from shoal.core.ids import MAX_ID
from shoal.core.media_files import still_of
from shoal.graph.payloads.notifications import GROUPED, STRETCHES, Group, Kind
from shoal.push.messages import WIRE_KINDS
from shoal.queries import notifications as feed
from shoal.queries.hydration import Entry, Profile

_SAMPLE = 8
"""How many accounts of a group are shown."""
_UNGROUPED = re.compile(r"ungrouped-(\d{1,19})")
_GROUPED = re.compile(r"(?:(favourite|reblog)-(\d{1,19})|follow)-(\d{1,9})")

Expand = Literal["full", "partial_avatars"]


class GroupsPage(NotificationsQuery, frozen=True, kw_only=True):
    """A page of groups. `partial_avatars` gives whole accounts only for the first of each group."""

    grouped_types: Types = ()
    expand_accounts: Expand = "full"


class UnreadGroups(Unread, frozen=True, kw_only=True):
    """How many groups are counted at the most."""

    grouped_types: Types = ()


class OneGroup(msgspec.Struct, frozen=True):
    """A group by its key."""

    group_key: Annotated[str, Meta(max_length=100)]


async def several(context: Context, params: GroupsPage) -> object:
    """List the caller's notifications in groups, the group with the newest one first."""
    front = context.deps
    cursor = cursor_of(params, 40, 80)
    page = await feed.grouped(front.reads, actor(context), cursor, query_of(params), _kinds(params.grouped_types))
    results = await _results(
        front, actor(context), page.groups, params.expand_accounts, listed_data(wanted=params.with_data)
    )
    return paged(context, msgspec.json.encode(results), [item.time for item in page.items], page.next, cursor)


async def one(context: Context, params: OneGroup) -> object:
    """One group of notifications."""
    front = context.deps
    group, items = await _found(context, params.group_key)
    return await _results(front, actor(context), (feed.Grouped(group, items),), "full")


async def accounts(context: Context, params: OneGroup) -> object:
    """Everybody who is in a group of notifications, the newest first."""
    front = context.deps
    _, items = await _found(context, params.group_key)
    return front.present.accounts(_people(items))


async def dismiss(context: Context, params: OneGroup) -> object:
    """A group of notifications goes."""
    front = context.deps
    key = _parsed(params.group_key)
    if isinstance(key, Group):
        await verbs.dismiss_group(front.writes, actor(context), key)
    else:
        await verbs.dismiss(front.writes, actor(context), key)
    return {}


async def unread_count(context: Context, params: UnreadGroups) -> object:
    """How many groups of notifications came since the marker of that timeline; up to 100, or the limit."""
    front = context.deps
    kinds = _kinds(params.grouped_types)
    return UnreadCount(await feed.unread(front.reads, actor(context), params.most(), query_of(params), kinds))


def _kinds(types: Sequence[str]) -> frozenset[Kind]:
    return GROUPED & kinds_of(types) if types else GROUPED


async def _found(context: Context, text: str) -> tuple[Group | None, list[feed.Notification]]:
    front = context.deps
    key = _parsed(text)
    if isinstance(key, Group):
        return key, await feed.of_group(front.reads, actor(context), key)
    return None, [await feed.one(front.reads, actor(context), key)]


def _parsed(text: str) -> Group | int:
    """The group of this key, or the time of what stands by itself. Raises `NotFound` for what is no key."""
    if match := _UNGROUPED.fullmatch(text):
        return int(match[1])
    if match := _GROUPED.fullmatch(text):
        kind, about, stretch = KINDS[match[1] or "follow"], int(match[2] or 0), int(match[3])
        if about <= MAX_ID and STRETCHES[0] <= stretch < STRETCHES[1]:
            return Group(kind, about, stretch)
    raise NotFound("Record not found")


async def _results(
    front: Front, viewer: int, groups: Sequence[feed.Grouped], expand: Expand, data: int = 0
) -> GroupedNotificationsResults:
    samples = [_people(group.items)[:_SAMPLE] for group in groups]
    every = {profile.member.id: profile for sample in samples for profile in sample}
    whole = every if expand == "full" else {sample[0].member.id: sample[0] for sample in samples}
    entries: dict[int, Entry] = {item.entry.id: item.entry for group in groups for item in group.items if item.entry}
    statuses = await front.present.each(viewer, list(entries.values()), data)
    return GroupedNotificationsResults(
        accounts=[raw(front.present.account(profile)) for profile in whole.values()],
        statuses=list(map(raw, statuses.values())),
        notification_groups=[_group(front, *pair) for pair in zip(groups, samples, strict=True)],
        partial_accounts=UNSET
        if expand == "full"
        else [_partial(front, profile) for id_, profile in every.items() if id_ not in whole],
    )


def _group(front: Front, found: feed.Grouped, sample: Sequence[Profile]) -> NotificationGroup:
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
        report=reported(front, newest),
        emoji=newest.notice.emoji or UNSET,
    )


def _people(items: Sequence[feed.Notification]) -> list[Profile]:
    """Each once, the newest first."""
    return list({item.actor.member.id: item.actor for item in items}.values())


def _partial(front: Front, profile: Profile) -> PartialAccount:
    member = profile.member
    avatar = front.at.avatar(member.avatar)
    return PartialAccount(
        id=str(member.id),
        acct=member.name,
        url=front.at.account(member.name),
        avatar=avatar,
        avatar_static=front.at.avatar(still_of(member.avatar)),
        locked=member.locked,
        bot=member.bot,
    )


_V2 = "/api/v2/notifications"

_read = rows.route.having(scope="read:notifications")
_one_group = _read.taking(OneGroup)
_write = rows.route.having(scope="write:notifications", answer=dict)

ROUTES = (
    _read("GET", _V2, several, params=GroupsPage, answer=GroupedNotificationsResults),
    _read("GET", f"{_V2}/unread_count", unread_count, params=UnreadGroups, answer=UnreadCount),
    _one_group("GET", f"{_V2}/{{group_key}}", one, answer=GroupedNotificationsResults),
    _one_group("GET", f"{_V2}/{{group_key}}/accounts", accounts, answer=list[Account]),
    _write("POST", f"{_V2}/{{group_key}}/dismiss", dismiss, params=OneGroup),
)
