"""Daily statistics of the network for administrators, counted from stored data.

A count runs when statistics are requested, in the background, and takes at most a hundredth of the time. Objects are read a
page at a time, and so are the likes of the members among them. Memory holds the result only: at most `ACTIVITY_BYTES` of
member activity and a few numbers a day. Beyond that limit the oldest days are dropped. Tag statistics read a bounded part
of the tag's list.

A day is a number: days since 1970-01-01 UTC. Activity on a day is one bit a member, in the order of members in `joined`.
The members who were active at any time in a period are the union of the bits of its days, so each is counted once: of a
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
from shoal.core.ids import floor_at, milliseconds_of
from shoal.core.model import Member, Post, Report, Share, Visibility
from shoal.graph.contract import Assoc, Cursor, Reader, Store
from shoal.graph.schema import LIKES, TAG_OF, AnyNode

DAY_MS = 86_400_000
_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1)
"""How many bits are set in each value of a byte."""
PERIOD_DAYS = 366
"""The longest period that may be asked for."""
WINDOW_DAYS = 2 * PERIOD_DAYS
"""So many days are counted: the longest period, and the one before it."""

Kind = TypeVar("Kind", str, int)
Bits = NDArray[np.uint8]


class Period(NamedTuple):
    """Days from the first to the last, both of them counted."""

    first: int
    last: int

    @property
    def days(self) -> range:
        """All of them, the earliest first."""
        return range(self.first, self.last + 1)

    @property
    def before(self) -> Period:
        """The period of the same length that ends where this one begins."""
        return Period(self.first - len(self.days), self.first - 1)


class Held(NamedTuple):
    """How many members of a cohort were active in one of the periods that follow."""

    began: int
    """The first day of that period."""
    members: int
    rate: float
    """The part of the cohort, 0 to 1."""


class Cohort(NamedTuple):
    """Members who joined in the period that began on a day, and how many of them were active in it and later."""

    began: int
    held: tuple[Held, ...]


@dataclass(frozen=True)
class Figures:
    """The network in numbers; days on which nothing happened are in none of the tables."""

    first: int = 0
    """The day when the first member joined, or the first post was written."""
    since: int = 0
    """From this day on everything is known; before it nothing, unless the network is younger than that."""
    joined: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    """The day when each member joined."""
    active: Mapping[int, Bits] = field(default_factory=dict)
    """Members who posted, by day."""
    interactions: Mapping[int, int] = field(default_factory=dict)
    """Likes, shares and comments on posts of others, by day."""
    opened: Mapping[int, int] = field(default_factory=dict)
    resolved: Mapping[int, int] = field(default_factory=dict)
    """Reports that were closed, by day; one that was opened again is not among them."""
    posts: Mapping[int, int] = field(default_factory=dict)
    languages: Mapping[int, Counter[str]] = field(default_factory=dict)
    """Posts by language, by day."""
    apps: Mapping[int, Counter[int]] = field(default_factory=dict)
    """Posts by the app that sent them (0: none), by day."""
    media_bytes: int = 0
    """Bytes of the files of all media."""

    def knows(self, period: Period) -> bool:
        """Whether the whole period was counted, or lies before anything happened."""
        return period.first >= self.since or self.first >= self.since

    def newcomers(self, period: Period) -> list[int]:
        """Members who joined, by day."""
        there = self.joined[(self.joined >= period.first) & (self.joined <= period.last)] - period.first
        return [int(number) for number in np.bincount(there, minlength=len(period.days))]

    def active_by_day(self, period: Period) -> list[int]:
        """Members who posted, by day."""
        return [_ones(self.active[day]) if day in self.active else 0 for day in period.days]

    def active_in(self, period: Period) -> int:
        """Members who posted at any time in the period, each counted once."""
        return _ones(self._together(period.days))

    def retention(self, starts: Sequence[int], last: int) -> list[Cohort]:
        """Cohorts of the periods that begin on these days, the last of which ends with the day `last`.

        Each cohort tells of its own period and of those that follow.
        """
        edges = np.array([*starts, last + 1])
        chosen = np.flatnonzero((self.joined >= edges[0]) & (self.joined < edges[-1]))
        cohort_of = np.searchsorted(edges, self.joined[chosen], side="right") - 1
        sizes = np.bincount(cohort_of, minlength=len(starts))
        held: list[list[Held]] = [[] for _ in starts]
        for place, began in enumerate(starts):
            together = self._together(range(began, int(edges[place + 1])))
            seen = together[chosen >> 3] >> (7 - (chosen & 7)) & 1
            counts = np.bincount(cohort_of[seen.astype(bool)], minlength=len(starts))
            for cohort in range(place + 1):
                number, size = int(counts[cohort]), int(sizes[cohort])
                held[cohort].append(Held(began, number, number / size if size else 0.0))
        return [Cohort(began, tuple(row)) for began, row in zip(starts, held, strict=True)]

    def _together(self, days: Iterable[int]) -> Bits:
        together = np.zeros(-(-len(self.joined) // 8), np.uint8)
        for day in days:
            if (bits := self.active.get(day)) is not None:
                together |= bits
        return together


def by_day(table: Mapping[int, int], period: Period) -> list[int]:
    """The numbers of the days of a period."""
    return [table.get(day, 0) for day in period.days]


def summed(tables: Mapping[int, Counter[Kind]], period: Period) -> Counter[Kind]:
    """Add up the tables of the days of a period."""
    total: Counter[Kind] = Counter()
    for day in period.days:
        total.update(tables.get(day, {}))
    return total


def _ones(bits: Bits) -> int:
    """How many bits are set: bytes are counted by their values, which is faster than taking them apart."""
    return int(np.bincount(bits, minlength=256) @ _ONES)


ACTIVITY_BYTES = 64 << 20
OBJECTS_AT_ONCE = 2_000
MEMBERS_AT_ONCE = 200
LIKES_AT_ONCE = 200
PAIRS_AT_ONCE = 100_000
_APPS_A_DAY = 200
"""So many apps of a day are told apart, those that sent most."""
_FIRST = -1
"""Below the id of every object."""


async def count(
    store: Store, now: int, *, room: int = ACTIVITY_BYTES, page_size: int = OBJECTS_AT_ONCE, likes: int = LIKES_AT_ONCE
) -> Figures:
    """The figures up to a moment (Unix ms). `room` is for bytes of activity, the others say how much is read at a time."""
    counting = _Counting(now // DAY_MS, room)
    after = _FIRST
    while page := await store.obj_scan(after, page_size):
        for node in page:
            counting.take(node)
        members = [node.id for node in page if isinstance(node, Member)]
        for at in range(0, len(members), MEMBERS_AT_ONCE):
            await _count_likes(store, counting, members[at : at + MEMBERS_AT_ONCE], likes)
        after = page[-1].id
    return counting.figures()


async def _count_likes(store: Store, counting: _Counting, members: Sequence[int], limit: int) -> None:
    """One read for many members; those who like more than its limit are read on by themselves."""
    begin = floor_at(counting.since * DAY_MS) - 1
    for member, listed in (await store.assoc_ranges(members, LIKES, Cursor(after=begin, limit=limit))).items():
        page: Sequence[Assoc] = listed
        counting.like(page)
        while len(page) == limit:
            page = await store.assoc_range(member, LIKES, Cursor(before=page[-1].time, after=begin, limit=limit))
            counting.like(page)


class _Counting:
    """Figures on their way."""

    def __init__(self, today: int, room: int) -> None:
        self.since = today - WINDOW_DAYS + 1
        self._first = today
        self._joined = array("i")
        self._media_bytes = 0
        self._interactions, self._opened, self._resolved, self._posts = (Counter[int]() for _ in range(4))
        self._languages: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self._apps: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._activity = _Activity(self.since, room)

    def take(self, node: AnyNode) -> None:
        """Count an object."""
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
        """Count likes."""
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
        """Return the figures that were counted."""
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
    """Activity by day: pairs of a day and a member, which become bits a hundred thousand at a time.

    Members come in the order of their ids. They come before what they post, but for imports: whoever is not known when a
    pair is looked at is looked for again later.
    """

    def __init__(self, since: int, room: int) -> None:
        self.since = since
        self.members = array("q")
        self._room = room
        self._days, self._authors = array("q"), array("q")
        self._full = PAIRS_AT_ONCE
        self._bits: dict[int, Bits] = {}

    def note(self, day: int, member_id: int) -> None:
        """Note that a member was active."""
        if day >= self.since:
            self._days.append(day)
            self._authors.append(member_id)
            if len(self._days) >= self._full:
                self._pack()

    def settled(self) -> dict[int, Bits]:
        """The bits of each day, all of one length."""
        self._pack()
        length = -(-len(self.members) // 8)
        self._bits = {day: np.pad(bits, (0, length - len(bits))) for day, bits in self._bits.items()}
        self._make_room()
        return self._bits

    def _pack(self) -> None:
        days, authors = _each_once(np.array(self._days, np.int64), np.array(self._authors, np.int64))
        members = np.array(self.members, np.int64)
        places = np.searchsorted(members, authors)
        known = places < len(members)
        known[known] = members[places[known]] == authors[known]
        marked, begins = np.unique(days[known], return_index=True)
        for day, here in zip(marked, np.split(places[known], begins[1:]), strict=False):
            self._mark(int(day), here)
        self._keep(days[~known], authors[~known])
        self._make_room()

    def _keep(self, days: NDArray[np.int64], authors: NDArray[np.int64]) -> None:
        """Keep the pairs whose members are not known yet: the newest that there is room for."""
        if (over := 16 * len(days) - self._room) > 0:
            self.since = max(self.since, int(days[over // 16]) + 1)
            days, authors = days[days >= self.since], authors[days >= self.since]
        self._days, self._authors = array("q", days.tolist()), array("q", authors.tolist())
        self._full = max(PAIRS_AT_ONCE, 2 * len(days))

    def _mark(self, day: int, places: NDArray[np.int64]) -> None:
        bits = self._bits.get(day, np.empty(0, np.uint8))
        missing = -(-len(self.members) // 8) - len(bits)
        bits = np.pad(bits, (0, missing)) if missing else bits
        np.bitwise_or.at(bits, places >> 3, (128 >> (places & 7)).astype(np.uint8))
        self._bits[day] = bits

    def _make_room(self) -> None:
        while len(self._bits) > 1 and sum(map(len, self._bits.values())) > self._room:
            self.since = max(self.since, min(self._bits) + 1)
            self._bits = {day: bits for day, bits in self._bits.items() if day >= self.since}


def _each_once(days: NDArray[np.int64], authors: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs in order of the day, each once."""
    order = np.lexsort((authors, days))
    days, authors = days[order], authors[order]
    fresh = np.ones(len(days), np.bool_)
    fresh[1:] = (days[1:] != days[:-1]) | (authors[1:] != authors[:-1])
    return days[fresh], authors[fresh]


