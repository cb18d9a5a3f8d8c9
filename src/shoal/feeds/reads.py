"""Everything that feeds may read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.ranking.people import FriendsOfFriends
from shoal.core.ranking.preferences import PackedInterests
from shoal.core.ranking.recipes import BALANCED, Recipe
from shoal.discovery.contract import SearchIndex
from shoal.discovery.nowhere import NoIndex
from shoal.feeds.shared_answers import Remembered, Renewed
from shoal.graph.contract import Reader, RememberingReader
from shoal.tagcloud.cloud import RelatedTag
from shoal.tagcloud.reader import TagCloud
from shoal.timelines.audience import Audiences
from shoal.timelines.contract import Timelines
from shoal.timelines.readings import MemoryReadings, Readings
from shoal.timelines.tally import PushTally


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
