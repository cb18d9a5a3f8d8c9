"""Facts that are committed with the graph and acted on later. `consumers/table.py` lists the consequences of each.

An event carries what its consequences would otherwise have to read again, and nothing that may change in between.

Glossary (`docs/glossary.md`): loud, owed.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from shoal.core.email import MailKind
from shoal.core.model import Visibility


class Event(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The base class of all events."""

    trace: bytes = b""
    """The span of the request or job that caused it, in the 25 bytes of `observability/tracing.py`; empty outside any trace."""


class PostCreated(Event, frozen=True, tag="post_created"):
    """A post or a comment was written."""

    post_id: int
    author_id: int
    visibility: Visibility = Visibility.PUBLIC
    tag_ids: tuple[int, ...] = ()
    mention_ids: tuple[int, ...] = ()
    answered_id: int = 0
    """The post of another member that a comment answers; 0 for none."""


class PostImported(PostCreated, frozen=True, tag="post_imported"):
    """A post that was written elsewhere, earlier, came with its author's archive. Nobody is told of it."""


class PostUpdated(Event, frozen=True, tag="post_updated"):
    """A post was edited. The event names the tags and mentions that were added, and the tags that were removed."""

    post_id: int
    author_id: int
    visibility: Visibility = Visibility.PUBLIC
    tags_added: tuple[int, ...] = ()
    tags_removed: tuple[int, ...] = ()
    mention_ids: tuple[int, ...] = ()
    """Every member whom the post mentions now."""
    mentions_added: tuple[int, ...] = ()
    """Members whom the post did not mention before the edit."""
    revision_id: int = 0
    """The `Revision` that keeps the former wording, made at the moment of the edit; 0 when there is none."""


class PostNarrowed(Event, frozen=True, tag="post_narrowed"):
    """A post is for fewer people than `before`. The event names its tags and mentions from before."""

    post_id: int
    author_id: int
    before: Visibility = Visibility.PUBLIC
    visibility: Visibility = Visibility.PUBLIC
    tag_ids: tuple[int, ...] = ()
    mention_ids: tuple[int, ...] = ()


class PostDeleted(Event, frozen=True, tag="post_deleted"):
    """A post was deleted. The consequences remove what belongs to it."""

    post_id: int
    author_id: int
    visibility: Visibility = Visibility.PUBLIC
    tag_ids: tuple[int, ...] = ()
    mention_ids: tuple[int, ...] = ()
    media_ids: tuple[int, ...] = ()


class PostHidden(Event, frozen=True, tag="post_hidden"):
    """A post was taken out of everybody's sight but its author's, or out of public lists."""

    post_id: int


class TagsUsed(Event, frozen=True, tag="tags_used"):
    """The tags of a public post were added, changed or removed, so the tag cloud has to count it anew.

    A post's versions follow each other, so there is at most one such event for each version.
    """

    post_id: int
    version: int
    """Version of the post after the change."""
    author_id: int
    written: int
    """When the post was written, in Unix milliseconds."""
    at: int
    """When the change was made, in Unix milliseconds."""
    changes: tuple[tuple[str, str, int], ...]
    """The canonical tag, as it was typed, and +1 (it came) or -1 (it went)."""


class SuspensionChanged(Event, frozen=True, tag="suspension_changed"):
    """A member was suspended, or is no longer."""

    member_id: int


class ShareCreated(Event, frozen=True, tag="share_created"):
    """A member shared a post; `share_id` is the entry in timelines."""

    share_id: int
    author_id: int
    shared_id: int = 0
    """The post that was shared, if another member wrote it; 0 otherwise."""


class ShareDeleted(Event, frozen=True, tag="share_deleted"):
    """A member took a share back."""

    share_id: int
    author_id: int


class FollowChanged(Event, frozen=True, tag="follow_changed"):
    """A member began or ceased to follow a source of posts: a member, or a tag (its id is negative)."""

    follower_id: int
    source_id: int


class LoudnessLost(Event, frozen=True, tag="loudness_lost"):
    """A loud source has few followers left; `at` is the time of the mark that says so."""

    source_id: int
    at: int


class LikeChanged(Event, frozen=True, tag="like_changed"):
    """A member began or ceased to like a post."""

    member_id: int
    post_id: int
    author_id: int
    at: int = 0
    """When the like began, as an id; 0 when it ended."""


class ReactionChanged(Event, frozen=True, tag="reaction_changed"):
    """A member put an emoji on a post, or took it off."""

    member_id: int
    post_id: int
    author_id: int
    place_id: int
    """The id at which the emoji is counted on the post."""
    emoji: str
    at: int = 0
    """When the emoji was put there, as an id; 0 when it was taken off."""


class RequestChanged(Event, frozen=True, tag="request_changed"):
    """A member asked to follow another who is locked, or asks no longer."""

    member_id: int
    other_id: int


class PollEnded(Event, frozen=True, tag="poll_ended"):
    """A poll is over: nobody can vote any more."""

    poll_id: int


class PollRemoved(Event, frozen=True, tag="poll_removed"):
    """A poll was deleted with its post, or replaced by another: its votes are removed."""

    poll_id: int
    option_ids: tuple[int, ...]


