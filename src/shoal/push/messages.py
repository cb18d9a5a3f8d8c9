"""Web push subscriptions, and the messages sent to them in the format of Mastodon's apps and the member's language."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from shoal.core.errors import InvalidInput
from shoal.core.media_files import MISSING_AVATAR, still_of
from shoal.core.model import Member, Post
from shoal.core.text import plain_excerpt
from shoal.graph.payloads.notifications import ABOUT_POSTS, WITHOUT_ACTOR, Kind, Notice
from shoal.i18n import LANGUAGES, Translated, words_in
from shoal.push.encryption import MAX_PLAIN

MAX_ENDPOINT = 2_048
KEY_BYTES, SECRET_BYTES = 65, 16
"""Bytes of an app's public key (an uncompressed point of P-256), and of its shared secret."""
MAX_SUBSCRIPTIONS = 50
"""Maximum subscriptions of a member; the oldest is replaced."""

PushPolicy = Literal["all", "followed", "follower", "none"]
"""Which notifications are sent: all, those about followed members, those about followers, or none."""


class PushSubscription(msgspec.Struct, frozen=True, array_like=True):
    """The subscription of a session, stored as the data of the association with its token."""

    endpoint: str
    key: bytes
    secret: bytes
    alerts: tuple[str, ...] = ()
    """Notification types to send, by their names in the Mastodon API."""
    policy: PushPolicy = "all"
    standard: bool = True
    """Whether messages are encrypted by RFC 8291. If not, they are encrypted by its fourth draft, which older apps read."""
    language: str = "en"
    sealed: bytes = b""
    """The API token, encrypted with the server's web push key. Apps recognize their account by it."""


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(PushSubscription).decode


def check_endpoint(endpoint: str) -> str:
    """Return the URL of a push service. Raises `InvalidInput` if messages must not be sent to it."""
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidInput("subscription[endpoint] is not a URL", field="endpoint") from error
    if parts.scheme != "https" or not host or parts.username is not None or parts.fragment:
        raise InvalidInput("subscription[endpoint] must be an https URL", field="endpoint")
    if len(endpoint) > MAX_ENDPOINT or not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        raise InvalidInput(
            f"subscription[endpoint] must have at most {MAX_ENDPOINT:,} characters, all printable ASCII",
            field="endpoint",
        )
    return endpoint


def check_bytes(text: str, length: int, field: str) -> bytes:
    """Decode base64 (URL-safe or plain, padded or not). Raises `InvalidInput` for another length."""
    try:
        plain = text.rstrip("=").replace("+", "-").replace("/", "_")
        found = base64.b64decode(plain + "=" * (-len(plain) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if len(found) != length:
        raise InvalidInput(f"subscription[keys][{field}] must be {length} bytes in base64", field=field)
    return found


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
    Kind.REPORT_RESOLVED: "shoal:report_resolved",
    Kind.UNPUBLISHED: "shoal:scheduled_status_failed",
    Kind.HELD: "shoal:held",
    Kind.APPROVED: "shoal:held_approved",
    Kind.REJECTED: "shoal:held_rejected",
}
"""Notification types by their names in client APIs."""
_TITLES: Mapping[Kind, str] = {
    Kind.MENTION: "%(names)s mentions you",
    Kind.POST: "%(names)s posted",
    Kind.REACTION: "%(names)s reacted with %(emoji)s to your post",
    Kind.EDIT: "%(names)s edited a post you shared",
    Kind.POLL: "A poll you voted in has ended",
    Kind.REQUEST: "%(names)s requested to follow you",
    Kind.REGISTRATION: "%(names)s joined",
    Kind.REPORT: "%(names)s reported someone",
    Kind.REPORT_RESOLVED: "Your report was closed",
    Kind.UNPUBLISHED: "Your scheduled post could not be published",
    Kind.HELD: "Content by %(names)s was held for approval",
    Kind.APPROVED: "A moderator approved your content",
    Kind.REJECTED: "A moderator rejected your content",
}
# Singular and plural of each message. Web pages use the same messages, so the translation catalogs are shared.
_OF_ONE: Mapping[Kind, tuple[str, str]] = {
    Kind.LIKE: ("%(names)s likes your post", "%(names)s like your post"),
    Kind.SHARE: ("%(names)s shared your post", "%(names)s shared your post"),
    Kind.FOLLOW: ("%(names)s follows you", "%(names)s follow you"),
}
_OWN_POLL = "Your poll has ended"
_EXCERPT = 140


class NoticeToSend(NamedTuple):
    notice: Notice
    time: int
    """The id of the notification within the list of the member."""
    member_id: int
    actor: Member
    post: Post | None
    language: str
    token: str
    """The text of the session's token."""
    refusal: str = ""
    """Why content of the member was rejected."""
    emoji: str = ""
    """The emoji of a reaction, or the title of a declared one."""


class PushMessage(msgspec.Struct, frozen=True):
    access_token: str
    preferred_locale: str
    notification_id: str
    notification_type: str
    icon: str
    title: str
    body: str


def write(outgoing: NoticeToSend, root: str) -> bytes:
    """Return a message as JSON, at most `MAX_PLAIN` bytes; `root` is the root of the network's URLs."""
    message = _message(outgoing, root)
    encoded = msgspec.json.encode(message)
    if len(encoded) > MAX_PLAIN:
        # Only names and texts with many multi-byte characters exceed the limit. Omit the body then, and shorten the
        # title.
        encoded = msgspec.json.encode(msgspec.structs.replace(message, body="", title=message.title[:_EXCERPT]))
    return encoded


def _message(outgoing: NoticeToSend, root: str) -> PushMessage:
    words = words_in(outgoing.language if outgoing.language in LANGUAGES else "en")
    actor, kind = outgoing.actor, outgoing.notice.kind
    named = {"names": actor.shown_name, "emoji": outgoing.emoji}
    return PushMessage(
        access_token=outgoing.token,
        preferred_locale=words.code,
        notification_id=str(outgoing.time),
        notification_type=WIRE_KINDS[kind],
        icon=f"{root}/media/{still_of(actor.avatar)}" if actor.avatar else root + MISSING_AVATAR,
        title=_title(words, outgoing) % named,
        body=plain_excerpt(_body_text(outgoing), _EXCERPT),
    )


def _title(words: Translated, outgoing: NoticeToSend) -> str:
    kind = outgoing.notice.kind
    if kind in _OF_ONE:
        return words.plural(*_OF_ONE[kind], 1)
    return words.text(_OWN_POLL if kind is Kind.POLL and outgoing.actor.id == outgoing.member_id else _TITLES[kind])


def _body_text(outgoing: NoticeToSend) -> str:
    if outgoing.notice.kind in WITHOUT_ACTOR:
        return outgoing.refusal
    if outgoing.notice.kind not in ABOUT_POSTS:
        return outgoing.actor.note
    if outgoing.post is None:
        return ""
    return outgoing.post.spoiler or outgoing.post.shown_text
