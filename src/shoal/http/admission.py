"""Admission control: the number of concurrent and queued requests, and early refusal of posts while fan-out is behind.

Requests beyond the queue get 503 with `Retry-After` at once, because an unbounded server finishes nothing in time. A slot is held
from admission until the response begins. Streams and downloads do not hold one while they run, and neither does a request whose
client is still sending. While deliveries are behind, new posts are refused before a slot is taken, before authentication, and
without reading the body, so a refusal costs almost nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.core.errors import ShoalError, Unavailable
from shoal.http.bodies import BodyReceiver, deliver
from shoal.http.errors import reply_for
from shoal.http.responses import encode

_ALWAYS = frozenset({"/health", "/ready"})
"""Monitoring must get an answer however busy the server is."""

_BUSY = reply_for(Unavailable("The server is busy; try again in a moment", retry_after=1.0))
_BUSY_JSON = encode(_BUSY.body)

_VISIT = "shoal.visit"
"""Where the visit of a request is in its ASGI scope."""

_Queue = deque[asyncio.Future[None]]


class Gate:
    """So many `places`, so many who wait for one, for so many `seconds` at the most. Of one event loop."""

    def __init__(self, places: int, waiting: int, seconds: float) -> None:
        self._places = self._free = places
        self._most = waiting
        self._seconds = seconds
        self._waiting: _Queue = deque()
        self._returning: _Queue = deque()
        self.refused = 0
        """Requests that got no place in time, since the process began."""

    @property
    def at_work(self) -> int:
        """Requests that hold a place."""
        return self._places - self._free

    @property
    def waiting(self) -> int:
        """Requests that wait for a place, those that were let in before among them."""
        return len(self._waiting) + len(self._returning)

    async def enter(self) -> bool:
        """Take a place, in the order of arrival; False, without one, when there is none in time."""
        if self._free:
            self._free -= 1
            return True
        if len(self._waiting) >= self._most:
            self.refused += 1
            return False
        try:
            await self._turn(self._waiting, self._seconds)
        except TimeoutError:
            self.refused += 1
            return False
        return True

    async def again(self) -> None:
        """Take a place before all who have had none yet: this one was let in before."""
        if self._free:
            self._free -= 1
        else:
            await self._turn(self._returning, None)

    def leave(self) -> None:
        """Give the place back, to whoever is next."""
        for queue in (self._returning, self._waiting):
            while queue:
                turn = queue.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1

    async def _turn(self, queue: _Queue, seconds: float | None) -> None:
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                # The turn came at the very moment that it was no longer wanted.
                self.leave()
            elif turn in queue:
                queue.remove(turn)
            raise


@asynccontextmanager
async def outside(scope: Scope) -> AsyncIterator[None]:
    """Release the request's place inside the block: what it waits for there has a bound of its own."""
    visit: _Visit | None = scope.get(_VISIT)
    if visit is None:
        yield
        return
    visit.step_out()
    try:
        yield
    finally:
        await visit.step_in()


class Admission:
    """An application behind a gate."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection."""
        if scope["type"] != "http" or scope["path"] in _ALWAYS:
            await self._app(scope, receive, send)
        elif await self._gate.enter():
            visit = scope[_VISIT] = _Visit(self._gate, receive, send)
            try:
                await self._app(scope, visit.receive, visit.send)
            finally:
                visit.leave()
                # The server's own object of the request holds the scope, and the visit holds that: together they would stay,
                # with the body, until garbage is collected.
                del scope[_VISIT]
        else:
            await deliver(_BUSY, _BUSY_JSON, [], BodyReceiver(scope, receive), send)


class _Visit:
    """One request that was let in."""

    __slots__ = ("_gate", "_holds", "_over", "_receive", "_send")

    def __init__(self, gate: Gate, receive: Receive, send: Send) -> None:
        self._gate = gate
        self._receive = receive
        self._send = send
        self._holds = True
        self._over = False

    async def receive(self) -> Message:
        """Receive the client's next message. The request holds no place while it waits."""
        if self._over:
            return await self._receive()
        self.step_out()
        message = await self._receive()
        await self.step_in()
        return message

    async def send(self, message: Message) -> None:
        """Send a message to the client. The place is released first, as the work is done when an answer begins."""
        self.leave()
        await self._send(message)

    def leave(self) -> None:
        """The place is given back for good."""
        self._over = True
        self.step_out()

    def step_out(self) -> None:
        """Give the place back for a while."""
        if self._holds:
            self._holds = False
            self._gate.leave()

    async def step_in(self) -> None:
        """Take a place again, unless none is needed any more."""
        if self._needs_place():
            await self._gate.again()
            if self._needs_place():
                self._holds = True
            else:
                # Meanwhile the answer has begun, or another part of the request has taken one.
                self._gate.leave()

    def _needs_place(self) -> bool:
        return not (self._over or self._holds)


Refusal = Callable[[], ShoalError | None]
"""Why one more is refused now; None when it is not. Each call decides about another."""


class Relief:
    """An application whose requests with consequences are let in as the `refusal` says."""

    def __init__(self, app: ASGIApp, brings_deliveries: Callable[[str, str], bool], refusal: Refusal) -> None:
        self._app = app
        self._brings_deliveries = brings_deliveries
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection."""
        if (
            scope["type"] == "http"
            and scope["method"] == "POST"
            and self._brings_deliveries("POST", scope["path"])
            and (error := self._refusal()) is not None
        ):
            reply = reply_for(error)
            await deliver(reply, encode(reply.body), [], BodyReceiver(scope, receive), send)
        else:
            await self._app(scope, receive, send)
