"""Totals of the network, counted by a background scan, because no totals are stored."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from typing import NamedTuple

from shoal.core.ids import floor_at, now_ms
from shoal.core.model import Member, Post
from shoal.graph.contract import Scanner

_log = logging.getLogger("shoal.api")

_PAGE = 2_000
_FRESH_SECONDS = 600.0
_WAIT_SECONDS = 0.5
"""Seconds that a request waits for a scan. After them, it uses the previous totals."""
_MONTH_MS = 30 * 86_400_000
_WEEK_MS = 7 * 86_400_000
_MONDAY_MS = 4 * 86_400_000
"""The first Monday of Unix time, in Unix milliseconds."""
WEEKS = 12
"""Number of weeks that are counted separately, including the current week."""


class Week(NamedTuple):
    began: int
    posts: int
    authors: int
    """Members who posted."""
    members: int


class Totals(NamedTuple):
    members: int = 0
    posts: int = 0
    active: int = 0
    """Members who posted in the last 30 days."""
    weeks: tuple[Week, ...] = ()
    """The latest weeks, newest first."""


class NetworkTotals:
    """The totals of the network, such as members and posts. A call counts them again if they are older than ten minutes."""

    def __init__(self, store: Scanner) -> None:
        self._store = store
        self._totals = Totals()
        self._tried_at = float("-inf")
        self._counting: asyncio.Task[None] | None = None

    async def totals(self) -> Totals:
        """Return the latest totals of the network. All are 0 until the first count is complete."""
        if time.monotonic() - self._tried_at > _FRESH_SECONDS and self._counting is None:
            self._counting = asyncio.create_task(self._count(), name="shoal-network-totals")
        if self._counting is not None:
            await asyncio.wait({self._counting}, timeout=_WAIT_SECONDS)
        return self._totals

    async def close(self) -> None:
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait({self._counting})

    async def _count(self) -> None:
        try:
            self._totals = await self._scan()
        except Exception:  # noqa: BLE001 (requests get the previous totals)
            _log.exception("counting members and posts failed")
        finally:
            # Set this time also after a failure, so that a failing store is not scanned for every request.
            self._tried_at = time.monotonic()
            self._counting = None

    async def _scan(self) -> Totals:
        members = posts = after = 0
        active: set[int] = set()
        now = now_ms()
        recent, this_week = floor_at(now - _MONTH_MS), _week_of(now)
        posts_by_week, joined_by_week = Counter[int](), Counter[int]()
        authors_by_week = defaultdict[int, set[int]](set)
        while page := await self._store.obj_scan(after, _PAGE):
            after = page[-1].id
            for node in page:
                if isinstance(node, Post):
                    posts += node.open
                    if this_week - WEEKS < (week := _week_of(node.created_at)):
                        posts_by_week[week] += node.open
                        authors_by_week[week].add(node.author_id)
                    if node.id >= recent:
                        active.add(node.author_id)
                elif isinstance(node, Member):
                    members += not node.suspended
                    joined_by_week[_week_of(node.created_at)] += 1
        weeks = tuple(
            Week(
                began=(week * _WEEK_MS + _MONDAY_MS) // 1000,
                posts=posts_by_week[week],
                authors=len(authors_by_week[week]),
                members=joined_by_week[week],
            )
            for week in range(this_week, this_week - WEEKS, -1)
        )
        return Totals(members, posts, len(active), weeks)


def _week_of(milliseconds: int) -> int:
    return (milliseconds - _MONDAY_MS) // _WEEK_MS
