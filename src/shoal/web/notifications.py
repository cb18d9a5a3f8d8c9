"""Notifications: grouped notifications, filtered notifications by sender, the notification policy, and push subscriptions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import JSONResponse, Response

from shoal.commands import notifications, push_subscriptions
from shoal.core.errors import NotFound
from shoal.core.ids import MAX_ID, milliseconds_of
from shoal.core.model import NoticePolicy, Role, Treatment, Visibility
from shoal.core.text import isolated
from shoal.graph.contract import MAX_TIME
from shoal.graph.payloads.conversations import root_of
from shoal.graph.payloads.members import NOTIFICATIONS, marks
from shoal.graph.payloads.notifications import FOR_STAFF, STRETCHES, WITHOUT_ACTOR, Group, Kind
from shoal.i18n import When
from shoal.push.messages import KEY_BYTES, MAX_ENDPOINT, SECRET_BYTES, PushSubscription, check_bytes
from shoal.queries import notifications as feed
from shoal.queries.hydration import Profile
from shoal.queries.notifications import Grouped, Notification, NotificationQuery
from shoal.web import routing
from shoal.web.layout import unread_of
from shoal.web.rendering import BeforeQuery, IdQuery, next_of, page, part
from shoal.web.request_context import Form, IdForm, PageContext
from shoal.web.scheduled_posts import refusal_of
from shoal.web.settings_layout import SettingsQuery, saved_at, settings_page
from shoal.web.view_models import AnsweredPost, Face, PostView, answered, face_of, post_of

_FACES = 8
_KEY = re.compile(r"(like|share|reaction|follow)-(\d{1,19})-(\d{1,9})(?:-([a-z][a-z0-9_]{0,31}))?")
_ICONS = {
    Kind.MENTION: "at-sign",
    Kind.POST: "bell-ring",
    Kind.LIKE: "heart",
    Kind.SHARE: "repeat-2",
    Kind.REACTION: "smile",
    Kind.EDIT: "pencil",
    Kind.POLL: "vote",
    Kind.FOLLOW: "user-plus",
    Kind.REQUEST: "user-check",
    Kind.REGISTRATION: "sprout",
    Kind.REPORT: "flag",
    Kind.REPORT_RESOLVED: "scale",
    Kind.UNPUBLISHED: "calendar-clock",
    Kind.HELD: "shield-check",
    Kind.APPROVED: "check",
    Kind.REJECTED: "octagon-alert",
}
_WHOLE = frozenset({Kind.MENTION, Kind.POST})
"""Kinds of notification that show the whole post, so that the member can reply on the page of notifications."""
_ONE_OR_MORE = {
    Kind.LIKE: ("%(names)s likes your post", "%(names)s like your post"),
    Kind.SHARE: ("%(names)s shared your post", "%(names)s shared your post"),
    Kind.FOLLOW: ("%(names)s follows you", "%(names)s follow you"),
}
_ONE = {
    Kind.MENTION: "%(names)s mentions you",
    Kind.POST: "%(names)s posted",
    Kind.EDIT: "%(names)s edited a post you shared",
    Kind.REQUEST: "%(names)s requested to follow you",
    Kind.REGISTRATION: "%(names)s joined",
    Kind.REPORT: "%(names)s reported someone",
    Kind.UNPUBLISHED: "Your scheduled post could not be published",
    Kind.HELD: "Content by %(names)s was held for approval",
    Kind.APPROVED: "A moderator approved your content",
    Kind.REJECTED: "A moderator rejected your content",
}


class NotificationView(msgspec.Struct, frozen=True):
    key: str
    """Its identifier in forms: the time of a single notification, or `kind-about-stretch` of a group: its kind, the id
    of its object, and its period. A group of a declared reaction also has its name.
    """
    kind: str
    icon: str
    words: str
    faces: tuple[Face, ...]
    when: When
    unread: bool
    post: PostView | None = None
    whole: bool = False
    asks: Face | None = None
    detail: str = ""
    path: str = ""
    """Path of a page with details; empty if the post or the faces have the link."""


def _parsed(key: str) -> Group | int | None:
    """Parse the key of a form field: a notification group, or the time of a single notification; None for an invalid key."""
    if key.isdecimal() and len(key) <= 19:
        return min(int(key), MAX_ID)
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    kind, about, stretch, name = Kind(match[1]), int(match[2]), int(match[3]), match[4] or ""
    fits = about <= MAX_ID and STRETCHES[0] <= stretch < STRETCHES[1]
    return Group(kind, about, stretch, name) if fits else None


def _key(group: Group) -> str:
    key = f"{group.kind}-{group.about}-{group.stretch}"
    return f"{key}-{group.name}" if group.name else key


def _notice(ctx: PageContext, group: Grouped, read: int, parents: Mapping[int, AnsweredPost]) -> NotificationView:
    newest, of_group = group.items[0], group.group
    kind, people = newest.notice.kind, list({item.actor.member.id: item.actor for item in group.items}.values())
    post = post_of(ctx, newest.entry, parents) if newest.entry else None
    actor = face_of(ctx, newest.actor.member)
    detail, path = _about(ctx, newest)
    return NotificationView(
        key=_key(of_group) if of_group else str(newest.time),
        kind=kind.value,
        icon="mail" if post and post.visibility == Visibility.DIRECT and kind is Kind.MENTION else _ICONS[kind],
        words=_words(ctx, newest, people),
        faces=()
        if kind in _WHOLE or kind in WITHOUT_ACTOR
        else tuple(face_of(ctx, person.member) for person in people[:_FACES]),
        when=ctx.when(milliseconds_of(newest.time)),
        unread=newest.time > read,
        post=post,
        whole=kind in _WHOLE,
        asks=actor if kind is Kind.REQUEST else None,
        detail=detail,
        path=path,
    )


def _words(ctx: PageContext, newest: Notification, people: Sequence[Profile]) -> str:
    words, kind = ctx.words, newest.notice.kind
    names = {"names": _names(ctx, people)}
    if kind in _ONE_OR_MORE:
        return words.plural(*_ONE_OR_MORE[kind], len(people)) % names
    if kind is Kind.REACTION:
        named = ctx.reactions.find(newest.notice.emoji)
        emoji = isolated(named.title) if named else newest.notice.emoji
        return words.text("%(names)s reacted with %(emoji)s to your post") % {**names, "emoji": emoji}
    if kind is Kind.POLL:
        own = newest.entry is not None and newest.entry.post.author_id == ctx.viewer_id
        return words.text("Your poll has ended") if own else words.text("A poll you voted in has ended")
    if kind is Kind.REPORT_RESOLVED:
        if newest.report is not None and newest.report.upheld:
            return words.text("Your report was upheld")
        return words.text("Your report was reviewed, and no violation was found")
    if kind is Kind.MENTION and newest.entry is not None:
        post = newest.entry.post
        if post.visibility is Visibility.DIRECT:
            return words.text("%(names)s sent you a message") % names
        if post.parent_author_id == ctx.viewer_id:
            return words.text("%(names)s replied to you") % names
    return words.text(_ONE[kind]) % names


def _about(ctx: PageContext, newest: Notification) -> tuple[str, str]:
    """Return the detail text of a notification, and the path of the page that the notification links to."""
    report, kind = newest.report, newest.notice.kind
    target = f"@{newest.target.member.name}" if newest.target else ""
    if kind is Kind.REPORT and report is not None:
        detail = f"{target} · {report.comment[:200]}" if report.comment else target
        return detail, ctx.url(f"/moderation/reports/{report.id}")
    if kind is Kind.MENTION and newest.entry is not None and newest.entry.post.visibility is Visibility.DIRECT:
        return "", ctx.url(f"/conversations/{root_of(newest.entry.post)}")
    if kind is Kind.UNPUBLISHED and newest.scheduled is not None:
        return refusal_of(ctx, newest.scheduled), ctx.url("/scheduled")
    if kind is Kind.HELD:
        return "", ctx.url("/moderation/held")
    if kind is Kind.APPROVED:
        name = newest.actor.member.name
        return "", ctx.url(f"/@{name}/{newest.notice.about}" if newest.notice.about else f"/@{name}")
    if kind is Kind.REJECTED:
        return newest.refusal, ctx.url("/pending")
    if kind is Kind.REPORT_RESOLVED:
        return ctx.words.text("The report was about %(name)s.") % {"name": target} if target else "", ""
    return "", ""


def _names(ctx: PageContext, people: Sequence[Profile]) -> str:
    shown = [person.member.shown_name for person in people]
    words = ctx.words
    if len(shown) <= 1:
        return "".join(shown)
    if len(shown) == 2:
        return words.text("%(one)s and %(other)s") % {"one": shown[0], "other": shown[1]}
    return words.counted("%(one)s and %(n)s other", "%(one)s and %(n)s others", len(shown) - 1, one=shown[0])


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
    kind: Literal["all", "mentions", "reactions", "follows", "posts", "staff"] = "all"


class DismissForm(Form, frozen=True, kw_only=True):
    key: Annotated[str, Meta(max_length=100)]


class SenderForm(IdForm, frozen=True, kw_only=True):
    do: Literal["accept", "dismiss"]


async def several(ctx: PageContext, query: NoticesQuery) -> Response:
    """List notifications. Opening the first page without a filter by kind marks all as read."""
    member, reads = ctx.member, ctx.reads
    found = await feed.grouped(reads, member.id, query.cursor(_SIZE), NotificationQuery(_KINDS[query.kind]))
    read = await _read_up_to(ctx, member.id)
    notices = await _shown(ctx, found.groups, read)
    asked = {} if query.kind == "all" else {"kind": query.kind}
    following = next_of(ctx, "/notifications", found.next, **asked)
    if ctx.partial:
        return part(ctx, "notices", notices=notices, next=following)
    newest = found.items[0].time if found.items else 0
    if query.kind == "all" and not query.before and newest > read:
        await notifications.set_markers(ctx.writes, member.id, {NOTIFICATIONS: newest})
    held = await feed.held_back(reads, member.id)
    return await page(
        ctx,
        "notifications",
        title=ctx.words.text("Notifications"),
        notices=notices,
        next=following,
        kind=query.kind,
        held=held.requests,
        staff=member.role is not Role.NONE,
    )


async def unread(ctx: PageContext, _params: None) -> Response:
    """Return the number on the icon of the installed app, which the service worker requests when it receives a push message.

    For visitors it is 0: a browser may still receive messages for a session that has just ended. It is null if it is not known.
    """
    unread = (await unread_of(ctx)).on_icon if ctx.viewer else 0
    return JSONResponse({"unread": unread}, headers={"Cache-Control": "no-store"})


async def dismiss(ctx: PageContext, asked: DismissForm) -> Response:
    member, writes = ctx.checked(asked), ctx.writes
    if asked.key == "all":
        await notifications.clear(writes, member.id)
        return ctx.back(asked, "/notifications")
    key = _parsed(asked.key)
    if key is None:
        raise NotFound("There is no such notification")
    if isinstance(key, Group):
        await notifications.dismiss_group(writes, member.id, key)
    else:
        await notifications.dismiss(writes, member.id, key)
    return Response(status_code=200) if ctx.partial else ctx.back(asked, "/notifications")


class SenderView(msgspec.Struct, frozen=True):
    face: Face
    number: str
    post: PostView | None
    path: str


async def requests(ctx: PageContext, query: BeforeQuery) -> Response:
    member, words = ctx.member, ctx.words
    found = await feed.requests_page(ctx.reads, member.id, query.cursor(_SIZE))
    senders = [
        SenderView(
            face_of(ctx, item.sender.member),
            words.counted("%(n)s notification", "%(n)s notifications", item.count),
            post_of(ctx, item.entry) if item.entry else None,
            ctx.url(f"/notifications/requests/{item.sender.member.id}"),
        )
        for item in found.items
    ]
    following = next_of(ctx, "/notifications/requests", found.next)
    return await page(
        ctx, "notice_requests", title=words.text("Filtered notifications"), senders=senders, next=following
    )


async def of_sender(ctx: PageContext, path: IdQuery) -> Response:
    member, reads = ctx.member, ctx.reads
    request = await feed.sender_request(reads, member.id, path.id)
    query = NotificationQuery(actor_id=path.id, held=True)
    found = await feed.page(reads, member.id, path.cursor(_SIZE), query)
    found_here = await _shown(ctx, [Grouped(None, [item]) for item in found.items], MAX_TIME)
    # A single notification needs no key, because those of one sender are accepted or dismissed together.
    notices = [msgspec.structs.replace(notice, key="") for notice in found_here]
    following = next_of(ctx, f"/notifications/requests/{path.id}", found.next)
    face = face_of(ctx, request.sender.member)
    return await page(ctx, "notice_request", title=face.shown, face=face, notices=notices, next=following)


async def decide(ctx: PageContext, asked: SenderForm) -> Response:
    """Accept a sender's filtered notifications and all future ones, or dismiss the filtered ones."""
    member = ctx.checked(asked)
    verb = notifications.accept_requests if asked.do == "accept" else notifications.dismiss_requests
    await verb(ctx.writes, member.id, (asked.id,))
    return ctx.back(asked, "/notifications/requests")


