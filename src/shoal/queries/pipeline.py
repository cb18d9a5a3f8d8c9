"""The feed pipeline: read a skeleton of ids, check visibility, filter, hydrate in bulk, and refill until the page is full.

Filters: an entry lists the filters of the viewer that match it, or is left out. A viewer's own posts are never filtered. A viewer
without filters costs one read, which the cache in front of the graph answers.

Deduplication: a post appears once in a stretch of a home or list timeline. A share is left out if the post itself or an older
share of it is among the `REACH` entries below it. The counted entries are all that the viewer would see without this rule:
visible entries that belong to the timeline, including shares that the rule leaves out and entries that a filter hides. Whether an
entry is shown therefore depends only on its neighbors, and neither on page boundaries nor on how much of the timeline is
materialized. With a reach of 2, newest first:

    entry    share of x by cy   u   share of x by bo   v   w   x   y
    below    u, share by bo         v, w                   y
    shown    no                 yes yes                yes yes yes yes

The share by cy is left out, because the share by bo is among the two entries below it. The share by bo is shown, because x is the
third entry below it. It also reports that cy shared x: an entry represents the shares among the `REACH` entries above it.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec import structs

from shoal.core.filters import Compiled, Filter, FilterContext, Text, compiled
from shoal.core.ids import now_ms
from shoal.core.model import Member, Post, Visibility
from shoal.graph.access import filters_of
from shoal.graph.cache.dependencies import good_until
from shoal.graph.cache.lru import Recent
from shoal.graph.contract import MAX_TIME, Cursor, Reader, find_object
from shoal.graph.schema import SHARED_BY
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry, Filtered, Row, RowFilter, SharedBy, ViewerState, profiles, viewer_state
from shoal.queries.pagination import ENOUGH, RowReader, likely, read_items


class Page(NamedTuple):
    """A page of entries, always newest first. `next` is the `before` parameter of the next page; None at the end."""

    entries: list[Entry]
    next: int | None


Skeleton = Callable[[Cursor], Awaitable[list[int]]]
"""Returns up to `cursor.limit` ids in the cursor's direction; fewer only at the end."""
Keep = Callable[[ViewerState, Sequence[Row]], Awaitable[list[Row]]]
"""The feed's own filter: returns the visible rows that belong to it."""


async def read_page(
    reads: Reads,
    viewer: int | None,
    cursor: Cursor,
    skeleton: Skeleton,
    keep: Keep | None = None,
    *,
    row_filter: RowFilter | None = None,
    unasked: bool = True,
) -> Page:
    """Return a page of visible entries: `skeleton` proposes ids, which `row_filter` and `keep` filter before they are hydrated.

    With `unasked`, posts by muted members are excluded. Raises `InvalidInput` for a limit below 1.
    """
    seen = viewer_state(reads.graph, viewer, unasked=unasked, lasting=reads.lasting)

    async def sift(ids: Sequence[int]) -> list[Row]:
        rows = await seen.look(ids, row_filter)
        return rows if keep is None else await keep(seen, rows)

    rows = RowReader(cursor, skeleton, sift, int)
    return Page(*await read_items(cursor, rows, seen.entries, attrgetter("id")))


_MANY = 50
"""Number of keywords above which filtering yields to other tasks after each entry."""

_compiled: Recent[tuple[int, int], Compiled] = Recent(10_000)


