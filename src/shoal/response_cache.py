"""The cache of whole responses, such as home pages: served again while everything they depend on is unchanged.

It holds JSON responses of the API and HTML pages of the web app. The dependencies of a response are recorded while it is computed
(`graph.cache.dependencies`). It is valid while

- the change log has no entry for the objects, lists and counts that were read (one process), or all their version tokens are
  unchanged (several processes);
- its queries to sources outside the graph (timeline, tag cloud, ranking) return equal results;
- it has not expired.

A response is cached when it is requested for the second time; the first request costs only an entry for its key. If a cached
response becomes invalid before it is used, the next three responses for its key are not cached, which saves a tenth of the cost of
computing them; if that happens again and again, the next 6, 12 and at most 24.

Example: the change log is at position 70 when a page with post 5 is computed, which reads object 5 and the list of its likes:

1. A like of post 6 adds an entry that is no dependency of the page. The page is valid, now as of position 71.
2. A like of post 5 commits while the page is requested. Until the like is acknowledged, the old and the new page are both right.
3. Entry 72 is the list of likes of post 5, so any later request computes the page again.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from shoal.core.errors import Unavailable
from shoal.core.ids import now_ms
from shoal.graph.cache.change_log import ChangeLog
from shoal.graph.cache.dependencies import Dependence, track_dependencies
from shoal.graph.cache.lru import Recent

R = TypeVar("R")

_MARK_BYTES = 8
_VERSION_BYTES = 150
"""Bytes of a version token with its dictionary entry."""
_CHECK_BYTES = 1_000
"""Approximate bytes of a query and its result. Most results are shared with the component that was queried."""
_SKIPPED = 3
_DOUBLINGS = 3
_LEVELS = _DOUBLINGS + 1


@dataclass(slots=True, eq=False)
class _Entry(Generic[R]):
    response: R
    marks: array[int]
    checks: Sequence[Dependence]
    until: int
    since: int
    """The position in the change log up to which it has no entry for any of `marks`."""
    kilobytes: int
    used: bool = False


class ResponseCache(Generic[R]):
    """An LRU cache of responses by key, of at most `kilobytes`; 0 disables the cache.

    `prepare` converts a response before it is cached, and returns it with its size in bytes. `asked` counts look-ups,
    and `missed` counts computed responses. If a cached response becomes invalid before it is used, the next `skip`
    responses for its key are not cached, and twice as many each time that happens again, up to eight times `skip`.
    """

    def __init__(
        self, log: ChangeLog, kilobytes: int, prepare: Callable[[R], tuple[R, int]], *, skip: int = _SKIPPED
    ) -> None:
        self._log = log
        self._prepare = prepare
        self._capacity = kilobytes
        # The entries are in the order of their last use.
        self._entries: OrderedDict[Hashable, _Entry[R]] = OrderedDict()
        self._size = 0
        self._skip = skip
        # Maps each key to the number of its next responses that will not be cached, times `_LEVELS`, plus the number of times
        # that this number was doubled. A small integer needs no memory of its own.
        self._skipped: Recent[Hashable, int] = Recent(64 * kilobytes)
        self.asked = self.missed = 0

    def __len__(self) -> int:
        return len(self._entries)

    async def get(self, key: Hashable, make: Callable[[], Awaitable[R]]) -> R:
        """Return the response for a key: from the cache if it is valid there, otherwise from `make`.

        Errors of `make` are raised.
        """
        if not self._capacity:
            return await make()
        self.asked += 1
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
            if await self._is_valid(entry):
                entry.used = True
                return entry.response
            if self._entries.get(key) is entry:
                self._remove(key)
        self.missed += 1
        if self._skips(key, entry):
            return await make()
        return await self._compute(key, make)

    def _skips(self, key: Hashable, invalid: _Entry[R] | None) -> bool:
        """Return whether the next response for a key must not be cached. If so, decrease the number of responses left to skip.

        `invalid` is the entry of the key that has become invalid, if any.
        """
        known = self._skipped.get(key)
        left, doubled = divmod(known or 0, _LEVELS)
        if invalid is None:
            # The first response for a key is not cached either.
            left += known is None
        elif invalid.used:
            left = doubled = 0
        else:
            left, doubled = self._skip << doubled, min(doubled + 1, _DOUBLINGS)
        if left:
            left -= 1
            self._skipped.put(key, left * _LEVELS + doubled)
            return True
        if invalid is not None:
            self._skipped.put(key, doubled)
        return False

    async def _is_valid(self, entry: _Entry[R]) -> bool:
        if not self._is_unchanged(entry):
            return False
        # Check again after waiting for the queries: there must be one moment since the start of the request at which all
        # dependencies were unchanged.
        return not entry.checks or (await _have_same_results(entry.checks) and self._is_unchanged(entry))

    def _is_unchanged(self, entry: _Entry[R]) -> bool:
        now = self._log.position
        if now_ms() >= entry.until or (entry.marks and not self._log.unchanged(entry.marks, entry.since)):
            return False
        entry.since = now
        return True

    async def _compute(self, key: Hashable, make: Callable[[], Awaitable[R]]) -> R:
        since = self._log.position
        with track_dependencies() as read:
            response = await make()
        if read.whole and now_ms() < read.until:
            response, size = self._prepare(response)
            marks = array("q", list(read.marks))
            size += _MARK_BYTES * len(marks) + _VERSION_BYTES * len(read.versions) + _CHECK_BYTES * len(read.checks)
            self._store(key, _Entry(response, marks, read.checks, read.until, since, 1 + size // 1024))
        return response

    def _store(self, key: Hashable, entry: _Entry[R]) -> None:
        if key in self._entries:
            self._remove(key)
        if entry.kilobytes > self._capacity:
            return
        self._entries[key] = entry
        self._size += entry.kilobytes
        while self._size > self._capacity:
            self._remove(next(iter(self._entries)))

    def _remove(self, key: Hashable) -> None:
        self._size -= self._entries.pop(key).kilobytes


async def _have_same_results(checks: Sequence[Dependence]) -> bool:
    """Return whether all queries still have the results that were recorded. A failed query counts as changed.

    The queries run concurrently, so that queries to servers share one round trip.
    """
    try:
        if len(checks) == 1:
            return bool(await checks[0].ask() == checks[0].answer)
        results = await asyncio.gather(*[check.ask() for check in checks])
    except Unavailable:
        return False
    return results == [check.answer for check in checks]
