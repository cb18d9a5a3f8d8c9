"""The home timeline: the newest posts and shares by the viewer, by their followees and under the tags they follow.

Entries that an irreversible filter of the viewer matches are left out; the others say which filters match them.
`definition` computes it by pull alone; `page` reads the materialised timeline and must give an equal result once events
are done.

Glossary (`docs/glossary.md`): audience, loud, stamp.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from shoal.core.errors import Unavailable
from shoal.core.filters import FilterContext
from shoal.core.model import HELD, Post, Visibility
from shoal.core.visibility import Relation, may_come
from shoal.graph.cache.cached_graph import AheadGraph
from shoal.graph.cache.coherence import one_request
from shoal.graph.cache.responses import depends_on
from shoal.graph.contract import MAX_TIME, Cursor, Reader
from shoal.graph.schema import EVERYBODY, FOLLOWS, FOLLOWS_TAG, LOUD, OWNS_FILTER, OWNS_LIST, POSTED, TAG_OF, tag_id
from shoal.queries import lists
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry, Row, Sight, sight
from shoal.queries.pagination import MOST_AT_ONCE, SLACK, RowReader, Sources, pull, stored
from shoal.queries.pipeline import (
    NO_SIEVE,
    Folds,
    Page,
    Skeleton,
    folds_shares,
    itself,
    read_folded,
    sieve_of,
    unfolded,
)
from shoal.throttled_log import ThrottledLog
from shoal.timelines.contract import Window

_outage = ThrottledLog(logging.getLogger(__name__))

_FOLLOWS_PAGE = 20_000
_SHOWN_AT_ONCE = 500
"""Entries by position that are hydrated together."""


class _Tastes(NamedTuple):
    """The viewer's choices that decide over every entry."""

    tags: set[int]
    """The tags that they follow."""
    apart: frozenset[int]
    """Followees whose posts they read in an exclusive list instead."""


_PLAIN = _Tastes(set(), frozenset())
"""The tastes of a viewer who follows no tags and has no lists."""


async def page(reads: Reads, viewer: int, cursor: Cursor, *, direct: bool = True) -> Page:
    """Return a page of the viewer's home timeline.

    A cold timeline is rebuilt first; only the last entry ends the paging. Without `direct`, direct messages are left
    out: apps for Mastodon expect them, the web app shows them as conversations.
    """
    with one_request():
        opening = await _opened(reads, viewer, cursor)
        # Whether these lists are empty is asked at once: mostly they are, and are not asked for one by one below.
        held = await reads.graph.assoc_count((viewer, EVERYBODY), (FOLLOWS_TAG, OWNS_LIST, OWNS_FILTER, POSTED, LOUD))
        plain = not (held[FOLLOWS_TAG] or held[OWNS_LIST])
        tastes = _PLAIN if plain else await _tastes(reads.graph, viewer)
        sieve = await sieve_of(reads.graph, viewer, FilterContext.HOME) if held[OWNS_FILTER] else NO_SIEVE
        skeleton = partial(_materialised, reads, viewer, opening=opening)
        return await read_folded(_folds(reads, viewer, skeleton, tastes, direct=direct), cursor, sieve)


async def definition(reads: Reads, viewer: int, cursor: Cursor, *, direct: bool = True) -> Page:
    """Return the page that `page` must equal, by pull from everyone the viewer follows, at any price."""
    tastes = await _tastes(reads.graph, viewer)
    sources = await _sources(reads.graph, viewer, tastes.tags)
    sieve = await sieve_of(reads.graph, viewer, FilterContext.HOME)
    return await read_folded(
        _folds(reads, viewer, partial(pull, reads.graph, sources), tastes, direct=direct), cursor, sieve, thorough=True
    )


def _folds(reads: Reads, viewer: int, skeleton: Skeleton, tastes: _Tastes, *, direct: bool = True) -> Folds:
    """Describe the home as rows: which belong to it, and which leave shares out of it."""
    seen = sight(reads.graph, viewer, lasting=reads.lasting)

    async def sift(ids: Sequence[int]) -> list[Row]:
        rows = _belonging(seen, viewer, await seen.look(ids), tastes)
        return rows if direct else [row for row in rows if row[1].visibility is not Visibility.DIRECT]

    def opened(cursor: Cursor) -> RowReader[int, Row]:
        return RowReader(cursor, skeleton, sift, itself)

    return Folds(seen, opened, partial(folds_shares, reads.graph, viewer), tastes.tags)