class ContentFilters:
    """The viewer's active filters, applied to entries shown in one context (home, public, thread ...).

    Entries also carry the filters of other contexts that match, because Mastodon clients select by a filter's `context`
    themselves.
    """

    def __init__(self, viewer: int, filters: Iterable[Filter], context: FilterContext | None = None) -> None:
        self._viewer = viewer
        self._context = context
        self._filters = [_ready(filter_) for filter_ in filters]
        self._words = sum(len(filter_.words) for filter_ in self._filters)

    def matches(self, entry: Entry) -> tuple[Filtered, ...]:
        """Return the filters that match the post of an entry, whatever their contexts. The post of a share is the shared post."""
        post = entry.post
        if not self._filters or post.author_id == self._viewer:
            return ()
        text = Text(_pieces(entry))
        found = (
            Filtered(
                filter=filter_.filter,
                keywords=filter_.keywords_in(text),
                posts=(post.id,) if post.id in filter_.posts else (),
            )
            for filter_ in self._filters
        )
        return tuple(match for match in found if match.keywords or match.posts)

    async def marked(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries, each with its matching filters."""
        if not self._filters:
            return list(entries)
        answer: list[Entry] = []
        for entry in entries:
            matches = self.matches(entry)
            here = tuple(match for match in matches if self._context in match.filter.contexts)
            answer.append(structs.replace(entry, matches=matches, filtered=here))
            if self._words > _MANY:
                await asyncio.sleep(0)
        return answer

    async def admitted(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries, each with its matching filters, without entries that an irreversible filter matches."""
        if not self._filters:
            return list(entries)
        marked = await self.marked(entries)
        return [entry for entry in marked if not any(match.filter.irreversible for match in entry.filtered)]


NO_CONTENT_FILTERS = ContentFilters(0, ())


async def content_filters_of(graph: Reader, viewer: int | None, context: FilterContext | None = None) -> ContentFilters:
    """Return the viewer's active filters for this context. One read for viewers without filters, otherwise two."""
    if viewer is None:
        return NO_CONTENT_FILTERS
    now = now_ms()
    owned = await filters_of(graph, viewer)
    for filter_ in owned:
        good_until(filter_.expires_at, now)
    active = [filter_ for filter_ in owned if not 0 < filter_.expires_at <= now]
    return ContentFilters(viewer, active, context) if active else NO_CONTENT_FILTERS


async def filtered(
    graph: Reader, viewer: int | None, entries: Sequence[Entry], context: FilterContext | None = None
) -> list[Entry]:
    """Return the entries with the viewer's matching filters: all in `matches`, and those for this context in `filtered`."""
    return await (await content_filters_of(graph, viewer, context)).marked(entries) if entries else []


def _pieces(entry: Entry) -> Iterable[str]:
    """Yield the texts of an entry's post that filters search: text, title, warning, poll options and media descriptions."""
    post = entry.post
    yield post.shown_text
    if post.spoiler:
        yield post.spoiler
    if entry.poll is not None:
        yield from (option.title for option in entry.poll.poll.options)
    yield from (item.description for item in entry.media if item.description)


def _ready(filter_: Filter) -> Compiled:
    key = (filter_.id, filter_.version)
    known = _compiled.get(key)
    if known is not None and (known.filter is filter_ or known.filter == filter_):
        return known
    made = compiled(filter_)
    _compiled.put(key, made, 1 + len(made.words))
    return made


REACH = 40
"""Number of entries that a share is compared with."""
NAMED = 3


class Folds(NamedTuple):
    seen: ViewerState
    opened: Callable[[Cursor], RowReader[int, Row]]
    enabled: Callable[[], Awaitable[bool]]
    """Returns whether the viewer wants shares folded. Called only if a share might be folded."""
    tags: Collection[int] = ()
    """Followed tags, which bring posts of any author into the timeline."""

    async def repeats(self, rows: Iterable[Row]) -> list[Row]:
        """Return the shares among the rows that may be folded, because their post may be in the timeline a second time."""
        shares = [row for row in rows if row[2] is not None]
        counts = await self.spread(shares) if shares else {}
        return [row for row in shares if counts.get(row[1].id, 0) > 1 or self._comes_itself(row[1])]

    def _comes_itself(self, post: Post) -> bool:
        author = post.author_id
        return author == self.seen.viewer or self.seen.relationships[author].following or bool(self.tags and post.tags)

    async def spread(self, rows: Iterable[Row]) -> Mapping[int, int]:
        return (await self.seen.graph.assoc_count(list({row[1].id for row in rows}), (SHARED_BY,)))[SHARED_BY]


def folds_of(
    reads: Reads, viewer: int, skeleton: Skeleton, keep: Keep, *, direct: bool, tags: Collection[int] = ()
) -> Folds:
    """Return the input for the `Folding` of a timeline.

    `skeleton` proposes ids, and `keep` filters them. Without `direct`, direct messages are excluded.
    """
    seen = viewer_state(reads.graph, viewer, lasting=reads.lasting)

    async def sift(ids: Sequence[int]) -> list[Row]:
        rows = await keep(seen, await seen.look(ids))
        return rows if direct else [row for row in rows if row[1].visibility is not Visibility.DIRECT]

    def opened(cursor: Cursor) -> RowReader[int, Row]:
        return RowReader(cursor, skeleton, sift, int)

    return Folds(seen, opened, partial(_folds_shares, reads.graph, viewer), tags)


class Folding:
    """The rows of a timeline that follow a cursor, without folded shares.

    Rows beyond the page are read only if the timeline may contain a post of the page twice: otherwise, no share can be folded.
    With `thorough`, they are always read.
    """

    def __init__(self, folds: Folds, cursor: Cursor, *, thorough: bool = False) -> None:
        self.shared_by: dict[int, list[int]] = {}
        """For each returned entry that represents folded shares, by its id: the members who shared the post, oldest
        share first."""
        self._folds = folds
        self._down = not cursor.oldest_first
        self._thorough = thorough
        self._on: bool | None = None
        self._cursor = cursor
        self._own = folds.opened(cursor)
        self._prefetched: RowReader[int, Row] | None = self._own
        # On the newest page, do not look for rows newer than the page: there are none.
        self._newest = self._down and cursor.before == MAX_TIME
        self._behind: RowReader[int, Row] | None = None
        self._shares = thorough
        self._rows: list[Row] = []
        """Rows in the direction of the cursor: the rows of the page, followed by up to `REACH` rows after it."""
        self._page_rows = 0
        self._earlier: list[Row] = []
        """Rows in front of the page, nearest first."""
        self._next = 0
        self._retained = 0
        self._ready: list[Row] = []

    @property
    def ended(self) -> bool:
        return self._decided and not self._ready

    @property
    def looked(self) -> int:
        return self._own.looked

    async def take(self, n: int) -> list[Row]:
        """Return the next `n` rows; an empty list only at the end."""
        if self._newest and not self._rows and not await self._begin(n):
            return list(self._rows)
        while len(self._ready) < n and not self._decided and not (self._ready and self.looked >= ENOUGH):
            requested = likely(n - len(self._ready), self._next, self._retained)
            if self._next == self._page_rows:
                self._rows += await self._own.take(requested)
                self._page_rows = len(self._rows)
            first, self._next = self._next, min(self._next + requested, self._page_rows)
            stay = await self._folded(first, self._next)
            self._retained += len(stay)
            self._ready += stay
        taken, self._ready = self._ready[:n], self._ready[n:]
        return taken

    async def _begin(self, n: int) -> bool:
        """Read the first `n` rows of the newest page, and return whether shares among them may be folded.

        Usually no row is a share, and the rows before and after the page need not be read.
        """
        self._rows = rows = await self._own.take(n)
        self._page_rows = len(rows)
        self._shares = self._thorough or any([row[2] for row in rows])  # noqa: C419  # a list is quicker than a generator here
        if not self._shares:
            self._next = self._retained = len(rows)
        return self._shares

    @property
    def at(self) -> Cursor:
        """The cursor at which reading would continue: after the rows that have been checked for folding."""
        return self._cursor.past(self._rows[self._next - 1][0]) if self._next else self._cursor

    @property
    def drained(self) -> bool:
        return not self._ready

    @property
    def _decided(self) -> bool:
        return self._own.ended and self._next == self._page_rows

    async def _folded(self, first: int, end: int) -> list[Row]:
        """Return those rows at positions `first` to `end`, without `end`, that are not folded."""
        rows = self._rows[first:end]
        if not self._shares:
            self._shares = any(row[2] is not None for row in rows)
        if self._on is False or (self._newest and not self._shares):
            return rows
        repeats = await self._folds.repeats(rows)
        shared = [] if self._newest else await self._shared_by_others(rows)
        if self._thorough:
            repeats = shared = rows
        if (repeats or shared) and not await self._is_enabled():
            return rows
        below, above = _indexes(rows, repeats, first), _indexes(rows, shared, first)
        down, up = (below, above) if self._down else (above, below)
        if down:
            await self._prefetch(down[-1] + 1 + REACH)
        if up:
            await self._read_behind(REACH - up[0])
        several = _duplicates(chain(self._earlier, self._rows))
        return [row for at, row in enumerate(rows, first) if row[1].id not in several or self._stays(at)]

    async def _is_enabled(self) -> bool:
        if self._on is None:
            self._on = await self._folds.enabled()
        return self._on

    async def _shared_by_others(self, rows: Sequence[Row]) -> list[Row]:
        counts = await self._folds.spread(rows) if rows else {}
        return [row for row in rows if counts.get(row[1].id, 0) > (row[2] is not None)]

    async def _prefetch(self, size: int) -> None:
        while len(self._rows) < size and self._prefetched is not None:
            more = await self._prefetched.take(max(size - len(self._rows), REACH // 2))
            self._rows += more
            if self._prefetched is self._own:
                self._page_rows = len(self._rows)
            if not more:
                own = self._prefetched is self._own
                self._prefetched = self._folds.opened(_behind_the_end(self._cursor)) if own else None

    async def _read_behind(self, size: int) -> None:
        if self._newest or len(self._earlier) >= size:
            return
        if self._behind is None:
            self._behind = self._folds.opened(_before_the_start(self._cursor))
        while len(self._earlier) < size and (more := await self._behind.take(size - len(self._earlier))):
            self._earlier += more

    def _stays(self, at: int) -> bool:
        """Return whether the row at this position is not folded.

        Records in `shared_by` the sharers of the rows that are folded into this row.
        """
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


def _duplicates(rows: Iterable[Row]) -> set[int]:
    known, several = set[int](), set[int]()
    for _, post, _ in rows:
        (several if post.id in known else known).add(post.id)
    return several


def _indexes(rows: Sequence[Row], some: Iterable[Row], first: int) -> list[int]:
    """Return the positions of those rows that are also in `some`; the first row has the position `first`."""
    ids = {row[0] for row in some}
    return [at for at, row in enumerate(rows, first) if row[0] in ids]


async def _folds_shares(graph: Reader, viewer: int) -> bool:
    member = await find_object(graph, Member, viewer)
    return member is not None and member.folds_shares


def _behind_the_end(cursor: Cursor) -> Cursor:
    if cursor.oldest_first:
        return Cursor(after=cursor.before - 1, oldest_first=True)
    return Cursor(before=cursor.after + 1)


def _before_the_start(cursor: Cursor) -> Cursor:
    if cursor.oldest_first:
        return Cursor(before=cursor.after + 1)
    return Cursor(after=cursor.before - 1, oldest_first=True)


async def read_folded(folds: Folds, cursor: Cursor, content_filters: ContentFilters, *, thorough: bool = False) -> Page:
    """Return a page of a timeline without folded shares and without entries that the viewer's filters hide.

    For `thorough`, see `Folding`.
    """
    folding = Folding(folds, cursor, thorough=thorough)

    async def show(rows: Sequence[Row]) -> list[Entry]:
        found = await folds.seen.entries(rows)
        return await content_filters.admitted(await _with_sharers(folds.seen, found, folding.shared_by))

    return Page(*await read_items(cursor, folding, show, attrgetter("id")))


async def unfolded(folds: Folds, rows: Sequence[Row]) -> list[Row]:
    repeats = await folds.repeats(rows)
    if not repeats or not await folds.enabled():
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


async def _with_sharers(seen: ViewerState, entries: list[Entry], shared_by: Mapping[int, Sequence[int]]) -> list[Entry]:
    """Return the entries, each with the other members who shared its post. Each of these members is read at most once."""
    named = {id_ for entry in entries for id_ in shared_by.get(entry.id, ())[:NAMED]}
    if not named:
        return entries
    known = await profiles(seen.graph, {id_: seen.members[id_] for id_ in named}, seen.viewer, seen.relationships)

    def with_sharers(entry: Entry) -> Entry:
        sharers = shared_by.get(entry.id)
        if not sharers:
            return entry
        first = tuple(known[id_] for id_ in sharers[:NAMED])
        return msgspec.structs.replace(entry, shared_by=SharedBy(first, len(sharers)))

    return list(map(with_sharers, entries))
