"""Notifications of a member, as associations: the act, its actor, its object, and its time.

One act has one association, whose id and time are derived from the act, so writing it twice or late changes nothing.
Clients identify a notification by its time. The deletion has that time and greater data: it wins against every repetition of the
act, and against no later act.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from shoal.core.ids import EPOCH_MS, floor_at, milliseconds_of, named
from shoal.core.model import ScheduledPost
from shoal.graph.contract import Assoc, AssocOp, Batch
from shoal.graph.schema import HELD, NOTIFIED, AssocType

GROUP_HOURS = 12
"""Hours (UTC) of a window: notifications of a kind within a window are one group."""
_GROUP_MS = GROUP_HOURS * 3_600_000
_MOMENT = 1 << 23
"""Number of ids in one millisecond."""


class Kind(StrEnum):
    MENTION = "mention"
    """A post mentions the member."""
    POST = "post"
    """A member whom they watch posted."""
    LIKE = "like"
    SHARE = "share"
    REACTION = "reaction"
    """A member reacted to their post with an emoji."""
    EDIT = "edit"
    """A post that the member shared was edited."""
    POLL = "poll"
    """A poll of theirs, or that they voted in, has closed."""
    FOLLOW = "follow"
    REQUEST = "request"
    """A member requests to follow them."""
    REGISTRATION = "registration"
    """For staff: a member signed up."""
    REPORT = "report"
    """For staff: a member was reported."""
    REPORT_RESOLVED = "verdict"
    """Their report was closed."""
    UNPUBLISHED = "unpublished"
    """One of the member's scheduled posts could not be published."""


ABOUT_POSTS = frozenset({Kind.MENTION, Kind.POST, Kind.LIKE, Kind.SHARE, Kind.REACTION, Kind.EDIT, Kind.POLL})
GROUPED = frozenset({Kind.LIKE, Kind.SHARE, Kind.FOLLOW})
"""Kinds that are shown in groups."""
FOR_STAFF = frozenset({Kind.REGISTRATION, Kind.REPORT})
ABOUT_REPORTS = frozenset({Kind.REPORT, Kind.REPORT_RESOLVED})
NEVER_HELD = FOR_STAFF | {Kind.POLL, Kind.EDIT, Kind.POST, Kind.REPORT_RESOLVED, Kind.UNPUBLISHED}
"""Kinds that no policy holds back, because the member asked for them."""


class Notice(NamedTuple):
    kind: Kind
    actor_id: int
    about: int = 0
    emoji: str = ""
    """The emoji of a reaction; a member may put several on a post, and each is a separate act."""

    @property
    def id(self) -> int:
        name = f"{self.kind}:{self.actor_id}:{self.about}"
        return named("notification", f"{name}:{self.emoji}" if self.emoji else name)


def unpublished(scheduled: ScheduledPost) -> Notice:
    return Notice(Kind.UNPUBLISHED, scheduled.owner_id, scheduled.id)


_decoder: msgspec.msgpack.Decoder[Notice] = msgspec.msgpack.Decoder(Notice)


def notice_of(assoc: Assoc) -> Notice | None:
    """Decode a notice; None for a kind of a newer version."""
    try:
        return _decoder.decode(assoc.data)
    except msgspec.ValidationError:
        return None


def begun(member: int, notice: Notice, time: int, atype: AssocType = NOTIFIED) -> AssocOp:
    """Notify the member of an act at that time, or hold the notification back (`HELD`)."""
    # Without an emoji, encode as before reactions existed: of two encodings of an act, the greater would undo a deletion.
    data = msgspec.msgpack.encode(notice if notice.emoji else notice[:3])
    return AssocOp(member, atype.number, notice.id, time, alive=True, data=data, plain=True)


def ended(member: int, assoc: Assoc, atype: AssocType = NOTIFIED) -> AssocOp:
    """Delete a notification: this act never notifies again, the next one does."""
    return AssocOp(member, atype.number, assoc.id2, assoc.time, alive=False, data=assoc.data + b"\0", plain=True)


def release(batch: Batch, member: int, held: Iterable[Assoc]) -> None:
    """Move held notices to the member's notifications, each at its own time; notices of an unknown kind stay held."""
    for assoc in held:
        if notice := notice_of(assoc):
            batch.put(ended(member, assoc, HELD))
            batch.put(begun(member, notice, assoc.time))


class Group(NamedTuple):
    """Notices that are shown together: of a single kind, about one post or none, in one window."""

    kind: Kind
    about: int
    stretch: int

    @property
    def first(self) -> int:
        """Below the times of all notices of the group."""
        return floor_at(self.stretch * _GROUP_MS) - 1

    @property
    def last(self) -> int:
        """Above the times of all notices of the group."""
        return floor_at((self.stretch + 1) * _GROUP_MS)


STRETCHES = (EPOCH_MS // _GROUP_MS, milliseconds_of(2**63 - _MOMENT) // _GROUP_MS)
"""The first and the last window that ids can express."""


def group_of(notice: Notice, time: int) -> Group | None:
    if notice.kind not in GROUPED:
        return None
    return Group(notice.kind, notice.about, milliseconds_of(time) // _GROUP_MS)


def end_of_poll(poll_id: int, expires_at: int) -> int:
    """Return the time of a notice that a poll has closed: it differs for polls that close in one millisecond."""
    return floor_at(expires_at) | (poll_id ^ poll_id >> 23) % _MOMENT
