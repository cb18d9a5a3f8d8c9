"""The data of events: one struct for each kind of object or association, from which its JSON Schema is generated.

Ids are strings. Times are ISO 8601 in UTC with milliseconds. Fields may be added; all of them are present unless their description
says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from shoal.core.audit import AuditEntry, AuditVerb, TargetKind
from shoal.core.ids import milliseconds_of
from shoal.core.model import (
    HELD,
    Media,
    MediaKind,
    MediaState,
    Member,
    Poll,
    Post,
    Report,
    Share,
    Visibility,
)
from shoal.core.visibility import is_sensitive


class MemberData(msgspec.Struct, frozen=True, kw_only=True):
    """A member with their profile."""

    id: str
    name: str
    """The user name, which never changes."""
    display_name: str
    note: str
    """The text of the profile, as typed."""
    avatar_url: str | None
    header_url: str | None
    bot: bool
    locked: bool
    """Whether follows need the member's approval."""
    discoverable: bool
    indexable: bool
    """Whether others may find the member's public posts by full-text search."""
    limited: bool
    """Whether moderators removed the member's posts from public lists."""
    hides_connections: bool
    """Whether the member's follows and followers are private."""
    created_at: str
    email: str | UnsetType = UNSET
    """The e-mail address, empty for none; only with `admin:read:accounts`, as the next two."""
    suspended: bool | UnsetType = UNSET
    """Whether the member is suspended, pending, or deleting the account."""
    pending: bool | UnsetType = UNSET
    """Whether the sign-up waits for approval or confirmation."""


class MentionData(msgspec.Struct, frozen=True, kw_only=True):
    """A member mentioned in a post."""

    id: str
    name: str


class MediaData(msgspec.Struct, frozen=True, kw_only=True):
    """An uploaded picture, video or sound."""

    id: str
    owner_id: str
    kind: MediaKind
    state: MediaState
    content_type: str
    url: str | None
    """The file; null until it is ready."""
    preview_url: str | None
    width: int
    height: int
    duration: float
    """Seconds; 0 for a picture."""
    description: str
    blurhash: str


class PollData(msgspec.Struct, frozen=True, kw_only=True):
    """The poll of a post."""

    options: list[str]
    multiple: bool
    expires_at: str | None


class PlaceData(msgspec.Struct, frozen=True, kw_only=True):
    """Where a post was written, in degrees."""

    latitude: float
    longitude: float


class PostData(msgspec.Struct, frozen=True, kw_only=True):
    """A post, or a comment if it has `in_reply_to_id`."""

    id: str
    author_id: str
    text: str
    """The text as typed."""
    content_warning: str
    sensitive: bool
    visibility: Visibility
    language: str
    """A language code such as `de`; empty if unknown."""
    created_at: str
    edited_at: str | None
    in_reply_to_id: str | None
    in_reply_to_author_id: str | None
    thread_id: str | None
    """The first post of the thread; null for a post that is no comment."""
    tags: list[str]
    """Canonical forms of the tags: lower case, without `#`."""
    mentions: list[MentionData]
    media: list[MediaData]
    poll: PollData | None
    place: PlaceData | None
    held: bool
    """Whether reports removed the post from public lists."""
    data: Any
    """The JSON value that an application stored with the post; null for none."""
    kind: str
    """The name of the kind of `data`; empty for none."""


class ShareData(msgspec.Struct, frozen=True, kw_only=True):
    """A share (boost) of a post."""

    id: str
    author_id: str
    """The member who shares."""
    post_id: str
    visibility: Visibility
    created_at: str


class FollowData(msgspec.Struct, frozen=True, kw_only=True):
    """A follow. Its options are private, so an update has the same data as before."""

    follower_id: str
    followee_id: str


class LikeData(msgspec.Struct, frozen=True, kw_only=True):
    """A like of a post."""

    member_id: str
    post_id: str


class ReactionData(msgspec.Struct, frozen=True, kw_only=True):
    """The reactions of a member to a post: emoji, and names of declared reactions."""

    member_id: str
    post_id: str
    emoji: list[str]
    """All emoji and names of the member on this post, oldest first; empty in `reaction.deleted`."""


class ReportData(msgspec.Struct, frozen=True, kw_only=True):
    """A report to the moderators."""

    id: str
    reporter_id: str
    target_id: str
    """The reported member."""
    post_ids: list[str]
    comment: str
    category: str
    rule_ids: list[str]
    assigned_to: str | None
    created_at: str
    closed_at: str | None
    upheld: bool | None
    """The decision; null without one."""


