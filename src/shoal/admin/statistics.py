"""Daily statistics of the network for administrators, counted from stored data.

A count begins when statistics are requested, runs in the background, and takes at most a hundredth of the time. Objects
are read page by page; the likes of the members on a page are read after it. Memory contains only the result: at most
`ACTIVITY_BYTES` of member activity and a few numbers a day. Beyond that limit, the oldest days are dropped. Tag
statistics read a bounded part of the tag's list.

A day is a number: days since 1970-01-01 UTC. Activity on a day is one bit per member, in the order of members in
`joined`. The members who were active in a period are the union of the bits of its days, so each counts once. With a
million members, a day takes 125 KB.
"""

from __future__ import annotations

import asyncio
import logging
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.ids import floor_at, milliseconds_of, now_ms
from shoal.core.model import DAY_MS, Member, Post, Report, Share, Visibility
from shoal.graph.bulk import FIRST
from shoal.graph.contract import Assoc, Cursor, Reader, Store
from shoal.graph.schema import LIKES, TAG_OF, AnyNode

_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1)
"""Number of set bits for each value of a byte."""
PERIOD_DAYS = 366
WINDOW_DAYS = 2 * PERIOD_DAYS
"""Number of days that are counted: the longest period, and an equal one before it."""

Kind = TypeVar("Kind", str, int)
Bits = NDArray[np.uint8]


class Period(NamedTuple):
    first: int
    last: int

    @property
    def days(self) -> range:
        return range(self.first, self.last + 1)

    @property
    def before(self) -> Period:
        return Period(self.first - len(self.days), self.first - 1)


class Held(NamedTuple):
    """The number of active members of a cohort in one period."""

    began: int
    members: int
    rate: float
    """Fraction of the cohort, 0 to 1."""


class Cohort(NamedTuple):
    began: int
    held: tuple[Held, ...]


