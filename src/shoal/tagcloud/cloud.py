"""The tag cloud as readers see it: the top tags of every order, tag summaries, trends, and related tags."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec

from shoal.core.errors import InvalidInput
from shoal.tagcloud.contract import DAY_MS, Day, TagRow, TagRule
from shoal.tagcloud.heat import COLD, DAY, HALF_LIVES_MS, HOUR, NEVER, WEEK, Heat, joined, surprise, warmth

ORDERS = ("all", "hour", "day", "week", "rising")
"""By total uses, by heat in a window, and by surprise: how unexpected the recent uses are."""
WINDOWS: Mapping[str, int] = {"hour": HOUR, "day": DAY, "week": WEEK}
LEVELS = 9
DAYS = 8
"""Days of a tag that are kept: the last seven whole ones, and the current one."""
_RISING_HALF_LIFE_MS = 6 * 3_600_000


class CloudEntry(msgspec.Struct, frozen=True, array_like=True):
    """One tag of a cloud. `form` is the most common spelling."""

    id: int
    name: str
    form: str
    n: int
    heats: tuple[Heat, Heat, Heat]
    days: dict[int, Day]


class Cloud(msgspec.Struct, frozen=True, array_like=True):
    """The entries of the tag cloud and, for each of `ORDERS`, the ids of its top tags in order."""

    entries: dict[int, CloudEntry] = {}
    orders: dict[str, list[int]] = {}


class Reasons(NamedTuple):
    """The figures that determine a tag's rank in the cloud."""

    uses: int
    warmth: dict[str, float]
    """Warmth by window: the number of uses made right now that would weigh as much as all uses of the tag."""
    today: int
    """Uses of the last 24 to 48 hours: today's and yesterday's, UTC."""
    members: int
    """Members who used the tag today or yesterday; an upper bound for a tag that others were merged into."""
    loudest: float
    """Fraction of the uses of today and yesterday that are by the member who used the tag most, 0 to 1."""
    surprise: float


encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Cloud).decode


def decode(data: bytes) -> Cloud:
    return _decode(data) if data else Cloud()


def entry(row: TagRow) -> CloudEntry:
    form = max(row.forms.items(), key=lambda spelling: (spelling[1], spelling[0]), default=(row.name, 0))
    return CloudEntry(row.id, row.name, form[0] if form[1] > 0 else row.name, row.n, row.heats, row.days)


def together(target: TagRow, others: Sequence[TagRow]) -> TagRow:
    """Return a tag combined with those merged into it: uses, warmth and days add up; the spelling is that of the target."""
    if not others:
        return target
    n, heats, days = target.n, list(target.heats), dict(target.days)
    for row in others:
        n += row.n
        heats = [joined(one, other) for one, other in zip(heats, row.heats, strict=True)]
        for at, day in row.days.items():
            before = days.get(at, Day())
            days[at] = Day(before.uses + day.uses, before.members + day.members, max(before.loudest, day.loudest))
    hour, day_heat, week = heats
    return msgspec.structs.replace(target, n=n, heats=(hour, day_heat, week), days=days)


def reasons(shown: CloudEntry | TagRow, now: int) -> Reasons:
    warm = {name: warmth(shown.heats[window], window, now) for name, window in WINDOWS.items()}
    uses, members, loudest = _recent(shown.days, now)
    return Reasons(shown.n, warm, uses, members, loudest, surprise(warm["day"], warm["week"], members, loudest))


def _recent(days: Mapping[int, Day], now: int) -> tuple[int, int, float]:
    today = now // DAY_MS
    recent = [counts for day in (today, today - 1) if (counts := days.get(day)) is not None]
    uses, members = sum(day.uses for day in recent), sum(day.members for day in recent)
    loudest = min(1.0, max(day.loudest for day in recent) / uses) if uses > 0 else 0.0
    return uses, members, loudest


def ranks(row: TagRow, now: int) -> tuple[float, ...]:
    """Return a sort key of a tag for each of `ORDERS`; `NEVER` if the tag is not ranked.

    Keys that were computed at different times can be compared.

    The order `rising` sorts by surprise (`heat.surprise`), which halves every six hours.
    """
    _, members, loudest = _recent(row.days, now)
    # The use of a tag by one member is never a surprise, so most tags need no further computation.
    unexpected = members > 1 and surprise(
        warmth(row.heats[DAY], DAY, now), warmth(row.heats[WEEK], WEEK, now), members, loudest
    )
    rising = math.log2(unexpected) + now / _RISING_HALF_LIFE_MS if unexpected > 0.0 else NEVER
    if row.n <= 0:
        # Heat is a sum of rounded numbers, so any heat of an unused tag is a rounding error.
        return (NEVER, NEVER, NEVER, NEVER, rising)
    hour, day, week = row.heats
    return (float(row.n), hour.rank, day.rank, week.rank, rising)


