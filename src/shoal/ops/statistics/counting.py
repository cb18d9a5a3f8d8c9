"""Read the network through once, and count what happened on each day.

Objects come a page at a time, and so do the likes of the members among them, so what is held is the result: at most
`ACTIVITY_BYTES` of who was active when, and a few numbers a day. Where it would be more, the oldest days are let go.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.core.ids import floor_at, milliseconds_of
from shoal.core.model import Member, Post, Report, Share
from shoal.graph.contract import Assoc, Cursor, Store
from shoal.graph.schema import LIKES, AnyNode
from shoal.ops.statistics.figures import DAY_MS, WINDOW_DAYS, Bits, Figures

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
