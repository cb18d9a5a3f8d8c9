"""Updates on a channel: they report changes by ids only.

Receivers read the objects from the graph, so the general visibility rules apply at the time when they are shown. An update may
arrive twice, and late; it reports that something happened, never the current state.
"""

from __future__ import annotations

import logging

import msgspec

from shoal.core.model import Visibility
from shoal.graph.schema import EVERYBODY

_log = logging.getLogger(__name__)


class Update(msgspec.Struct, frozen=True, array_like=True):
    def sources(self) -> tuple[int, ...]:
        """Return the members, tags, lists and feeds whose followers the update concerns; `EVERYBODY` is the public timeline."""
        return ()

    def named(self) -> tuple[int, ...]:
        """Return the members whom the update concerns even if they follow none of its sources."""
        return ()


class _OfPost(Update, frozen=True, array_like=True):
    post_id: int
    author_id: int
    visibility: Visibility
    list_ids: tuple[int, ...] = ()
    """The tags of the post, and the lists of its kind and of its map cells."""
    mention_ids: tuple[int, ...] = ()

    @property
    def entry_id(self) -> int:
        return self.post_id

    def sources(self) -> tuple[int, ...]:
        if self.visibility is Visibility.DIRECT:
            return ()
        return (
            (self.author_id, *self.list_ids, EVERYBODY) if self.visibility is Visibility.PUBLIC else (self.author_id,)
        )

    def named(self) -> tuple[int, ...]:
        return (self.author_id, *self.mention_ids) if self.visibility is Visibility.DIRECT else ()


class PostCreated(_OfPost, frozen=True, array_like=True, tag=1):
    """The post was created."""


class PostEdited(_OfPost, frozen=True, array_like=True, tag=2):
    """The post was edited; `list_ids` has its current and removed tags and lists, `left` only the removed tags."""

    left: tuple[int, ...] = ()
    content: bool = True
    """Whether the post itself was edited. Otherwise, only its emoji reactions changed."""


class PostDeleted(_OfPost, frozen=True, array_like=True, tag=3):
    """The post was deleted."""


class PostHidden(_OfPost, frozen=True, array_like=True, tag=13):
    """The post was hidden by a moderator, or until its review because of reports."""


class PostNarrowed(_OfPost, frozen=True, array_like=True, tag=14):
    """The visibility of the post was narrowed; `visibility` is the previous one."""


class _OfShare(Update, frozen=True, array_like=True):
    """An update on a share, for followers of the member who shared."""

    share_id: int
    author_id: int

    @property
    def entry_id(self) -> int:
        return self.share_id

    def sources(self) -> tuple[int, ...]:
        return (self.author_id,)


class ShareCreated(_OfShare, frozen=True, array_like=True, tag=4):
    """The share was created."""


class ShareDeleted(_OfShare, frozen=True, array_like=True, tag=5):
    """The share was deleted, or its post was."""


class FollowChanged(Update, frozen=True, array_like=True, tag=6):
    """A member followed or unfollowed a source. Receivers read from the graph whether the follow exists now."""

    follower_id: int
    source_id: int


class NotificationMade(Update, frozen=True, array_like=True, tag=7):
    """A member got a notification; `time` is its id in their notifications."""

    recipient_id: int
    time: int

    def named(self) -> tuple[int, ...]:
        return (self.recipient_id,)


class ConversationChanged(Update, frozen=True, array_like=True, tag=8):
    """A conversation of direct posts changed for the participant `member_id`."""

    member_id: int
    root_id: int

    def named(self) -> tuple[int, ...]:
        return (self.member_id,)


class FiltersChanged(Update, frozen=True, array_like=True, tag=9):
    member_id: int

    def named(self) -> tuple[int, ...]:
        return (self.member_id,)


class ListChanged(Update, frozen=True, array_like=True, tag=10):
    """The members of a list changed, or the list was deleted. Receivers read the current members from the graph."""

    list_id: int
    owner_id: int


class SessionsEnded(Update, frozen=True, array_like=True, tag=11):
    member_id: int
    token_ids: tuple[int, ...]


class MemberSuspended(Update, frozen=True, array_like=True, tag=12):
    """A member was suspended, and may not receive updates any more."""

    member_id: int


class TagCloudMerged(Update, frozen=True, array_like=True, tag=15):
    """A new version of the tag cloud was written."""

    version: int


class NamedFeedChanged(Update, frozen=True, array_like=True, tag=16):
    """A named feed was changed or deleted at the time of the id `time`. Receivers read the feed from the graph.

    `feed_id` may also be the `feed_name_id` of a new feed, the `user_name_id` of a new member, or the `feeds_of_id` or
    `feed_access_id` of an owner of feeds.
    """

    feed_id: int
    time: int

    def sources(self) -> tuple[int, ...]:
        return (self.feed_id,)


OfEntry = PostCreated | PostEdited | PostDeleted | PostHidden | PostNarrowed | ShareCreated | ShareDeleted
OfMember = NotificationMade | ConversationChanged | FiltersChanged
ViewerUpdate = OfEntry | OfMember | NamedFeedChanged
"""Updates for viewers."""
SubscriptionChange = FollowChanged | ListChanged | NamedFeedChanged | SessionsEnded | MemberSuspended
"""Updates that change the subscriptions of viewers."""
AnyUpdate = ViewerUpdate | SubscriptionChange | TagCloudMerged

encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[AnyUpdate] = msgspec.msgpack.Decoder(AnyUpdate)


def decode(message: bytes) -> AnyUpdate | None:
    """Decode an update. Return None for a kind of update that only a newer version of Shoal knows."""
    try:
        return _decoder.decode(message)
    except msgspec.DecodeError:
        _log.warning("skipped a live update of an unknown kind; a newer Shoal may have sent it")
        return None
