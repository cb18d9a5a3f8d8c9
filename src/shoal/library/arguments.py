"""Arguments as callers give them, and the plain values that services and feeds take."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal, TypeAlias, TypeVar

from shoal.core.errors import InvalidInput
from shoal.core.model import Media, Poll, Post, ScheduledPost, Share
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.queries.hydration import Entry, PollView

AnyPost: TypeAlias = Entry | Post | Share | int
"""A post: as an entry of a feed, as itself, as a share of it, or by id."""
AnyMedia: TypeAlias = Media | int
AnyPoll: TypeAlias = PollView | Poll | int
AnyScheduled: TypeAlias = ScheduledPost | int
AnyMoment: TypeAlias = datetime | int
"""A `datetime` with a zone, or Unix milliseconds."""
VisibilityName: TypeAlias = Literal["public", "unlisted", "followers", "direct"]
PrecisionName: TypeAlias = Literal["exact", "100m", "1km", "10km", "none"]

E = TypeVar("E", bound=StrEnum)


def id_of(thing: Post | Share | Media | Poll | ScheduledPost | int) -> int:
    """The id of an object that is given as itself or by its id."""
    return thing if isinstance(thing, int) else thing.id


def post_id(post: AnyPost) -> int:
    """The id of a post, or of the share that stands for it."""
    return post.post.id if isinstance(post, Entry) else id_of(post)


def poll_id(poll: AnyPoll) -> int:
    """The id of a poll."""
    return id_of(poll.poll if isinstance(poll, PollView) else poll)


def one_of(kind: type[E], value: str, field: str) -> E:
    """The member of an enumeration by its value. Raises `InvalidInput`, which lists the values there are."""
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(filter(None, kind))
        raise InvalidInput(f"{field}: one of {allowed}, not {value!r}", field=field) from None


def milliseconds(moment: AnyMoment, field: str) -> int:
    """A moment in Unix milliseconds. Raises `InvalidInput` for a `datetime` without a zone."""
    if isinstance(moment, int):
        return moment
    if moment.tzinfo is None:
        raise InvalidInput(f"{field}: a datetime with a time zone, such as datetime.now(UTC)", field=field)
    return int(moment.timestamp() * 1_000)


def part(
    before: int | None, limit: int, after: int | None = None, *, oldest_first: bool = False, start: int = 0
) -> Cursor:
    """The part of a list that is between two cursors; None: from its beginning, or to its end."""
    return Cursor(
        MAX_TIME if before is None else before, start if after is None else after, limit, oldest_first=oldest_first
    )
