"""Assumptions about a network that is planned: how many come, what they do, what is kept, and what things cost."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

DAY = 86_400.0
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Assumptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A network. What members do is meant for each who comes on a day."""

    members: Annotated[int, msgspec.Meta(ge=10, le=10_000_000_000)] = 1_000_000
    """Members who have signed up."""
    daily: Share = 0.2
    """Share of the members who come on a day."""
    warm: Share = 0.35
    """Share of the members who came in the last `timeline_idle_days`: their home timelines are warm."""
    returning: Share = 0.002
    """Share of the members who come back on a day after a longer time: their timelines are rebuilt."""
    posts: Annotated[float, msgspec.Meta(ge=0, le=10_000)] = 0.5
    """Posts and shares a day."""
    pages: Annotated[float, msgspec.Meta(ge=0, le=100_000)] = 15.0
    """Home pages read a day."""
    changes: Annotated[float, msgspec.Meta(ge=0, le=100_000)] = 5.0
    """Likes, follows and the like a day."""
    busiest: Annotated[float, msgspec.Meta(ge=1, le=100)] = 2.5
    """Factor by which the busiest hour has more of all this than the mean one."""
    follows: Annotated[float, msgspec.Meta(ge=0, le=100_000)] = 80.0
    """Followees of a member, on average over all members."""
    exponent: Annotated[float, msgspec.Meta(gt=1, le=5)] = 2.1
    """Exponent of the power law of followers: nearer to 1, more members have very many."""
    largest: Share = 0.1
    """Share of the members who follow the most-followed one, at most."""
    eagerness: Annotated[float, msgspec.Meta(ge=0, le=2)] = 0.5
    """How much more those with many followers write: posts grow with this power of the number of followers."""
    pictures: Share = 0.3
    """Share of the posts with a picture."""
    picture_bytes: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 500_000.0
    """Bytes of the files of a picture."""
    shown_bytes: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 60_000.0
    """Bytes of the copy of a picture that a page shows."""
    years: Annotated[float, msgspec.Meta(gt=0, le=100)] = 3.0
    """Years for which everything is kept: disks are planned for the end of them."""
    headroom: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.6
    """Share of a core that is used in the busiest hour, at most."""
    copies: Annotated[int, msgspec.Meta(ge=1, le=5)] = 2
    """Servers with the same data: 2 is a standby for each PostgreSQL and a replica for each Redis."""
    budget: Annotated[float, msgspec.Meta(ge=0, le=1e12)] = 0.0
    """Money a month; 0: none is given."""


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Money a month, in any currency. The defaults are about what a cloud charged in US dollars in 2026: give your own."""

    currency: Annotated[str, msgspec.Meta(max_length=10)] = ""
    """The name of the currency in what is shown; empty: amounts stand alone."""
    core: Annotated[float, msgspec.Meta(ge=0)] = 14.0
    memory_gib: Annotated[float, msgspec.Meta(ge=0)] = 2.5
    disk_gib: Annotated[float, msgspec.Meta(ge=0)] = 0.1
    """Disks of databases and brokers."""
    object_gib: Annotated[float, msgspec.Meta(ge=0)] = 0.02
    """Files of pictures."""
    traffic_gib: Annotated[float, msgspec.Meta(ge=0)] = 0.01
    """Traffic to members."""


USUAL_PRICES = Prices(currency="USD")
"""The prices of a plan that is given none."""


class Range(NamedTuple):
    """A low and a high value that an assumption may turn out to have."""

    name: str
    low: float
    high: float


_HALF_AND_DOUBLE = (
    "members",
    "daily",
    "posts",
    "pages",
    "changes",
    "follows",
    "busiest",
    "picture_bytes",
    "shown_bytes",
    "years",
    "returning",
)


def spreads(of: Assumptions) -> list[Range]:
    """Return how far each assumption may be off: half and double, and for others what is usual elsewhere."""
    found = [Range(name, getattr(of, name) / 2, getattr(of, name) * 2) for name in _HALF_AND_DOUBLE]
    found += [
        Range("warm", max(of.daily, of.warm / 2), min(1.0, of.warm * 2)),
        Range("exponent", max(1.5, of.exponent - 0.3), of.exponent + 0.3),
        Range("eagerness", max(0.0, of.eagerness - 0.5), of.eagerness + 0.5),
        Range("pictures", of.pictures / 2, min(1.0, of.pictures * 2)),
        Range("headroom", max(0.1, of.headroom - 0.2), min(1.0, of.headroom + 0.2)),
    ]
    return [_bounded(spread) for spread in found]


def changed(of: Assumptions, name: str, value: float) -> Assumptions:
    """Return the assumptions with another value for one of them."""
    return msgspec.structs.replace(of, **{name: round(value) if name in {"members", "copies"} else value})


def _bounded(spread: Range) -> Range:
    if spread.name == "busiest":
        return spread._replace(low=max(1.0, spread.low))
    if spread.name in {"daily", "returning"}:
        return spread._replace(high=min(1.0, spread.high))
    return spread
