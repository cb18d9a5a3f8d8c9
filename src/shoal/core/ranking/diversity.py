"""Diversity: the order in which ranked posts are shown, so that no author, tag or source takes a whole screen.

A score does not depend on the other candidates; this order does. It takes the best post that breaks no rule, then the next. A
rule looks at the `WINDOW` posts that end with the one to be placed:

    at most `author_most` are by one author, 5 have one first tag, 7 come from one first source

So with `author_most` 1 the scores 9 (ann), 8 (ann), 7 (ben) become ann, ben, and the second of ann ten places later, or at the
end. Where every post that is left breaks a rule, that of sources is left aside first, then all: nothing is left out.
Every so many places one is for exploration: the best of those posts that come from nowhere else and whose author few have met.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import IntEnum
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

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


_Queues = dict[Hashable, list[int]]
"""Rows by their source, the best last."""


class _Order:
    """The order as it grows, with what stands in the window before the next place."""

    def __init__(self, ranked: Sequence[Ranked], author_most: int) -> None:
        self.placed: list[Placed] = []
        self._author_most = author_most
        # Columns and plain dictionaries: hundreds of places are filled for a page, and each looks at a dozen posts.
        self._author = [one.author for one in ranked]
        self._tag = [one.tag for one in ranked]
        self._source = [one.source for one in ranked]
        self._authors: dict[Hashable, int] = dict.fromkeys(self._author, 0)
        self._tags: dict[Hashable, int] = dict.fromkeys(self._tag, 0)
        self._sources: dict[Hashable, int] = dict.fromkeys(self._source, 0)
        self._broken: dict[int, str] = {}
        self._full: set[Hashable] = set()

    def queues(self, rows: Sequence[int]) -> _Queues:
        found: _Queues = {}
        for row in reversed(rows):
            found.setdefault(self._source[row], []).append(row)
        return found

    def place(self, queues: _Queues) -> None:
        """Take the best row that breaks no rule, or else only that of sources, or else the best, from these queues."""
        row = self._best(self._open(queues))
        if row is None:
            row = self._best(list(queues.values()))
        if row is None:
            row = min(queue[-1] for queue in queues.values())
        source = self._source[row]
        queue = queues[source]
        queue.remove(row)
        if not queue:
            del queues[source]
        lost = len(self.placed) - row
        missing = SOURCE if source in self._full else EXPLORATION
        self.placed.append(Placed(row, lost, self._broken.get(row, missing) if lost > 0 else ""))
        self._move_window(row)

    def _open(self, queues: _Queues) -> list[list[int]]:
        """Return the rows of sources that have room in the window."""
        # Of ten posts only one source can have seven.
        full = next((source for source, count in self._sources.items() if count >= SOURCE_MOST), None)
        if full is None or full not in queues:
            return list(queues.values())
        self._full.add(full)
        return [queue for source, queue in queues.items() if source != full]

    def _best(self, queues: list[list[int]]) -> int | None:
        """Return the best of these rows that breaks no rule of authors and tags."""
        best: int | None = None
        queues.sort(key=itemgetter(-1))
        for queue in queues:
            # Nothing in this queue or the next ones is better than its first.
            if best is not None and queue[-1] > best:
                break
            found = self._first(queue)
            if found is not None and (best is None or found < best):
                best = found
        return best

    def _first(self, queue: Sequence[int]) -> int | None:
        authors, tags, most = self._authors, self._tags, self._author_most
        ahead = _LOOK_AHEAD if len(self.placed) >= _THOROUGH else len(queue)
        for row in islice(reversed(queue), ahead):
            if authors[self._author[row]] >= most:
                self._broken.setdefault(row, AUTHOR)
            elif (tag := self._tag[row]) is not None and tags[tag] >= TAG_MOST:
                self._broken.setdefault(row, TAG)
            else:
                return row
        return None

    def _move_window(self, newest: int) -> None:
        self._count(newest, 1)
        if len(self.placed) >= WINDOW:
            self._count(self.placed[-WINDOW].row, -1)

    def _count(self, row: int, step: int) -> None:
        self._authors[self._author[row]] += step
        self._tags[self._tag[row]] += step
        if (source := self._source[row]) is not None:
            self._sources[source] += step
