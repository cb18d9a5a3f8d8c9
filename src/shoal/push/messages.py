"""Writes messages: a notification as Mastodon's apps read it, in the member's language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from shoal.core.media_files import MISSING_AVATAR, still_of
from shoal.core.model import Member, Post
from shoal.core.text import plain_excerpt
from shoal.graph.payloads.notifications import ABOUT_POSTS, Kind, Notice
from shoal.i18n import LANGUAGES, Translated, words_in
from shoal.push.encryption import MAX_PLAIN

WIRE_KINDS: Mapping[Kind, str] = {
    Kind.MENTION: "mention",
    Kind.POST: "status",
    Kind.LIKE: "favourite",
    Kind.SHARE: "reblog",
    Kind.REACTION: "pleroma:emoji_reaction",
    Kind.EDIT: "update",
    Kind.POLL: "poll",
    Kind.FOLLOW: "follow",
    Kind.REQUEST: "follow_request",
    Kind.REGISTRATION: "admin.sign_up",
    Kind.REPORT: "admin.report",
    Kind.VERDICT: "shoal:report_resolved",
    Kind.UNPUBLISHED: "shoal:scheduled_status_failed",
}
"""Kinds of notifications as clients name them."""
_TITLES: Mapping[Kind, str] = {
    Kind.MENTION: "%(names)s mentions you",
    Kind.POST: "%(names)s posted",
    Kind.REACTION: "%(names)s put %(emoji)s on your post",
    Kind.EDIT: "%(names)s changed a post that you shared",
    Kind.POLL: "A poll that you voted in is over",
    Kind.REQUEST: "%(names)s asks to follow you",
    Kind.REGISTRATION: "%(names)s joined",
    Kind.REPORT: "%(names)s reported somebody",
    Kind.VERDICT: "A report of yours was closed",
    Kind.UNPUBLISHED: "A scheduled post of yours could not be published",
}
# As pages say it of one or of many, whose words the catalogues have together.
_OF_ONE: Mapping[Kind, tuple[str, str]] = {
    Kind.LIKE: ("%(names)s likes your post", "%(names)s like your post"),
    Kind.SHARE: ("%(names)s shared your post", "%(names)s shared your post"),
    Kind.FOLLOW: ("%(names)s follows you", "%(names)s follow you"),
}
_OWN_POLL = "A poll of yours is over"
_EXCERPT = 140


class NoticeToSend(NamedTuple):
    """A notification, and everything that a message says of it."""

    notice: Notice
    time: int
    """Its id among the member's notifications."""
    member_id: int
    """The member who is told."""
    actor: Member
    post: Post | None
    language: str
    token: str
    """The text of the session's token."""


class PushMessage(msgspec.Struct, frozen=True):
    """A message as the apps of Mastodon read it."""

    access_token: str
    preferred_locale: str
    notification_id: str
    notification_type: str
    icon: str
    """Address of a picture: the avatar of whoever did it."""
    title: str
    body: str
    """The beginning of the post, or what whoever did it says of themselves."""


def write(told: NoticeToSend, root: str) -> bytes:
    """Return a message as JSON, at most `MAX_PLAIN` bytes; `root` begins the addresses of the network."""
    message = _message(told, root)
    encoded = msgspec.json.encode(message)
    if len(encoded) > MAX_PLAIN:
        # Only names and words in many bytes come here.
        encoded = msgspec.json.encode(msgspec.structs.replace(message, body="", title=message.title[:_EXCERPT]))
    return encoded


def _message(told: NoticeToSend, root: str) -> PushMessage:
    words = words_in(told.language if told.language in LANGUAGES else "en")
    actor, kind = told.actor, told.notice.kind
    named = {"names": actor.shown_name, "emoji": told.notice.emoji}
    return PushMessage(
        access_token=told.token,
        preferred_locale=words.code,
        notification_id=str(told.time),
        notification_type=WIRE_KINDS[kind],
        icon=f"{root}/media/{still_of(actor.avatar)}" if actor.avatar else root + MISSING_AVATAR,
        title=_title(words, told) % named,
        body=plain_excerpt(_said(told), _EXCERPT),
    )


def _title(words: Translated, told: NoticeToSend) -> str:
    kind = told.notice.kind
    if kind in _OF_ONE:
        return words.plural(*_OF_ONE[kind], 1)
    return words.text(_OWN_POLL if kind is Kind.POLL and told.actor.id == told.member_id else _TITLES[kind])


def _said(told: NoticeToSend) -> str:
    if told.notice.kind not in ABOUT_POSTS:
        return told.actor.note
    if told.post is None:
        return ""
    return told.post.spoiler or told.post.text
