"""The measured network, and the steps that both calibrations share.

The members of the *circle* follow their predecessors in a ring. The *stars* are followed by the circle and by the *crowd*, whose
members do nothing else. Each of the *fans* follows many members of the circle.
"""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import islice
from typing import NamedTuple, TypeVar

from shoal.admin.contract import AnyNetwork
from shoal.app import process
from shoal.app.network import open_network
from shoal.app.stores import open_store
from shoal.commands import posts
from shoal.commands.posts import Draft
from shoal.core.errors import InvalidInput
from shoal.core.ids import EPOCH_MS, compose
from shoal.core.model import Member
from shoal.core.placement import place
from shoal.graph.bulk import KeyRow, Movable, Rows
from shoal.graph.contract import AssocRow, Cursor
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, user_name_key
from shoal.queries import home
from shoal.settings import Settings
from shoal_planner.measuring.meters import Stopwatch

T = TypeVar("T")

PAGE = Cursor(limit=20)
AT_ONCE = 128
TEXT = "Low tide, number {}: the boats lie on the sand and wait, and the light goes gray over the harbour wall at six."
_STARS = 4
_FANS = (8, 64, 256)
_ROWS = 20_000
_FOLLOWS_FROM = 1 << 50
_MILLISECOND = 23
"""Bits of an id below its milliseconds."""
Step = Callable[[str], None]
"""Called with the name of each measurement before it starts."""


class Effort(NamedTuple):
    """How much to measure: numbers of members, posts and rounds."""

    circle: int = 4_000
    crowd: int = 36_000
    """Members who only follow the stars."""
    shared_circle: int = 400
    shared_crowd: int = 10_000
    rounds: int = 30
    far: int = 400_000
    """Number of timelines for deliveries: more than the processor's caches hold."""
    pages: int = 60_000
    """Number of pages of a file of which every sixth page is checkpointed."""
    seconds: float = 2.0
    log: int = 40 << 20
    """Maximum of bytes written to the log in order to see a checkpoint."""


FULL = Effort()
SMALLEST = Effort(
    circle=24, crowd=200, shared_circle=24, shared_crowd=200, rounds=2, far=5_000, pages=200, seconds=0.2, log=1 << 20
)


class Crowd(NamedTuple):
    circle: list[int]
    crowd: list[int]
    stars: list[int]
    fans: dict[int, int]
    """The id of each fan, by their number of followees."""
    each: int
    """Number of followees, and of followers, of each member of the circle, without the stars."""

    @property
    def everybody(self) -> list[int]:
        return [*self.circle, *self.crowd, *self.stars, *self.fans.values()]

    @property
    def follower_set(self) -> list[int]:
        return [*self.circle, *self.crowd]

    def follows(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of follower and followee, oldest follow first."""
        circle, size = self.circle, len(self.circle)
        yield from ((follower, star) for star in self.stars for follower in self.follower_set)
        yield from ((circle[at], circle[at - step]) for at in range(size) for step in range(1, self.each + 1))
        yield from ((fan, followee) for number, fan in self.fans.items() for followee in circle[:number])


def gather(circle: int, crowd: int) -> Crowd:
    """Create the member ids of a test network: `circle` members who follow each other, and `crowd` members without followers."""
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
    everybody = list(enumerate(crowd.everybody))
    for some in _pieces(everybody):
        members = [Member(id=id_, name=_name(at)) for at, id_ in some]
        await store.put_rows(Rows(objects=members, keys=[KeyRow(*user_name_key(m.name)[1:], m.id, 0) for m in members]))


async def put_follows(store: Movable, crowd: Crowd) -> int:
    """Store the follows in both directions with their counts, and return the number of follows."""
    pairs = list(crowd.follows())
    ends = [
        (id1, atype.number, id2, _FOLLOWS_FROM + (at << _MILLISECOND))
        for at, (follower, other) in enumerate(pairs)
        for id1, atype, id2 in ((follower, FOLLOWS, other), (other, FOLLOWED_BY, follower))
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
    made = await together(
        posts.create(network.writes, author, Draft(text=TEXT.format(n))) for n, author in enumerate(authors)
    )
    return [post.id for post in made]


async def together(work: Iterable[Awaitable[T]]) -> list[T]:
    """Await everything, starting in order, with up to `AT_ONCE` running concurrently."""
    done: list[T] = []
    waiting: list[Awaitable[T]] = []
    for task in work:
        waiting.append(task)
        if len(waiting) == AT_ONCE:
            done += await asyncio.gather(*waiting)
            waiting.clear()
    return done + list(await asyncio.gather(*waiting))


@asynccontextmanager
async def opened_network(settings: Settings, *, background: bool) -> AsyncIterator[AnyNetwork]:
    async with open_network(settings, background=background) as network:
        process.settle()
        yield network


@asynccontextmanager
async def opened_store(settings: Settings) -> AsyncIterator[Movable]:
    """Open a store for inserting rows, creating it if necessary. Raises `InvalidInput` if the store does not support that."""
    async with AsyncExitStack() as stack:
        store = await open_store(settings, stack, read_only=False, sole=True)
        if not isinstance(store, Movable):
            raise InvalidInput("this kind of store does not support bulk inserts")
        yield store


async def pull_cost(network: AnyNetwork, crowd: Crowd, times: int) -> float:
    """Return the CPU seconds that pulling from one high fan-out followee adds to a page, from medians of several pages."""
    number, fan = max(item for item in crowd.fans.items() if item[0] <= 64)
    before = await _median_page(network, fan, times)
    for source in crowd.circle[:number]:
        await network.effects.high_fan_out_sources.add(source)
    await home.page(network.reads, fan, PAGE)
    return max(0.0, await _median_page(network, fan, times) - before) / number


async def _median_page(network: AnyNetwork, reader: int, times: int) -> float:
    taken = []
    for _ in range(times):
        watch = Stopwatch()
        await home.page(network.reads, reader, PAGE)
        taken.append(watch.stop().worked)
    return statistics.median(taken)
