"""Notifications of a member, as associations say them: which act, by whom, about what, and when.

One act has one association, whose name is made of the act and whose time is that of the act, so whoever notes it a second
time, or late, changes nothing. The time is what a client knows a notification by. It ends at the same time with greater
data: that beats every repetition of the same act, and no later one.
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
"""Hours (UTC) of one stretch: like notifications within a stretch are one group."""
_GROUP_MS = GROUP_HOURS * 3_600_000
_MOMENT = 1 << 23
"""Ids that one millisecond has."""


class Kind(StrEnum):
    """The kind of act that a member is notified of."""

    MENTION = "mention"
    """A post names the member."""
    POST = "post"
    """Somebody whom the member watches posted."""
    LIKE = "like"
    SHARE = "share"
    REACTION = "reaction"
    """Somebody put an emoji on a post of theirs."""
    EDIT = "edit"
    """A post that the member shared has other words."""
    POLL = "poll"
    """A poll of theirs, or that they voted in, is over."""
    FOLLOW = "follow"
    REQUEST = "request"
    """Somebody asks to follow them."""
    REGISTRATION = "registration"
    """For those who look after the network: somebody joined."""
    REPORT = "report"
    """For the same: somebody was reported."""
    VERDICT = "verdict"
    """A report of theirs was closed."""
    UNPUBLISHED = "unpublished"
    """One of the member's scheduled posts could not be published."""


ABOUT_POSTS = frozenset({Kind.MENTION, Kind.POST, Kind.LIKE, Kind.SHARE, Kind.REACTION, Kind.EDIT, Kind.POLL})
GROUPED = frozenset({Kind.LIKE, Kind.SHARE, Kind.FOLLOW})
"""Kinds that come in numbers, and are shown together."""
FOR_STAFF = frozenset({Kind.REGISTRATION, Kind.REPORT})
ABOUT_REPORTS = frozenset({Kind.REPORT, Kind.VERDICT})
NEVER_HELD = FOR_STAFF | {Kind.POLL, Kind.EDIT, Kind.POST, Kind.VERDICT, Kind.UNPUBLISHED}
"""Kinds that no policy holds back: the member asked for them."""


class Notice(NamedTuple):
    """One act, as it is stored."""

    kind: Kind
    actor_id: int
    about: int = 0
    """The post, the report or the scheduled post that it is about."""
    emoji: str = ""
    """The emoji of a reaction; one member may put several on a post, and each is an act of its own."""

    @property
    def id(self) -> int:
        """Where the association of a member's leads to."""
        name = f"{self.kind}:{self.actor_id}:{self.about}"
        return named("notification", f"{name}:{self.emoji}" if self.emoji else name)


def unpublished(scheduled: ScheduledPost) -> Notice:
    """Return the notice for the author of a scheduled post that could not be published."""
    return Notice(Kind.UNPUBLISHED, scheduled.owner_id, scheduled.id)


_decoder: msgspec.msgpack.Decoder[Notice] = msgspec.msgpack.Decoder(Notice)


def notice_of(assoc: Assoc) -> Notice | None:
    """The act that an association tells of; None for one of a kind that only a newer Shoal knows."""
    try:
        return _decoder.decode(assoc.data)
    except msgspec.ValidationError:
        return None


def begun(member: int, notice: Notice, time: int, atype: AssocType = NOTIFIED) -> AssocOp:
    """The member is notified of what happened at that time; as `HELD` it is held back."""
    # Without an emoji as before there were any: of two notes of one act, the greater data would undo a retraction.
    data = msgspec.msgpack.encode(notice if notice.emoji else notice[:3])
    return AssocOp(member, atype.number, notice.id, time, alive=True, data=data, plain=True)


def ended(member: int, assoc: Assoc, atype: AssocType = NOTIFIED) -> AssocOp:
    """The member is notified of it no longer: of the same act never again, of the next one they are."""
    return AssocOp(member, atype.number, assoc.id2, assoc.time, alive=False, data=assoc.data + b"\0", plain=True)


def release(batch: Batch, member: int, held: Iterable[Assoc]) -> None:
    """Move held notices to the member's notifications, each at its own time; those of an unknown kind stay held."""
    for assoc in held:
        if notice := notice_of(assoc):
            batch.put(ended(member, assoc, HELD))
            batch.put(begun(member, notice, assoc.time))


class Group(NamedTuple):
    """Notices that are shown together: of one kind, about one post or none, in one stretch of time."""

    kind: Kind
    about: int
    stretch: int

    @property
    def first(self) -> int:
        """Below the times of all that belongs to it."""
        return floor_at(self.stretch * _GROUP_MS) - 1

    @property
    def last(self) -> int:
        """Above them."""
        return floor_at((self.stretch + 1) * _GROUP_MS)


STRETCHES = (EPOCH_MS // _GROUP_MS, milliseconds_of(2**63 - _MOMENT) // _GROUP_MS)
"""The first stretch and the last that ids can tell of."""


def group_of(notice: Notice, time: int) -> Group | None:
    """The group that a notice belongs to; None for one that stands by itself."""
    if notice.kind not in GROUPED:
        return None
    return Group(notice.kind, notice.about, milliseconds_of(time) // _GROUP_MS)


def end_of_poll(poll_id: int, expires_at: int) -> int:
    """The time of a notice that a poll is over: polls that end in the same millisecond have different ones."""
    return floor_at(expires_at) | (poll_id ^ poll_id >> 23) % _MOMENT
