"""Association payloads of follows and mutes: options, and the history of the times at which a follow began and ended.

The history is a set of times, in which the end of a follow is negative. It does not depend on the order of arrival, so both sides
of the follow converge. It is stored in the tombstone or, while the follow is alive, in an association of the type `history`; the
entries of live lists do not contain it. Example: A follows B at 105, unfollows at 110, follows at 120. B's store receives 105, then
120, then the late -110: the follow stays, -110 is added to the history, and both sides report a follow from 105 to 110 and another
since 120. Empty data means that all options have their defaults.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

import msgspec
from msgspec import structs

MAX_LANGUAGES = 100


class FollowTerms(msgspec.Struct, frozen=True, array_like=True):
    """Options of a follow: which of the followee's posts are in the home timeline. A follow request has the same options."""

    shares: bool = True
    languages: tuple[str, ...] = ()
    """Languages of the posts to include; empty for all."""
    notify: bool = False
    """Whether to notify of new posts. Only used in a follow request; a follow has a `WATCHES` association instead."""
    since: int = 0
    """The begin time (a snowflake) if the options were changed later, which increases the association's time; otherwise 0."""

    def began(self, time: int) -> int:
        return self.since or time


class MuteTerms(msgspec.Struct, frozen=True, array_like=True):
    notifications: bool = True
    expires_at: int = 0
    """Unix milliseconds; 0 for never."""

    def over(self, now: int) -> bool:
        return 0 < self.expires_at <= now


FOLLOW = FollowTerms()
MUTE = MuteTerms()

_encode = msgspec.msgpack.Encoder().encode
_follow_terms = msgspec.msgpack.Decoder(FollowTerms)
_mute_terms = msgspec.msgpack.Decoder(MuteTerms)


def encode(terms: FollowTerms | MuteTerms) -> bytes:
    return b"" if terms in (FOLLOW, MUTE) else _encode(terms)


@lru_cache(maxsize=4_096)
def follow_terms(data: bytes) -> FollowTerms:
    return _follow_terms.decode(data) if data else FOLLOW


@lru_cache(maxsize=4_096)
def mute_terms(data: bytes) -> MuteTerms:
    return _mute_terms.decode(data) if data else MUTE


MOST_PERIODS = 20
"""Maximum number of past follows that are kept for a pair of members, newest first."""
_MOST = 2 * MOST_PERIODS
_SIZE = 8


class FollowSpan(NamedTuple):
    """A period in which a member followed another, as snowflakes. `since` is 0 if unknown, `until` is 0 if it has not ended."""

    since: int
    until: int


def encode_moments(moments: Collection[int]) -> bytes:
    newest = in_order(moments)[-_MOST:]
    return Struct(f">{len(newest)}q").pack(*newest)


def in_order(moments: Iterable[int]) -> list[int]:
    """Sort begin times (positive) and end times (negative) of a follow by their absolute values.

    If a begin and an end have equal times, the end comes last.
    """
    return sorted(moments, key=lambda moment: (abs(moment), moment < 0))


def moments_of(data: bytes) -> frozenset[int]:
    """Decode the times at which a follow began and, as negative numbers, ended; trailing bytes are ignored."""
    return frozenset(Struct(f">{len(data) // _SIZE}q").unpack(data[: len(data) // _SIZE * _SIZE]))


def moments_until(time: int, data: bytes) -> frozenset[int]:
    """Decode the begin times and, as negative numbers, the end times of a follow from the time and data of its tombstone.

    Earlier versions wrote tombstones without data: then the result has only `time`, as an end.
    """
    return moments_of(data) if data else frozenset((-time,))


def beginning(time: int, data: bytes) -> int:
    """Return when a live follow began. This is earlier than the association's time if the follow's options were changed since."""
    terms = _terms(data)
    return terms.began(time) if terms is not None else time


def restarted(data: bytes) -> bytes:
    """Return the data of a follow, modified so that the follow begins at the association's own time, not earlier."""
    terms = _terms(data)
    return encode(structs.replace(terms, since=0)) if terms is not None else data


def _terms(data: bytes) -> FollowTerms | None:
    """Decode the options of a follow.

    None if they cannot be decoded, as if a newer version wrote them: a commit must not fail for that.
    """
    try:
        return follow_terms(data)
    except msgspec.MsgspecError:
        return None


def periods(moments: Iterable[int], alive_since: int = 0) -> list[FollowSpan]:
    """Return the periods in which a member followed another, newest first.

    `moments` has the times at which the follow began and, as negative numbers, ended. `alive_since` is the begin of the current
    follow, or 0. Several begins in a row, or several ends, are concurrent actions of the two members: the first begin and the
    last end count.
    """
    found: list[FollowSpan] = []
    for moment in in_order({*moments, alive_since} - {0}):
        goes_on = bool(found) and not found[-1].until
        if moment > 0:
            if not goes_on:
                found.append(FollowSpan(moment, 0))
        elif found:
            found[-1] = found[-1]._replace(until=-moment)
        else:
            found.append(FollowSpan(0, -moment))
    return found[: -MOST_PERIODS - 1 : -1]
