"""Events that are committed with the graph and processed later. `shoal.consumers.table` lists the consumers of each event.

An event contains what its consumers would otherwise have to read again, and nothing that may change in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import msgspec

from shoal.core.email import MailKind
from shoal.core.model import Visibility


class Event(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    trace: bytes = b""
    """The span of the request or job that emitted the event, as encoded by `observability.tracing`; empty outside any trace."""


class PostCreated(Event, frozen=True, tag="post_created"):
    post_id: int
    author_id: int
    visibility: Visibility = Visibility.PUBLIC
    tag_ids: tuple[int, ...] = ()
    mention_ids: tuple[int, ...] = ()
    list_ids: tuple[int, ...] = ()
    """The lists of its kind and of its map cells, for live updates."""
    answered_id: int = 0
    """The post to which a comment replies, if it is by another member; 0 for none."""


class PostImported(PostCreated, frozen=True, tag="post_imported"):
    """An older post from elsewhere was imported with its author's archive. No member is notified."""


class PostUpdated(Event, frozen=True, tag="post_updated"):
    """A post was edited. The event has the added tags and mentions, and the removed tags."""

    post_id: int
    author_id: int
    visibility: Visibility = Visibility.PUBLIC
    tags_added: tuple[int, ...] = ()
    tags_removed: tuple[int, ...] = ()
    lists_removed: tuple[int, ...] = ()
    """The lists of map cells that no longer contain the post."""
    mention_ids: tuple[int, ...] = ()
    """All members whom the post mentions now."""
    mentions_added: tuple[int, ...] = ()
    """Members whom the post did not mention before the edit."""
    revision_id: int = 0
    """The `Revision` with the former content, created with the edit; 0 for none."""


class PostEditImported(PostUpdated, frozen=True, tag="post_edit_imported"):
    """A post was edited where it was imported from, and a repeated import edited it here. No member is notified."""


class PostNarrowed(Event, frozen=True, tag="post_narrowed"):
    """The visibility of a post was narrowed from `before`. The tags, mentions and lists are those before the change."""

    post_id: int
    author_id: int
    before: Visibility = Visibility.PUBLIC
    visibility: Visibility = Visibility.PUBLIC
    tag_ids: tuple[int, ...] = ()
    mention_ids: tuple[int, ...] = ()
    list_ids: tuple[int, ...] = ()
    """The lists of its kind and of its map cells."""


class PostDeleted(Event, frozen=True, tag="post_deleted"):
    """A post was deleted. The consumers remove the data that depends on the post."""

    post_id: int
    author_id: int
    visibility: Visibility = Visibility.PUBLIC
    tag_ids: tuple[int, ...] = ()
    mention_ids: tuple[int, ...] = ()
    media_ids: tuple[int, ...] = ()
    list_ids: tuple[int, ...] = ()
    """The lists of its kind and of its map cells."""


class PostHidden(Event, frozen=True, tag="post_hidden"):
    """A post was hidden from everyone but its author, or removed from public lists."""

    post_id: int


class KindPostChanged(Event, frozen=True, tag="kind_post_changed"):
    """A post of a kind was created, changed or deleted: the lists of its index are updated."""

    post_id: int


class KindChanged(Event, frozen=True, tag="kind_changed"):
    """The indexed paths of a kind were changed: all posts of the kind are indexed again."""

    kind_id: int
    schema_version: int


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


class ImportedTagsUsed(Event, frozen=True, tag="imported_tags_used"):
    """The tags of several imported posts were added: one event instead of one for each post."""

    uses: tuple[TagsUsed, ...]


class BulkActionDue(Event, frozen=True, tag="bulk_action_due"):
    """A bulk action has to be applied, undone or deleted. Its state says which."""

    action_id: int


class SuspensionChanged(Event, frozen=True, tag="suspension_changed"):
    """A member was suspended or restored."""

    member_id: int


class ShareCreated(Event, frozen=True, tag="share_created"):
    """A member shared a post; `share_id` is the id of the share, which is an entry in timelines."""

    share_id: int
    author_id: int
    shared_id: int = 0
    """The shared post, if another member wrote it; 0 otherwise."""


class ShareImported(ShareCreated, frozen=True, tag="share_imported"):
    """An older share from elsewhere was imported. No member is notified."""


class ShareDeleted(Event, frozen=True, tag="share_deleted"):
    share_id: int
    author_id: int


class FollowChanged(Event, frozen=True, tag="follow_changed"):
    """A member followed or unfollowed a source of posts: a member, or a tag (its id is negative)."""

    follower_id: int
    source_id: int


class FollowersLost(Event, frozen=True, tag="loudness_lost"):
    """The demotion of a high-fan-out source began; `at` is the time of the association that records it."""

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
    """A member sent a follow request to a locked member, or the request was withdrawn or answered."""

    member_id: int
    other_id: int


class PollEnded(Event, frozen=True, tag="poll_ended"):
    poll_id: int


class PollRemoved(Event, frozen=True, tag="poll_removed"):
    """A poll was deleted with its post or replaced by another poll, so its votes must be removed."""

    poll_id: int
    option_ids: tuple[int, ...]


class ReportFiled(Event, frozen=True, tag="report_filed"):
    report_id: int


class ReportOutcomeChanged(Event, frozen=True, tag="verdict_changed"):
    """Moderators closed or reopened a report, which changes how it counts for the reporter."""

    report_id: int