def levels(weights: Sequence[float]) -> list[int]:
    """Return 1 to 9 for each weight, on a logarithmic scale between the least and the greatest; all 9 if they are equal."""
    logs = [math.log(max(weight, 1e-9)) for weight in weights]
    if not logs:
        return []
    low, high = min(logs), max(logs)
    span = high - low
    return [LEVELS if span < 1e-9 else 1 + round((LEVELS - 1) * (log - low) / span) for log in logs]


def weight(shown: CloudEntry | TagRow, order: str, now: int) -> float:
    """Return the number that determines a tag's size in a cloud with this order.

    It is the number of uses for `all`, for `rising` how unexpected the recent uses are (`heat.surprise`), and otherwise the warmth,
    in which recent uses weigh more.
    """
    if order == "all":
        return float(shown.n)
    if order == "rising":
        return reasons(shown, now).surprise
    return warmth(shown.heats[WINDOWS[order]], WINDOWS[order], now)


def leader(name: str, rules: Mapping[str, TagRule]) -> str:
    rule = rules.get(name)
    return rule.target if rule is not None and rule.target else name


def empty_row(id_: int, name: str) -> TagRow:
    return TagRow(id_, name, heats=(COLD, COLD, COLD))


MAX_WORDS = 200
HISTORY = 7


class DayCount(NamedTuple):
    day: int
    """Days since 1970-01-01 UTC."""
    uses: int
    members: int


class DailyUses(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a tag that change only when the tag is used or the day ends."""

    name: str
    form: str
    uses: int
    days: tuple[DayCount, ...]


class Counted(DailyUses, frozen=True, kw_only=True):
    """The figures of a tag, and the reasons for its rank."""

    reasons: Reasons
    merged: tuple[str, ...] = ()


class Word(Counted, frozen=True, kw_only=True):
    weight: float
    """The number that determines the tag's size: uses, uses made right now, or surprise, depending on the order."""
    level: int
    """1 to 9, on a logarithmic scale between the least and the greatest weight shown."""
    why: str = ""
    """In a member's own cloud: the activity of the member that brought the tag there."""


class SizedTag(NamedTuple):
    name: str
    form: str
    uses: int
    level: int


class Trend(IntEnum):
    """How today's uses of a tag compare with the average day of the last week."""

    DOWN = -2
    LESS = -1
    STEADY = 0
    MORE = 1
    UP = 2


def trend(tag: Counted) -> Trend:
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
    """The activity of a tag, without figures that change continuously with time."""

    merged: tuple[str, ...]
    trend: Trend
    recent_uses: int
    """Uses of today and yesterday, UTC."""
    members: int
    loudest: float
    rising: bool


def uses_of(tag: DailyUses) -> DailyUses:
    return DailyUses(name=tag.name, form=tag.form, uses=tag.uses, days=tag.days)


def summary_of(tag: Counted) -> TagSummary:
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
    order: str
    version: int
    at: int
    """When the version was merged (Unix ms)."""
    complete_to: int
    """Uses before this time (Unix ms) are included."""
    words: list[Word]


def check_words(limit: int) -> None:
    if not 1 <= limit <= MAX_WORDS:
        raise InvalidInput(f"limit: must be 1 to {MAX_WORDS} (got {limit})", field="limit")


def history(days: Mapping[int, Day], now: int) -> tuple[DayCount, ...]:
    today = now // DAY_MS
    # A number is temporarily below 0 if the removal of a use was counted before its addition.
    return tuple(
        DayCount(day, max(0, counts.uses), max(0, counts.members))
        for day in range(today, today - HISTORY, -1)
        for counts in (days.get(day, Day()),)
    )


class RelatedTag(msgspec.Struct, frozen=True):
    """A tag that often occurs together with another one."""

    name: str
    form: str
    uses: int
    together: int
    """The number of examined posts that have both tags."""
    likeness: float


def likeness(together: int, posts: int, uses: int, other_uses: int) -> float:
    """Return how often two tags occur together, 0 (never) to 1 (always): the cosine n_ab / sqrt(n_a * n_b).

    n_ab is estimated by a sample. Of `posts` examined posts with the first tag, `together` have the other one too; `uses` and
    `other_uses` are the total uses of the first and the other tag. It is the coefficient of Ochiai (1957, "Zoogeographical
    studies on the soleoid fishes"), as used for tags by Cattuto, Benz, Hotho and Stumme (2008, "Semantic Grounding of Tag
    Relatedness in Social Bookmarking Systems"). Unlike the count of common posts, it does not favor tags that are used
    everywhere.
    """
    if not together or not posts:
        return 0.0
    return min(1.0, together / posts * math.sqrt(max(uses, posts) / max(other_uses, together)))
