"""Application of a viewer's filters to entries: an entry lists the filters that match it, or is left out.

Own posts are never filtered. A viewer without filters costs one read, which the cache in front of the graph answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

from msgspec import structs

from shoal.core.filters import Compiled, Filter, FilterContext, Text, compiled
from shoal.feeds.hydrate import Entry, Filtered
from shoal.graph.cache.dependencies import good_until
from shoal.graph.cache.lru import Recent
from shoal.graph.contract import Reader
from shoal.graph.payloads.members import filters_of

_MANY = 50
"""Keywords above which other tasks get a turn between two entries."""

_compiled: Recent[tuple[int, int], Compiled] = Recent(10_000)
"""Prepared filters by id and version."""


class Sieve:
    """The viewer's active filters, applied to the entries of one context.

    Entries carry the matches of every context, since clients of the Mastodon API choose by the filter's `context` themselves.
    """

    def __init__(self, viewer: int, filters: Iterable[Filter], context: FilterContext | None = None) -> None:
        self._viewer = viewer
        self._context = context
        self._filters = [_ready(filter_) for filter_ in filters]
        self._words = sum(len(filter_.words) for filter_ in self._filters)

    def __bool__(self) -> bool:
        return bool(self._filters)

    def matches(self, entry: Entry) -> tuple[Filtered, ...]:
        """Return the filters of any context that match an entry, or the post that it shares."""
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
        """Return the entries, each with the filters that match it."""
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
        """Return the entries as `marked` does, without those that an irreversible filter matches."""
        if not self._filters:
            return list(entries)
        return [entry for entry in await self.marked(entries) if not dropped(entry)]


NO_SIEVE = Sieve(0, ())
"""The sieve of a viewer without filters."""


def dropped(entry: Entry) -> bool:
    """Return whether an irreversible filter matched the entry, so that it is left out."""
    return any(match.filter.irreversible for match in entry.filtered)


async def sieve_of(graph: Reader, viewer: int | None, context: FilterContext | None = None) -> Sieve:
    """Return the viewer's filters, to be applied in this context; expired ones do not apply.

    One read for viewers without filters, else two.
    """
    if viewer is None:
        return NO_SIEVE
    now = time.time_ns() // 1_000_000
    owned = await filters_of(graph, viewer)
    for filter_ in owned:
        good_until(filter_.expires_at, now)
    active = [filter_ for filter_ in owned if not 0 < filter_.expires_at <= now]
    return Sieve(viewer, active, context) if active else NO_SIEVE


async def filtered(
    graph: Reader, viewer: int | None, entries: Sequence[Entry], context: FilterContext | None = None
) -> list[Entry]:
    """Return the entries, each with the viewer's filters that match it: all of them, and those of this context."""
    return await (await sieve_of(graph, viewer, context)).marked(entries) if entries else []


def _pieces(entry: Entry) -> Iterable[str]:
    """Yield all readable text of a post, as it was typed."""
    post = entry.post
    yield post.text
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