async def _shown(ctx: PageContext, groups: Sequence[Grouped], read: int) -> list[NotificationView]:
    """Return the view models of groups of notifications. A notification later than the time `read` is unread."""
    entries = [group.items[0].entry for group in groups]
    parents = await answered(ctx, [entry for entry in entries if entry is not None])
    return [_notice(ctx, group, read, parents) for group in groups]


async def _read_up_to(ctx: PageContext, member_id: int) -> int:
    marker = (await marks(ctx.graph, member_id, (NOTIFICATIONS,))).get(NOTIFICATIONS)
    return marker.last_read_id if marker else 0


_RULES = NoticePolicy.__struct_fields__


class NoticesForm(Form, frozen=True, kw_only=True):
    not_following: Treatment = Treatment.ACCEPT
    not_followers: Treatment = Treatment.ACCEPT
    new_accounts: Treatment = Treatment.ACCEPT
    private_mentions: Treatment = Treatment.ACCEPT
    limited_accounts: Treatment = Treatment.ACCEPT


class PushForm(Form, frozen=True, kw_only=True):
    do: Literal["begin", "end"]
    endpoint: Annotated[str, Meta(max_length=MAX_ENDPOINT)] = ""
    p256dh: Annotated[str, Meta(max_length=200)] = ""
    auth: Annotated[str, Meta(max_length=200)] = ""


