"""Notifications of a member, as associations: the kind of action, its actor, its object, and its time.

An action has one association, whose id and time are derived from the action, so writing it twice or late changes nothing. Clients
identify a notification by its time. A deletion has the time of the notification and greater data. So it takes precedence over every
repetition of the same action, and a later action takes precedence over it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from shoal.core.ids import EPOCH_MS, floor_at, milliseconds_of, named
from shoal.core.model import ScheduledPost
from shoal.core.reactions import is_named
from shoal.graph.contract import Assoc, AssocOp, Batch
from shoal.graph.schema import HELD, NOTIFIED, AssocType

GROUP_HOURS = 12
"""Length of a time window in hours (UTC). Notifications of one kind within a window form a group."""
_GROUP_MS = GROUP_HOURS * 3_600_000
_MOMENT = 1 << 23
"""Number of ids in one millisecond."""


class Kind(StrEnum):
    MENTION = "mention"
    """A post mentions the member."""
    POST = "post"
    """A member posted, and this member asked to be notified of it."""
    LIKE = "like"
    SHARE = "share"
    REACTION = "reaction"
    """A member reacted to this member's post with an emoji."""
    EDIT = "edit"
    """A post that the member shared was edited."""
    POLL = "poll"
    """A poll by this member, or in which this member voted, has closed."""
    FOLLOW = "follow"
    REQUEST = "request"
    """A member requests to follow this member."""
    REGISTRATION = "registration"
    """For staff: a member signed up."""
    REPORT = "report"
    """For staff: a member was reported."""
    REPORT_RESOLVED = "verdict"
    """A report by this member was closed."""
    UNPUBLISHED = "unpublished"
    """One of this member's scheduled posts could not be published."""
    HELD = "held"
    """For staff: content of a member was held for approval."""
    APPROVED = "approved"
    """A moderator approved content of this member."""
    REJECTED = "rejected"
    """A moderator rejected content of this member."""


ABOUT_POSTS = frozenset({Kind.MENTION, Kind.POST, Kind.LIKE, Kind.SHARE, Kind.REACTION, Kind.EDIT, Kind.POLL})
GROUPED = frozenset({Kind.LIKE, Kind.SHARE, Kind.REACTION, Kind.FOLLOW})
"""Kinds that are shown in groups. Declared reactions are too, by their names; emoji are not."""
FOR_STAFF = frozenset({Kind.REGISTRATION, Kind.REPORT, Kind.HELD})
ABOUT_REPORTS = frozenset({Kind.REPORT, Kind.REPORT_RESOLVED})
WITHOUT_ACTOR = frozenset({Kind.REPORT_RESOLVED, Kind.UNPUBLISHED, Kind.APPROVED, Kind.REJECTED})
"""Kinds about the member's own content or reports, of which no other member is the actor."""
NEVER_HELD = FOR_STAFF | WITHOUT_ACTOR | {Kind.POLL, Kind.EDIT, Kind.POST}
"""Kinds that no policy holds or drops, because the member asked for them or has to know."""


class Notice(NamedTuple):
    kind: Kind
    actor_id: int
    about: int = 0
    emoji: str = ""
    """The emoji of a reaction. A member may add several emoji to a post, and each is a separate action."""

    @property
    def id(self) -> int:
        name = f"{self.kind}:{self.actor_id}:{self.about}"
        return named("notification", f"{name}:{self.emoji}" if self.emoji else name)


def unpublished(scheduled: ScheduledPost) -> Notice:
    return Notice(Kind.UNPUBLISHED, scheduled.owner_id, scheduled.id)


_decoder: msgspec.msgpack.Decoder[Notice] = msgspec.msgpack.Decoder(Notice)


def notice_of(assoc: Assoc) -> Notice | None:
    """Decode a notification; None for a kind that only a newer version knows."""
    try:
        return _decoder.decode(assoc.data)
    except msgspec.ValidationError:
        return None


def begun(member: int, notice: Notice, time: int, atype: AssocType = NOTIFIED) -> AssocOp:
    """Return the operation that notifies a member of an action at `time` or, if `atype` is `HELD`, holds the notification back."""
    # Without an emoji, use the encoding from before reactions existed, so that every version encodes an action in the same way.
    # Of two operations with one time, the store keeps the one with the greater bytes: another encoding with greater bytes would
    # restore a deleted notification.
    data = msgspec.msgpack.encode(notice if notice.emoji else notice[:3])
    return AssocOp(member, atype.number, notice.id, time, alive=True, data=data, plain=True)


def ended(member: int, assoc: Assoc, atype: AssocType = NOTIFIED) -> AssocOp:
    """Return the operation that deletes a notification. The same action cannot create it again; only a later action can."""
    return AssocOp(member, atype.number, assoc.id2, assoc.time, alive=False, data=assoc.data + b"\0", plain=True)


def release(batch: Batch, member: int, held: Iterable[Assoc]) -> None:
    """Move held notifications to the member's visible ones, each with its own time. Notifications of unknown kinds stay held."""
    for assoc in held:
        if notice := notice_of(assoc):
            batch.put(ended(member, assoc, HELD))
            batch.put(begun(member, notice, assoc.time))


class Group(NamedTuple):
    """Notifications that are shown together: of one kind, about one post (or none), in one time window."""

    kind: Kind
    about: int
    stretch: int
    name: str = ""
    """The name of a declared reaction."""

    @property
    def first(self) -> int:
        return floor_at(self.stretch * _GROUP_MS) - 1

    @property
    def last(self) -> int:
        return floor_at((self.stretch + 1) * _GROUP_MS)


STRETCHES = (EPOCH_MS // _GROUP_MS, milliseconds_of(2**63 - _MOMENT) // _GROUP_MS)
"""The numbers of the first and the last time window that ids can express."""


def group_of(notice: Notice, time: int) -> Group | None:
    # `notice.emoji` is empty, an emoji, or the name of a declared reaction.
    if notice.kind not in GROUPED or not is_named(notice.emoji):
        return None
    return Group(notice.kind, notice.about, milliseconds_of(time) // _GROUP_MS, notice.emoji)


def end_of_poll(poll_id: int, expires_at: int) -> int:
    """Return the time of the notification that a poll has closed: unique even if several close in the same millisecond."""
    return floor_at(expires_at) | (poll_id ^ poll_id >> 23) % _MOMENT
