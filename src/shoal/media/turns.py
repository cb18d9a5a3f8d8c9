"""Places for long work, given to members in turn: a member with many pieces waiting does not hold up others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shoal.core.errors import Unavailable

_Queue = deque[asyncio.Future[None]]


class FairTurns:
    """At most `places` pieces of work at once. Waiting members get one in turn; a member's pieces keep their order.

    For one event loop.
    """

    def __init__(self, places: int, most_waiting: int, most_of_one: int) -> None:
        self._places = places
        self._free = places
        self._most_waiting = most_waiting
        self._most_of_one = most_of_one
        # The member whose turn is next comes first.
        self._queues: dict[str, _Queue] = {}

    @property
    def waiting(self) -> int:
        """Return how many pieces of work wait for a place."""
        return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def taken(self, member: str) -> AsyncIterator[None]:
        """Hold a place. Raises `Unavailable` at once when too many wait, of this member or of all."""
        self._check_room(member)
        await self._take(member)
        try:
            yield
        finally:
            self._give()

    async def all_taken(self) -> None:
        """Take every place for good, after those who wait now."""
        for _ in range(self._places):
            await self._take("")

    def _check_room(self, member: str) -> None:
        if self._free:
            return
        if self.waiting >= self._most_waiting or len(self._queues.get(member, ())) >= self._most_of_one:
            raise Unavailable("too many pictures are waiting to be decoded: try again in a few seconds")

    async def _take(self, member: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(member, deque()).append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                # The turn came at the very moment that it was no longer wanted.
                self._give()
            raise

    def _give(self) -> None:
        """Hand the place to the next member; callers that gave up waiting are passed over."""
        while self._queues:
            member = next(iter(self._queues))
            queue = self._queues.pop(member)
            turn = queue.popleft()
            if queue:
                self._queues[member] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
