"""Pages of a named feed.

A feed in the order of time is read by ids, as any timeline. A ranked feed is ranked once, for its first page; the ranking is cached
for an hour, and later pages are parts of it, without posts that may no longer be shown. Pages of both kinds explain each entry.

In clients that page lists by ids, a member has one cached ranking for each feed (`list_page`): a page before an id has the entries
that follow it in the ranking, and a page after an id has the entries of a new ranking that the cached one lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.feeds.declarations import ByRecipe, NamedFeed, values_of
from shoal.core.feeds.expressions import Value
from shoal.core.filters import FilterContext
from shoal.core.ids import named
from shoal.core.model import DAY_MS, Post
from shoal.core.ranking.reranking import Source
from shoal.graph.cache.coherence import one_request
from shoal.graph.cache.dependencies import do_not_cache
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.graph.feed_lookup import FeedReading, contained_among, contained_feeds, saved_values
from shoal.graph.payloads.members import marks
from shoal.queries.context import Reads
from shoal.queries.foryou.ranking import ReadingCursor, new_reading_id
from shoal.queries.hydration import Entry, Row, viewer_state
from shoal.queries.named_feeds.facts import ranked
from shoal.queries.named_feeds.snapshots import (
    Explanation,
    Group,
    Snapshot,
    aggregated,
    decode_snapshot,
    diversified,
    encode_snapshot,
    labels_of,
)
from shoal.queries.named_feeds.sources import (
    admission,
    belonging,
    newest_of_each,
    open_sources,
    proposed,
    rankable,
    within_age,
)
from shoal.queries.pagination import RowReader, check_limit, read_items
from shoal.queries.pipeline import Page, content_filters_of

MOST_POSITIONS = 500
"""Posts in a ranking."""
MOST_UNREAD = 100
MAX_PASSES = 5
"""Maximum reads of the sources for a page in the order of time."""


class FeedEntry(NamedTuple):
    """An entry of a named feed, with the reason why it is there."""

    entry: Entry
    why: Explanation


class FeedPage(NamedTuple):
    """A page of a named feed. A feed in the order of time continues at the id `next`, a ranked one at `cursor`."""

    entries: list[FeedEntry]
    next: int | None = None
    """The `before` of the next page; None at the end, and for a ranked feed."""
    cursor: str = ""
    """The cursor of the next page of a ranked feed; empty at the end, and for a feed in the order of time."""


async def page(
    reads: Reads,
    viewer: int | None,
    feed: NamedFeed,
    cursor: Cursor,
    *,
    at: ReadingCursor | None = None,
    parameters: Mapping[str, object] | None = None,
) -> FeedPage:
    """Return a page of a feed that the viewer may read.

    Args:
        reads: The stores.
        viewer: The reader; None for an anonymous one.
        feed: The feed.
        cursor: The range of ids of a feed in the order of time, and the limit. A ranked feed cannot be read by ids.
        at: The cursor of the previous page of a ranked feed. It also has the parameters of the first page.
        parameters: The values of parameters, by name; defaults apply to the others.

    Raises `InvalidInput` for an invalid limit, cursor or parameter, and `Unauthenticated` for an anonymous reader of a feed that is
    ranked by a recipe.
    """
    check_limit(cursor)
    do_not_cache()
    declared = feed.declaration
    values = values_of(declared, parameters or {})
    with one_request():
        if not declared.ranked:
            if at is not None:
                raise InvalidInput("cursor: this feed is in the order of time, and is paged by max_id", field="cursor")
            return await by_time(reads, viewer, feed, cursor)
        if cursor != Cursor(limit=cursor.limit):
            raise InvalidInput("max_id: this feed is ranked, and is paged by cursor", field="max_id")
        snapshot = await _cached(reads, viewer, feed, at.reading_id) if at is not None else None
        if snapshot is None or at is None:
            # An expired ranking is replaced by a new one, which continues at the same position.
            at = ReadingCursor(new_reading_id(viewer or 1), at.position if at is not None else 0)
            snapshot = await rank(reads, viewer, feed, values)
            await _keep(reads, at.reading_id, snapshot)
        entries, position = await part(reads, viewer, snapshot, at.position, cursor.limit)
        following = ReadingCursor(at.reading_id, position).encode() if position < len(snapshot) else ""
        return FeedPage(entries, cursor=following)


async def by_time(
    reads: Reads, viewer: int | None, feed: NamedFeed, cursor: Cursor, *, pulled: bool = False
) -> FeedPage:
    """Return a page of a feed in the order of time. For `pulled`, see `open_sources`.

    If few posts match, the page is shorter than the limit, or even empty, and its `next` is the position that was reached.
    """
    declared = feed.declaration
    cursor = within_age(declared.filters, reads.tags.clock(), cursor)
    if cursor.before <= cursor.after:
        return FeedPage([])
    contained = await contained_feeds(reads.graph, viewer, declared)
    sources = await open_sources(reads, viewer, declared, contained, pulled=pulled)
    if not sources:
        return FeedPage([])
    seen = viewer_state(reads.graph, viewer, lasting=reads.lasting)
    content_filters = await content_filters_of(reads.graph, viewer, FilterContext.HOME)
    admits = await admission(reads, declared.filters)
    masks: dict[int, int] = {}

    passes: list[list[int]] = []
    stopped = False

    async def skeleton(at: Cursor) -> list[int]:
        nonlocal stopped
        if len(passes) == MAX_PASSES:
            stopped = True
            return []
        passes.append(await proposed(sources, at))
        return passes[-1]

    async def sift(ids: Sequence[int]) -> list[Row]:
        found = belonging(seen, await seen.look(ids), sources, admits, ranked=False)
        masks.update((each.row[0], each.sources) for each in found)
        return [each.row for each in found]

    async def show(rows: Sequence[Row]) -> list[Entry]:
        return await content_filters.admitted(await seen.entries(rows))

    rows = RowReader(cursor, skeleton, sift, int)
    entries, after = await read_items(cursor, rows, show, attrgetter("id"))
    if stopped and after is None and not cursor.oldest_first:
        after = passes[-1][-1]
    labels = [source.label for source in sources]
    return FeedPage([FeedEntry(entry, Explanation(labels_of(masks[entry.id], labels))) for entry in entries], after)


async def rank(
    reads: Reads, viewer: int | None, feed: NamedFeed, values: Mapping[str, Value], *, pulled: bool = False
) -> Snapshot:
    """Rank a feed for a viewer now. For `pulled`, see `open_sources`."""
    declared = feed.declaration
    contained = await contained_feeds(reads.graph, viewer, declared)
    sources = await open_sources(reads, viewer, declared, contained, pulled=pulled)
    seen = viewer_state(reads.graph, viewer, lasting=reads.lasting)
    rows = await seen.look(await newest_of_each(sources, within_age(declared.filters, reads.tags.clock(), Cursor())))
    found = belonging(seen, rows, sources, await admission(reads, declared.filters), ranked=True)
    best = await ranked(reads, viewer, declared, values, seen, found, sources)
    posts = [each.row[1] for each in best.found]
    order, most = list(range(len(posts))), MOST_POSITIONS
    groups: dict[int, Group] = {}
    if declared.aggregate:
        groups = aggregated([_group_of(post, declared.aggregate) for post in posts], [post.id for post in posts])
        order = list(groups)
    places = order
    if declared.diversity is not None:
        authors = [posts[at].author_id for at in order]
        order = [places[at] for at in diversified(authors, declared.diversity.author_most, most)]
    order = order[:most]
    former = {at: position for position, at in enumerate(places)}
    return Snapshot(
        feed_id=feed.id,
        version=feed.version,
        viewer=viewer or 0,
        ids=np.array([best.found[at].row[0] for at in order], "<i8").tobytes(),
        sources=np.array([best.found[at].sources for at in order], "<u4").tobytes(),
        labels=tuple(source.label for source in sources),
        names=best.names,
        contributions=best.contributions[order].astype("<f4").tobytes(),
        lost=np.array([position - former[at] for position, at in enumerate(order)], "<i2").tobytes(),
        groups=tuple(groups[at] for at in order) if groups else (),
    )


def _group_of(post: Post, by: str) -> int | str | None:
    if by == "author":
        return post.author_id
    if by == "day":
        return post.created_at // DAY_MS
    return post.tags[0] if post.tags else None


async def part(
    reads: Reads, viewer: int | None, snapshot: Snapshot, position: int, limit: int
) -> tuple[list[FeedEntry], int]:
    """Return the entries of a ranking from a position on, and the position after them.

    Entries that may no longer be shown are replaced by the next ones.
    """
    content_filters = await content_filters_of(reads.graph, viewer, FilterContext.HOME)
    seen = viewer_state(reads.graph, viewer)
    shown: list[FeedEntry] = []
    while len(shown) < limit and position < len(snapshot):
        last = min(position + limit - len(shown), len(snapshot))
        ids = snapshot.part(position, last)
        why = dict(zip(ids, snapshot.explanations(position, last), strict=True))
        rows = [row for row in await seen.look(ids) if rankable(seen, row[1])]
        shown += [FeedEntry(entry, why[entry.id]) for entry in await content_filters.admitted(await seen.entries(rows))]
        position = last
    return shown, position


async def _cached(reads: Reads, viewer: int | None, feed: NamedFeed, id_: int) -> Snapshot | None:
    """Return a cached ranking of the feed for the viewer; None if it has expired, or if the feed was changed since."""
    try:
        data = await reads.readings.get(id_)
    except Unavailable:
        return None
    snapshot = decode_snapshot(data) if data is not None else None
    if snapshot is None or (snapshot.feed_id, snapshot.version, snapshot.viewer) != (
        feed.id,
        feed.version,
        viewer or 0,
    ):
        return None
    return snapshot


async def _keep(reads: Reads, id_: int, snapshot: Snapshot) -> None:
    """Cache a ranking for an hour. If the cache is unavailable, the next page ranks again."""
    try:
        await reads.readings.keep(id_, encode_snapshot(snapshot))
    except Unavailable:
        return


async def list_page(reads: Reads, viewer: int, feed: NamedFeed, cursor: Cursor) -> Page:
    """Return a page of a feed for a client that reads it as a list, by ids, with the viewer's saved values of parameters."""
    if not feed.declaration.ranked:
        found = await page(reads, viewer, feed, cursor)
        return Page([shown.entry for shown in found.entries], found.next)
    check_limit(cursor)
    do_not_cache()
    with one_request():
        values = values_of(feed.declaration, await saved_values(reads.graph, viewer, feed))
        id_ = named("feed_list", f"{viewer}:{feed.id}:{sorted(values.items())}" if values else f"{viewer}:{feed.id}")
        before = await _cached(reads, viewer, feed, id_)
        if before is not None and cursor.before < MAX_TIME:
            position = before.position_of(cursor.before)
            if position is not None:
                return await _from(reads, viewer, before, position + 1, cursor.limit)
        snapshot = await rank(reads, viewer, feed, values)
        if before is not None and cursor.after:
            fresh = snapshot.without(before)
            await _keep(reads, id_, fresh.followed_by(before, MOST_POSITIONS))
            return (await _from(reads, viewer, fresh, 0, cursor.limit))._replace(next=None)
        await _keep(reads, id_, snapshot)
        return await _from(reads, viewer, snapshot, 0, cursor.limit)


