"""The dependencies of queries: the graph reader, the stores in front of it, and caches shared between requests.

A shared cache entry may be up to a minute old, so results that depend on it are not cached for longer. A result can instead be
cached with `dependencies.compared`, which runs the query again and finds a newer shared entry here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from shoal.core.ranking.people import FriendsOfFriends
from shoal.core.ranking.preferences import PackedInterests
from shoal.core.ranking.recipes import BALANCED, Recipe
from shoal.graph.cache.dependencies import do_not_cache
from shoal.graph.contract import Reader, RememberingReader
from shoal.search.contract import SearchIndex
from shoal.search.memory import NoIndex
from shoal.tagcloud.cloud import RelatedTag
from shoal.tagcloud.reader import TagCloud
from shoal.timelines.contract import MemoryReadings, PushCounter, Readings, Timelines
from shoal.timelines.follower_sets import FollowerSetCache

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class ExpiringCache(Generic[Key, Answer]):
    """A cache of results, limited in number and age. Times are Unix milliseconds of the caller's clock."""

    def __init__(self, most: int = 2_000, keep_ms: int = 60_000) -> None:
        self._most = most
        self._keep_ms = keep_ms
        self._cached: dict[Key, tuple[int, Answer]] = {}

    def get(self, key: Key, now: int) -> Answer | None:
        do_not_cache()
        cached = self._cached.get(key)
        return cached[1] if cached is not None and abs(now - cached[0]) < self._keep_ms else None

    def put(self, key: Key, answer: Answer, now: int) -> None:
        self._cached.pop(key, None)
        self._cached[key] = (now, answer)
        while len(self._cached) > self._most:
            del self._cached[next(iter(self._cached))]


class Renewed(Generic[Answer]):
    """A result that all viewers share, computed at most once a minute. Concurrent callers wait for one computation.

    A computation finishes even if all its callers have stopped waiting. Times are Unix milliseconds of the caller's clock.
    """

    def __init__(self, keep_ms: int = 60_000, most_ms: int = 600_000) -> None:
        self._keep_ms = keep_ms
        self._most_ms = most_ms
        self._cached: tuple[int, Answer] | None = None
        self._making: asyncio.Task[Answer] | None = None

    async def get(self, now: int, make: Callable[[], Coroutine[Any, Any, Answer]], *, outdated: bool = False) -> Answer:
        """Return the result, at most a minute old. Raises the errors of `make`, which computes it.

        With `outdated`, a result that is at most ten minutes old is returned at once while a new one is computed.
        """
        do_not_cache()
        cached = self._cached
        age = abs(now - cached[0]) if cached is not None else self._most_ms
        if cached is not None and age < self._keep_ms:
            return cached[1]
        if self._making is None:
            self._making = asyncio.create_task(self._made(now, make))
            self._making.add_done_callback(self._is_made)
        if cached is not None and outdated and age < self._most_ms:
            return cached[1]
        return await asyncio.shield(self._making)

    def keep(self, answer: Answer, now: int) -> None:
        self._cached = (now, answer)

    async def _made(self, now: int, make: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        answer = await make()
        self.keep(answer, now)
        return answer

    def _is_made(self, done: asyncio.Task[Answer]) -> None:
        self._making = None
        if not done.cancelled():
            # Mark the error as retrieved, in case no caller waits for it.
            done.exception()


class Suggested(NamedTuple):
    """Suggested members for a viewer, most relevant first, with the reasons for each; about 30 KB."""

    ids: list[int]
    values: NDArray[np.float64]
    """See `core.ranking.people.values`; shape (ids, reasons)."""
    numbers: NDArray[np.float64]
    """The number that is displayed for each value: followees, followers, kilometers. Shape as `values`."""
    friends: NDArray[np.int64]
    """Up to two followees of the viewer who follow the suggested member; 0 for none. Shape (ids, 2)."""
    tags: list[tuple[str, ...]]
    """Tags of each suggested member that interest the viewer, as displayed."""
    town: str = ""
    """The town where the viewer lives, if distances are measured from there."""


class Popular(NamedTuple):
    id: int
    untrendable: bool


class Trending(NamedTuple):
    posts: list[Popular]
    weights: dict[int, float]
    """Weight of the recent reactions to each post that may trend."""


class Near(NamedTuple):
    """The cached friends of friends of a member.

    They are valid until the member's `followees` change, or one of the followees shows or hides whom they follow (`shown`).
    """

    followees: NDArray[np.int64]
    asked: NDArray[np.int64]
    """Followees whose follows were read."""
    shown: NDArray[np.bool_]
    """Whether each of the `asked` followees shows whom they follow."""
    found: FriendsOfFriends


@dataclass(frozen=True, slots=True)
class Reads:
    """The graph, caches and settings that all queries share."""

    graph: RememberingReader
    lasting: Reader
    """Reader that bypasses the cache, for rebuilding timelines."""
    timelines: Timelines
    follower_set_cache: FollowerSetCache | None
    """The follower sets in this process, which a rebuilt timeline joins; None if followers are read from the graph."""
    tags: TagCloud
    length: int = 800
    """Maximum number of entries of a rebuilt timeline."""
    rebuilding: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    """Timelines that are being rebuilt: concurrent readers wait for one rebuild."""
    related: ExpiringCache[tuple[str, int], list[RelatedTag]] = field(default_factory=ExpiringCache)
    """Related tags, by tag and number of posts considered."""
    search: SearchIndex = field(default_factory=NoIndex)
    trending: Renewed[Trending] = field(default_factory=Renewed)
    suggested: ExpiringCache[tuple[int, int], Suggested] = field(default_factory=lambda: ExpiringCache(1_000))
    """Suggestions of a viewer, which may include members whom the viewer has followed since."""
    popular: Renewed[list[int]] = field(default_factory=Renewed)
    """Active members with many followers."""
    interests: ExpiringCache[int, PackedInterests] = field(default_factory=lambda: ExpiringCache(200))
    """Interests of readers of ranked feeds: a few KB each, 50 KB with 5,000 followees."""
    near: ExpiringCache[int, Near] = field(default_factory=lambda: ExpiringCache(1_000, 600_000))
    """Friends of friends of readers of ranked feeds, at most 26 KB each."""
    neighbors: ExpiringCache[int, NDArray[np.int64]] = field(default_factory=lambda: ExpiringCache(30_000, 600_000))
    """Newest followers and followees of authors, at most 0.7 KB each."""
    being_ranked: dict[int, asyncio.Task[Any]] = field(default_factory=dict)
    """Feeds that are being ranked, by viewer. A ranking that exceeds the deadline continues, so that the next request
    is in time."""
    readings: Readings = field(default_factory=MemoryReadings)
    history_days: float = 400.0
    """Days for which the end of a follow is shown to the two members."""
    staff_second_factor: bool = False
    """Whether content for moderators and admins requires a second factor."""
    recipe: Recipe = BALANCED
    """Recipe for members without a recipe of their own."""
    push_counter: PushCounter = field(default_factory=PushCounter)
