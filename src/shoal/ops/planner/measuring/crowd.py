"""A made-up network to measure with, as rows: authors with few and with many followers, and members who follow many.

Members of `circle` stand in a ring, and each follows those before them. Each of `stars` is followed by everybody in the circle
and in the `crowd`, who do nothing else. `fans` follow so many of the circle each, and nobody follows them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

from shoal.admin.contract import AnyNetwork
from shoal.commands import posts
from shoal.commands.posts import Draft
from shoal.core.ids import EPOCH_MS, compose
from shoal.core.model import Member
from shoal.core.placement import place
from shoal.graph.bulk import KeyRow, Movable, Rows
from shoal.graph.contract import AssocRow
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, user_name_key
from shoal.settings import Settings

T = TypeVar("T")

AT_ONCE = 128
TEXT = "Low tide, number {}: the boats lie on the sand and wait, and the light goes grey over the harbour wall at six."
_STARS = 4
_FANS = (8, 64, 256)
_ROWS = 20_000
_FOLLOWS_FROM = 1 << 50
_MILLISECOND = 23
"""Bits of an id below its milliseconds."""


class Opener(Protocol):
    """Opens networks and stores that are measured."""

    def network(self, settings: Settings, *, background: bool) -> AbstractAsyncContextManager[AnyNetwork]:
        """Open a whole network, with what runs in the background or without."""
        ...

    def store(self, settings: Settings) -> AbstractAsyncContextManager[Movable]:
        """Open a store alone, to put rows in; it is made when it is not there."""
        ...


class Crowd(NamedTuple):
    """Ids of members by what they are for."""

    circle: list[int]
    crowd: list[int]
    stars: list[int]
    fans: dict[int, int]
    """One member for each number of followees."""
    each: int
    """Followees, and followers, of each in the circle; the stars come on top."""

    @property
    def everybody(self) -> list[int]:
        """All of them."""
        return [*self.circle, *self.crowd, *self.stars, *self.fans.values()]

    @property
    def audience(self) -> list[int]:
        """The followers of each star."""
        return [*self.circle, *self.crowd]

    def follows(self) -> Iterator[tuple[int, int]]:
        """Yield who follows whom, the longest first."""
        circle, size = self.circle, len(self.circle)
        yield from ((one, star) for star in self.stars for one in self.audience)
        yield from ((circle[at], circle[at - step]) for at in range(size) for step in range(1, self.each + 1))
        yield from ((fan, followee) for number, fan in self.fans.items() for followee in circle[:number])


def gather(circle: int, crowd: int) -> Crowd:
    """Make up a network with so many in the circle and in the crowd."""
    fans = [number for number in _FANS if number <= circle]
    ids = iter(range(circle + crowd + _STARS + len(fans)))

    def some(count: int) -> list[int]:
        return [_id(at) for at in islice(ids, count)]

    return Crowd(
        some(circle), some(crowd), some(_STARS), dict(zip(fans, some(len(fans)), strict=True)), min(16, circle // 2)
    )


def _id(at: int) -> int:
    return compose(EPOCH_MS + 10 * (at + 1), place(_name(at)).shard)


def _name(at: int) -> str:
    return f"member_{at}"


async def put_members(store: Movable, crowd: Crowd) -> None:
    """Store the members and their names."""
    everybody = list(enumerate(crowd.everybody))
    for some in _pieces(everybody):
        members = [Member(id=id_, name=_name(at)) for at, id_ in some]
        await store.put_rows(Rows(objects=members, keys=[KeyRow(*user_name_key(m.name)[1:], m.id, 0) for m in members]))


async def put_follows(store: Movable, crowd: Crowd) -> int:
    """Store who follows whom, both ends and their counts; gives how many follows."""
    pairs = list(crowd.follows())
    ends = [
        (id1, atype.number, id2, _FOLLOWS_FROM + (at << _MILLISECOND))
        for at, (one, other) in enumerate(pairs)
        for id1, atype, id2 in ((one, FOLLOWS, other), (other, FOLLOWED_BY, one))
    ]
    ends.sort()
    for some in _pieces(ends):
        await store.put_rows(Rows(assocs=[AssocRow(*end, alive=True, data=b"") for end in some]))
    counts = Counter((id1, atype) for id1, atype, *_ in ends)
    for counted in _pieces(sorted(counts.items())):
        await store.put_rows(Rows(counts=[(*pair, n) for pair, n in counted]))
    return len(pairs)


def _pieces(things: Sequence[T]) -> Iterator[Sequence[T]]:
    return (things[at : at + _ROWS] for at in range(0, len(things), _ROWS))


async def write(network: AnyNetwork, authors: Iterable[int]) -> list[int]:
    """Have each of these write a post; the ids."""
    made = await together(
        posts.create(network.writes, author, Draft(text=TEXT.format(n))) for n, author in enumerate(authors)
    )
    return [post.id for post in made]


async def together(work: Iterable[Awaitable[T]]) -> list[T]:
    """Do all of it, many at a time, in order."""
    done: list[T] = []
    waiting: list[Awaitable[T]] = []
    for one in work:
        waiting.append(one)
        if len(waiting) == AT_ONCE:
            done += await asyncio.gather(*waiting)
            waiting.clear()
    return done + list(await asyncio.gather(*waiting))
