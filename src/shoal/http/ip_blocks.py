"""IP blocks as the front end enforces them: a table in memory, read again when the blocks have changed.

A request costs nothing while there are no blocks, and a look-up in a remembered table where there are. Every two seconds `serve`
looks whether the blocks have changed; where nobody serves, one request does so. A change that this process makes is read at
once. Streams that are open end when their token is read again (`Pace.check`). While the store cannot be read, the last table
stays in force.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.commands import blocklists
from shoal.core.blocklists import IpSeverity, IpTable, most_severe
from shoal.core.errors import NotAllowed, ShoalError
from shoal.graph.cache.coherence import another_request
from shoal.graph.contract import Reader
from shoal.http.bodies import BodyReceiver, deliver
from shoal.http.errors import reply_for
from shoal.http.responses import encode
from shoal.throttled_log import ThrottledLog

_log = logging.getLogger(__name__)

_EVERY_SECONDS = 2.0
_STALE_SECONDS = 10.0
"""A table that nobody has looked after for so long is not used before somebody has."""
_PATIENCE_SECONDS = 5.0
_ALWAYS = frozenset({"/health", "/ready"})
"""Monitoring gets an answer from wherever it asks."""

_REFUSED = "Your network has no access to this server"
_REFUSAL = reply_for(NotAllowed(_REFUSED))
_REFUSAL_JSON = encode(_REFUSAL.body)


class IpGuard:
    """The IP blocks, as this process knows them."""

    def __init__(self, graph: Reader, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._graph = graph
        self._clock = clock
        self._table = IpTable()
        self._version = 0
        self._looked = float("-inf")
        self._turn = asyncio.Lock()
        self._outage = ThrottledLog(_log)
        self.watched = False
        """Whether `watching` looks for changes, so that requests need not."""
        self.refused = 0
        """Requests and WebSockets from blocked networks, since the process began."""

    def is_due(self) -> bool:
        """Whether it is time to look for changes."""
        return self._clock() - self._looked > _EVERY_SECONDS

    async def catch_up(self) -> None:
        """Look for changes, unless somebody is at it and the table is not stale."""
        if self._turn.locked() and self._clock() - self._looked < _STALE_SECONDS:
            return
        async with self._turn:
            if self.is_due():
                await self._look()

    async def look(self) -> None:
        """Read the blocks again if they have changed: what was committed before this call is in force when it returns."""
        async with self._turn:
            await self._look()

    async def _look(self) -> None:
        began = self._clock()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                with another_request():
                    await self._read()
        except (ShoalError, TimeoutError) as error:
            self._outage.warning(
                "IP blocks could not be read, the last ones stay in force: %s", str(error) or "no answer in time"
            )
        self._looked = began

    async def _read(self) -> None:
        # The mark is read first: a change after it is seen at the next look.
        version = await blocklists.ip_blocks_version(self._graph)
        if version != self._version:
            blocks = await blocklists.all_ip_blocks(self._graph)
            # Thousands of networks take a tenth of a second to parse.
            self._table = await asyncio.to_thread(IpTable, blocks)
            self._version = version

    def severity(self, scope: Scope) -> IpSeverity | None:
        """The most severe block that the client of a connection falls under, or None."""
        if self._table.is_empty:
            return None
        found = self._table.blocks_of(client_of(scope))
        return most_severe(found, time.time_ns() // 1_000_000) if found else None

    def check(self, scope: Scope) -> None:
        """Raise `NotAllowed` for a client whose network has no access."""
        if self.severity(scope) is IpSeverity.NO_ACCESS:
            raise NotAllowed(_REFUSED)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Look for changes until the block ends, also while nobody asks for anything."""
        self.watched = True
        await self.look()
        task = asyncio.create_task(self._watch(), name="shoal-ip-blocks")
        try:
            yield
        finally:
            self.watched = False
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            await self.look()


class Barrier:
    """An application behind the guard: whoever has no access is refused before anything else is done."""

    def __init__(self, app: ASGIApp, guard: IpGuard) -> None:
        self._app = app
        self._guard = guard

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """One connection. Usually nothing stands between, not even a coroutine."""
        if self._guard.watched and self._guard.severity(scope) is not IpSeverity.NO_ACCESS:
            return self._app(scope, receive, send)
        return self._guarded(scope, receive, send)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._guard.watched and self._guard.is_due():
            await self._guard.catch_up()
        if self._guard.severity(scope) is not IpSeverity.NO_ACCESS or scope["path"] in _ALWAYS:
            await self._app(scope, receive, send)
            return
        self._guard.refused += 1
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await deliver(_REFUSAL, _REFUSAL_JSON, [], BodyReceiver(scope, receive), send)


def client_of(scope: Scope) -> str:
    """The client's address, as trusted proxies tell it; empty when it is not known."""
    client = scope.get("client")
    return str(client[0]) if client else ""
