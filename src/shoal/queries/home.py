"""The home timeline: the newest posts and shares by the viewer, by their followees and under the tags they follow.

Entries that match an irreversible filter of the viewer are removed; the others carry their matching filters. `definition`
computes the timeline by pull alone; `page` reads the materialized timeline and must give an equal result once all events are
processed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from shoal.core.errors import Unavailable
from shoal.core.filters import FilterContext
from shoal.core.model import HELD, Post, Visibility
from shoal.core.visibility import Relation, may_come
from shoal.graph.access import pages_of, prefetch, prefetches
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.cache.coherence import one_request
from shoal.graph.cache.dependencies import depends_on
from shoal.graph.contract import Cursor, Reader
from shoal.graph.schema import (
    EVERYBODY,
    FOLLOWS,
    FOLLOWS_TAG,
    HIGH_FAN_OUT,
    MEMBER_COUNTS,
    OWNS_FILTER,
    OWNS_LIST,
    POST_COUNTS,
    POSTED,
    TAG_OF,
    VIEWER_LISTS,
    tag_id,
)
from shoal.queries import lists
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry, Row, RowFilter, ViewerState, prefetch_shown
from shoal.queries.pagination import Sources, pull, read_by_page
from shoal.queries.pipeline import (
    NO_CONTENT_FILTERS,
    Folds,
    Page,
    Skeleton,
    content_filters_of,
    folds_of,
    read_folded,
    unfolded,
)
from shoal.queries.positions import stored
from shoal.throttled_log import ThrottledLog
from shoal.timelines.contract import MARKED_SECONDS, Window

_outage = ThrottledLog(logging.getLogger(__name__))

_FOLLOWS_PAGE = 20_000
_SHOWN_AT_ONCE = 500


class _HomeSettings(NamedTuple):
    """The viewer's settings that determine which entries the home timeline contains."""

    tags: set[int]
    apart: frozenset[int]
    """Followees whose posts the viewer reads only in an exclusive list."""


_PLAIN = _HomeSettings(set(), frozenset())


async def page(
    reads: Reads, viewer: int, cursor: Cursor, *, direct: bool = True, admits: RowFilter | None = None
) -> Page:
    """Return a page of the viewer's home timeline.

    A timeline that is not materialized is rebuilt first. `next` is None only at the end of the timeline. Without
    `direct`, direct messages are excluded: Mastodon clients expect them, the web app shows them as conversations. `admits`
    selects the posts and shares of the page, before anything else of them is read.
    """
    with one_request():
        opening = await _opened(reads, viewer, cursor)
        if prefetches(reads.graph):
            opening = await _prefetched(reads, viewer, cursor, opening)
        # Usually all of these lists are empty. One count of them then saves the separate reads below.
        counts = await reads.graph.assoc_count(
            (viewer, EVERYBODY), (FOLLOWS_TAG, OWNS_LIST, OWNS_FILTER, POSTED, HIGH_FAN_OUT)
        )
        plain = not (counts[FOLLOWS_TAG] or counts[OWNS_LIST])
        settings = _PLAIN if plain else await _settings_of(reads.graph, viewer)
        content_filters = (
            await content_filters_of(reads.graph, viewer, FilterContext.HOME)
            if counts[OWNS_FILTER]
            else NO_CONTENT_FILTERS
        )
        skeleton = partial(materialized, reads, viewer, opening=opening)
        folds = _folds(reads, viewer, skeleton, settings, direct=direct, admits=admits)
        return await read_folded(folds, cursor, content_filters)


async def definition(reads: Reads, viewer: int, cursor: Cursor, *, direct: bool = True) -> Page:
    """Return what `page` must return, by the definition: pull from all sources, at any cost. For checks and tests."""
    settings = await _settings_of(reads.graph, viewer)
    sources = await _sources(reads.graph, viewer, settings.tags)
    content_filters = await content_filters_of(reads.graph, viewer, FilterContext.HOME)
    return await read_folded(
        _folds(reads, viewer, partial(pull, reads.graph, sources), settings, direct=direct),
        cursor,
        content_filters,
        thorough=True,
    )


