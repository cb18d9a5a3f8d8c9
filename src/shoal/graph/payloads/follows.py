"""Association payloads of follows and mutes: options, and the history of begin and end times.

The history is a set of moments (an end is negative), independent of arrival order, so both ends converge. It is stored in the
tombstone or, while the follow is alive, under the type `history`; live lists carry none of it. Example: A follows B at 105,
unfollows at 110, follows at 120. B's store receives 105, then 120, then the late -110: the follow stays, -110 joins the
history, and both ends report 105 to 110 and since 120. Empty option data means the defaults.

Glossary (`docs/glossary.md`): lift.
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
    """Options of a follow: which of the followee's posts come home. A request (`REQUESTS`) holds them as well."""

    shares: bool = True
    languages: tuple[str, ...] = ()
    """Only posts in these; none for all."""
    notify: bool = False
    """In a request only: of a follow, `WATCHES` says it."""
    since: int = 0
    """When it began (a snowflake), where it was changed since, which lifts the time of the association; else 0."""

    def began(self, time: int) -> int:
        """When it began, for an association of this time."""
        return self.since or time


class MuteTerms(msgspec.Struct, frozen=True, array_like=True):
    """How far and for how long somebody is muted."""

    notifications: bool = True
    expires_at: int = 0
    """Unix milliseconds; 0 for never."""

    def over(self, now: int) -> bool:
        """Whether the mute has ended by now (Unix milliseconds)."""
        return 0 < self.expires_at <= now


FOLLOW = FollowTerms()
MUTE = MuteTerms()

_encode = msgspec.msgpack.Encoder().encode
_follow_terms = msgspec.msgpack.Decoder(FollowTerms)
_mute_terms = msgspec.msgpack.Decoder(MuteTerms)


def encode(terms: FollowTerms | MuteTerms) -> bytes:
    """As the data of an association."""
    return b"" if terms in (FOLLOW, MUTE) else _encode(terms)


@lru_cache(maxsize=4_096)
def follow_terms(data: bytes) -> FollowTerms:
    """Decode the data of a follow, or of a request to follow."""
    return _follow_terms.decode(data) if data else FOLLOW


@lru_cache(maxsize=4_096)
def mute_terms(data: bytes) -> MuteTerms:
    """Decode the data of a mute."""
    return _mute_terms.decode(data) if data else MUTE


MOST_PERIODS = 20
"""Periods of a pair that are remembered, the newest."""
_MOST = 2 * MOST_PERIODS
_SIZE = 8


class FollowSpan(NamedTuple):
    """A time during which somebody followed, as snowflakes. `since` is 0 where it is not known, `until` where it goes on."""

    since: int
    until: int


def encode_moments(moments: Collection[int]) -> bytes:
    """Return the newest of these moments as data, in their order."""
    newest = in_order(moments)[-_MOST:]
    return Struct(f">{len(newest)}q").pack(*newest)


def in_order(moments: Iterable[int]) -> list[int]:
    """Return moments in the order of time. Of two at the same time the end is the later one, as it is for the association."""
    return sorted(moments, key=lambda moment: (abs(moment), moment < 0))


def moments_of(data: bytes) -> frozenset[int]:
    """Return the moments in data; bytes that are none are left out."""
    return frozenset(Struct(f">{len(data) // _SIZE}q").unpack(data[: len(data) // _SIZE * _SIZE]))


def moments_until(time: int, data: bytes) -> frozenset[int]:
    """Return the moments in a tombstone. One that is older than histories says only when it ended."""
    return moments_of(data) if data else frozenset((-time,))


def beginning(time: int, data: bytes) -> int:
    """Return when a live follow began. Changes of its options have lifted its time."""
    terms = _terms(data)
    return terms.began(time) if terms is not None else time


def begun_anew(data: bytes) -> bytes:
    """Return the data of a follow that begins at the time of its association."""
    terms = _terms(data)
    return encode(structs.replace(terms, since=0)) if terms is not None else data


def _terms(data: bytes) -> FollowTerms | None:
    """Decode the options of a follow; None for what this version cannot read, for no commit may fail by it."""
    try:
        return follow_terms(data)
    except msgspec.MsgspecError:
        return None


def periods(moments: Iterable[int], alive_since: int = 0) -> list[FollowSpan]:
    """Return the periods that these moments make, newest first; `alive_since` is the beginning of a live follow, if any.

    Of beginnings that follow each other the first counts, of ends the last: two acts that met, one from either side.
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
