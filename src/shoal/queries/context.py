"""The dependencies of queries: the graph reader, the stores in front of it, and caches shared between requests.

A shared cache entry may be up to a minute old, so results that depend on it are not cached for longer. A result can instead be
cached with `read_sets.compared`, which runs the query again and finds a newer shared entry here.
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
from shoal.graph.cache.responses import not_noted
from shoal.graph.contract import Reader, RememberingReader
from shoal.search.contract import NoIndex, SearchIndex
from shoal.tagcloud.cloud import RelatedTag
from shoal.tagcloud.reader import TagCloud
from shoal.timelines.contract import MemoryReadings, PushTally, Readings, Timelines
from shoal.timelines.follower_sets import Audiences

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class Remembered(Generic[Key, Answer]):
    """The latest answers, limited in number and age. Moments are Unix milliseconds by the caller's clock."""

    def __init__(self, most: int = 2_000, keep_ms: int = 60_000) -> None:
        self._most = most
        self._keep_ms = keep_ms
        self._held: dict[Key, tuple[int, Answer]] = {}

    def get(self, key: Key, now: int) -> Answer | None:
        """Return the remembered answer; None when it is missing or too old."""
        not_noted()
        held = self._held.get(key)
        return held[1] if held is not None and abs(now - held[0]) < self._keep_ms else None

    def put(self, key: Key, answer: Answer, now: int) -> None:
        """Remember an answer; the oldest ones make room."""
        self._held.pop(key, None)
        self._held[key] = (now, answer)
        while len(self._held) > self._most:
            del self._held[next(iter(self._held))]


class Renewed(Generic[Answer]):
    """An answer that is the same for everybody, and is made anew once a minute, once for all who ask meanwhile.

    What is being made is finished even if nobody waits for it any more. Moments are Unix milliseconds by the caller's clock.
    """

    def __init__(self, keep_ms: int = 60_000, most_ms: int = 600_000) -> None:
        self._keep_ms = keep_ms
        self._most_ms = most_ms
        self._held: tuple[int, Answer] | None = None
        self._making: asyncio.Task[Answer] | None = None

    async def get(self, now: int, make: Callable[[], Coroutine[Any, Any, Answer]], *, outdated: bool = False) -> Answer:
        """Return the answer, at most a minute old, and raise what making it raises.

        With `outdated`, nobody waits for a new one where there is one of the last ten minutes.
        """
        not_noted()
        held = self._held
        age = abs(now - held[0]) if held is not None else self._most_ms
        if held is not None and age < self._keep_ms:
            return held[1]
        if self._making is None:
            self._making = asyncio.create_task(self._made(now, make))
            self._making.add_done_callback(self._is_made)
        if held is not None and outdated and age < self._most_ms:
            return held[1]
        return await asyncio.shield(self._making)

    def keep(self, answer: Answer, now: int) -> None:
        """Keep an answer that was made now."""
        self._held = (now, answer)

    async def _made(self, now: int, make: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        answer = await make()
        self.keep(answer, now)
        return answer

    def _is_made(self, done: asyncio.Task[Answer]) -> None:
        self._making = None
        if not done.cancelled():
            # Whoever waits for it meets the error too; here nobody may be waiting any more.
            done.exception()


class Suggested(NamedTuple):
    """Members who may be suggested to a viewer, the likeliest first, with what speaks for each; about 30 KB."""

    ids: list[int]
    values: NDArray[np.float64]
    """As `core.ranking.people.values` gives them: shape (ids, reasons)."""
    numbers: NDArray[np.float64]
    """A number for each value, which its words say: followees, followers, kilometres. The same shape."""
    friends: NDArray[np.int64]
    """Up to two followees of the viewer who follow each; 0 for none. Shape (ids, 2)."""
    tags: list[tuple[str, ...]]
    """Tags of each that interest the viewer, as they are shown."""


class Popular(NamedTuple):
    """A post that many like, and whether moderators keep it from trends."""

    id: int
    untrendable: bool


class Trending(NamedTuple):
    """Posts that trend, and how much others are reacted to."""

    posts: list[Popular]
    """The first first."""
    weights: dict[int, float]
    """Weight of the reactions of late to each post that may trend."""


class Near(NamedTuple):
    """Whom the followees of a member follow. It holds as long as what it was made from is the same."""

    followees: NDArray[np.int64]
    asked: NDArray[np.int64]
    """Followees who were asked whom they follow."""
    shown: NDArray[np.bool_]
    """Which of these show it."""
    found: FriendsOfFriends


@dataclass(frozen=True, slots=True)
class Reads:
    """The graph to read, and the caches in front of it."""

    graph: RememberingReader
    lasting: Reader
    """The graph past its cache, for rebuilding timelines."""
    timelines: Timelines
    audiences: Audiences | None
    """The audiences in this process, which a rebuilt timeline joins; None where followers are read from the graph."""
    tags: TagCloud
    length: int = 800
    """Entries of a rebuilt timeline."""
    rebuilding: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    """Timelines that are being rebuilt: concurrent readers wait for one rebuild."""
    related: Remembered[tuple[str, int], list[RelatedTag]] = field(default_factory=Remembered)
    """Related tags, by tag and number of posts considered."""
    search: SearchIndex = field(default_factory=NoIndex)
    trending: Renewed[Trending] = field(default_factory=Renewed)
    suggested: Remembered[tuple[int, int], Suggested] = field(default_factory=lambda: Remembered(1_000))
    """Members whom a viewer may want to follow, before a check whether they already do."""
    popular: Renewed[list[int]] = field(default_factory=Renewed)
    """Members who are active and whom many follow."""
    interests: Remembered[int, PackedInterests] = field(default_factory=lambda: Remembered(200))
    """Interests of members who read ranked feeds: a few KB each, of one with 5,000 followees 50 KB."""
    near: Remembered[int, Near] = field(default_factory=lambda: Remembered(1_000, 600_000))
    """Whom the followees of such members follow, at most 26 KB each."""
    neighbours: Remembered[int, NDArray[np.int64]] = field(default_factory=lambda: Remembered(30_000, 600_000))
    """The newest followers and followees of authors, at most 0.7 KB each."""
    being_ranked: dict[int, asyncio.Task[Any]] = field(default_factory=dict)
    """Feeds that are being ranked, by viewer: one that took too long goes on, so that the next is in time."""
    readings: Readings = field(default_factory=MemoryReadings)
    history_days: float = 400.0
    """Days for which the end of a follow is told to the two members."""
    staff_second_factor: bool = False
    """Whether what only moderators and admins are shown is for those with a second factor."""
    recipe: Recipe = BALANCED
    """Weights of ranked feeds for members who have chosen none."""
    tally: PushTally = field(default_factory=PushTally)
    """Counts what is pulled, beside what is pushed."""
