"""Association payloads of follows and mutes: options, and the history of begin and end times.

The history is a set of times (an end is negative), independent of arrival order, so both ends converge. It is stored in the
tombstone or, while the follow is alive, under the type `history`; live lists carry none of it. Example: A follows B at 105,
unfollows at 110, follows at 120. B's store receives 105, then 120, then the late -110: the follow stays, -110 joins the history,
and both ends report 105 to 110 and since 120. Empty option data means the defaults.
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
    """Options of a follow: which of the followee's posts are in the home timeline. A follow request (`REQUESTS`) has them too."""

    shares: bool = True
    languages: tuple[str, ...] = ()
    """Only posts in these languages; empty for all."""
    notify: bool = False
    """Only in a request; a follow has a `WATCHES` association instead."""
    since: int = 0
    """The begin time (a snowflake) if the options were changed since, which bumps the time of the association; else 0."""

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
"""Newest periods of a pair that are kept."""
_MOST = 2 * MOST_PERIODS
_SIZE = 8


class FollowSpan(NamedTuple):
    """A period of following, as snowflakes. `since` is 0 if unknown, `until` is 0 if it is open."""

    since: int
    until: int


def encode_moments(moments: Collection[int]) -> bytes:
    newest = in_order(moments)[-_MOST:]
    return Struct(f">{len(newest)}q").pack(*newest)


def in_order(moments: Iterable[int]) -> list[int]:
    """Sort times. At equal times an end comes after a begin, as it does for the association."""
    return sorted(moments, key=lambda moment: (abs(moment), moment < 0))


def moments_of(data: bytes) -> frozenset[int]:
    """Decode times; trailing bytes are ignored."""
    return frozenset(Struct(f">{len(data) // _SIZE}q").unpack(data[: len(data) // _SIZE * _SIZE]))


def moments_until(time: int, data: bytes) -> frozenset[int]:
    """Return the times in a tombstone. A tombstone older than histories has only the end."""
    return moments_of(data) if data else frozenset((-time,))


def beginning(time: int, data: bytes) -> int:
    """Return when a live follow began. Changes of its options have bumped its time."""
    terms = _terms(data)
    return terms.began(time) if terms is not None else time


def restarted(data: bytes) -> bytes:
    """Return the data of a follow that begins at the time of its association."""
    terms = _terms(data)
    return encode(structs.replace(terms, since=0)) if terms is not None else data


def _terms(data: bytes) -> FollowTerms | None:
    """Decode the options of a follow; None for data of a newer version, because no commit may fail on it."""
    try:
        return follow_terms(data)
    except msgspec.MsgspecError:
        return None


def periods(moments: Iterable[int], alive_since: int = 0) -> list[FollowSpan]:
    """Return the periods of these times, newest first; `alive_since` is the begin of a live follow, if any.

    The first of consecutive begins counts, and the last of consecutive ends: they are concurrent acts of the two sides.
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
