"""Load in the busiest hour, and the amount of data at the end: both follow from the assumptions alone.

Glossary (`docs/glossary.md`): loud.
"""

from __future__ import annotations

import msgspec

from shoal.ops.planner.assumptions import DAY, Assumptions
from shoal.ops.planner.followers import FollowerClass, classes

ANSWER_BYTES = 6_000
"""A home page as JSON, compressed by the proxy."""
PAGE_POSTS = 20
_BYTES_OF_A_CHANGE = 0.5
"""Associations of a like or a follow that are still there at the end, beside those of a follow: some are taken back."""


class Load(msgspec.Struct, frozen=True):
    """Rates are a second, in the busiest hour."""

    members: float
    warm: float
    """Warm home timelines."""
    authors: float
    """Members who write on a day."""
    posts: float
    pages: float
    changes: float
    returns: float
    """Members whose cold timeline is rebuilt."""
    deliveries: float
    """Posts put on warm timelines, those of loud members left out."""
    per_post: float
    """Deliveries of a post on average."""
    loud: float
    """Loud members."""
    loud_followees: float
    """Loud members whom a reader follows, on average."""
    largest: float
    """Followers of the most-followed member."""
    all_posts: float
    """Posts that are kept at the end."""
    all_follows: float
    all_changes: float
    """Likes that are kept at the end."""
    picture_bytes: float
    """Files of pictures at the end."""
    traffic: float
    """Bytes to members, a month."""
    by_class: list[FollowerClass]


def load_of(of: Assumptions, loud_from: float, *, warm_only: bool) -> Load:
    """Work the load out. A member is loud with more than `loud_from` followers; with `warm_only`, with so many warm ones."""
    coming = of.members * of.daily
    counted = (of.warm or 1.0) if warm_only else 1.0
    found = classes(of, loud_from / counted)
    quiet = [one for one in found if one.followers * counted <= loud_from]
    loud = [one for one in found if one.followers * counted > loud_from]
    per_post = of.warm * sum(one.posts * one.followers for one in quiet)
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
        loud=sum(one.members for one in loud),
        loud_followees=sum(one.members * one.followers for one in loud) / of.members,
        largest=max(one.followers for one in found),
        all_posts=coming * of.posts * days,
        all_follows=of.members * of.follows,
        all_changes=coming * of.changes * days * _BYTES_OF_A_CHANGE,
        picture_bytes=coming * of.posts * days * of.pictures * of.picture_bytes,
        traffic=coming * of.pages * 30 * (ANSWER_BYTES + shown),
        by_class=found,
    )
