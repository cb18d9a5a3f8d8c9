"""Notifications, those that are alike together; and those that the member's policy holds back, by sender."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import notifications
from shoal.commands import notifications as verbs
from shoal.core.errors import NotFound
from shoal.core.model import Role
from shoal.graph.contract import MAX_TIME
from shoal.graph.payloads.members import NOTIFICATIONS, marks
from shoal.graph.payloads.notifications import FOR_STAFF, Group, Kind
from shoal.http.convert import Id
from shoal.queries import notifications as feed
from shoal.queries import notifications as notification_queries
from shoal.queries.notifications import Grouped, NotificationQuery
from shoal.web import rows
from shoal.web.paging import BeforeQuery, next_of
from shoal.web.rendering import page, part
from shoal.web.views.notices import NotificationView, notices_of, parsed
from shoal.web.views.people import face_of
from shoal.web.views.posts import answered, post_of
from shoal.web.visit import Form, Visit

_SIZE = 20
_KINDS: dict[str, frozenset[Kind] | None] = {
    "all": None,
    "mentions": frozenset({Kind.MENTION}),
    "reactions": frozenset({Kind.LIKE, Kind.SHARE, Kind.REACTION}),
    "follows": frozenset({Kind.FOLLOW, Kind.REQUEST}),
    "posts": frozenset({Kind.POST, Kind.EDIT, Kind.POLL}),
    "staff": FOR_STAFF,
}


class NoticesQuery(BeforeQuery, frozen=True, kw_only=True):
    """A page of notifications of some kinds."""

    kind: Literal["all", "mentions", "reactions", "follows", "posts", "staff"] = "all"


class DismissForm(Form, frozen=True, kw_only=True):
    """A notification or a group by its key; `all` for all of them."""

    key: Annotated[str, Meta(max_length=60)]


class SenderPath(BeforeQuery, frozen=True, kw_only=True):
    """A sender whose notifications are held back."""

    id: Id


class SenderForm(Form, frozen=True, kw_only=True):
    """Whether the held notifications of a sender are shown, with all later ones, or go."""

    id: Id
    do: Literal["accept", "dismiss"]


async def several(visit: Visit, query: NoticesQuery) -> Response:
    """A page of notifications; opening the first page of all marks them as read."""
    member, reads = visit.member, visit.front.reads
    found = await feed.grouped(reads, member.id, query.cursor(_SIZE), NotificationQuery(_KINDS[query.kind]))
    read = await _read_up_to(visit, member.id)
    notices = await _shown(visit, found.groups, read)
    asked = {} if query.kind == "all" else {"kind": query.kind}
    following = next_of(visit, "/notifications", found.next, **asked)
    if visit.partial:
        return part(visit, "notices", notices=notices, next=following)
    newest = found.items[0].time if found.items else 0
    if query.kind == "all" and not query.before and newest > read:
        await notifications.set_markers(visit.front.writes, member.id, {NOTIFICATIONS: newest})
    held = await notification_queries.held_back(reads, member.id)
    return await page(
        visit,
        "notifications",
        title=visit.words.text("Notifications"),
        notices=notices,
        next=following,
        kind=query.kind,
        held=held.requests,
        staff=member.role is not Role.NONE,
    )


async def dismiss(visit: Visit, asked: DismissForm) -> Response:
    """Dismiss a notification, a group, or all; they do not come back."""
    member, writes = visit.checked(asked), visit.front.writes
    if asked.key == "all":
        await verbs.clear(writes, member.id)
        return visit.back(asked, "/notifications")
    key = parsed(asked.key)
    if key is None:
        raise NotFound("There is no such notification")
    if isinstance(key, Group):
        await verbs.dismiss_group(writes, member.id, key)
    else:
        await verbs.dismiss(writes, member.id, key)
    return Response(status_code=200) if visit.partial else visit.back(asked, "/notifications")


class SenderView(msgspec.Struct, frozen=True):
    """A sender whose notifications are held back."""

    face: object
    number: str
    post: object
    path: str


async def requests(visit: Visit, query: BeforeQuery) -> Response:
    """Senders whose notifications the member's policy holds back."""
    member, words = visit.member, visit.words
    found = await notification_queries.requests_page(visit.front.reads, member.id, query.cursor(_SIZE))
    senders = [
        SenderView(
            face_of(visit, one.sender.member),
            words.plural("%(n)s notification", "%(n)s notifications", one.count) % {"n": words.number(one.count)},
            post_of(visit, one.entry) if one.entry else None,
            visit.url(f"/notifications/requests/{one.sender.member.id}"),
        )
        for one in found.items
    ]
    following = next_of(visit, "/notifications/requests", found.next)
    return await page(
        visit, "notice_requests", title=words.text("Filtered notifications"), senders=senders, next=following
    )


async def of_sender(visit: Visit, path: SenderPath) -> Response:
    """The notifications held back of one sender."""
    member, reads = visit.member, visit.front.reads
    request = await notification_queries.sender_request(reads, member.id, path.id)
    query = NotificationQuery(actor_id=path.id, held=True)
    found = await feed.page(reads, member.id, path.cursor(_SIZE), query)
    found_here = await _shown(visit, [Grouped(None, [item]) for item in found.items], MAX_TIME)
    # They are accepted or dismissed together, by their sender.
    notices = [msgspec.structs.replace(one, key="") for one in found_here]
    following = next_of(visit, f"/notifications/requests/{path.id}", found.next)
    face = face_of(visit, request.sender.member)
    return await page(visit, "notice_request", title=face.shown, face=face, notices=notices, next=following)


async def decide(visit: Visit, asked: SenderForm) -> Response:
    """Show the held notifications of a sender, with all later ones, or let them go."""
    member = visit.checked(asked)
    verb = notifications.accept_requests if asked.do == "accept" else notifications.dismiss_requests
    await verb(visit.front.writes, member.id, (asked.id,))
    return visit.back(asked, "/notifications/requests")


async def _shown(visit: Visit, groups: Sequence[Grouped], read: int) -> list[NotificationView]:
    entries = [group.items[0].entry for group in groups]
    names = await answered(visit, [entry for entry in entries if entry is not None])
    return notices_of(visit, groups, read, names)


async def _read_up_to(visit: Visit, member_id: int) -> int:
    held = (await marks(visit.front.graph, member_id, (NOTIFICATIONS,))).get(NOTIFICATIONS)
    return held.last_read_id if held else 0


ROUTES = (
    rows.page("/notifications", several, NoticesQuery),
    rows.form("/notifications/dismiss", dismiss, DismissForm),
    rows.page("/notifications/requests", requests, BeforeQuery),
    rows.page("/notifications/requests/{id}", of_sender, SenderPath),
    rows.form("/notifications/requests/{id}", decide, SenderForm),
)