async def _from(reads: Reads, viewer: int, snapshot: Snapshot, position: int, limit: int) -> Page:
    shown, behind = await part(reads, viewer, snapshot, position, limit)
    following = snapshot.part(behind - 1, behind) if behind < len(snapshot) else []
    return Page([each.entry for each in shown], following[0] if following else None)


async def among(reads: Reads, viewer: int, reading: FeedReading, ids: Sequence[int]) -> list[Entry]:
    """Return the posts among `ids` that belong to a feed that the viewer may read, for live updates.

    The source `popular` is left out: its posts change when the trends are computed, and not when they are posted.
    """
    with one_request():
        declared = reading.feed.declaration
        contained = await contained_among(reads.graph, viewer, declared, reading.called)
        sources = await open_sources(reads, viewer, declared, contained)
        sources = [source for source in sources if source.flag != Source.POPULAR.value]
        seen = viewer_state(reads.graph, viewer, lasting=reads.lasting)
        admits = await admission(reads, declared.filters)
        found = belonging(seen, await seen.look(ids), sources, admits, ranked=declared.ranked)
        if isinstance(declared.order, ByRecipe):
            found = [each for each in found if each.row[1].author_id != viewer]
        content_filters = await content_filters_of(reads.graph, viewer, FilterContext.HOME)
        return await content_filters.admitted(await seen.entries([each.row for each in found]))


class Unread(NamedTuple):
    """The number of new entries of a feed in the order of time."""

    number: int
    """Entries by other members after the read position, at most 100."""
    more: bool
    """Whether there are further ones."""
    last_read_id: int
    """The read position; 0 if the viewer has none."""


def marker_of(feed: NamedFeed) -> str:
    """Return the name of a feed's read position. Raises `InvalidInput` for a ranked feed."""
    if feed.declaration.ranked:
        raise InvalidInput(
            "id: a ranked feed has no read position; report seen statuses, and use the term seen in its expression",
            field="id",
        )
    return f"feed:{feed.id}"


async def unread(reads: Reads, viewer: int, feed: NamedFeed) -> Unread:
    """Return the number of entries that the viewer has not read. Raises `InvalidInput` for a ranked feed."""
    name = marker_of(feed)
    do_not_cache()
    with one_request():
        mark = (await marks(reads.graph, viewer, (name,))).get(name)
        last_read_id = mark.last_read_id if mark is not None else 0
        found = await by_time(reads, viewer, feed, Cursor(after=last_read_id, limit=MOST_UNREAD))
        others = [shown for shown in found.entries if shown.entry.post.author_id != viewer]
        return Unread(len(others), found.next is not None, last_read_id)
