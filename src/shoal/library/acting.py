"""Base classes of the library and conversion of arguments.

A method that takes a member accepts a handle, a `Member`, a `Profile`, an id or a user name; a method that takes a post
accepts an `Entry`, a `Post`, a `Share` or an id.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias, TypeVar

from shoal.app.network import Network
from shoal.commands import members
from shoal.commands.context import Writes
from shoal.core.audit import Actor
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.model import Media, Member, Poll, Post, ScheduledPost, Share
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.queries.hydration import Entry, PollView, Profile

AnyPost: TypeAlias = Entry | Post | Share | int
"""A post, given as an entry of a feed, as itself, as a share, or by id."""
AnyMedia: TypeAlias = Media | int
AnyPoll: TypeAlias = PollView | Poll | int
AnyScheduled: TypeAlias = ScheduledPost | int
AnyMoment: TypeAlias = datetime | int
"""A `datetime` with a zone, or Unix milliseconds."""
VisibilityName: TypeAlias = Literal["public", "unlisted", "followers", "direct"]
ExternalKindName: TypeAlias = Literal["posts", "comments", "media"]
PrecisionName: TypeAlias = Literal["exact", "100m", "1km", "10km", "city", "none"]

E = TypeVar("E", bound=StrEnum)


class _HasId(Protocol):
    @property
    def id(self) -> int: ...


def id_of(thing: _HasId | int) -> int:
    """Return the id of an object; an id is returned unchanged."""
    return thing if isinstance(thing, int) else thing.id


def post_id(post: AnyPost) -> int:
    """Return the id of a post or share, given as an object or id."""
    return post.post.id if isinstance(post, Entry) else id_of(post)


def poll_id(poll: AnyPoll) -> int:
    return id_of(poll.poll if isinstance(poll, PollView) else poll)


def one_of(kind: type[E], value: str, field: str) -> E:
    """Return the member of an enumeration with this value. Raises `InvalidInput`, which lists the allowed values."""
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(filter(None, kind))
        raise InvalidInput(f"{field}: expected one of {allowed} (got {value!r})", field=field) from None


def milliseconds(moment: AnyMoment, field: str) -> int:
    """Return a moment in Unix milliseconds. Raises `InvalidInput` for a `datetime` without a time zone."""
    if isinstance(moment, int):
        return moment
    if moment.tzinfo is None:
        raise InvalidInput(f"{field}: expected a datetime with a time zone, such as datetime.now(UTC)", field=field)
    return int(moment.timestamp() * 1_000)


def part(
    before: int | None, limit: int, after: int | None = None, *, oldest_first: bool = False, start: int = 0
) -> Cursor:
    """Return a cursor for the items newer than `after` (`start` if None) and older than `before` (no bound if None).

    With `oldest_first`, the first `limit` items are the oldest ones, otherwise the newest.
    """
    return Cursor(
        MAX_TIME if before is None else before, start if after is None else after, limit, oldest_first=oldest_first
    )


class Seeing:
    """The network as one member sees it, or an anonymous visitor (None)."""

    def __init__(self, network: Network, viewer: int | None) -> None:
        self._network = network
        self._reads = network.reads
        self._viewer = viewer

    @property
    def _writes(self) -> Writes:
        return self._network.writes

    async def _resolve(self, who: AnyMember) -> int:
        return await resolve(self._network, who)


class Owned:
    """Objects of a kind that a member owns, such as lists."""

    def __init__(self, network: Network, owner: int) -> None:
        self._network = network
        self._writes = network.writes
        self._reads = network.reads
        self._owner = owner


class Identity:
    """The id and user name of the member that a handle represents."""

    def __init__(self, id_: int, name: str) -> None:
        self.id = id_
        self.name = name

    def __repr__(self) -> str:
        return f"<member {self.name}>"


class Acting(Seeing, Identity):
    """A member to act as, without a password: a caller with access to the network may act as any member."""

    def __init__(self, network: Network, id_: int, name: str) -> None:
        Seeing.__init__(self, network, id_)
        Identity.__init__(self, id_, name)

    @property
    def _writes(self) -> Writes:
        return self._network.writes.by(Actor(self.id, self.name))


AnyMember: TypeAlias = Identity | Member | Profile | int | str
"""A member: as a handle, as itself, as a profile, by id, or by user name."""


async def resolve(network: Network, who: AnyMember) -> int:
    """Return the id of a member. Raises `NotFound` for an unknown user name; ids are not checked."""
    if isinstance(who, str):
        found = await members.find(network.writes, who)
        if found is None:
            raise NotFound(f"no member {who!r}")
        return found.id
    if isinstance(who, Profile):
        return who.member.id
    return who if isinstance(who, int) else who.id
