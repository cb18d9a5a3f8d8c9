"""Assumptions about a planned network, and the load that follows from them.

The number of followers follows a power law: the density of members with `k` followers is proportional to `k ** -exponent`,
between a minimum and a maximum, in classes of a factor of two. Where the mean requires it, the minimum is above 1, or some
members have no followers. The maximum is the expected largest draw, or the limit in the assumptions if that is lower.
"""

from __future__ import annotations

import itertools
import math
from typing import Annotated, NamedTuple

import msgspec

DAY = 86_400.0
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Assumptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Assumptions about a network. Activity is per member active on a day."""

    members: Annotated[int, msgspec.Meta(ge=10, le=10_000_000_000)] = 1_000_000
    daily: Share = 0.2
    """Fraction of the members active on a day."""
    warm: Share = 0.35
    """Fraction of the members active in the last `timeline_idle_days`, whose home timelines are warm."""
    returning: Share = 0.002
    """Fraction of the members who return on a day after a longer absence, so that their timelines are rebuilt."""
    posts: Annotated[float, msgspec.Meta(ge=0, le=10_000)] = 0.5
    """Posts and shares per day."""
    pages: Annotated[float, msgspec.Meta(ge=0, le=100_000)] = 15.0
    """Home pages read per day."""
    changes: Annotated[float, msgspec.Meta(ge=0, le=100_000)] = 5.0
    """Likes, follows and similar changes per day."""
    busiest: Annotated[float, msgspec.Meta(ge=1, le=100)] = 2.5
    """Ratio of the busiest hour to the mean hour."""
    follows: Annotated[float, msgspec.Meta(ge=0, le=100_000)] = 80.0
    """Mean number of followees over all members."""
    exponent: Annotated[float, msgspec.Meta(gt=1, le=5)] = 2.1
    """Exponent of the power law of followers: the closer to 1, the more members have very many followers."""
    largest: Share = 0.1
    """Maximum fraction of the members who follow the most-followed one."""
    eagerness: Annotated[float, msgspec.Meta(ge=0, le=2)] = 0.5
    """The exponent with which posts grow with the number of followers."""
    pictures: Share = 0.3
    picture_bytes: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 500_000.0
    shown_bytes: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 60_000.0
    """Bytes of the copy of a picture that a page shows."""
    years: Annotated[float, msgspec.Meta(gt=0, le=100)] = 3.0
    """Years for which all data is kept; disks are sized for their end."""
    headroom: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.6
    """Maximum utilization of a core in the busiest hour."""
    copies: Annotated[int, msgspec.Meta(ge=1, le=5)] = 2
    """Copies of all data: 2 means a standby for each PostgreSQL and a replica for each Redis."""
    budget: Annotated[float, msgspec.Meta(ge=0, le=1e12)] = 0.0
    """Money per month; 0 for none."""


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices per month in any currency. The defaults are approximate cloud prices of 2026 in US dollars; set your own."""

    currency: Annotated[str, msgspec.Meta(max_length=10)] = ""
    """The currency shown with amounts; may be empty."""
    core: Annotated[float, msgspec.Meta(ge=0)] = 14.0
    memory_gib: Annotated[float, msgspec.Meta(ge=0)] = 2.5
    disk_gib: Annotated[float, msgspec.Meta(ge=0)] = 0.1
    """Disks of databases and brokers."""
    object_gib: Annotated[float, msgspec.Meta(ge=0)] = 0.02
    """Media files."""
    traffic_gib: Annotated[float, msgspec.Meta(ge=0)] = 0.01


USUAL_PRICES = Prices(currency="USD")


class Range(NamedTuple):
    name: str
    low: float
    high: float


_HALF_AND_DOUBLE = ("members", "posts", "pages", "changes", "follows", "picture_bytes", "shown_bytes", "years")


def spreads(of: Assumptions) -> list[Range]:
    """Return a range for each assumption: half to double its value or, for some, another usual range."""
    return [
        *(Range(name, getattr(of, name) / 2, getattr(of, name) * 2) for name in _HALF_AND_DOUBLE),
        Range("busiest", max(1.0, of.busiest / 2), of.busiest * 2),
        Range("daily", of.daily / 2, min(1.0, of.daily * 2)),
        Range("returning", of.returning / 2, min(1.0, of.returning * 2)),
        Range("warm", max(of.daily, of.warm / 2), min(1.0, of.warm * 2)),
        Range("exponent", max(1.5, of.exponent - 0.3), of.exponent + 0.3),
        Range("eagerness", max(0.0, of.eagerness - 0.5), of.eagerness + 0.5),
        Range("pictures", of.pictures / 2, min(1.0, of.pictures * 2)),
        Range("headroom", max(0.1, of.headroom - 0.2), min(1.0, of.headroom + 0.2)),
    ]


def changed(of: Assumptions, name: str, value: float) -> Assumptions:
    return msgspec.structs.replace(of, **{name: round(value) if name in {"members", "copies"} else value})


_STEPS = 80
_SAME = 1e-6


class FollowerClass(msgspec.Struct, frozen=True):
    members: float
    followers: float
    posts: float
    """Fraction of all posts that the members of the class write."""