class ReportFiled(Event, frozen=True, tag="report_filed"):
    """A member was reported."""

    report_id: int


class VerdictChanged(Event, frozen=True, tag="verdict_changed"):
    """Moderators closed a report, or opened it again."""

    report_id: int


class PublishRefused(Event, frozen=True, tag="publish_refused"):
    """A scheduled post could not be published, for the first time since its moment was set."""

    scheduled_id: int
    time: int
    """An id of the moment."""


class FiltersChanged(Event, frozen=True, tag="filters_changed"):
    """A member changed their filters."""

    member_id: int


class ListChanged(Event, frozen=True, tag="list_changed"):
    """A list of members was changed or deleted."""

    list_id: int
    owner_id: int


class AlbumDeleted(Event, frozen=True, tag="album_deleted"):
    """An album was deleted. Its photos leave it; the posts stay."""

    album_id: int


class MediaUploaded(Event, frozen=True, tag="media_uploaded"):
    """A video or sound was uploaded, and has to be converted before it can be shown."""

    media_id: int


class MediaDescribed(Event, frozen=True, tag="media_described"):
    """The description of media that are attached to posts was changed."""

    media_id: int


class FilesReleased(Event, frozen=True, tag="files_released"):
    """Files that nothing uses any more: their keys in the media store, including those of copies."""

    keys: tuple[str, ...]


class SessionsEnded(Event, frozen=True, tag="sessions_ended"):
    """Tokens of a member were revoked: the ones listed, or all that existed.

    With `every`, `token_ids` holds the newest of them.
    """

    member_id: int
    token_ids: tuple[int, ...]
    every: bool = False


class ProfileChanged(Event, frozen=True, tag="profile_changed"):
    """A member joined, or their profile changed."""

    member_id: int


class MemberRegistered(Event, frozen=True, tag="member_registered"):
    """Somebody joined with an e-mail address. The address lies on another shard, only reserved so far."""

    member_id: int
    address: str


class MemberRemoved(Event, frozen=True, tag="member_rejected"):
    """A member was deleted: rejected, or gone by their own will. Their e-mail address lies on another shard."""

    member_id: int
    address: str


class EmailChanged(Event, frozen=True, tag="email_changed"):
    """A member is reached at another e-mail address. It lies on another shard, only reserved so far."""

    member_id: int
    address: str
    freed: tuple[str, ...] = ()
    """Addresses that are theirs no more. Others are kept for a while, so that they can have them back."""


class MailDue(Event, frozen=True, tag="mail_due"):
    """A mail is to be sent. Its link has no secret before it is written, so none lies in an outbox."""

    kind: MailKind
    asked: int
    """When it was asked for, as an id. Of a link it is the proof's id, unless it is on another shard than the member."""
    member_id: int = 0
    """To whom; 0 where that is found by the `account`."""
    generation: int = 0
    """The member's `generation` when it was asked for: a new password ends what was asked before."""
    account: str = ""
    """The user name or e-mail address that somebody typed who forgot their password."""
    address: str = ""
    """Where it goes; empty: to the address that the member has."""
    language: str = ""
    """The language of the page on which it was asked for; empty: the member's."""
    place: str = ""
    """The network address that somebody logged in from."""
    passkey: str = ""
    """The name of the passkey that it is about."""


class PushDue(Event, frozen=True, tag="push_due"):
    """A message about a notification is to be sent to one of the member's apps."""

    member_id: int
    token_id: int
    """The session of the app."""
    notice_id: int
    time: int
    """When the notification was made, as the id that it has in the list."""
    asked: int
    """When the message was asked for, as an id."""


class Blocked(Event, frozen=True, tag="blocked"):
    """A member blocked another, who must not follow them any more."""

    blocker_id: int
    blocked_id: int


class InverseOp(NamedTuple):
    """The other end of an association, as owed to another store: see `graph/contract.py`."""

    id1: int
    atype: int
    id2: int
    time: int
    alive: bool
    data: bytes
    tally: int


class InverseOwed(Event, frozen=True, tag="inverse_owed"):
    """The inverse of an association belongs to another store and may not have arrived there yet."""

    op: InverseOp


class FutureEvent(Event, frozen=True, tag=""):
    """An event that only a newer Shoal knows: it is kept as it came, and left to a newer process."""

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
    | LoudnessLost
    | LikeChanged
    | ReactionChanged
    | RequestChanged
    | PollEnded
    | PollRemoved
    | ReportFiled
    | VerdictChanged
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
    | InverseOwed
)

AnyEvent = _KnownEvent | FutureEvent

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[_KnownEvent] = msgspec.msgpack.Decoder(_KnownEvent)


def encode(event: Event) -> bytes:
    """Encode an event for an outbox."""
    return event.data if isinstance(event, FutureEvent) else _encoder.encode(event)


def decode(data: bytes) -> AnyEvent:
    """Decode an event. One of an unknown kind, or with a value that is none here, is a `FutureEvent`."""
    try:
        return _decoder.decode(data)
    except msgspec.ValidationError:
        return FutureEvent(data=data)