def _folds(
    reads: Reads,
    viewer: int,
    skeleton: Skeleton,
    settings: _HomeSettings,
    *,
    direct: bool = True,
    admits: RowFilter | None = None,
) -> Folds:
    async def keep(seen: ViewerState, rows: Sequence[Row]) -> list[Row]:
        found = _belonging(seen, viewer, rows, settings)
        return found if admits is None else list(filter(admits, found))

    return folds_of(reads, viewer, skeleton, keep, direct=direct, tags=settings.tags)


async def among(reads: Reads, viewer: int, ids: Sequence[int]) -> list[Entry]:
    """Return the entries among `ids` that are in the viewer's home timeline now, as `page` would show them, in that order."""
    with one_request():
        settings = await _settings_of(reads.graph, viewer)
        folds = _folds(reads, viewer, partial(materialized, reads, viewer), settings)
        rows = _belonging(folds.seen, viewer, await folds.seen.look(ids), settings)
        if not rows:
            return []
        here = await folds.seen.entries(await unfolded(folds, rows))
        return await (await content_filters_of(reads.graph, viewer, FilterContext.HOME)).admitted(here)


async def newest(reads: Reads, viewer: int, limit: int) -> list[int]:
    """Return the ids of the newest entries in the viewer's home timeline, without checking visibility."""
    with one_request():
        return await materialized(reads, viewer, Cursor(limit=limit))


async def pulled(reads: Reads, viewer: int, limit: int) -> list[int]:
    """Return the ids that `newest` would return, by pull alone. No timeline is rebuilt or counted as used."""
    with one_request():
        return await pulled_at(reads, viewer, Cursor(limit=limit))


async def pulled_at(reads: Reads, viewer: int, at: Cursor) -> list[int]:
    """Return the ids that `materialized` would return, by pull alone."""
    sources = await _sources(reads.graph, viewer, await _followed_tags(reads.graph, viewer))
    return await pull(reads.graph, sources, at)


async def at_positions(reads: Reads, viewer: int, first: int, last: int) -> list[Entry]:
    """Return the visible entries at positions `first` to `last` of the home timeline, counting invisible entries too."""
    sources = await _sources(reads.graph, viewer, await _followed_tags(reads.graph, viewer))
    ids = await stored(reads.graph, sources, first, last)
    shown: list[Entry] = []
    for at in range(0, len(ids), _SHOWN_AT_ONCE):
        shown += await among(reads, viewer, ids[at : at + _SHOWN_AT_ONCE])
    return shown


async def warm_up(reads: Reads, viewer: int) -> None:
    """Rebuild the viewer's materialized timeline. Concurrent calls wait for one rebuild."""
    if (in_flight := reads.rebuilding.get(viewer)) is not None:
        await asyncio.shield(in_flight)
        return
    done = reads.rebuilding[viewer] = asyncio.get_running_loop().create_future()
    try:
        await _rebuild(reads, viewer)
    finally:
        del reads.rebuilding[viewer]
        done.set_result(None)


async def _rebuild(reads: Reads, viewer: int) -> None:
    """Create the timeline, add it to the follower sets, then fill it by pull.

    In this order no entry is lost: an entry posted after the second step is pushed, and all earlier entries are pulled.
    """
    await reads.timelines.create(viewer)
    try:
        sources = await _sources(reads.lasting, viewer, await _followed_tags(reads.lasting, viewer), own=False)
        if reads.follower_set_cache is not None:
            slots = reads.timelines.slots((viewer,))
            for source in chain.from_iterable(sources.values()):
                reads.follower_set_cache.add(source, viewer, slots)
        ids = await pull(reads.lasting, sources, Cursor(limit=reads.length + 1))
        floor = ids[reads.length] if len(ids) > reads.length else 0
        await reads.timelines.fill(viewer, ids[: reads.length], floor)
    except BaseException:
        await reads.timelines.drop((viewer,))
        raise


class _Opening(NamedTuple):
    """The first read of a materialized timeline for a page, and the high fan-out sources, which were read after it."""

    at: Cursor
    window: Window | None
    high_fan_out: Sources
    """The lists of the sources whose entries may be missing in `window`."""