async def show(ctx: PageContext, query: SettingsQuery) -> Response:
    _, policy = ctx.words.text, ctx.member.notices
    words = {
        "not_following": (_("From people you don't follow"), ""),
        "not_followers": (
            _("From people not following you"),
            _("Including people who have been following you for fewer than 3 days"),
        ),
        "new_accounts": (_("From new accounts"), _("Created within the past 30 days")),
        "private_mentions": (_("Unsolicited private mentions"), _("From people you don't follow")),
        "limited_accounts": (_("From limited accounts"), _("Limited by moderators, and not followed by you")),
    }
    treatments = (
        (Treatment.ACCEPT, _("Show")),
        (Treatment.FILTER, _("Filter")),
        (Treatment.DROP, _("Ignore")),
    )
    rules = [(name, *words[name], getattr(policy, name)) for name in _RULES]
    key = ctx.app.push_key
    return await settings_page(
        ctx,
        "notifications",
        saved=query.saved,
        rules=rules,
        treatments=treatments,
        push_key=key,
        pushing=bool(key) and await push_subscriptions.is_made(ctx.graph, ctx.member.id, ctx.session_id),
    )


async def save(ctx: PageContext, asked: NoticesForm) -> Response:
    member = ctx.checked(asked)
    changes = {name: getattr(asked, name) for name in _RULES}
    await notifications.set_policy(ctx.writes, member.id, changes)
    return saved_at(ctx, "notifications")