_log = logging.getLogger(__name__)

_FRESH_SECONDS = 60.0
_REST = 100.0
"""After a reading the figures stay for so many times as long as it took, if that is longer."""
_PATIENCE_SECONDS = 0.5
"""How long a request waits for new figures where there are older ones."""
_FIRST_PATIENCE_SECONDS = 10.0
"""How long it waits where there are none."""


class Ledger:
    """The newest figures of a store; several requests at the same time share one reading."""

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
        """The figures as last counted. Raises `Unavailable` while they are counted for the first time."""
        if self._counting is None and time.monotonic() >= self._again_at:
            self._counting = asyncio.create_task(self._count(), name="shoal-statistics")
        if self._counting is not None:
            patience = self._patience if self._figures is None else _PATIENCE_SECONDS
            await asyncio.wait({self._counting}, timeout=patience)
        if self._figures is None:
            raise Unavailable("The network is being counted; ask again in a moment")
        return self._figures

    async def close(self) -> None:
        """Stop counting."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait({self._counting})

    async def _count(self) -> None:
        began = time.monotonic()
        try:
            self._figures = await count(self._store, time.time_ns() // 1_000_000)
        except Exception:  # noqa: BLE001 (those who ask have the old figures; it is in the log)
            _log.exception("counting the network by day failed")
        finally:
            # After a failure as well: a store in trouble is not read at every request.
            now = time.monotonic()
            self._again_at = now + max(self._fresh, _REST * (now - began))
            self._counting = None


MOST = 10_000
"""Uses of one period."""
_PAGE = 1_000


class TaggedPost(NamedTuple):
    """A public post that has the tag."""

    day: int
    author_id: int
    language: str


async def uses(graph: Reader, tag: int, period: Period, *, most: int = MOST) -> list[TaggedPost]:
    """Every use in the period. Raises `InvalidInput` where there are too many to read."""
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
    """Uses of tags as one request asks for them: each period of a tag is read once, however many figures come of it."""

    def __init__(self, graph: Reader) -> None:
        self._graph = graph
        self._read: dict[tuple[int, Period], list[TaggedPost]] = {}

    async def of(self, tag: int, period: Period) -> list[TaggedPost]:
        """See `uses`."""
        if (tag, period) not in self._read:
            self._read[tag, period] = await uses(self._graph, tag, period)
        return self._read[tag, period]


def _use(post: Post, period: Period) -> TaggedPost | None:
    """A use counts like those of the tag cloud: in public posts in sight."""
    day = post.created_at // DAY_MS
    if post.visibility is not Visibility.PUBLIC or post.hidden or not period.first <= day <= period.last:
        return None
    return TaggedPost(day, post.author_id, post.language)
