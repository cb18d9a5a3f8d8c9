"""Events that are committed with the graph and processed later. `shoal.consumers.table` lists the consumers of each.

An event carries what its consumers would otherwise have to read again, and nothing that may change in between.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from shoal.core.email import MailKind
from shoal.core.model import Visibility


class Event(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    trace: bytes = b""
    """The span of the request or job that caused it, in the 25 bytes of `observability.tracing`; empty outside any trace."""


class PostCreated(Event, frozen=True, tag="post_created"):
    post_id: int
    author_id: int
    visibility: Visibility = Visibility.PUBLIC
    tag_ids: tuple[int, ...] = ()
    mention_ids: tuple[int, ...] = ()
    answered_id: int = 0
    """The post of another member that a comment answers; 0 for none."""


class PostImported(PostCreated, frozen=True, tag="post_imported"):
    """An older post from elsewhere was imported with its author's archive. No member is notified."""


class PostUpdated(Event, frozen=True, tag="post_updated"):
    """A post was edited. The event has the added tags and mentions, and the removed tags."""

    post_id: int
    author_id: int
    visibility: Visibility = Visibility.PUBLIC
    tags_added: tuple[int, ...] = ()
    tags_removed: tuple[int, ...] = ()
    mention_ids: tuple[int, ...] = ()
    """All members whom the post mentions now."""
    mentions_added: tuple[int, ...] = ()
    """Members whom the post did not mention before the edit."""
    revision_id: int = 0
    """The `Revision` with the former content, created with the edit; 0 for none."""


class PostNarrowed(Event, frozen=True, tag="post_narrowed"):
    """The visibility of a post was narrowed from `before`. The event has its tags and mentions from before."""

    post_id: int
    author_id: int
    before: Visibility = Visibility.PUBLIC
    visibility: Visibility = Visibility.PUBLIC
    tag_ids: tuple[int, ...] = ()
    mention_ids: tuple[int, ...] = ()


class PostDeleted(Event, frozen=True, tag="post_deleted"):
    """A post was deleted. The consumers remove what belongs to it."""

    post_id: int
    author_id: int
    visibility: Visibility = Visibility.PUBLIC
    tag_ids: tuple[int, ...] = ()
    mention_ids: tuple[int, ...] = ()
    media_ids: tuple[int, ...] = ()


class PostHidden(Event, frozen=True, tag="post_hidden"):
    """A post was hidden from all but its author, or removed from public lists."""

    post_id: int


class TagsUsed(Event, frozen=True, tag="tags_used"):
    """The tags of a public post were added, changed or removed, so the tag cloud has to be updated.

    There is at most one such event per version of a post.
    """

    post_id: int
    version: int
    author_id: int
    written: int
    """When the post was written, in Unix milliseconds."""
    at: int
    """Time of the change, in Unix milliseconds."""
    changes: tuple[tuple[str, str, int], ...]
    """The canonical tag, its form as typed, and +1 (added) or -1 (removed)."""


class SuspensionChanged(Event, frozen=True, tag="suspension_changed"):
    """A member was suspended or restored."""

    member_id: int


class ShareCreated(Event, frozen=True, tag="share_created"):
    """A member shared a post; `share_id` is the entry in timelines."""

    share_id: int
    author_id: int
    shared_id: int = 0
    """The shared post, if another member wrote it; 0 otherwise."""


class ShareDeleted(Event, frozen=True, tag="share_deleted"):
    share_id: int
    author_id: int


class FollowChanged(Event, frozen=True, tag="follow_changed"):
    """A member followed or unfollowed a source of posts: a member, or a tag (its id is negative)."""

    follower_id: int
    source_id: int


class FollowersLost(Event, frozen=True, tag="loudness_lost"):
    """The demotion of a high-fan-out source began; `at` is the time of its mark."""

    source_id: int
    at: int


class LikeChanged(Event, frozen=True, tag="like_changed"):
    member_id: int
    post_id: int
    author_id: int
    at: int = 0
    """When the like began, as an id; 0 if it ended."""


class ReactionChanged(Event, frozen=True, tag="reaction_changed"):
    """A member added an emoji to a post, or removed it."""

    member_id: int
    post_id: int
    author_id: int
    place_id: int
    """The id of the emoji's position on the post."""
    emoji: str
    at: int = 0
    """When the emoji was added, as an id; 0 if it was removed."""


class RequestChanged(Event, frozen=True, tag="request_changed"):
    """A member requested to follow a locked member, or the request ended."""

    member_id: int
    other_id: int


class PollEnded(Event, frozen=True, tag="poll_ended"):
    poll_id: int


class PollRemoved(Event, frozen=True, tag="poll_removed"):
    """A poll was deleted with its post, or replaced by another: its votes are removed."""

    poll_id: int
    option_ids: tuple[int, ...]


class ReportFiled(Event, frozen=True, tag="report_filed"):
    report_id: int


class ReportOutcomeChanged(Event, frozen=True, tag="verdict_changed"):
    """Moderators closed or reopened a report."""

    report_id: int