async def push(ctx: PageContext, asked: PushForm) -> Response:
    """Create or delete the push subscription of this browser. A script sends the subscription."""
    member = ctx.checked(asked)
    if asked.do == "end" or ctx.app.server_key is None:
        await push_subscriptions.end(ctx.writes, member.id, ctx.session_id)
        return Response(status_code=204)
    subscription = PushSubscription(
        endpoint=asked.endpoint,
        key=check_bytes(asked.p256dh, KEY_BYTES, "p256dh"),
        secret=check_bytes(asked.auth, SECRET_BYTES, "auth"),
        alerts=tuple(map(str, Kind)),
        language=ctx.words.code,
    )
    await push_subscriptions.subscribe(ctx.writes, member.id, ctx.session_id, subscription)
    return Response(status_code=204)


ROUTES = (
    routing.page("/notifications", several, NoticesQuery),
    routing.page("/notifications/unread", unread),
    routing.form("/notifications/dismiss", dismiss, DismissForm),
    routing.page("/notifications/requests", requests, BeforeQuery),
    routing.page("/notifications/requests/{id}", of_sender, IdQuery),
    routing.form("/notifications/requests/{id}", decide, SenderForm),
    routing.page("/settings/notifications", show, SettingsQuery),
    routing.form("/settings/notifications", save, NoticesForm),
    routing.form("/settings/push", push, PushForm),
)
