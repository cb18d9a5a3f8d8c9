"""Re-ranking: candidate sources, photos first, diversity rules, exploration slots, and the catch-up selection.

`diversify` takes the best post that breaks no rule on the last `WINDOW` posts: at most `author_most` by one author, 5 with one
first tag, 7 from one first source. If all posts break a rule, the source rule is dropped first, then all rules, so that no post is
lost. The first `OPENING` positions go to the best posts with photos that break no rule, as long as there are any.

Catch-up shows posts of quiet friends first, in at most half of the slots, and at most two posts per author. For example, four slots
are filled from these posts, given by score and author: 9 ann, 8 ann, 7 ann, 6 ben, 5 cyd (quiet), 4 dan (quiet), 3 eve (quiet). The
order is cyd, dan, ann, ann.
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
"""An author whose posts have fewer likes and shares in total than this number is eligible for exploration."""


class Source(IntFlag):
    """The reasons for which a post became a candidate for a ranked feed. They are cached as numbers, so never renumber them."""

    FOLLOWEES = 1
    FRIENDS_LIKED = 2
    FRIENDS_SHARED = 4
    FRIENDS_COMMENTED = 8
    FRIENDS_OF_FRIENDS = 16
    TAGS_FOLLOWED = 32
    TAGS_LIKED = 64
    """Posts with a tag of posts that the viewer liked, shared or saved."""
    RISING = 128
    AUTHORS_LIKED = 256
    POPULAR = 512
    NEARBY = 1024
    EXPLORATION = 2048
    """The newest public posts, by any author. It is the only source of a post that no other source proposes."""
    COUNTRY = 4096
    """Posts from the country where the viewer lives."""

    @property
    def key(self) -> str:
        return (self.name or "").lower()


OPENING = 3
"""Number of first positions that go to posts with photos: more than a screen."""
WINDOW = 10
TAG_MOST = 5
SOURCE_MOST = 7
_LOOKAHEAD = 60
"""Maximum posts per source that are considered for a position after the first `_THOROUGH`; before it, all are considered."""
_THOROUGH = 40

PHOTOS, AUTHOR, TAG, SOURCE, EXPLORATION = "photos", "author", "tag", "source", "exploration"


class Part(IntEnum):
    """The group of a candidate post in a ranked feed.

    Posts of a group precede those of later groups, except in the opening (see `OPENING`) and the exploration slots of a feed.
    """

    RANKED = 0
    EXPLORING = 1
    """A post by a little-known author that no other source proposes: eligible for exploration slots."""
    REST = 2
    """A post by a well-known author that no other source proposes."""


class Ranked(NamedTuple):
    """A ranked post as input to diversification. The diversity rules ignore a tag or source of None."""

    author: Hashable
    tag: Hashable | None
    source: Hashable | None
    part: Part = Part.RANKED
    photos: bool = False
    """Whether the post shows photos or videos."""


class Diversified(NamedTuple):
    """A position in the diversified order: the row of its post, how far the post moved back, and the rule that moved it.

    `lost` is negative if the post moved forward: by the rule `PHOTOS`, or because another rule moved posts before it back.
    """

    row: int
    lost: int
    rule: str = ""


def diversify(ranked: Sequence[Ranked], *, author_most: int, exploration: float) -> list[Diversified]:
    """Diversify posts, which are given best first, and return the new order; each post appears once.

    The first positions go to posts of `Part.RANKED` with photos (see `OPENING`). Of the other positions, the fraction
    `exploration` (0 to 0.5) goes to posts of `Part.EXPLORING` as long as there are any. The rest go first to the posts of
    `Part.RANKED`, then to the remaining exploring posts, and last to the posts of `Part.REST`.
    """
    order = _Order(ranked, author_most)
    parts = [[row for row, candidate in enumerate(ranked) if candidate.part is part] for part in Part]
    with_photos = [row for row in parts[Part.RANKED] if ranked[row].photos]
    opening = order.open_with(with_photos, parts[Part.RANKED])
    usual, exploring, rest = [order.queues([row for row in rows if row not in opening]) for rows in parts]
    for position in range(len(opening), len(ranked)):
        due = int((position + 1) * exploration) > int(position * exploration)
        order.append_best((exploring if due else usual) or usual or exploring or rest)
    return order.result


_Queues = list[list[int]]
"""Rows (indices of posts, best first) by source. Each queue ends with its best row, and the queues are sorted by their best row."""

_head = itemgetter(-1)


class _Order:
    """The diversified order under construction, with the number of posts by author, tag and source in the last ten positions."""

    def __init__(self, ranked: Sequence[Ranked], author_most: int) -> None:
        self.result: list[Diversified] = []
        self._author_most = author_most
        # Use lists of small integers for speed: a page fills hundreds of positions, and about a dozen posts are examined for each.
        self._author, self._authors = _numbered([candidate.author for candidate in ranked])
        self._tag, self._tags = _numbered([candidate.tag for candidate in ranked])
        self._source, self._sources = _numbered([candidate.source for candidate in ranked])
        self._broken: dict[int, str] = {}
        self._full = -1
        """The source that has reached its limit in the window, or a negative number for none.

        Only one source can: 7 of the 10 posts in the window come from it.
        """
        self._ever_full: set[int] = set()

    def queues(self, rows: Sequence[int]) -> _Queues:
        found: dict[int, list[int]] = {}
        for row in reversed(rows):
            found.setdefault(self._source[row], []).append(row)
        return sorted(found.values(), key=_head)

    def open_with(self, rows: Sequence[int], usual: Sequence[int]) -> Collection[int]:
        """Append the first of `rows` that break no author or tag rule, at most `OPENING` rows, and return them.

        The source rule needs no check, because it cannot be broken by `OPENING` rows. The rows of `usual` that move back because of
        the appended rows are recorded with the rule `PHOTOS`.
        """
        left = list(reversed(rows))
        others = set(usual).difference(rows)
        while len(self.result) < OPENING and (row := self._first(left)) is not None:
            left.remove(row)
            lost = len(self.result) - row
            rule = self._broken.get(row, EXPLORATION) if lost > 0 else ""
            if lost < 0 and any(other < row for other in others):
                rule = PHOTOS
            self.result.append(Diversified(row, lost, rule))
            self._move_window(row)
        opening = {one.row for one in self.result}
        last = max(opening, default=0)
        for row in usual:
            if row < last and row not in opening:
                self._broken.setdefault(row, PHOTOS)
        return opening

    def append_best(self, queues: _Queues) -> None:
        """Append the best row that breaks no rule.

        If every row breaks a rule, append the best row that breaks only the source rule, or else the best of all rows.
        """
        if self._full < 0:
            taken = self._best(queues)
        else:
            available = [queue for queue in queues if self._source[queue[-1]] != self._full]
            if len(available) < len(queues):
                self._ever_full.add(self._full)
            taken = self._best(available) or self._best(queues)
        row, queue = taken or (queues[0][-1], queues[0])
        _take(queues, queue, row)
        lost = len(self.result) - row
        missing = SOURCE if self._source[row] in self._ever_full else EXPLORATION
        self.result.append(Diversified(row, lost, self._broken.get(row, missing) if lost > 0 else ""))
        self._move_window(row)

    def _best(self, queues: _Queues) -> tuple[int, list[int]] | None:
        """Return the best row in the queues that breaks no author or tag rule, with its queue; None if there is none."""
        best: tuple[int, list[int]] | None = None
        for queue in queues:
            # All rows in this queue and in the following queues rank below the first row of this queue.
            if best is not None and queue[-1] > best[0]:
                break
            found = self._first(queue)
            if found is not None and (best is None or found < best[0]):
                best = found, queue
        return best

    def _first(self, queue: Sequence[int]) -> int | None:
        author, authors, tag, tags, most = self._author, self._authors, self._tag, self._tags, self._author_most
        window = _LOOKAHEAD if len(self.result) >= _THOROUGH else len(queue)
        for row in islice(reversed(queue), window):
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
        if len(self.result) >= WINDOW:
            oldest = self.result[-WINDOW].row
            self._authors[self._author[oldest]] -= 1
            self._tags[self._tag[oldest]] -= 1
            self._sources[self._source[oldest]] -= 1
        if self._sources[source] >= SOURCE_MOST:
            self._full = source
        elif self._full >= 0 and self._sources[self._full] < SOURCE_MOST:
            self._full = -1


def _numbered(values: Sequence[Hashable | None]) -> tuple[list[int], list[int]]:
    """Return a number for each value, the same for equal values, and a list of initial counts, indexed by these numbers.

    Each count is 0, except the count for the value None: it is negative, so that it never reaches a limit.
    """
    numbers: dict[Hashable | None, int] = {None: 0}
    found = [numbers.setdefault(value, len(numbers)) for value in values]
    return found, [-len(values), *[0] * (len(numbers) - 1)]


def _take(queues: _Queues, queue: list[int], row: int) -> None:
    """Remove a row from its queue, and keep the queues sorted by the best row in each."""
    if queue[-1] != row:
        queue.remove(row)
        return
    queues.remove(queue)
    queue.pop()
    if queue:
        insort(queues, queue, key=_head)


AUTHOR_MOST = 2
QUIET_DAYS = 30
QUIET_MOST = 4
"""Maximum number of posts and shares within `QUIET_DAYS` for a friend to be called quiet: about one a week."""


_DAY_MS = 86_400_000


class Chosen(NamedTuple):
    """The row numbers of selected posts: posts by quiet friends, who rarely post, and the best posts by other authors."""

    quiet: list[int]
    best: list[int]


def chosen(authors: Sequence[Hashable], quiet: Collection[Hashable], limit: int) -> Chosen:
    """Select at most `limit` posts from a list with the best post first.

    `authors` has the author of each post of the list, and `quiet` the friends who rarely post.
    """
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
    """Return the closing text of a feed, such as "You've seen everything since Tuesday." for a feed that is complete.

    Times are in Unix milliseconds, and shown in UTC.
    """
    moment = datetime.fromtimestamp(since / 1_000, UTC)
    days = until // _DAY_MS - since // _DAY_MS
    if days == 0:
        when = f"{moment:%H:%M} UTC"
    elif days < 7:
        when = f"{moment:%A}"
    else:
        when = f"{moment.day} {moment:%B}"
    if not left_out:
        return f"You've seen everything since {when}."
    more = "one more is" if left_out == 1 else f"{left_out:,} more are"
    return f"That is the best since {when}; {more} in your home timeline."