@dataclass(frozen=True)
class Figures:
    """The statistics of the network. The mappings lack days without activity."""

    first: int = 0
    """The day when the first member joined, or the first post was written if that was earlier."""
    since: int = 0
    """The first day with complete data. Activity before this day may be missing."""
    joined: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    active: Mapping[int, Bits] = field(default_factory=dict)
    interactions: Mapping[int, int] = field(default_factory=dict)
    """Likes, shares and comments by day. Reactions to a member's own posts do not count."""
    opened: Mapping[int, int] = field(default_factory=dict)
    resolved: Mapping[int, int] = field(default_factory=dict)
    """Resolved reports by day. Reports that were reopened do not count."""
    posts: Mapping[int, int] = field(default_factory=dict)
    languages: Mapping[int, Counter[str]] = field(default_factory=dict)
    apps: Mapping[int, Counter[int]] = field(default_factory=dict)
    """Posts by day and by the id of the app that sent them; 0 for none."""
    media_bytes: int = 0

    def knows(self, period: Period) -> bool:
        return period.first >= self.since or self.first >= self.since

    def newcomers(self, period: Period) -> list[int]:
        there = self.joined[(self.joined >= period.first) & (self.joined <= period.last)] - period.first
        return [int(number) for number in np.bincount(there, minlength=len(period.days))]

    def active_by_day(self, period: Period) -> list[int]:
        return [_ones(self.active[day]) if day in self.active else 0 for day in period.days]

    def active_in(self, period: Period) -> int:
        """Return the number of members who posted in the period. Each counts once."""
        return _ones(self._together(period.days))

    def retention(self, starts: Sequence[int], last: int) -> list[Cohort]:
        """Return the cohorts of the periods that begin on these days. The last period ends with the day `last`.

        A cohort has numbers for its own period and all later ones.
        """
        edges = np.array([*starts, last + 1])
        chosen = np.flatnonzero((self.joined >= edges[0]) & (self.joined < edges[-1]))
        cohort_of = np.searchsorted(edges, self.joined[chosen], side="right") - 1
        sizes = np.bincount(cohort_of, minlength=len(starts))
        periods: list[list[Held]] = [[] for _ in starts]
        for period, began in enumerate(starts):
            together = self._together(range(began, int(edges[period + 1])))
            seen = together[chosen >> 3] >> (7 - (chosen & 7)) & 1
            counts = np.bincount(cohort_of[seen.astype(bool)], minlength=len(starts))
            for cohort in range(period + 1):
                number, size = int(counts[cohort]), int(sizes[cohort])
                periods[cohort].append(Held(began, number, number / size if size else 0.0))
        return [Cohort(began, tuple(row)) for began, row in zip(starts, periods, strict=True)]

    def _together(self, days: Iterable[int]) -> Bits:
        together = np.zeros(-(-len(self.joined) // 8), np.uint8)
        for day in days:
            if (bits := self.active.get(day)) is not None:
                together |= bits
        return together


def by_day(table: Mapping[int, int], period: Period) -> list[int]:
    return [table.get(day, 0) for day in period.days]


def summed(tables: Mapping[int, Counter[Kind]], period: Period) -> Counter[Kind]:
    total: Counter[Kind] = Counter()
    for day in period.days:
        total.update(tables.get(day, {}))
    return total


def _ones(bits: Bits) -> int:
    return int(np.bincount(bits, minlength=256) @ _ONES)


ACTIVITY_BYTES = 64 << 20
OBJECTS_AT_ONCE = 2_000
MEMBERS_AT_ONCE = 200
LIKES_AT_ONCE = 200
PAIRS_AT_ONCE = 100_000
_APPS_A_DAY = 200
"""Maximum number of apps per day in the statistics: those with the most posts."""


async def count(
    store: Store,
    now: int,
    *,
    capacity: int = ACTIVITY_BYTES,
    page_size: int = OBJECTS_AT_ONCE,
    likes: int = LIKES_AT_ONCE,
) -> Figures:
    """Compute the statistics up to `now` (Unix ms).

    `capacity` limits the bytes of member activity in memory. A page has at most `page_size` objects, or `likes` likes
    of each member.
    """
    counting = _Counting(now // DAY_MS, capacity)
    after = FIRST
    while page := await store.obj_scan(after, page_size):
        for node in page:
            counting.take(node)
        members = [node.id for node in page if isinstance(node, Member)]
        for at in range(0, len(members), MEMBERS_AT_ONCE):
            await _count_likes(store, counting, members[at : at + MEMBERS_AT_ONCE], likes)
        after = page[-1].id
    return counting.figures()


async def _count_likes(store: Store, counting: _Counting, members: Sequence[int], limit: int) -> None:
    """Read the likes of many members together.

    If a member has more than `limit` likes, the remaining likes of this member are read separately.
    """
    begin = floor_at(counting.since * DAY_MS) - 1
    for member, listed in (await store.assoc_ranges(members, LIKES, Cursor(after=begin, limit=limit))).items():
        page: Sequence[Assoc] = listed
        counting.like(page)
        while len(page) == limit:
            page = await store.assoc_range(member, LIKES, Cursor(before=page[-1].time, after=begin, limit=limit))
            counting.like(page)


class _Counting:
    def __init__(self, today: int, capacity: int) -> None:
        self.since = today - WINDOW_DAYS + 1
        self._first = today
        self._joined = array("i")
        self._media_bytes = 0
        self._interactions, self._opened, self._resolved, self._posts = (Counter[int]() for _ in range(4))
        self._languages: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self._apps: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._activity = _Activity(self.since, capacity)

    def take(self, node: AnyNode) -> None:
        match node:
            case Member():
                self._begins(node.created_at)
                self._activity.members.append(node.id)
                self._joined.append(node.created_at // DAY_MS)
                self._media_bytes += node.media_bytes
            case Post():
                self._post(node, self._begins(node.created_at))
            case Share():
                self._interactions[milliseconds_of(node.id) // DAY_MS] += 1
            case Report():
                self._opened[milliseconds_of(node.id) // DAY_MS] += 1
                if node.closed_at:
                    self._resolved[node.closed_at // DAY_MS] += 1

    def like(self, likes: Iterable[Assoc]) -> None:
        self._interactions.update(milliseconds_of(like.time) // DAY_MS for like in likes)

    def _begins(self, moment: int) -> int:
        day = moment // DAY_MS
        self._first = min(self._first, day)
        return day

    def _post(self, post: Post, day: int) -> None:
        self._activity.note(day, post.author_id)
        if day < self.since or post.hidden:
            return
        self._posts[day] += 1
        self._interactions[day] += bool(post.parent_id) and post.parent_author_id != post.author_id
        self._apps[day][post.app_id] += 1
        if post.language:
            self._languages[day][post.language] += 1

    def figures(self) -> Figures:
        active = self._activity.settled()
        return Figures(
            first=self._first,
            since=self._activity.since,
            joined=np.array(self._joined, np.int32),
            active=active,
            interactions=self._interactions,
            opened=self._opened,
            resolved=self._resolved,
            posts=self._posts,
            languages=dict(self._languages),
            apps={day: Counter(dict(sent.most_common(_APPS_A_DAY))) for day, sent in self._apps.items()},
            media_bytes=self._media_bytes,
        )


class _Activity:
    """The activity of members by day: pairs of a day and a member, converted to bits in batches of 100,000.

    Members arrive in the order of their ids, and before their posts. Imported posts are an exception: a pair whose
    member is not known yet is kept for a later batch.
    """

    def __init__(self, since: int, capacity: int) -> None:
        self.since = since
        self.members = array("q")
        self._capacity = capacity
        self._days, self._authors = array("q"), array("q")
        self._full = PAIRS_AT_ONCE
        self._bits: dict[int, Bits] = {}

    def note(self, day: int, member_id: int) -> None:
        if day >= self.since:
            self._days.append(day)
            self._authors.append(member_id)
            if len(self._days) >= self._full:
                self._pack()

    def settled(self) -> dict[int, Bits]:
        """Return, for each day, one bit per member, which is 1 if the member was active. All days have equally many bits."""
        self._pack()
        length = -(-len(self.members) // 8)
        self._bits = {day: np.pad(bits, (0, length - len(bits))) for day, bits in self._bits.items()}
        self._evict()
        return self._bits

    def _pack(self) -> None:
        days, authors = _each_once(np.array(self._days, np.int64), np.array(self._authors, np.int64))
        members = np.array(self.members, np.int64)
        rows = np.searchsorted(members, authors)
        known = rows < len(members)
        known[known] = members[rows[known]] == authors[known]
        marked, begins = np.unique(days[known], return_index=True)
        for day, here in zip(marked, np.split(rows[known], begins[1:]), strict=False):
            self._mark(int(day), here)
        self._keep(days[~known], authors[~known])
        self._evict()

    def _keep(self, days: NDArray[np.int64], authors: NDArray[np.int64]) -> None:
        """Keep the pairs whose member is not known yet. Beyond the capacity, keep only the newest."""
        if (over := 16 * len(days) - self._capacity) > 0:
            self.since = max(self.since, int(days[over // 16]) + 1)
            days, authors = days[days >= self.since], authors[days >= self.since]
        self._days, self._authors = array("q", days.tolist()), array("q", authors.tolist())
        self._full = max(PAIRS_AT_ONCE, 2 * len(days))

    def _mark(self, day: int, rows: NDArray[np.int64]) -> None:
        bits = self._bits.get(day, np.empty(0, np.uint8))
        missing = -(-len(self.members) // 8) - len(bits)
        bits = np.pad(bits, (0, missing)) if missing else bits
        np.bitwise_or.at(bits, rows >> 3, (128 >> (rows & 7)).astype(np.uint8))
        self._bits[day] = bits

    def _evict(self) -> None:
        while len(self._bits) > 1 and sum(map(len, self._bits.values())) > self._capacity:
            self.since = max(self.since, min(self._bits) + 1)
            self._bits = {day: bits for day, bits in self._bits.items() if day >= self.since}


def _each_once(days: NDArray[np.int64], authors: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.lexsort((authors, days))
    days, authors = days[order], authors[order]
    fresh = np.ones(len(days), np.bool_)
    fresh[1:] = (days[1:] != days[:-1]) | (authors[1:] != authors[:-1])
    return days[fresh], authors[fresh]


_log = logging.getLogger(__name__)

_FRESH_SECONDS = 60.0
_REUSE_FACTOR = 100.0
"""A result is used again for this multiple of the time that the count took, if that is longer than the minimum."""
_PATIENCE_SECONDS = 0.5
"""Seconds that a request waits for new statistics if there are older ones."""
_FIRST_PATIENCE_SECONDS = 10.0
"""Seconds that a request waits for statistics if there are none yet."""


class Ledger:
    def __init__(
        self, store: Store, *, fresh: float = _FRESH_SECONDS, patience: float = _FIRST_PATIENCE_SECONDS
    ) -> None:
        self._store = store
        self._fresh = fresh
        self._patience = patience
        self._figures: Figures | None = None
        self._again_at = float("-inf")
        self._counting: asyncio.Task[None] | None = None

    async def figures(self) -> Figures:
        """Return the newest statistics. Raises `Unavailable` if the first count takes longer than ten seconds."""
        if self._counting is None and time.monotonic() >= self._again_at:
            self._counting = asyncio.create_task(self._count(), name="shoal-statistics")
        if self._counting is not None:
            patience = self._patience if self._figures is None else _PATIENCE_SECONDS
            await asyncio.wait({self._counting}, timeout=patience)
        if self._figures is None:
            raise Unavailable("Statistics are being computed; try again in a moment")
        return self._figures

    async def close(self) -> None:
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait({self._counting})

    async def _count(self) -> None:
        began = time.monotonic()
        try:
            self._figures = await count(self._store, now_ms())
        except Exception:  # noqa: BLE001  # requests get the old figures
            _log.exception("computing the daily statistics failed")
        finally:
            # Postpone the next count even after a failure, so that requests do not scan an overloaded store repeatedly.
            now = time.monotonic()
            self._again_at = now + max(self._fresh, _REUSE_FACTOR * (now - began))
            self._counting = None


MOST = 10_000
"""Maximum number of uses of a tag in a period for which statistics are computed."""
_PAGE = 1_000


class TaggedPost(NamedTuple):
    day: int
    author_id: int
    language: str


async def uses(graph: Reader, tag: int, period: Period, *, most: int = MOST) -> list[TaggedPost]:
    """Return every public post with a tag in a period. Raises `InvalidInput` if there are more than `most`."""
    found: list[TaggedPost] = []
    before, after = floor_at((period.last + 1) * DAY_MS), floor_at(period.first * DAY_MS) - 1
    for _ in range(most // _PAGE + 1):
        page = await graph.assoc_range(tag, TAG_OF, Cursor(before=before, after=after, limit=_PAGE))
        nodes = await graph.obj_get([assoc.id2 for assoc in page])
        found += [use for node in nodes.values() if isinstance(node, Post) and (use := _use(node, period))]
        if len(page) < _PAGE:
            return found
        before = page[-1].time
    raise InvalidInput(f"start_at: the tag was used more than {most} times; choose a shorter period", field="start_at")


class TagUseReader:
    """Reads the uses of tags for one request. A tag and period are read only once."""

    def __init__(self, graph: Reader) -> None:
        self._graph = graph
        self._read: dict[tuple[int, Period], list[TaggedPost]] = {}

    async def of(self, tag: int, period: Period) -> list[TaggedPost]:
        if (tag, period) not in self._read:
            self._read[tag, period] = await uses(self._graph, tag, period)
        return self._read[tag, period]


def _use(post: Post, period: Period) -> TaggedPost | None:
    """Return a post as a use of its tag. None if it is outside the period, or is hidden and does not count."""
    day = post.created_at // DAY_MS
    if post.visibility is not Visibility.PUBLIC or post.hidden or not period.first <= day <= period.last:
        return None
    return TaggedPost(day, post.author_id, post.language)
