"""Notifications one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta

from shoal.api import rows
from shoal.api.context import Context, Front
from shoal.api.entities import moderation as moderation_entities
from shoal.api.entities import presenter
from shoal.api.entities.notifications import Notification, UnreadCount
from shoal.api.http.convert import Id, Limit
from shoal.api.http.pages import StatusesQuery, listed_data, page_size
from shoal.api.http.replies import raw
from shoal.api.listing import One, actor, cursor_of, paged
from shoal.commands import notifications as verbs
from shoal.core.ids import milliseconds_of
from shoal.graph.payloads.notifications import Group, Kind, Notice, group_of
from shoal.push.messages import WIRE_KINDS
from shoal.queries import notifications as feed
from shoal.queries.notifications import NotificationQuery

KINDS = {wire: kind for kind, wire in WIRE_KINDS.items()}

Types = Annotated[tuple[Annotated[str, Meta(max_length=100)], ...], Meta(max_length=100)]


class NotificationsQuery(StatusesQuery, frozen=True, kw_only=True):
    """A page of some notifications. A type that does not exist has none."""

    types: Types = ()
    exclude_types: Types = ()
    account_id: Id | None = None
    """Only notifications from this account, including those that the policy holds back."""
    include_filtered: bool = False


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """How many of some notifications are counted at the most."""

    types: Types = ()
    exclude_types: Types = ()
    account_id: Id | None = None
    limit: Limit = Limit(0)

    def most(self) -> int:
        """In 1..1000."""
        return page_size(self.limit, 100, 1_000)


def query_of(params: NotificationsQuery | Unread) -> NotificationQuery:
    """Which notifications are wanted."""
    kinds = kinds_of(params.types) if params.types else None
    held = isinstance(params, NotificationsQuery) and (params.include_filtered or params.account_id is not None)
    return NotificationQuery(kinds, kinds_of(params.exclude_types), params.account_id or 0, held=held)


def kinds_of(types: Sequence[str]) -> frozenset[Kind]:
    """Return the kinds of notifications with these names, leaving out names that do not exist."""
    return frozenset(KINDS[name] for name in types if name in KINDS)


async def several(context: Context, params: NotificationsQuery) -> object:
    """List the caller's notifications, newest first."""
    front = context.deps
    cursor = cursor_of(params, 40, 80)
    page = await feed.page(front.reads, actor(context), cursor, query_of(params))
    body = msgspec.json.encode(await shown(front, actor(context), page.items, listed_data(wanted=params.with_data)))
    return paged(context, body, [item.time for item in page.items], page.next, cursor)


async def one(context: Context, params: One) -> object:
    """One notification."""
    front = context.deps
    found = await feed.one(front.reads, actor(context), params.id)
    return (await shown(front, actor(context), (found,)))[0]


async def dismiss(context: Context, params: One) -> object:
    """One notification goes."""
    front = context.deps
    await verbs.dismiss(front.writes, actor(context), params.id)
    return {}


async def clear(context: Context, _params: None) -> object:
    """All notifications go."""
    front = context.deps
    await verbs.clear(front.writes, actor(context))
    return {}


async def unread_count(context: Context, params: Unread) -> object:
    """How many notifications came since the marker of that timeline; up to 100, or the limit."""
    front = context.deps
    return UnreadCount(await feed.unread(front.reads, actor(context), params.most(), query_of(params)))


async def shown(front: Front, viewer: int, items: Sequence[feed.Notification], data: int = 0) -> list[Notification]:
    """Notifications on their way out; their statuses are made together."""
    statuses = await front.present.each(viewer, [item.entry for item in items if item.entry], data)
    return [_notification(front, item, statuses.get(item.notice.about) if item.entry else None) for item in items]


def _notification(front: Front, item: feed.Notification, status: bytes | None) -> Notification:
    return Notification(
        id=str(item.time),
        type=WIRE_KINDS[item.notice.kind],
        group_key=group_key(item.notice, item.time),
        created_at=moment_of(item.time),
        account=raw(front.present.account(item.actor)),
        status=UNSET if status is None else raw(status),
        report=reported(front, item),
        emoji=item.notice.emoji or UNSET,
    )


def moment_of(time: int) -> str:
    """When something happened, by its snowflake."""
    return presenter.moment(milliseconds_of(time))


def reported(front: Front, item: feed.Notification) -> moderation_entities.Report | msgspec.UnsetType:
    """The report that a notification tells of, if it does."""
    if item.report is None or item.target is None:
        return UNSET
    return moderation_entities.report(item.report, raw(front.present.account(item.target)))


def group_key(notice: Notice, time: int) -> str:
    """The group that a notification is in."""
    return key_of(group_of(notice, time), time)


def key_of(group: Group | None, time: int) -> str:
    """How a group is called; one that stands by itself, by its time."""
    if group is None:
        return f"ungrouped-{time}"
    about = f"{group.about}-" if group.about else ""
    return f"{WIRE_KINDS[group.kind]}-{about}{group.stretch}"


_V1 = "/api/v1/notifications"

_read = rows.route.having(scope="read:notifications")
_write = rows.route.having(scope="write:notifications", answer=dict)

ROUTES = (
    _read("GET", _V1, several, params=NotificationsQuery, answer=list[Notification], remembered=True),
    _read("GET", f"{_V1}/unread_count", unread_count, params=Unread, answer=UnreadCount),
    _write("POST", f"{_V1}/clear", clear),
    _write("POST", f"{_V1}/dismiss", dismiss, params=One),
    rows.one("GET", f"{_V1}/{{id}}", one, scope="read:notifications", answer=Notification),
    rows.one("POST", f"{_V1}/{{id}}/dismiss", dismiss, scope="write:notifications", answer=dict),
)