async def _opened(reads: Reads, viewer: int, cursor: Cursor) -> _Opening | None:
    """Read the materialized timeline concurrently with the viewer's version token.

    Returns None if the timeline is unavailable, or if the list of high fan-out sources was not cached during the whole read.
    """
    if not isinstance(reads.graph, CachedGraph):
        return None
    at = read_by_page(cursor)
    try:
        found = await reads.graph.query_with_tokens(
            EVERYBODY, HIGH_FAN_OUT, (viewer, EVERYBODY), partial(reads.timelines.read, viewer, at)
        )
    except Unavailable:
        return None
    return None if found is None else _Opening(at, found[0], await _high_fan_out_lists(reads, viewer))


async def _prefetched(reads: Reads, viewer: int, cursor: Cursor, opening: _Opening | None) -> _Opening | None:
    """Prefetch the page in three rounds: ids, then entries with the viewer's counts, then authors and the viewer's associations.

    Returns the first read of the timeline, or None if that failed or was more than `MARKED_SECONDS` ago.
    """
    graph, at, began = reads.graph, read_by_page(cursor), time.monotonic()
    newest_own = prefetch(graph, (), (), ((viewer, POSTED, at),))
    if opening is None:
        try:
            window, _ = await asyncio.gather(reads.timelines.read(viewer, at), newest_own)
        except Unavailable:
            return None
    else:
        await newest_own
        window = opening.window
    pushed = [] if window is None else window.ids
    own = [] if not isinstance(graph, CachedGraph) else await graph.prefetched(viewer, POSTED, at)
    # Prefetch only what the query reads first: the entries of the page and one more.
    here = _merged([pushed, [entry.time for entry in own]], cursor.of(cursor.limit + 1))
    counts = ((here, POST_COUNTS), ((viewer, EVERYBODY), (*MEMBER_COUNTS, *VIEWER_LISTS, HIGH_FAN_OUT)))
    await prefetch(graph, [viewer, *here], counts)
    if opening is None:
        # A source loses its high fan-out mark `MARKED_SECONDS` after its entries were merged into timelines. So if `window` was
        # read within that time, it contains the entries of all sources that have no mark now.
        high_fan_out = await _high_fan_out_lists(reads, viewer)
        if time.monotonic() - began < MARKED_SECONDS:
            opening = _Opening(at, window, high_fan_out)
    if window is not None:
        await prefetch_shown(graph, viewer, here)
    return opening


async def materialized(reads: Reads, viewer: int, at: Cursor, *, opening: _Opening | None = None) -> list[int]:
    """Return the ids of entries that may be in the viewer's home timeline, without checking visibility and follows."""
    if opening is None or opening.at != at:
        # Read the marks of high fan-out sources before the timeline: a source loses its mark only after its unpushed entries have
        # been merged into the timelines.
        high_fan_out = await _high_fan_out_lists(reads, viewer)
        window = await _window(reads, viewer, at)
    else:
        high_fan_out = opening.high_fan_out
        window = await _window(reads, viewer, at, opening)
    if window is None or _incomplete(window, at):
        sources = await _sources(reads.graph, viewer, await _followed_tags(reads.graph, viewer))
        if window is None or at.oldest_first:
            return await pull(reads.graph, sources, at)
        below = at._replace(before=min(at.before, window.floor + 1))
        return _merged(
            [window.ids, await _unpushed(reads, viewer, high_fan_out, at), await pull(reads.graph, sources, below)], at
        )
    return _merged([window.ids, await _unpushed(reads, viewer, high_fan_out, at)], at)


async def _window(reads: Reads, viewer: int, at: Cursor, opening: _Opening | None = None) -> Window | None:
    """Read the materialized timeline, rebuilding it if necessary; None if it is unavailable, and all entries must be pulled."""

    async def read() -> Window | None:
        return await reads.timelines.read(viewer, at)

    try:
        window = await read() if opening is None else opening.window
        if window is None:
            await warm_up(reads, viewer)
            window = await read()
        # Each check of a cached response repeats this read. This also keeps the timeline from being dropped as idle.
        depends_on(read, window)
    except Unavailable:
        _outage.warning("home timelines are unreachable; computing a page from the store")
        return None
    return window


