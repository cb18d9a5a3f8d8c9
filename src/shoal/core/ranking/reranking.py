"""Re-ranking: candidate sources, diversity rules, exploration slots, and the catch-up selection.

`diversify` takes the best post that breaks no rule on the last `WINDOW` posts: at most `author_most` by one author, 5 with one
first tag, 7 from one first source. If all break a rule, the source rule is dropped first, then all rules; no post is lost.

Catch-up shows posts of quiet friends first, in at most half of the slots, and at most two posts per author. With four slots and
9 ann, 8 ann, 7 ann, 6 ben, 5 cyd (quiet), 4 dan (quiet), 3 eve (quiet), the order is cyd, dan, ann, ann.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from datetime import UTC, datetime
from enum import IntEnum, IntFlag
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

EXPLORED_BELOW = 50
"""Likes and shares that all posts of an author have got, below which few have met the author: exploration is for them."""


class Source(IntFlag):
    """A way in which a post can come into a ranked feed. Numbers are stored for an hour: new ones go at the end."""

    FOLLOWEES = 1
    """By somebody whom the viewer follows."""
    FRIENDS_LIKED = 2
    FRIENDS_SHARED = 4
    FRIENDS_COMMENTED = 8
    FRIENDS_OF_FRIENDS = 16
    """By somebody whom followees follow."""
    TAGS_FOLLOWED = 32
    TAGS_LIKED = 64
    """With a tag of posts that the viewer liked, shared or saved."""
    RISING = 128
    """With a tag on the rise."""
    AUTHORS_LIKED = 256
    """By an author whose posts the viewer likes."""
    POPULAR = 512
    NEARBY = 1024
    EXPLORATION = 2048
    """Among the newest public posts, whoever wrote it: alone it means that nothing else leads the viewer there."""

    @property
    def key(self) -> str:
        """Its name as in answers, in lower case."""
        return (self.name or "").lower()


WINDOW = 10
TAG_MOST = 5
SOURCE_MOST = 7
_LOOK_AHEAD = 60
"""Posts of a source that are tried for a place behind the first `_THOROUGH`; for those all are."""
_THOROUGH = 40

AUTHOR, TAG, SOURCE, EXPLORATION = "author", "tag", "source", "exploration"


class Part(IntEnum):
    """Part of the places that a post takes part in. What is in an earlier one goes before, as long as there is any."""

    RANKED = 0
    EXPLORING = 1
    """Nothing else leads to it, and few know its author: it may take the places for exploration."""
    REST = 2
    """Nothing else leads to it, and its author needs no exploring."""


class Ranked(NamedTuple):
    """A post for which a place is looked for. A tag or source that is None is in no rule."""

    author: Hashable
    tag: Hashable | None
    source: Hashable | None
    part: Part = Part.RANKED


class Placed(NamedTuple):
    """A place in the order: which post it has, how many places it lost (below 0: won), and the rule that cost places."""

    row: int
    lost: int
    rule: str = ""


def diversify(ranked: Sequence[Ranked], *, author_most: int, exploration: float) -> list[Placed]:
    """Return the order of posts that are given best first; each appears once.

    `exploration` is the part of the places, 0 to 0.5, that exploring posts get as long as there are any; they get no other
    place before all ranked ones are placed, and the rest comes last.
    """
    order = _Order(ranked, author_most)
    usual, exploring, rest = [
        order.queues([row for row, one in enumerate(ranked) if one.part is part]) for part in Part
    ]
    for place in range(len(ranked)):
        due = int((place + 1) * exploration) > int(place * exploration)
        order.place((exploring if due else usual) or usual or exploring or rest)
    return order.placed


_Queues = list[list[int]]
"""Rows by their source: in each queue the best is last, and the queue with the best of all comes first."""

_head = itemgetter(-1)


class _Order:
    """The order as it grows, with what stands in the window before the next place."""

    def __init__(self, ranked: Sequence[Ranked], author_most: int) -> None:
        self.placed: list[Placed] = []
        self._author_most = author_most
        # Columns of small numbers: hundreds of places are filled for a page, and each looks at a dozen posts.
        self._author, self._authors = _numbered([one.author for one in ranked])
        self._tag, self._tags = _numbered([one.tag for one in ranked])
        self._source, self._sources = _numbered([one.source for one in ranked])
        self._broken: dict[int, str] = {}
        self._full = -1
        """The source that has no room in the window: of ten posts only one can have seven. Below 0: none."""
        self._ever_full: set[int] = set()

    def queues(self, rows: Sequence[int]) -> _Queues:
        found: dict[int, list[int]] = {}
        for row in reversed(rows):
            found.setdefault(self._source[row], []).append(row)
        return sorted(found.values(), key=_head)

    def place(self, queues: _Queues) -> None:
        """Take the best row that breaks no rule, or else only that of sources, or else the best, from these queues."""
        if self._full < 0:
            taken = self._best(queues)
        else:
            room = [queue for queue in queues if self._source[queue[-1]] != self._full]
            if len(room) < len(queues):
                self._ever_full.add(self._full)
            taken = self._best(room) or self._best(queues)
        row, queue = taken or (queues[0][-1], queues[0])
        _take(queues, queue, row)
        lost = len(self.placed) - row
        missing = SOURCE if self._source[row] in self._ever_full else EXPLORATION
        self.placed.append(Placed(row, lost, self._broken.get(row, missing) if lost > 0 else ""))
        self._move_window(row)

    def _best(self, queues: _Queues) -> tuple[int, list[int]] | None:
        """Return the best of these rows that breaks no rule of authors and tags, and its queue."""
        best: tuple[int, list[int]] | None = None
        for queue in queues:
            # Nothing in this queue or the next ones is better than its first.
            if best is not None and queue[-1] > best[0]:
                break
            found = self._first(queue)
            if found is not None and (best is None or found < best[0]):
                best = found, queue
        return best

    def _first(self, queue: Sequence[int]) -> int | None:
        author, authors, tag, tags, most = self._author, self._authors, self._tag, self._tags, self._author_most
        ahead = _LOOK_AHEAD if len(self.placed) >= _THOROUGH else len(queue)
        for row in islice(reversed(queue), ahead):
            if authors[author[row]] >= most:
                self._broken.setdefault(row, AUTHOR)
            elif tags[tag[row]] >= TAG_MOST:
                self._broken.setdefault(row, TAG)
            else:
                return row
        return None

    def _move_window(self, newest: int) -> None:
        self._authors[self._author[newest]] += 1
        self._tags[self._tag[newest]] += 1
        source = self._source[newest]
        self._sources[source] += 1
        if len(self.placed) >= WINDOW:
            oldest = self.placed[-WINDOW].row
            self._authors[self._author[oldest]] -= 1
            self._tags[self._tag[oldest]] -= 1
            self._sources[self._source[oldest]] -= 1
        if self._sources[source] >= SOURCE_MOST:
            self._full = source
        elif self._full >= 0 and self._sources[self._full] < SOURCE_MOST:
            self._full = -1


def _numbered(values: Sequence[Hashable | None]) -> tuple[list[int], list[int]]:
    """Return small numbers in place of values, and for each number how many stand in the window: none; and of None never one."""
    numbers: dict[Hashable | None, int] = {None: 0}
    found = [numbers.setdefault(value, len(numbers)) for value in values]
    return found, [-len(values), *[0] * (len(numbers) - 1)]


def _take(queues: _Queues, queue: list[int], row: int) -> None:
    """Take a row out of its queue, which keeps its place among the others by what is its best then."""
    if queue[-1] != row:
        queue.remove(row)
        return
    queues.remove(queue)
    queue.pop()
    if queue:
        insort(queues, queue, key=_head)


AUTHOR_MOST = 2
"""Posts of one author."""
QUIET_DAYS = 30
QUIET_MOST = 4
"""Somebody is quiet who has posted and shared no more than so often within `QUIET_DAYS`, about once a week."""


_DAY_MS = 86_400_000


class Chosen(NamedTuple):
    """Rows of the posts that are shown: those by quiet friends, and the best of the others."""

    quiet: list[int]
    best: list[int]


def chosen(authors: Sequence[Hashable], quiet: Collection[Hashable], limit: int) -> Chosen:
    """Choose at most `limit` of the posts that are given best first, by their authors."""
    counts: Counter[Hashable] = Counter()
    found = Chosen([], [])
    for row, author in enumerate(authors):
        counts[author] += 1
        if counts[author] <= AUTHOR_MOST:
            (found.quiet if author in quiet else found.best).append(row)
    most = max(limit // 2, limit - len(found.best))
    first = found.quiet[:most]
    return Chosen(first, found.best[: limit - len(first)])


def end_words(since: int, until: int, left_out: int) -> str:
    """Return the words at the end, such as "That is all since Tuesday."; moments in Unix milliseconds, told in UTC."""
    moment = datetime.fromtimestamp(since / 1_000, UTC)
    days = until // _DAY_MS - since // _DAY_MS
    if days == 0:
        when = f"{moment:%H:%M} UTC"
    elif days < 7:
        when = f"{moment:%A}"
    else:
        when = f"{moment.day} {moment:%B}"
    if not left_out:
        return f"That is all since {when}."
    more = "one more is" if left_out == 1 else f"{left_out:,} more are"
    return f"That is the best since {when}; {more} in your home timeline."
