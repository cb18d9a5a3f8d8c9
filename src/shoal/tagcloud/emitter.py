"""Counts the tags of posts in memory, and sends what it has as an increment when that is enough, or old enough.

Whoever has a use counted gets a future that is done when the increment is safe. Until then the event that brought the use stays
where it came from: so what dies with this process comes again, to another.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable

from shoal.tagcloud.increment import Increment, Use, encode

ID_BYTES = 16
_FEW = 20
"""Uses that make an increment no large one."""
Send = Callable[[bytes, bytes], Awaitable[None]]


def now_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


class Emitter:
    """The increments of one process; `send` makes one safe. Sent are `changes` tags together, or what is `seconds` old.

    After an increment of more than a few uses the next one may be `busy_seconds` old: each is a sync to disk.
    """

    def __init__(
        self,
        send: Send,
        *,
        changes: int = 2_000,
        seconds: float = 0.05,
        busy_seconds: float = 0.25,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._send = send
        self._changes = changes
        self._seconds = seconds
        self._busy_seconds = max(seconds, busy_seconds)
        self._busy = False
        self._clock = clock
        self._name = secrets.token_bytes(ID_BYTES)
        self._uses: list[Use] = []
        self._held = 0
        self._safe: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self.sent = 0
        """Increments that were sent and are safe."""

    def count(self, use: Use) -> asyncio.Future[None]:
        """Count what changed; done when it is safe, and then with the error of the transport if it could not be sent."""
        self._uses.append(use)
        self._held += len(use.changes)
        if self._safe is None:
            loop = asyncio.get_running_loop()
            self._safe = loop.create_future()
            self._timer = loop.call_later(self._busy_seconds if self._busy else self._seconds, self._go)
        safe = self._safe
        if self._held >= self._changes:
            self._go()
        return safe

    async def flush(self) -> None:
        """Send what is held, and wait for all that is on its way."""
        self._go()
        while self._sending:
            await asyncio.wait(self._sending)

    def _go(self) -> None:
        if self._safe is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        increment = Increment(secrets.token_bytes(ID_BYTES), self._name, self._clock(), tuple(self._uses))
        task = asyncio.ensure_future(self._deliver(increment, self._safe))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        self._busy = len(self._uses) > _FEW
        self._uses, self._held, self._safe, self._timer = [], 0, None, None

    async def _deliver(self, increment: Increment, safe: asyncio.Future[None]) -> None:
        try:
            await self._send(increment.id, encode(increment))
        except BaseException as error:  # noqa: BLE001  # whoever waits must hear of it, whatever it is
            if not safe.done():
                safe.set_exception(error if isinstance(error, Exception) else ConnectionError("the emitter has ended"))
                # Perhaps nobody waits any more.
                safe.exception()
        else:
            self.sent += 1
            if not safe.done():
                safe.set_result(None)