async def among(reads: Reads, viewer: int, ids: Sequence[int]) -> list[Entry]:
    """Return the entries that are in the viewer's home at this moment, as `page` would show them, in the order of
    `ids`.
    """
    with one_request():
        tastes = await _tastes(reads.graph, viewer)
        folds = _folds(reads, viewer, partial(_materialised, reads, viewer), tastes)
        rows = _belonging(folds.seen, viewer, await folds.seen.look(ids), tastes)
        if not rows:
            return []
        here = await folds.seen.entries(await unfolded(folds, rows))
        return await (await sieve_of(reads.graph, viewer, FilterContext.HOME)).admitted(here)


async def newest(reads: Reads, viewer: int, limit: int) -> list[int]:
    """Return the ids of the newest entries that the viewer's sources have, whether the viewer may see them or not."""
    with one_request():
        return await _materialised(reads, viewer, Cursor(limit=limit))


async def pulled(reads: Reads, viewer: int, limit: int) -> list[int]:
    """Return what `newest` returns, from the lists of the sources alone: no timeline is rebuilt for it, or kept warm."""
    with one_request():
        sources = await _sources(reads.graph, viewer, await _followed_tags(reads.graph, viewer))
        return await pull(reads.graph, sources, Cursor(limit=limit))


async def at_positions(reads: Reads, viewer: int, first: int, last: int) -> list[Entry]:
    """Return the entries at positions `first` to `last` of all that the sources of the home have, as the viewer may see them."""
    sources = await _sources(reads.graph, viewer, await _followed_tags(reads.graph, viewer))
    ids = await stored(reads.graph, sources, first, last)
    shown: list[Entry] = []
    for at in range(0, len(ids), _SHOWN_AT_ONCE):
        shown += await among(reads, viewer, ids[at : at + _SHOWN_AT_ONCE])
    return shown


async def warm_up(reads: Reads, viewer: int) -> None:
    """Rebuild a cold timeline. Concurrent calls wait for one rebuild."""
    if (under_way := reads.rebuilding.get(viewer)) is not None:
        await asyncio.shield(under_way)
        return
    done = reads.rebuilding[viewer] = asyncio.get_running_loop().create_future()
    try:
        await _rebuild(reads, viewer)
    finally:
        del reads.rebuilding[viewer]
        done.set_result(None)


async def _rebuild(reads: Reads, viewer: int) -> None:
    """Create, join the audiences, then fill: an entry that is posted in between is pushed, all others are pulled."""
    await reads.timelines.create(viewer)
    try:
        sources = await _sources(reads.lasting, viewer, await _followed_tags(reads.lasting, viewer), own=False)
        if reads.audiences is not None:
            seats = reads.timelines.seats((viewer,))
            for source in chain.from_iterable(sources.values()):
                reads.audiences.add(source, viewer, seats)
        ids = await pull(reads.lasting, sources, Cursor(limit=reads.length + 1))
        floor = ids[reads.length] if len(ids) > reads.length else 0
        await reads.timelines.fill(viewer, ids[: reads.length], floor)
    except BaseException:
        await reads.timelines.drop((viewer,))
        raise


class _Opening(NamedTuple):
    """A timeline that was read beside the stamps of its viewer, for the first part of a page."""

    at: Cursor
    window: Window | None
    loud: Sources
    """The lists of the sources that were loud when it was read."""


async def _opened(reads: Reads, viewer: int, cursor: Cursor) -> _Opening | None:
    """Read the timeline beside the viewer's stamp; None where that would not tell who was loud when it was read."""
    if not isinstance(reads.graph, AheadGraph):
        return None
    # As much as a page reads at first.
    at = cursor.of(min(cursor.limit + 1 + SLACK, MOST_AT_ONCE))
    try:
        found = await reads.graph.beside_list(
            EVERYBODY, LOUD, (viewer, EVERYBODY), partial(reads.timelines.read, viewer, at)
        )
    except Unavailable:
        return None
    return None if found is None else _Opening(at, found[0], await _loud(reads, viewer))


async def _materialised(reads: Reads, viewer: int, at: Cursor, *, opening: _Opening | None = None) -> list[int]:
    if opening is None or opening.at != at:
        # Before the timeline is read: what a source that is loud no more was not pushed is in there by then.
        loud = await _loud(reads, viewer)
        window = await _window(reads, viewer, at)
    else:
        loud = opening.loud
        window = await _window(reads, viewer, at, opening)
    if window is None or _incomplete(window, at):
        sources = await _sources(reads.graph, viewer, await _followed_tags(reads.graph, viewer))
        if window is None or at.oldest_first:
            return await pull(reads.graph, sources, at)
        below = at._replace(before=min(at.before, window.floor + 1))
        return _merged(
            [window.ids, await _unpushed(reads, viewer, loud, at), await pull(reads.graph, sources, below)], at
        )
    return _merged([window.ids, await _unpushed(reads, viewer, loud, at)], at)


