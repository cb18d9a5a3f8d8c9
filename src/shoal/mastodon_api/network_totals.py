"""Totals of the network: members and posts, counted periodically in the background.

No counter of the whole network is stored.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import NamedTuple

from shoal.core.ids import floor_at, now_ms
from shoal.core.model import Member, Post
from shoal.graph.contract import Scanner

_log = logging.getLogger("shoal.api")

_PAGE = 2_000
_FRESH_SECONDS = 600.0
_PATIENCE_SECONDS = 0.5
"""How long a request waits for a count; after that it takes the numbers there are."""
_MONTH_MS = 30 * 86_400_000
_WEEK_MS = 7 * 86_400_000
_MONDAY_MS = 4 * 86_400_000
"""The first Monday of Unix time."""
WEEKS = 12
"""So many weeks are counted one by one, with this one."""


class Week(NamedTuple):
    """Counts of one week, which began on a Monday (`began`: UTC, in Unix seconds)."""

    began: int
    posts: int
    authors: int
    """Members who posted."""
    members: int
    """Members who joined."""


class Totals(NamedTuple):
    """The network in numbers."""

    members: int = 0
    posts: int = 0
    active: int = 0
    """Members who posted in the last 30 days."""
    weeks: tuple[Week, ...] = ()
    """The last ones, this one first."""


class NetworkTotals:
    """Counts when it is asked and its numbers are old; whoever asks meanwhile gets the old ones."""

    def __init__(self, store: Scanner) -> None:
        self._store = store
        self._totals = Totals()
        self._tried_at = float("-inf")
        self._counting: asyncio.Task[None] | None = None

    async def totals(self) -> Totals:
        """The numbers as last counted."""
        if time.monotonic() - self._tried_at > _FRESH_SECONDS and self._counting is None:
            self._counting = asyncio.create_task(self._count(), name="shoal-network-totals")
        if self._counting is not None:
            await asyncio.wait({self._counting}, timeout=_PATIENCE_SECONDS)
        return self._totals

    async def close(self) -> None:
        """Stop counting."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait({self._counting})

    async def _count(self) -> None:
        try:
            self._totals = await self._scan()
        except Exception:  # noqa: BLE001 (whoever asked has the old numbers; it is in the log)
            _log.exception("counting members and posts failed")
        finally:
            # After a failure as well: a store in trouble is not scanned at every request.
            self._tried_at = time.monotonic()
            self._counting = None

    async def _scan(self) -> Totals:
        members = posts = after = 0
        authors: set[int] = set()
        now = now_ms()
        recent = floor_at(now - _MONTH_MS)
        weeks = _Weeks(now)
        while page := await self._store.obj_scan(after, _PAGE):
            after = page[-1].id
            for node in page:
                if isinstance(node, Post):
                    posts += node.open
                    weeks.add_post(node)
                    if node.id >= recent:
                        authors.add(node.author_id)
                elif isinstance(node, Member):
                    members += not node.suspended
                    weeks.add_member(node)
        return Totals(members, posts, len(authors), weeks.told())


class _Weeks:
    """Counts by week, up to a moment."""

    def __init__(self, now: int) -> None:
        self._this = _week_of(now)
        self._posts = [0] * WEEKS
        self._authors: list[set[int]] = [set() for _ in range(WEEKS)]
        self._members = [0] * WEEKS

    def add_post(self, post: Post) -> None:
        """In the week when it was written."""
        ago = self._this - _week_of(post.created_at)
        if 0 <= ago < WEEKS:
            self._posts[ago] += post.open
            self._authors[ago].add(post.author_id)

    def add_member(self, member: Member) -> None:
        """In the week when they joined."""
        ago = self._this - _week_of(member.created_at)
        if 0 <= ago < WEEKS:
            self._members[ago] += 1

    def told(self) -> tuple[Week, ...]:
        """All of them, this week first."""
        return tuple(
            Week(
                ((self._this - ago) * _WEEK_MS + _MONDAY_MS) // 1000,
                self._posts[ago],
                len(self._authors[ago]),
                self._members[ago],
            )
            for ago in range(WEEKS)
        )


def _week_of(milliseconds: int) -> int:
    """Weeks since the first Monday."""
    return (milliseconds - _MONDAY_MS) // _WEEK_MS
