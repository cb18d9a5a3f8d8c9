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
from shoal.graph.payloads.notifications import ABOUT_POSTS, Kind, Notice
from shoal.i18n import LANGUAGES, Translated, words_in
from shoal.push.encryption import MAX_PLAIN

MAX_ENDPOINT = 2_048
"""Characters of an endpoint's address."""
KEY_BYTES, SECRET_BYTES = 65, 16
"""Bytes of the public key of an app (a point of P-256, uncompressed), and of the secret that it shares with us."""
MAX_SUBSCRIPTIONS = 50
"""Subscriptions of a member; the oldest makes room."""

PushPolicy = Literal["all", "followed", "follower", "none"]
"""From whom messages come: everybody, those whom the member follows, those who follow the member, nobody."""


class PushSubscription(msgspec.Struct, frozen=True, array_like=True):
    """Where the messages of one session go. It is kept as the data of the association with its token."""

    endpoint: str
    key: bytes
    secret: bytes
    alerts: tuple[str, ...] = ()
    """Kinds of notifications that are sent, by the names of the Mastodon API."""
    policy: PushPolicy = "all"
    standard: bool = True
    """Whether messages are encrypted as RFC 8291 says; false: as its fourth draft, which older apps read."""
    language: str = "en"
    """The language of titles."""
    sealed: bytes = b""
    """The text of the token, which apps find their account by, encrypted with the server's key for web push."""


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(PushSubscription).decode


def check_endpoint(endpoint: str) -> str:
    """Return the address of a push service. Raises `InvalidInput` for one that no message may go to."""
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidInput("subscription[endpoint] is not an address", field="endpoint") from error
    if parts.scheme != "https" or not host or parts.username is not None or parts.fragment:
        raise InvalidInput("subscription[endpoint] must be an https address", field="endpoint")
    if len(endpoint) > MAX_ENDPOINT or not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        raise InvalidInput(
            f"subscription[endpoint] is at most {MAX_ENDPOINT:,} printable ASCII characters", field="endpoint"
        )
    return endpoint


def check_bytes(text: str, length: int, field: str) -> bytes:
    """Return what a text in base64 (for URLs or plain, padded or not) says. Raises `InvalidInput` for another length."""
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
