"""The answers of the tag cloud: a tag in numbers, a word of a cloud, a cloud."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

import msgspec

from shoal.core.errors import InvalidInput
from shoal.tagcloud.cloud import Reasons
from shoal.tagcloud.contract import Day
from shoal.tagcloud.heat import DAY, HALF_LIVES_MS, WEEK
from shoal.tagcloud.increment import DAY_MS

MAX_WORDS = 200
HISTORY = 7
"""Days that a tag tells of."""


class DayCount(NamedTuple):
    """One day of a tag."""

    day: int
    """Days since 1970-01-01 UTC."""
    uses: int
    members: int


class DailyUses(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a tag that stay as they are until it is used, or the day ends."""

    name: str
    form: str
    """The spelling that most use."""
    uses: int
    days: tuple[DayCount, ...]
    """The last seven, newest first."""


class Counted(DailyUses, frozen=True, kw_only=True):
    """The numbers of a tag, and the reasons for its place."""

    reasons: Reasons
    merged: tuple[str, ...] = ()
    """Tags that count as this one."""


class Word(Counted, frozen=True, kw_only=True):
    """A tag in a cloud."""

    weight: float
    """The number behind its size: uses, uses of this moment, or surprise, by the order."""
    level: int
    """1 to 9, by the logarithm of the weight between the least and the greatest shown."""
    why: str = ""
    """In a cloud made for one member: what of theirs brought it there."""


class SizedTag(NamedTuple):
    """A tag in a cloud, as it is drawn."""

    name: str
    form: str
    uses: int
    level: int


class Trend(IntEnum):
    """How today's uses of a tag compare with the pace of its own week."""

    DOWN = -2
    LESS = -1
    STEADY = 0
    MORE = 1
    UP = 2


def trend(tag: Counted) -> Trend:
    """Return how today's uses of a tag compare with its week."""
    warm = tag.reasons.warmth
    expected = warm["week"] * HALF_LIVES_MS[DAY] / HALF_LIVES_MS[WEEK]
    if tag.reasons.surprise > 0.0 and warm["day"] > 1.5 * expected:
        return Trend.UP
    if warm["day"] > 1.15 * expected:
        return Trend.MORE
    if warm["day"] < 0.5 * expected:
        return Trend.DOWN
    return Trend.LESS if warm["day"] < 0.85 * expected else Trend.STEADY


class TagSummary(DailyUses, frozen=True, kw_only=True):
    """How lively a tag is, without numbers that move with every look at the clock."""

    merged: tuple[str, ...]
    trend: Trend
    recent_uses: int
    """Uses of today and yesterday, UTC."""
    members: int
    """Members who used it in that time."""
    loudest: float
    """The share of those uses by the member who used it most, 0 to 1."""
    rising: bool


def uses_of(tag: DailyUses) -> DailyUses:
    """Return the numbers of a tag that move with its uses alone."""
    return DailyUses(name=tag.name, form=tag.form, uses=tag.uses, days=tag.days)


def summary_of(tag: Counted) -> TagSummary:
    """Return how lively a tag is."""
    why = tag.reasons
    return TagSummary(
        name=tag.name,
        form=tag.form,
        uses=tag.uses,
        days=tag.days,
        merged=tag.merged,
        trend=trend(tag),
        recent_uses=why.today,
        members=why.members,
        loudest=why.loudest,
        rising=why.surprise > 0.0,
    )


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A cloud to show, the first word first."""

    order: str
    version: int
    at: int
    """When the version was merged (Unix ms)."""
    complete_to: int
    """Uses before this moment (Unix ms) are in it."""
    words: list[Word]


def check_words(limit: int) -> None:
    """A cloud has 1 to 200 words. Raises `InvalidInput`."""
    if not 1 <= limit <= MAX_WORDS:
        raise InvalidInput(f"limit: 1 to {MAX_WORDS}, not {limit}", field="limit")


def history(days: Mapping[int, Day], now: int) -> tuple[DayCount, ...]:
    """The last days of a tag, newest first; `now` in Unix milliseconds."""
    today = now // DAY_MS
    # Where the end of a use is told before its beginning, a number is below 0 for a moment.
    return tuple(
        DayCount(day, max(0, held.uses), max(0, held.members))
        for day in range(today, today - HISTORY, -1)
        for held in (days.get(day, Day()),)
    )
