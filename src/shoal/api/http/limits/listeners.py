"""Connections that listen to this process: how many, how long their tokens are good, and how a stop ends them all."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from shoal.api.http.calls import Caller
from shoal.core.errors import NotAllowed, TooMany, Unauthenticated, Unavailable
from shoal.graph.cache.coherence import another_request
from shoal.streaming.contract import Position
from shoal.streaming.hub import Connection, Hub, Missed, PlacedUpdate
from shoal.streaming.subscriptions import Interest


class Pace(NamedTuple):
    """How often something is done for each listener, in seconds."""

    thump: float = 15.0
    """Between two signs of life on a stream of events."""
    ping: float = 30.0
    """Between two pings on a WebSocket; whoever has not answered one by the next is gone."""
    check: float = 45.0
    """Within that a token is read again; as a rule whoever must not listen any more is sent away at once."""
    patience: float = 30.0
    """For whoever does not read what they are sent."""


USUAL = Pace()


class Streams:
    """All who listen."""

    def __init__(self, hub: Hub, pace: Pace = USUAL, *, per_member: int = 50, most: int = 8_000) -> None:
        self.hub = hub
        self.pace = pace
        self._per_member = per_member
        self.most = most
        """Streams in this process; requests need connections as well."""
        self._open: set[Connection] = set()
        self._of: Counter[int] = Counter()
        self._stopped = False

    @property
    def number(self) -> int:
        """Return how many listen to this process."""
        return len(self._open)

    @asynccontextmanager
    async def listening(self, caller: Caller, to: Interest, after: str | None = None) -> AsyncIterator[Connection]:
        """One more listener. Raises `TooMany` for the one who has too many streams open, `Unavailable` when there is no room."""
        member = caller.member_id or 0
        self._check_room(member)
        self._of[member] += 1
        try:
            position = Position(after) if after is not None else None
            async with self.hub.connect(member, position, to=to, session=caller.token_id) as connection:
                self._open.add(connection)
                if self._stopped:
                    connection.end()
                try:
                    yield connection
                finally:
                    self._open.discard(connection)
        finally:
            self._of[member] -= 1
            if not self._of[member]:
                del self._of[member]

    def _check_room(self, member: int) -> None:
        if self._stopped or self._of.total() >= self.most:
            raise Unavailable("The server cannot take more listeners now")
        if self._of[member] >= self._per_member:
            raise TooMany("Too many streams", retry_after=self.pace.thump)

    def stop(self) -> None:
        """Everybody has heard the last, and nobody new is let in."""
        self._stopped = True
        for connection in self._open:
            connection.end()

    async def attended(
        self, connection: Connection, check: Callable[[], Awaitable[object]]
    ) -> AsyncGenerator[list[PlacedUpdate | Missed]]:
        """Yield updates as they come, and an empty list as a heartbeat; ends with the connection.

        `check` reads the token again; the connection ends when it raises `Unauthenticated` or `NotAllowed`.
        """
        clock = asyncio.get_running_loop().time
        thump = clock() + self.pace.thump
        # Something may have happened to the token before we listened.
        due = 0.0
        while True:
            if clock() >= due:
                await _check(connection, check)
                due = clock() + self.pace.check * random.uniform(0.6, 1.0)  # noqa: S311  # so that not all come at once
            heard = await _take(connection, min(thump, due))
            if heard:
                yield heard
            elif connection.ended:
                return
            if clock() >= thump:
                thump = clock() + self.pace.thump
                yield []


async def _take(connection: Connection, until: float) -> list[PlacedUpdate | Missed]:
    try:
        async with asyncio.timeout_at(until):
            return await connection.take()
    except TimeoutError:
        return []


async def _check(connection: Connection, check: Callable[[], Awaitable[object]]) -> None:
    try:
        with another_request():
            await check()
    except (Unauthenticated, NotAllowed):
        connection.dismiss()
    except Unavailable:
        # Until the store is back nobody is told anything anyway.
        return
