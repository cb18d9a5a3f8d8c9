"""When an association began and ended, again and again: every such moment, as a set.

A set of moments is the same in whatever order they come and however often, so both ends of a follow have the same history once
everything has arrived. It is in the data of the tombstone, and while the follow is alive under another type (`history` of
`schema`): lists of live follows, which every page reads, carry nothing of it. For example, A follows B, who is in another store:

1. A follows at 105, unfollows at 110 and follows again at 120. A's store has the moments 105 and -110 (an end is negative)
   aside, and the live follow says 120.
2. B's store hears of 105, then of 120. The end of 110, which was late, comes last and loses. It changes nothing of the
   follow, and -110 is put with 105, which was put aside when 120 took its place.
3. Both ends tell the same: from 105 to 110, and since 120.

Glossary (`docs/glossary.md`): lift.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from struct import Struct
from typing import NamedTuple

import msgspec
from msgspec import structs

from shoal.graph.payloads.follow_options import FollowTerms, encode, follow_terms

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