def _incomplete(window: Window, at: Cursor) -> bool:
    return window.floor > at.after and (at.oldest_first or len(window.ids) < at.limit)


async def _high_fan_out_lists(reads: Reads, viewer: int) -> Sources:
    """Return the lists to pull: those of the viewer's sources that are marked as high fan-out."""
    high_fan_out = await reads.graph.assoc_common(viewer, (FOLLOWS, FOLLOWS_TAG), EVERYBODY, HIGH_FAN_OUT)
    return (
        {POSTED: list(high_fan_out[FOLLOWS]), TAG_OF: list(high_fan_out[FOLLOWS_TAG])}
        if any(high_fan_out.values())
        else {}
    )


async def _unpushed(reads: Reads, viewer: int, high_fan_out: Sources, at: Cursor) -> list[int]:
    """Read the entries that were not pushed: the viewer's own, which are visible immediately, and those of high fan-out sources."""
    mine = await reads.graph.assoc_range(viewer, POSTED, at)
    own = [entry.time for entry in mine]
    if not high_fan_out:
        return own
    reads.push_counter.pulled += sum(map(len, high_fan_out.values()))
    return own + await pull(reads.graph, high_fan_out, at)


async def _sources(graph: Reader, viewer: int, tags: Iterable[int], *, own: bool = True) -> Sources:
    members = [viewer] if own else []
    async for follows in pages_of(graph, viewer, FOLLOWS, _FOLLOWS_PAGE):
        members += [followee.id2 for followee in follows]
    return {POSTED: members, TAG_OF: list(tags)}


async def _followed_tags(graph: Reader, viewer: int) -> set[int]:
    followed = await graph.assoc_range(viewer, FOLLOWS_TAG, Cursor(limit=1_000))
    return {tag.id2 for tag in followed}


async def _settings_of(graph: Reader, viewer: int) -> _HomeSettings:
    return _HomeSettings(await _followed_tags(graph, viewer), await lists.set_apart(graph, viewer))


def _belonging(seen: ViewerState, viewer: int, rows: Sequence[Row], settings: _HomeSettings) -> list[Row]:
    """Return the entries from members and tags that the viewer follows now, whether or not an unfollow has been processed."""
    relationships = seen.relationships
    return [row for row in rows if _belongs(viewer, row, relationships, settings)]


def _belongs(viewer: int, row: Row, relationships: Mapping[int, Relation], settings: _HomeSettings) -> bool:
    _, post, share = row
    if share is not None:
        return share.author_id == viewer or _arrives_by_follow(row, share.author_id, relationships, settings)
    author = post.author_id
    if author == viewer:
        return True
    if settings.tags and not settings.tags.isdisjoint(map(tag_id, post.tags)) and _arrives_by_tag(post):
        return True
    return _arrives_by_follow(row, author, relationships, settings) and _shows_comment(viewer, post, relationships)


def _arrives_by_tag(post: Post) -> bool:
    """Return whether a post reaches followers of its tags. A post held because of reports reaches only its author's followers."""
    return post.visibility is Visibility.PUBLIC and post.review not in HELD


def _arrives_by_follow(row: Row, by: int, relationships: Mapping[int, Relation], settings: _HomeSettings) -> bool:
    """Return whether an entry is in the home timeline because the viewer follows the member `by`."""
    relation = relationships[by]
    if not relation.following or by in settings.apart:
        return False
    # Skip `may_come` for a follow with the default options, which includes all posts and shares.
    return (relation.shares and not relation.languages) or may_come(row[1], row[2], relation)


def _shows_comment(viewer: int, post: Post, relationships: Mapping[int, Relation]) -> bool:
    """Return whether a comment is in the timeline: the viewer must follow its author and the author of the parent post."""
    parent = post.parent_author_id
    return not parent or parent in (viewer, post.author_id) or relationships[parent].following


def _merged(lists: Iterable[list[int]], at: Cursor) -> list[int]:
    return sorted(set().union(*lists), reverse=not at.oldest_first)[: at.limit]
