"""A post stands once in a home or list: of several entries that show it, those near each other, the oldest stays.

A share is left out where the post itself or an older share of it stands among the `REACH` entries below it. Entries here are
those that the viewer would be shown if there were no such rule: visible ones that belong to the timeline; shares that are left
out themselves count, words that a filter hides too. So whether an entry is shown depends on its neighbours alone, neither on where
a page begins or ends nor on how much of the timeline is materialised. With a reach of 2, newest first:

    entry    share of x by cy   u   share of x by bo   v   w   x   y
    below    u, share by bo         v, w                   y
    shown    no                 yes yes                yes yes yes yes

The share by cy is left out, for that by bo stands among the two below it. The share by bo stays: x is the third below it. It
says that cy shared x, too: the shares that an entry stands for are those among the `REACH` entries above it.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from shoal.core.model import Member, Post
from shoal.feeds.filtering import Sieve
from shoal.feeds.hydrate import Entry, Row, SharedBy, Sight, profiles
from shoal.feeds.paging import ENOUGH, RowReader, likely, read_items
from shoal.feeds.pipeline import Page, entry_id
from shoal.graph.contract import MAX_TIME, Cursor, Reader
from shoal.graph.schema import SHARED_BY

REACH = 40
"""How many entries a share is compared with."""
NAMED = 3
"""How many sharers of a post are named."""

Opened = Callable[[Cursor], RowReader[int, Row]]
"""All rows of a timeline from a cursor on."""


class Folds(NamedTuple):
    """The inputs for folding a timeline."""

    seen: Sight
    opened: Opened
    wanted: Callable[[], Awaitable[bool]]
    """Whether the viewer wants shares left out; called only when one might be."""
    tags: Collection[int] = ()
    """Tags that bring posts of anybody into the timeline."""

    async def repeats(self, rows: Iterable[Row]) -> list[Row]:
        """Return the shares among the rows whose post may also stand in the timeline in another way."""
        shares = [row for row in rows if row[2] is not None]
        counts = await self.spread(shares) if shares else {}
        return [row for row in shares if counts.get(row[1].id, 0) > 1 or self._comes_itself(row[1])]

    def _comes_itself(self, post: Post) -> bool:
        author = post.author_id
        return author == self.seen.viewer or self.seen.stands[author].following or bool(self.tags and post.tags)

    async def spread(self, rows: Iterable[Row]) -> Mapping[int, int]:
        """Return the number of sharers of each post."""
        return (await self.seen.graph.assoc_count(list({row[1].id for row in rows}), (SHARED_BY,)))[SHARED_BY]


class Folding:
    """The rows of a timeline from a cursor on, without the shares that are left out.

    Reads beyond the page only where something there could matter: there is a share on it whose post may stand in the timeline
    in another way too, or a post that others shared. A `thorough` one reads always.
    """

    def __init__(self, folds: Folds, cursor: Cursor, *, thorough: bool = False) -> None:
        self.shared_by: dict[int, list[int]] = {}
        """Sharers by the id of an entry that was taken and stands for their shares, the oldest first."""
        self._folds = folds
        self._down = not cursor.oldest_first
        self._thorough = thorough
        self._on: bool | None = None
        self._cursor = cursor
        self._own = folds.opened(cursor)
        self._ahead: RowReader[int, Row] | None = self._own
        # Of the newest page all that stands above is known.
        self._newest = self._down and cursor.before == MAX_TIME
        self._behind: RowReader[int, Row] | None = None
        self._shares = thorough
        """Whether any share was seen."""
        self._rows: list[Row] = []
        """Rows in the direction of the cursor: those of the page, and behind them up to `REACH` others."""
        self._page_rows = 0
        self._earlier: list[Row] = []
        """Rows in front of the page, the nearest first."""
        self._next = 0
        self._kept = 0
        self._ready: list[Row] = []

    @property
    def ended(self) -> bool:
        """Whether nothing follows."""
        return self._decided and not self._ready

    @property
    def looked(self) -> int:
        """How many entries were looked at."""
        return self._own.looked

    async def take(self, n: int) -> list[Row]:
        """Return the next `n` rows; an empty list only at the end."""
        if self._newest and not self._rows and not await self._begin(n):
            return list(self._rows)
        while len(self._ready) < n and not self._decided and not (self._ready and self.looked >= ENOUGH):
            wanted = likely(n - len(self._ready), self._next, self._kept)
            if self._next == self._page_rows:
                self._rows += await self._own.take(wanted)
                self._page_rows = len(self._rows)
            first, self._next = self._next, min(self._next + wanted, self._page_rows)
            stay = await self._folded(first, self._next)
            self._kept += len(stay)
            self._ready += stay
        taken, self._ready = self._ready[:n], self._ready[n:]
        return taken

    async def _begin(self, n: int) -> bool:
        """Read the first rows of the newest page; return whether any is a share. Mostly none is, and that is all."""
        self._rows = rows = await self._own.take(n)
        self._page_rows = len(rows)
        self._shares = self._thorough or any([row[2] for row in rows])  # noqa: C419  # a list is quicker than a generator here
        if not self._shares:
            self._next = self._kept = len(rows)
        return self._shares

    @property
    def at(self) -> Cursor:
        """The part of the timeline behind what was decided over."""
        return self._cursor.past(self._rows[self._next - 1][0]) if self._next else self._cursor

    @property
    def drained(self) -> bool:
        """Whether every row that stays has been taken."""
        return not self._ready

    @property
    def _decided(self) -> bool:
        """Whether every row of the page's part was decided over."""
        return self._own.ended and self._next == self._page_rows

    async def _folded(self, first: int, end: int) -> list[Row]:
        """Return the rows of this range that stay."""
        rows = self._rows[first:end]
        if not self._shares:
            self._shares = any(row[2] is not None for row in rows)
        if self._on is False or (self._newest and not self._shares):
            return rows
        repeats = await self._folds.repeats(rows)
        stands_for = [] if self._newest else await self._standing(rows)
        if self._thorough:
            repeats = stands_for = rows
        if (repeats or stands_for) and not await self._wanted():
            return rows
        below, above = _places(rows, repeats, first), _places(rows, stands_for, first)
        down, up = (below, above) if self._down else (above, below)
        if down:
            await self._read_ahead(down[-1] + 1 + REACH)
        if up:
            await self._read_behind(REACH - up[0])
        several = _several(chain(self._earlier, self._rows))
        return [row for at, row in enumerate(rows, first) if row[1].id not in several or self._stays(at)]

    async def _wanted(self) -> bool:
        if self._on is None:
            self._on = await self._folds.wanted()
        return self._on

    async def _standing(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows whose posts others shared."""
        counts = await self._folds.spread(rows) if rows else {}
        return [row for row in rows if counts.get(row[1].id, 0) > (row[2] is not None)]

    async def _read_ahead(self, size: int) -> None:
        while len(self._rows) < size and self._ahead is not None:
            more = await self._ahead.take(max(size - len(self._rows), REACH // 2))
            self._rows += more
            if self._ahead is self._own:
                self._page_rows = len(self._rows)
            if not more:
                own = self._ahead is self._own
                self._ahead = self._folds.opened(_behind_the_end(self._cursor)) if own else None

    async def _read_behind(self, size: int) -> None:
        if self._newest or len(self._earlier) >= size:
            return
        if self._behind is None:
            self._behind = self._folds.opened(_before_the_start(self._cursor))
        while len(self._earlier) < size and (more := await self._behind.take(size - len(self._earlier))):
            self._earlier += more

    def _stays(self, at: int) -> bool:
        """Whether the entry stays; its other sharers are noted in `shared_by`."""
        id_, post, share = self._rows[at]
        near = self._rows[max(0, at - REACH) : at][::-1]
        before = near + self._earlier[: REACH - len(near)]
        after = self._rows[at + 1 : at + 1 + REACH]
        above, below = (before, after) if self._down else (after, before)
        if share is not None and any(other.id == post.id for _, other, _ in below):
            return False
        if sharers := [other.author_id for _, shown, other in above if other is not None and shown.id == post.id]:
            self.shared_by[id_] = sharers
        return True


def _several(rows: Iterable[Row]) -> set[int]:
    """Posts that more than one of the rows shows."""
    known, several = set[int](), set[int]()
    for _, post, _ in rows:
        (several if post.id in known else known).add(post.id)
    return several


def _places(rows: Sequence[Row], some: Iterable[Row], first: int) -> list[int]:
    """Return the positions of some of the rows, the first of which is at `first`."""
    ids = {row[0] for row in some}
    return [at for at, row in enumerate(rows, first) if row[0] in ids]


async def folds_shares(graph: Reader, viewer: int) -> bool:
    """Whether a member wants posts to stand once in their timelines; they may switch it off."""
    member = (await graph.obj_get((viewer,))).get(viewer)
    return isinstance(member, Member) and member.folds_shares


def _behind_the_end(cursor: Cursor) -> Cursor:
    if cursor.oldest_first:
        return Cursor(after=cursor.before - 1, oldest_first=True)
    return Cursor(before=cursor.after + 1)


def _before_the_start(cursor: Cursor) -> Cursor:
    if cursor.oldest_first:
        return Cursor(before=cursor.after + 1)
    return Cursor(after=cursor.before - 1, oldest_first=True)


async def read_folded(folds: Folds, cursor: Cursor, sieve: Sieve, *, thorough: bool = False) -> Page:
    """A page of a timeline, folded, with what the viewer's filters say of it."""
    folding = Folding(folds, cursor, thorough=thorough)

    async def show(rows: Sequence[Row]) -> list[Entry]:
        found = await folds.seen.entries(rows)
        return await sieve.admitted(await _with_sharers(folds.seen, found, folding.shared_by))

    return Page(*await read_items(cursor, folding, show, entry_id))


async def unfolded(folds: Folds, rows: Sequence[Row]) -> list[Row]:
    """Return the entries that are not left out of the timeline."""
    repeats = await folds.repeats(rows)
    if not repeats or not await folds.wanted():
        return list(rows)
    newest, oldest = max(row[0] for row in repeats), min(row[0] for row in repeats)
    stream, there, under = folds.opened(Cursor(before=newest)), {row[0]: row for row in rows}, 0
    while under < REACH and (more := await stream.take(REACH)):
        there.update((row[0], row) for row in more)
        under = sum(id_ < oldest for id_ in there)
    gone = {row[0] for row in repeats if _repeated(row, there)}
    return [row for row in rows if row[0] not in gone]


def _repeated(row: Row, there: Mapping[int, Row]) -> bool:
    below = heapq.nlargest(REACH, (id_ for id_ in there if id_ < row[0]))
    return any(there[id_][1].id == row[1].id for id_ in below)


async def _with_sharers(seen: Sight, entries: list[Entry], shared_by: Mapping[int, Sequence[int]]) -> list[Entry]:
    """Return the entries, each with its other sharers; one read where there are any."""
    named = {id_ for entry in entries for id_ in shared_by.get(entry.id, ())[:NAMED]}
    if not named:
        return entries
    known = await profiles(seen.graph, {id_: seen.members[id_] for id_ in named}, seen.viewer, seen.stands)

    def told(entry: Entry) -> Entry:
        sharers = shared_by.get(entry.id)
        if not sharers:
            return entry
        first = tuple(known[id_] for id_ in sharers[:NAMED])
        return msgspec.structs.replace(entry, shared_by=SharedBy(first, len(sharers)))

    return list(map(told, entries))
