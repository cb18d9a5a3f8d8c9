"""Notifications in groups as pages show them: who did what, to which post, and what one can do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from shoal.core.ids import MAX_ID, milliseconds_of
from shoal.core.model import Visibility
from shoal.graph.payloads.notifications import STRETCHES, Group, Kind
from shoal.queries.hydration import Profile
from shoal.queries.notifications import Grouped, Notification
from shoal.web.views.people import Face, face_of
from shoal.web.views.posts import PostView, post_of
from shoal.web.views.writing.planned import refusal_of
from shoal.web.visit import Visit
from shoal.words.languages import When

_FACES = 8
_KEY = re.compile(r"(like|share|follow)-(\d{1,19})-(\d{1,9})")
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
    Kind.VERDICT: "scale",
    Kind.UNPUBLISHED: "calendar-clock",
}
_WHOLE = frozenset({Kind.MENTION, Kind.POST})
"""Kinds that show the post as a list does, so that one can answer at once."""
_ONE_OR_MORE = {
    Kind.LIKE: ("%(names)s likes your post", "%(names)s like your post"),
    Kind.SHARE: ("%(names)s shared your post", "%(names)s shared your post"),
    Kind.FOLLOW: ("%(names)s follows you", "%(names)s follow you"),
}
_ONE = {
    Kind.MENTION: "%(names)s mentions you",
    Kind.POST: "%(names)s posted",
    Kind.EDIT: "%(names)s changed a post that you shared",
    Kind.REQUEST: "%(names)s asks to follow you",
    Kind.REGISTRATION: "%(names)s joined",
    Kind.REPORT: "%(names)s reported somebody",
    Kind.UNPUBLISHED: "A scheduled post of yours could not be published",
}


class NotificationView(msgspec.Struct, frozen=True):
    """A notification, or several that are alike."""

    key: str
    """Its name in a form: the time of one, the words of a group."""
    kind: str
    icon: str
    words: str
    faces: tuple[Face, ...]
    when: When
    unread: bool
    post: PostView | None = None
    whole: bool = False
    """Whether the post is shown as a list shows it."""
    asks: Face | None = None
    """Somebody who asks to follow the viewer."""
    detail: str = ""
    path: str = ""
    """Where more is; empty where the post or the faces lead there."""


def notices_of(visit: Visit, groups: Sequence[Grouped], read: int, names: Mapping[int, str]) -> list[NotificationView]:
    """Return groups of notifications; those after the id `read` are new. `names` are those of members whom posts answer."""
    return [_notice(visit, group, read, names) for group in groups]


def key_of(group: Group | None, time: int) -> str:
    """Return the name of a group in a form, or of the notification with this time."""
    return f"{group.kind}-{group.about}-{group.stretch}" if group else str(time)


def parsed(key: str) -> Group | int | None:
    """Return the group that a key names, or the time of a notification; None for what is no key."""
    if key.isdecimal() and len(key) <= 19:
        return min(int(key), MAX_ID)
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    kind, about, stretch = Kind(match[1]), int(match[2]), int(match[3])
    fits = about <= MAX_ID and STRETCHES[0] <= stretch < STRETCHES[1]
    return Group(kind, about, stretch) if fits else None


def _notice(visit: Visit, group: Grouped, read: int, names: Mapping[int, str]) -> NotificationView:
    newest = group.items[0]
    kind, people = newest.notice.kind, _people(group.items)
    post = post_of(visit, newest.entry, names) if newest.entry else None
    actor = face_of(visit, newest.actor.member)
    detail, path = _about(visit, newest)
    return NotificationView(
        key=key_of(group.group, newest.time),
        kind=kind.value,
        icon="mail" if post and post.visibility == Visibility.DIRECT and kind is Kind.MENTION else _ICONS[kind],
        words=_words(visit, newest, people),
        faces=()
        if kind in _WHOLE or kind in {Kind.VERDICT, Kind.UNPUBLISHED}
        else tuple(face_of(visit, one.member) for one in people[:_FACES]),
        when=visit.when(milliseconds_of(newest.time)),
        unread=newest.time > read,
        post=post,
        whole=kind in _WHOLE,
        asks=actor if kind is Kind.REQUEST else None,
        detail=detail,
        path=path,
    )


def _people(items: Sequence[Notification]) -> list[Profile]:
    """Return everybody in a group once, the newest first."""
    return list({item.actor.member.id: item.actor for item in items}.values())


def _words(visit: Visit, newest: Notification, people: Sequence[Profile]) -> str:
    """Return a sentence that says what happened."""
    words, kind = visit.words, newest.notice.kind
    names = {"names": names_of(visit, people)}
    if kind in _ONE_OR_MORE:
        return words.plural(*_ONE_OR_MORE[kind], len(people)) % names
    if kind is Kind.REACTION:
        return words.text("%(names)s put %(emoji)s on your post") % {**names, "emoji": newest.notice.emoji}
    if kind is Kind.POLL:
        own = newest.entry is not None and newest.entry.post.author_id == visit.viewer_id
        return words.text("A poll of yours is over") if own else words.text("A poll that you voted in is over")
    if kind is Kind.VERDICT:
        return _verdict(visit, newest)
    if kind is Kind.MENTION and newest.entry is not None:
        return _mention(visit, newest) % names
    return words.text(_ONE[kind]) % names


def _mention(visit: Visit, newest: Notification) -> str:
    post = newest.entry.post if newest.entry else None
    if post is not None and post.visibility is Visibility.DIRECT:
        return visit.words.text("%(names)s wrote to you")
    if post is not None and post.parent_author_id == visit.viewer_id:
        return visit.words.text("%(names)s answers you")
    return visit.words.text(_ONE[Kind.MENTION])


def _verdict(visit: Visit, newest: Notification) -> str:
    _ = visit.words.text
    if newest.report is not None and newest.report.upheld:
        return _("Your report was found right")
    return _("Your report was looked at, and nothing was found against the rules")


def _about(visit: Visit, newest: Notification) -> tuple[str, str]:
    """Return further words, and where more is."""
    report, kind = newest.report, newest.notice.kind
    target = f"@{newest.target.member.name}" if newest.target else ""
    if kind is Kind.REPORT and report is not None:
        return f"{target} · {report.comment[:200]}" if report.comment else target, visit.url(
            f"/moderation/reports/{report.id}"
        )
    if kind is Kind.UNPUBLISHED and newest.scheduled is not None:
        return refusal_of(visit, newest.scheduled), visit.url("/scheduled")
    if kind is Kind.VERDICT:
        return visit.words.text("It was about %(name)s.") % {"name": target} if target else "", ""
    return "", ""


def names_of(visit: Visit, people: Sequence[Profile]) -> str:
    """Return the names of some members in a few words."""
    shown = [one.member.shown_name for one in people]
    words = visit.words
    if len(shown) <= 1:
        return "".join(shown)
    if len(shown) == 2:
        return words.text("%(one)s and %(other)s") % {"one": shown[0], "other": shown[1]}
    others = len(shown) - 1
    text = words.plural("%(one)s and %(n)s other", "%(one)s and %(n)s others", others)
    return text % {"one": shown[0], "n": words.number(others)}
