"""How many requests begin in one turn of the event loop: as many as fit into two milliseconds, at least one.

A page is made in one go, so a turn that begins all requests which have come lasts as long as all of their pages: 26 ms for a
hundred. Whatever waits for a turn waits as long, and a post needs five, one after the other. Requests begin in the order in which
they came, and the loop never rests while one waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

_TURN_SECONDS = 0.002
_MOST = 64


class RequestPace:
    """The pace of one event loop, for all connections of a server."""

    def __init__(self, turn_seconds: float = _TURN_SECONDS) -> None:
        self._turn_seconds = turn_seconds
        self._waiting: deque[Callable[[], None]] = deque()
        self._most = self._left = 1
        self._turning = self._begun = False
        self._since = 0.0

    def begin(self, request: Callable[[], None]) -> None:
        """Call this in this turn, or in one of the next."""
        self._waiting.append(request)
        if not self._turning:
            self._turning = True
            self._left = self._most
            self._since = perf_counter()
            asyncio.get_running_loop().call_soon(self._turn)
        self._go_on()

    def _turn(self) -> None:
        """Go on in a new turn; stop when none was begun in the last one."""
        now = perf_counter()
        if now - self._since > self._turn_seconds:
            self._most = max(1, self._most // 2)
        elif self._waiting:
            self._most = min(self._most + 1, _MOST)
        self._since = now
        self._left = self._most
        self._turning, self._begun = self._begun, False
        if self._turning:
            self._go_on()
            asyncio.get_running_loop().call_soon(self._turn)

    def _go_on(self) -> None:
        while self._waiting and self._left:
            self._left -= 1
            self._begun = True
            self._waiting.popleft()()