class AuditData(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the audit log, such as a moderation action."""

    id: str
    created_at: str
    verb: AuditVerb
    actor_id: str | None
    """Null for the command line, and for an anonymous client."""
    actor_name: str
    target_kind: TargetKind
    target_id: str | None
    target_name: str
    address: str
    """The client's IP address; empty for an action on the actor's own account, and without a client."""
    reason: str
    details: dict[str, str | int]


class RemovedData(msgspec.Struct, frozen=True, kw_only=True):
    """An object that no longer exists, or that the reader may no longer see."""

    id: str
    withdrawn: bool
    """Whether the object still exists. It may become visible again, by an event of its update."""


EventData = (
    MemberData | PostData | ShareData | MediaData | ReportData | FollowData | LikeData | ReactionData | AuditData
) | RemovedData


def member_data(source: str, member: Member, **extras: Any) -> MemberData:
    return MemberData(
        id=str(member.id),
        name=member.name,
        display_name=member.display_name,
        note=member.note,
        avatar_url=_file(source, member.avatar),
        header_url=_file(source, member.header),
        bot=member.bot,
        locked=member.locked,
        discoverable=member.discoverable,
        indexable=member.indexable,
        limited=member.silenced,
        hides_connections=member.hides_connections,
        created_at=moment(member.created_at),
        **extras,
    )


def post_data(source: str, post: Post, author: Member, files: Sequence[Media], poll: Poll | None) -> PostData:
    return PostData(
        id=str(post.id),
        author_id=str(post.author_id),
        text=post.text,
        content_warning=post.spoiler,
        sensitive=is_sensitive(post, author),
        visibility=post.visibility,
        language=post.language,
        created_at=moment(post.created_at),
        edited_at=moment(post.edited_at) if post.edited_at else None,
        in_reply_to_id=_id(post.parent_id),
        in_reply_to_author_id=_id(post.parent_author_id),
        thread_id=_id(post.root_id),
        tags=list(post.tags),
        mentions=[MentionData(id=str(mention.id), name=mention.name) for mention in post.mentions],
        media=[media_data(source, file) for file in files],
        poll=_poll_data(poll) if poll else None,
        place=PlaceData(latitude=post.place.latitude, longitude=post.place.longitude) if post.place else None,
        held=post.review in HELD,
        data=post.data,
        kind=post.kind,
    )


def share_data(share: Share) -> ShareData:
    return ShareData(
        id=str(share.id),
        author_id=str(share.author_id),
        post_id=str(share.post_id),
        visibility=share.visibility,
        created_at=moment(milliseconds_of(share.id)),
    )


def audit_data(id_: int, entry: AuditEntry) -> AuditData:
    return AuditData(
        id=str(id_),
        created_at=moment(milliseconds_of(id_)),
        verb=entry.verb,
        actor_id=_id(entry.actor_id),
        actor_name=entry.actor_name,
        target_kind=entry.kind,
        target_id=_id(entry.target_id),
        target_name=entry.target_name,
        address=entry.address,
        reason=entry.reason,
        details=entry.details,
    )


def removed_data(id_: int, *, withdrawn: bool) -> RemovedData:
    return RemovedData(id=str(id_), withdrawn=withdrawn)


def media_data(source: str, media: Media) -> MediaData:
    return MediaData(
        id=str(media.id),
        owner_id=str(media.owner_id),
        kind=media.kind,
        state=media.state,
        content_type=media.content_type,
        url=_file(source, media.key if media.state is MediaState.READY else ""),
        preview_url=_file(source, media.preview_key),
        width=media.width,
        height=media.height,
        duration=media.duration,
        description=media.description,
        blurhash=media.blurhash,
    )


def _poll_data(poll: Poll) -> PollData:
    expires_at = moment(poll.expires_at) if poll.expires_at else None
    return PollData(options=[option.title for option in poll.options], multiple=poll.multiple, expires_at=expires_at)


def report_data(report: Report) -> ReportData:
    return ReportData(
        id=str(report.id),
        reporter_id=str(report.reporter_id),
        target_id=str(report.target_id),
        post_ids=list(map(str, report.post_ids)),
        comment=report.comment,
        category=report.category,
        rule_ids=list(report.rule_ids),
        assigned_to=_id(report.assigned_to),
        created_at=moment(milliseconds_of(report.id)),
        closed_at=moment(report.closed_at) if report.closed_at else None,
        upheld=report.upheld,
    )


def _file(source: str, key: str) -> str | None:
    return f"{source}/media/{key}" if key else None


def _id(id_: int) -> str | None:
    return str(id_) if id_ else None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(milliseconds: int) -> str:
    at = _EPOCH + timedelta(milliseconds=milliseconds)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1_000:03}Z"