class PublishRefused(Event, frozen=True, tag="publish_refused"):
    """A scheduled post could not be published, for the first time since its publication time was set."""

    scheduled_id: int
    time: int
    """An id with the time of the failure."""


class ContentHeld(Event, frozen=True, tag="content_held"):
    """Content waits for the decision of a moderator."""

    member_id: int
    held_id: int


class HeldDecided(Event, frozen=True, tag="held_decided"):
    """A moderator approved or rejected held content."""

    member_id: int
    about: int
    """The held content, if it was rejected; the created or changed post, if it was approved; 0 for other approved content."""
    approved: bool
    time: int
    """An id with the time of the decision."""


class FiltersChanged(Event, frozen=True, tag="filters_changed"):
    member_id: int


class ListChanged(Event, frozen=True, tag="list_changed"):
    list_id: int
    owner_id: int


class NamedFeedChanged(Event, frozen=True, tag="named_feed_changed"):
    """A named feed was changed or deleted, or may have been, as `streaming.updates.NamedFeedChanged` describes."""

    feed_id: int
    time: int
    """An id of the time of the change."""


class AlbumDeleted(Event, frozen=True, tag="album_deleted"):
    album_id: int


class MediaUploaded(Event, frozen=True, tag="media_uploaded"):
    """A video or sound was uploaded, and must be converted before it can be shown."""

    media_id: int


class MediaDescribed(Event, frozen=True, tag="media_described"):
    media_id: int


class FilesReleased(Event, frozen=True, tag="files_released"):
    """Files are no longer used. `keys` are their keys in the media store, including the keys of copies."""

    keys: tuple[str, ...]


class SessionsEnded(Event, frozen=True, tag="sessions_ended"):
    """Tokens of a member were revoked: all of them if `every` is true, otherwise those in `token_ids`.

    If `every` is true, `token_ids` contains only the newest tokens.
    """

    member_id: int
    """0 for a server key, which may act for any member."""
    token_ids: tuple[int, ...]
    every: bool = False


class ProfileChanged(Event, frozen=True, tag="profile_changed"):
    """A member joined, or their profile changed."""

    member_id: int


class MemberRegistered(Event, frozen=True, tag="member_registered"):
    """A member registered with an email address.

    The address is a unique key on another shard, where it is reserved for a limited time.
    """

    member_id: int
    address: str


class MemberRemoved(Event, frozen=True, tag="member_rejected"):
    """A member was rejected or deleted. The member's email address is a unique key on another shard, to be released."""

    member_id: int
    address: str


class EmailChanged(Event, frozen=True, tag="email_changed"):
    """A member changed their email address.

    The new address is a unique key on another shard, where it is reserved for a limited time.
    """

    member_id: int
    address: str
    freed: tuple[str, ...] = ()
    """Addresses to release. Other former addresses are kept for a while, so that the member can restore them."""


class MailDue(Event, frozen=True, tag="mail_due"):
    """A mail is due. The secret of its link is generated only when it is sent, so that the outbox never contains it."""

    kind: MailKind
    asked: int
    """Id with the time of the request. It is also the id of the email token, unless the member is on another shard."""
    member_id: int = 0
    """The recipient; 0 if only `account` identifies the recipient."""
    generation: int = 0
    """The member's `generation` at the time of the request: a new password invalidates earlier requests."""
    account: str = ""
    """The user name or email address that was typed in the request to reset a password."""
    address: str = ""
    """The address to which the mail is sent; empty for the member's current address."""
    language: str = ""
    """The language of the page that requested the mail; empty for the member's language."""
    place: str = ""
    """The IP address from which the member logged in."""
    passkey: str = ""
    """The name of the passkey or login provider concerned."""
    webhook: str = ""
    """The host of the webhook concerned."""
    pause: str = ""
    """Why the webhook was paused, a value of `core.webhooks.Pause`."""


class PushDue(Event, frozen=True, tag="push_due"):
    """A push message about a notification is due for one of the member's apps."""

    member_id: int
    token_id: int
    """The session of the app."""
    notice_id: int
    time: int
    """The time of the notification, which identifies it in the member's list."""
    asked: int
    """An id with the time at which the message was requested."""


class Blocked(Event, frozen=True, tag="blocked"):
    """A member blocked another member, whose follow of the blocker must end."""

    blocker_id: int
    blocked_id: int


class InverseOp(NamedTuple):
    """The inverse of an association, or an entry of a public list, to be written to another store: see `graph/resolve.py`."""

    id1: int
    atype: int
    id2: int
    time: int
    alive: bool
    data: bytes
    aggregate_id: int


class InversePending(Event, frozen=True, tag="inverse_owed"):
    """The write `op` belongs to another store, where it may not have been made yet."""

    op: InverseOp


class FutureEvent(Event, frozen=True, tag=""):
    """An event that only a newer Shoal knows. It is stored unchanged, for a process of that version."""

    data: bytes


def _kinds(of: type[Event]) -> Iterator[type[Event]]:
    for kind in of.__subclasses__():
        yield kind
        yield from _kinds(kind)


_KnownEvent: Any = reduce(or_, (kind for kind in _kinds(Event) if kind is not FutureEvent))
"""The union of all events of this version."""
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(_KnownEvent)


def encode(event: Event) -> bytes:
    return event.data if isinstance(event, FutureEvent) else _encoder.encode(event)


def decode(data: bytes) -> Event:
    """Decode an event. An event with an unknown kind or value becomes a `FutureEvent`."""
    try:
        return _decoder.decode(data)
    except msgspec.ValidationError:
        return FutureEvent(data=data)
