"""Updates that travel on a channel: they tell of changes by ids only.

Whoever hears of one reads the thing itself, so what a viewer may see is decided when it is shown, by the one rule. An update
may be told twice, and late; it says that something happened, never what is so now.
"""

from __future__ import annotations

import logging

import msgspec

from shoal.core.model import Visibility
from shoal.graph.schema import EVERYBODY

_log = logging.getLogger(__name__)


class Update(msgspec.Struct, frozen=True, array_like=True):
    """The base of all updates."""

    def sources(self) -> tuple[int, ...]:
        """The members, tags and lists of all (`EVERYBODY`) whose followers it concerns."""
        return ()

    def named(self) -> tuple[int, ...]:
        """The members whom it concerns whomever they follow."""
        return ()


class _OfPost(Update, frozen=True, array_like=True):
    """An update on a post or a comment."""

    post_id: int
    author_id: int
    visibility: Visibility
    tag_ids: tuple[int, ...] = ()
    mention_ids: tuple[int, ...] = ()

    @property
    def entry_id(self) -> int:
        """The id of the post in timelines."""
        return self.post_id

    def sources(self) -> tuple[int, ...]:
        if self.visibility is Visibility.DIRECT:
            return ()
        return (self.author_id, *self.tag_ids, EVERYBODY) if self.visibility is Visibility.PUBLIC else (self.author_id,)

    def named(self) -> tuple[int, ...]:
        return (self.author_id, *self.mention_ids) if self.visibility is Visibility.DIRECT else ()


class PostCreated(_OfPost, frozen=True, array_like=True, tag=1):
    """It was written."""


class PostEdited(_OfPost, frozen=True, array_like=True, tag=2):
    """It has other words now; `tag_ids` are those that it has and those that it lost, `left` the lost ones alone."""

    left: tuple[int, ...] = ()


class PostDeleted(_OfPost, frozen=True, array_like=True, tag=3):
    """It is gone."""


class PostHidden(_OfPost, frozen=True, array_like=True, tag=13):
    """It was taken out of sight."""


class PostNarrowed(_OfPost, frozen=True, array_like=True, tag=14):
    """It is for fewer people; `visibility` is the one from before."""


class _OfShare(Update, frozen=True, array_like=True):
    """An update on a share, told of the member who shared."""

    share_id: int
    author_id: int

    @property
    def entry_id(self) -> int:
        """The id of the share in timelines."""
        return self.share_id

    def sources(self) -> tuple[int, ...]:
        return (self.author_id,)


class ShareCreated(_OfShare, frozen=True, array_like=True, tag=4):
    """It was made."""


class ShareDeleted(_OfShare, frozen=True, array_like=True, tag=5):
    """It was taken back, or its post is gone."""


class FollowChanged(Update, frozen=True, array_like=True, tag=6):
    """A member began or ceased to follow a source: the graph says which."""

    follower_id: int
    source_id: int


class NotificationMade(Update, frozen=True, array_like=True, tag=7):
    """A member is notified of something; `time` is its place among their notifications."""

    recipient_id: int
    time: int

    def named(self) -> tuple[int, ...]:
        return (self.recipient_id,)


class ConversationChanged(Update, frozen=True, array_like=True, tag=8):
    """Something came to a thread of direct posts that a member has a part in."""

    member_id: int
    root_id: int

    def named(self) -> tuple[int, ...]:
        return (self.member_id,)


class FiltersChanged(Update, frozen=True, array_like=True, tag=9):
    """A member filters otherwise."""

    member_id: int

    def named(self) -> tuple[int, ...]:
        return (self.member_id,)


class ListChanged(Update, frozen=True, array_like=True, tag=10):
    """Others are in a list of members now, or it is gone: the graph says who."""

    list_id: int
    owner_id: int


class SessionsEnded(Update, frozen=True, array_like=True, tag=11):
    """Tokens of a member are worth nothing any more."""

    member_id: int
    token_ids: tuple[int, ...]


class MemberSuspended(Update, frozen=True, array_like=True, tag=12):
    """A member may not listen any more."""

    member_id: int


OfEntry = PostCreated | PostEdited | PostDeleted | PostHidden | PostNarrowed | ShareCreated | ShareDeleted
OfMember = NotificationMade | ConversationChanged | FiltersChanged
Told = OfEntry | OfMember
"""Updates that viewers are told of."""
OfListening = FollowChanged | ListChanged | SessionsEnded | MemberSuspended
"""Updates that change who is told of what."""
AnyUpdate = Told | OfListening

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[AnyUpdate] = msgspec.msgpack.Decoder(AnyUpdate)


def encode(update: AnyUpdate) -> bytes:
    """An update as a message of a channel."""
    return _encoder.encode(update)


def decode(message: bytes) -> AnyUpdate | None:
    """An update from its message; None for one that only a newer version knows."""
    try:
        return _decoder.decode(message)
    except msgspec.DecodeError:
        _log.warning("an update is passed over: it is none that this version knows")
        return None
