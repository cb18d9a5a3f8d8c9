"""The cloud as readers get it: the first tags of every order, with the numbers that brought them there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from shoal.tagcloud.contract import Day, TagRow, TagRule
from shoal.tagcloud.heat import COLD, DAY, HOUR, NEVER, WEEK, Heat, joined, surprise, warmth
from shoal.tagcloud.increment import DAY_MS

ORDERS = ("all", "hour", "day", "week", "rising")
"""By uses in all, by heat in a window, and by surprise."""
WINDOWS: Mapping[str, int] = {"hour": HOUR, "day": DAY, "week": WEEK}
LEVELS = 9
DAYS = 8
"""So many days of a tag are kept: the last seven whole ones, and the one that has begun."""
_RISING_HALF_LIFE_MS = 6 * 3_600_000


class CloudEntry(msgspec.Struct, frozen=True, array_like=True):
    """One tag of a cloud. `form` is the spelling that most use."""

    id: int
    name: str
    form: str
    n: int
    heats: tuple[Heat, Heat, Heat]
    days: dict[int, Day]


class Cloud(msgspec.Struct, frozen=True, array_like=True):
    """The entries, and for each of `ORDERS` the ids of its first tags, first first."""

    entries: dict[int, CloudEntry] = {}
    orders: dict[str, list[int]] = {}


class Reasons(NamedTuple):
    """Why a tag is where it is, in numbers."""

    uses: int
    """Live uses in all."""
    warmth: dict[str, float]
    """By window: how many uses of this moment its uses are worth."""
    today: int
    """Uses of the last 24 to 48 hours: today's and yesterday's, UTC."""
    members: int
    """Members who used it in that time; an upper bound for a tag that others were merged into."""
    loudest: float
    """The share of those uses by the member who used it most, 0 to 1."""
    surprise: float
    """See `heat.surprise`."""


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Cloud] = msgspec.msgpack.Decoder(Cloud)


def encode(cloud: Cloud) -> bytes:
    """A cloud as bytes."""
    return _encoder.encode(cloud)


def decode(data: bytes) -> Cloud:
    """A cloud from its bytes; an empty one from none."""
    return _decoder.decode(data) if data else Cloud()


def entry(row: TagRow) -> CloudEntry:
    """How a tag is shown."""
    form = max(row.forms.items(), key=lambda held: (held[1], held[0]), default=(row.name, 0))
    return CloudEntry(row.id, row.name, form[0] if form[1] > 0 else row.name, row.n, row.heats, row.days)


def together(target: TagRow, others: Sequence[TagRow]) -> TagRow:
    """A tag with those that an admin merged into it: uses, heats and days add up, the spelling stays its own."""
    if not others:
        return target
    n, heats, days = target.n, list(target.heats), dict(target.days)
    for row in others:
        n += row.n
        heats = [joined(one, other) for one, other in zip(heats, row.heats, strict=True)]
        for at, day in row.days.items():
            held = days.get(at, Day())
            days[at] = Day(held.uses + day.uses, held.members + day.members, max(held.loudest, day.loudest))
    hour, day_heat, week = heats
    return msgspec.structs.replace(target, n=n, heats=(hour, day_heat, week), days=days)


def reasons(shown: CloudEntry | TagRow, now: int) -> Reasons:
    """The numbers of a tag at this moment (Unix ms)."""
    warm = {name: warmth(shown.heats[window], window, now) for name, window in WINDOWS.items()}
    uses, members, loudest = _recent(shown.days, now)
    return Reasons(shown.n, warm, uses, members, loudest, surprise(warm["day"], warm["week"], members, loudest))


def _recent(days: Mapping[int, Day], now: int) -> tuple[int, int, float]:
    """Return the uses and members of today and yesterday, and the share of the loudest member."""
    today = now // DAY_MS
    recent = [held for day in (today, today - 1) if (held := days.get(day)) is not None]
    uses, members = sum(day.uses for day in recent), sum(day.members for day in recent)
    loudest = min(1.0, max(day.loudest for day in recent) / uses) if uses > 0 else 0.0
    return uses, members, loudest


def ranks(row: TagRow, now: int) -> tuple[float, ...]:
    """For each of `ORDERS`: a number by which tags are ranked, at whichever moment; `NEVER`: not at all.

    Surprise is worth half as much after six hours.
    """
    _, members, loudest = _recent(row.days, now)
    # One member alone is no surprise: most tags need not be looked at further.
    unexpected = members > 1 and surprise(
        warmth(row.heats[DAY], DAY, now), warmth(row.heats[WEEK], WEEK, now), members, loudest
    )
    rising = math.log2(unexpected) + now / _RISING_HALF_LIFE_MS if unexpected > 0.0 else NEVER
    if row.n <= 0:
        # Heat is a sum of rounded numbers: what is left of a tag that nobody uses any more is no heat.
        return (NEVER, NEVER, NEVER, NEVER, rising)
    hour, day, week = row.heats
    return (float(row.n), hour.rank, day.rank, week.rank, rising)


def levels(weights: Sequence[float]) -> list[int]:
    """1 to 9 for each weight, by the logarithm between the least and the greatest of them; all 9 when they are alike."""
    logs = [math.log(max(weight, 1e-9)) for weight in weights]
    if not logs:
        return []
    low, high = min(logs), max(logs)
    span = high - low
    return [LEVELS if span < 1e-9 else 1 + round((LEVELS - 1) * (log - low) / span) for log in logs]


def weight(shown: CloudEntry | TagRow, order: str, now: int) -> float:
    """Return the number behind a tag's size in an order: uses, surprise, or warmth."""
    if order == "all":
        return float(shown.n)
    if order == "rising":
        return reasons(shown, now).surprise
    return warmth(shown.heats[WINDOWS[order]], WINDOWS[order], now)


def leader(name: str, rules: Mapping[str, TagRule]) -> str:
    """The tag that this one counts as: itself, or the one that it was merged into."""
    rule = rules.get(name)
    return rule.target if rule is not None and rule.target else name


def empty_row(id_: int, name: str) -> TagRow:
    """A tag that nobody uses."""
    return TagRow(id_, name, heats=(COLD, COLD, COLD))