async def _window(reads: Reads, viewer: int, at: Cursor, opening: _Opening | None = None) -> Window | None:
    """Read the materialised timeline, rebuilt first if cold; None when it is unavailable: then everything is pulled."""

    async def read() -> Window | None:
        return await reads.timelines.read(viewer, at)

    try:
        window = await read() if opening is None else opening.window
        if window is None:
            await warm_up(reads, viewer)
            window = await read()
        # The question is put again also because it is what keeps a timeline warm.
        depends_on(read, window)
    except Unavailable:
        _outage.warning("home timelines cannot be reached; a page is pulled")
        return None
    return window


def _incomplete(window: Window, at: Cursor) -> bool:
    """Return whether the page reaches down to where the materialised part of the timeline ends."""
    return window.floor > at.after and (at.oldest_first or len(window.ids) < at.limit)


async def _loud(reads: Reads, viewer: int) -> Sources:
    """Return the lists of the viewer's sources whose entries may not have been pushed."""
    loud = await reads.graph.assoc_common(viewer, (FOLLOWS, FOLLOWS_TAG), EVERYBODY, LOUD)
    return {POSTED: list(loud[FOLLOWS]), TAG_OF: list(loud[FOLLOWS_TAG])} if any(loud.values()) else {}


async def _unpushed(reads: Reads, viewer: int, loud: Sources, at: Cursor) -> list[int]:
    """Read the entries that are never pushed: the viewer's own, which are seen at once, and those of loud sources."""
    mine = await reads.graph.assoc_range(viewer, POSTED, at)
    own = [entry.time for entry in mine]
    if not loud:
        return own
    reads.tally.pulled += sum(map(len, loud.values()))
    return own + await pull(reads.graph, loud, at)


async def _sources(graph: Reader, viewer: int, tags: Iterable[int], *, own: bool = True) -> Sources:
    """Return everything that the viewer's home is made of, as lists to merge."""
    members = [viewer] if own else []
    before = MAX_TIME
    while True:
        follows = await graph.assoc_range(viewer, FOLLOWS, Cursor(before=before, limit=_FOLLOWS_PAGE))
        members += [followee.id2 for followee in follows]
        if len(follows) < _FOLLOWS_PAGE:
            return {POSTED: members, TAG_OF: list(tags)}
        before = follows[-1].time


async def _followed_tags(graph: Reader, viewer: int) -> set[int]:
    followed = await graph.assoc_range(viewer, FOLLOWS_TAG, Cursor(limit=1_000))
    return {tag.id2 for tag in followed}


async def _tastes(graph: Reader, viewer: int) -> _Tastes:
    return _Tastes(await _followed_tags(graph, viewer), await lists.set_apart(graph, viewer))


def _belonging(seen: Sight, viewer: int, rows: Sequence[Row], tastes: _Tastes) -> list[Row]:
    """Keep only entries of sources that the viewer follows at this moment, so that late consequences are never seen."""
    stands = seen.stands
    return [row for row in rows if _belongs(viewer, row, stands, tastes)]


def _belongs(viewer: int, row: Row, stands: Mapping[int, Relation], tastes: _Tastes) -> bool:
    _, post, share = row
    if share is not None:
        return share.author_id == viewer or _brought(row, share.author_id, stands, tastes)
    author = post.author_id
    if author == viewer:
        return True
    if tastes.tags and not tastes.tags.isdisjoint(map(tag_id, post.tags)) and _comes_by_tag(post):
        return True
    return _brought(row, author, stands, tastes) and _in_earshot(viewer, post, stands)


def _comes_by_tag(post: Post) -> bool:
    """Return whether its tags bring a post home; one that is held comes to the author's followers alone."""
    return post.visibility is Visibility.PUBLIC and post.review not in HELD


def _brought(row: Row, by: int, stands: Mapping[int, Relation], tastes: _Tastes) -> bool:
    """Return whether a member whom the viewer follows brings the entry home."""
    stand = stands[by]
    if not stand.following or by in tastes.apart:
        return False
    # As a rule a follow brings everything.
    return (stand.shares and not stand.languages) or may_come(row[1], row[2], stand)


def _in_earshot(viewer: int, post: Post, stands: Mapping[int, Relation]) -> bool:
    """Return whether the viewer may hear a comment: only who follows both ends does, so strangers' talk stays out."""
    parent = post.parent_author_id
    return not parent or parent in (viewer, post.author_id) or stands[parent].following


def _merged(lists: Iterable[list[int]], at: Cursor) -> list[int]:
    return sorted(set().union(*lists), reverse=not at.oldest_first)[: at.limit]