def classes(of: Assumptions, cut: float = math.inf) -> list[FollowerClass]:
    """Divide all members with followers into classes by number of followers, fewest first. `cut` separates two classes."""
    if not of.follows:
        return [FollowerClass(float(of.members), 0.0, 1.0)]
    least, most, some = _ends(of)
    count = max(1, math.ceil(math.log2(most / least)))
    edges = _with([least * math.pow(most / least, step / count) for step in range(count + 1)], cut)
    alpha = of.exponent
    whole = _moment(-alpha, least, most)
    written = _moment(of.eagerness - alpha, least, most)
    found = []
    for low, high in itertools.pairwise(edges):
        part = _moment(-alpha, low, high)
        followers = _moment(1 - alpha, low, high) / part
        posts = _moment(of.eagerness - alpha, low, high) / written
        found.append(FollowerClass(of.members * some * part / whole, followers, posts))
    return found


def _with(edges: list[float], cut: float) -> list[float]:
    """Add `cut` to the edges of follower classes, unless an edge is nearly equal or `cut` is outside their range."""
    near = min(edges, key=lambda edge: abs(edge - cut))
    if abs(near - cut) < near * _SAME or not edges[0] < cut < edges[-1]:
        return edges
    return sorted((*edges, cut))


def _ends(of: Assumptions) -> tuple[float, float, float]:
    """Return the smallest and largest number of followers per member, and the fraction of members who have any."""
    top = max(2.0, of.largest * of.members)

    def mean(least: float) -> float:
        most = _largest(of, least, top)
        return _moment(1 - of.exponent, least, most) / _moment(-of.exponent, least, most)

    if mean(1.0) >= of.follows:
        return 1.0, _largest(of, 1.0, top), of.follows / mean(1.0)
    low, high = 1.0, top / 1.0001
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if mean(middle) < of.follows else (low, middle)
    return low, _largest(of, low, top), 1.0


def _largest(of: Assumptions, least: float, top: float) -> float:
    """Return the expected maximum of `of.members` follower counts that are drawn from the power law, limited to `top`."""
    return min(top, max(1.001 * least, least * math.pow(of.members, 1 / (of.exponent - 1))))


def _moment(power: float, low: float, high: float) -> float:
    """Return the integral of `k ** power` between two numbers."""
    if abs(power + 1) < 1e-9:
        return math.log(high / low)
    # Compute relative to the lower end, because large powers of large numbers would overflow.
    return math.pow(low, power + 1) * (math.pow(high / low, power + 1) - 1) / (power + 1)


ANSWER_BYTES = 6_000
"""Bytes of a home page as JSON, compressed by the proxy."""
PAGE_POSTS = 20
_BYTES_OF_A_CHANGE = 0.5
"""Space that the mean change occupies at the end, relative to a follow; it is less, because some changes are undone."""


class Load(msgspec.Struct, frozen=True):
    """The load of a network. Rates are per second in the busiest hour."""

    members: float
    warm: float
    authors: float
    """Members who write on a day."""
    posts: float
    pages: float
    changes: float
    returns: float
    """Members whose cold timeline is rebuilt."""
    deliveries: float
    """Entries written to warm timelines, without posts of high fan-out members."""
    per_post: float
    high_fan_out: float
    high_fan_out_followees: float
    """Mean number of high fan-out followees of a reader."""
    largest: float
    """Followers of the most-followed member."""
    all_posts: float
    """Posts stored at the end."""
    all_follows: float
    all_changes: float
    """Likes stored at the end."""
    picture_bytes: float
    """Bytes of media files at the end."""
    traffic: float
    """Bytes sent to members per month."""
    by_class: list[FollowerClass]


def load_of(of: Assumptions, high_fan_out_from: float, *, warm_only: bool) -> Load:
    """Compute the load of a network. Members with more than `high_fan_out_from` followers have high fan-out.

    With `warm_only`, only followers with materialized timelines count.
    """
    coming = of.members * of.daily
    counted = (of.warm or 1.0) if warm_only else 1.0
    found = classes(of, high_fan_out_from / counted)
    quiet = [author_class for author_class in found if author_class.followers * counted <= high_fan_out_from]
    high_fan_out = [author_class for author_class in found if author_class.followers * counted > high_fan_out_from]
    per_post = of.warm * sum(author_class.posts * author_class.followers for author_class in quiet)
    rate = coming * of.busiest / DAY
    posts = rate * of.posts
    days = of.years * 365
    shown = of.pictures * of.shown_bytes * PAGE_POSTS
    return Load(
        members=float(of.members),
        warm=of.members * of.warm,
        authors=coming * min(1.0, of.posts),
        posts=posts,
        pages=rate * of.pages,
        changes=rate * of.changes,
        returns=of.members * of.returning * of.busiest / DAY,
        deliveries=posts * per_post,
        per_post=per_post,
        high_fan_out=sum(author_class.members for author_class in high_fan_out),
        high_fan_out_followees=sum(author_class.members * author_class.followers for author_class in high_fan_out)
        / of.members,
        largest=max(author_class.followers for author_class in found),
        all_posts=coming * of.posts * days,
        all_follows=of.members * of.follows,
        all_changes=coming * of.changes * days * _BYTES_OF_A_CHANGE,
        picture_bytes=coming * of.posts * days * of.pictures * of.picture_bytes,
        traffic=coming * of.pages * 30 * (ANSWER_BYTES + shown),
        by_class=found,
    )