class PublishRefused(Event, frozen=True, tag="publish_refused"):
    """A scheduled post could not be published, for the first time since its time was set."""

    scheduled_id: int
    time: int
    """An id of the moment."""


class FiltersChanged(Event, frozen=True, tag="filters_changed"):
    member_id: int


class ListChanged(Event, frozen=True, tag="list_changed"):
    list_id: int
    owner_id: int


class AlbumDeleted(Event, frozen=True, tag="album_deleted"):
    album_id: int


class MediaUploaded(Event, frozen=True, tag="media_uploaded"):
    """A video or sound was uploaded, and must be converted before it can be shown."""

    media_id: int


class MediaDescribed(Event, frozen=True, tag="media_described"):
    media_id: int


class FilesReleased(Event, frozen=True, tag="files_released"):
    """Unused files: their keys in the media store, including the keys of copies."""

    keys: tuple[str, ...]


class SessionsEnded(Event, frozen=True, tag="sessions_ended"):
    """Tokens of a member were revoked: the listed ones, or all. With `every`, `token_ids` has the newest of them."""

    member_id: int
    token_ids: tuple[int, ...]
    every: bool = False


class ProfileChanged(Event, frozen=True, tag="profile_changed"):
    """A member joined, or their profile changed."""

    member_id: int


class MemberRegistered(Event, frozen=True, tag="member_registered"):
    """A member registered with an email address, which is on another shard and only reserved so far."""

    member_id: int
    address: str


class MemberRemoved(Event, frozen=True, tag="member_rejected"):
    """A member was rejected or deleted. Their email address is on another shard."""

    member_id: int
    address: str


class EmailChanged(Event, frozen=True, tag="email_changed"):
    """A member changed their email address. The new one is on another shard, and only reserved so far."""

    member_id: int
    address: str
    freed: tuple[str, ...] = ()
    """Released addresses. Others are kept for a while, so that the member can restore them."""


class MailDue(Event, frozen=True, tag="mail_due"):
    """A mail is to be sent. The secret of its link is generated on sending, so that no outbox contains it."""

    kind: MailKind
    asked: int
    """When it was requested, as an id; also the id of the email token, unless that is on another shard than the member."""
    member_id: int = 0
    """The recipient; 0 if identified by the `account`."""
    generation: int = 0
    """The member's `generation` at the request: a new password voids earlier requests."""
    account: str = ""
    """The user name or email address typed to reset a password."""
    address: str = ""
    """The recipient's address; empty: the member's."""
    language: str = ""
    """The language of the page that requested it; empty: the member's."""
    place: str = ""
    """The network address of a login."""
    passkey: str = ""
    """The name of the passkey concerned."""


class PushDue(Event, frozen=True, tag="push_due"):
    """A push message about a notification is to be sent to one of the member's apps."""

    member_id: int
    token_id: int
    """The session of the app."""
    notice_id: int
    time: int
    """The id of the notification in the list."""
    asked: int
    """When the message was requested, as an id."""


class Blocked(Event, frozen=True, tag="blocked"):
    """A member blocked another, whose follow must end."""

    blocker_id: int
    blocked_id: int


class InverseOp(NamedTuple):
    """The inverse half of an association, pending for another store: see `graph/contract.py`."""

    id1: int
    atype: int
    id2: int
    time: int
    alive: bool
    data: bytes
    aggregate_id: int


class InversePending(Event, frozen=True, tag="inverse_owed"):
    """The inverse of an association belongs to another store and may not have arrived there yet."""

    op: InverseOp


class FutureEvent(Event, frozen=True, tag=""):
    """An event known only to a newer Shoal: it is stored unchanged, and left to a newer process."""

    data: bytes


_KnownEvent = (
    PostCreated
    | PostImported
    | PostUpdated
    | PostNarrowed
    | PostDeleted
    | PostHidden
    | TagsUsed
    | SuspensionChanged
    | ShareCreated
    | ShareDeleted
    | FollowChanged
    | FollowersLost
    | LikeChanged
    | ReactionChanged
    | RequestChanged
    | PollEnded
    | PollRemoved
    | ReportFiled
    | ReportOutcomeChanged
    | PublishRefused
    | FiltersChanged
    | ListChanged
    | AlbumDeleted
    | MediaUploaded
    | MediaDescribed
    | FilesReleased
    | SessionsEnded
    | ProfileChanged
    | Blocked
    | MemberRegistered
    | MemberRemoved
    | EmailChanged
    | MailDue
    | PushDue
    | InversePending
)

AnyEvent = _KnownEvent | FutureEvent

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[_KnownEvent] = msgspec.msgpack.Decoder(_KnownEvent)


def encode(event: Event) -> bytes:
    return event.data if isinstance(event, FutureEvent) else _encoder.encode(event)


def decode(data: bytes) -> AnyEvent:
    """Decode an event. One with an unknown kind or value becomes a `FutureEvent`."""
    try:
        return _decoder.decode(data)
    except msgspec.ValidationError:
        return FutureEvent(data=data)
