"""Emit, transport and collect increments of the tag cloud.

An emitter counts uses in memory and sends an increment when it is large or old enough. The future of a use resolves when its
increment is safe; until then its event stays in the outbox. `Inbox` transports increments through the store of the cloud. A
collector takes the lock, drops increments that a newer version contains, and writes the next version. The transport keeps
unmerged increments, so a collector may die at any time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from shoal.core.errors import Unavailable
from shoal.core.ids import now_ms
from shoal.locks import set_within
from shoal.tagcloud.contract import (
    LOCK_SECONDS,
    CloudStore,
    Head,
    Increment,
    Overtaken,
    Parcel,
    Transport,
    Use,
    decode,
    encode,
)
from shoal.tagcloud.lease import locked
from shoal.tagcloud.merger import SIZES, Merger, Sizes
from shoal.tagcloud.updates import VersionUpdates
from shoal.throttled_log import ThrottledLog

ID_BYTES = 16
_FEW = 20
"""Increments with at most this many uses count as small."""
Send = Callable[[bytes, bytes], Awaitable[None]]


class Emitter:
    """Collects a process's uses of tags into increments.

    An increment is sent when it has `changes` tag changes, or `seconds` after its first use; `send` returns when it is durable.

    After a large increment, the next one is sent only after `busy_seconds`, because each costs a sync to disk.
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
        self._change_count = 0
        self._safe: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self.sent = 0
        """Increments that were sent and are durable."""

    def count(self, use: Use) -> asyncio.Future[None]:
        """Count a use. The future is done when the use is durable, or fails with the error of the transport."""
        self._uses.append(use)
        self._change_count += len(use.changes)
        if self._safe is None:
            loop = asyncio.get_running_loop()
            self._safe = loop.create_future()
            self._timer = loop.call_later(self._busy_seconds if self._busy else self._seconds, self._flush_now)
        safe = self._safe
        if self._change_count >= self._changes:
            self._flush_now()
        return safe

    async def flush(self) -> None:
        self._flush_now()
        while self._sending:
            await asyncio.wait(self._sending)

    def _flush_now(self) -> None:
        if self._safe is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        increment = Increment(secrets.token_bytes(ID_BYTES), self._name, self._clock(), tuple(self._uses))
        task = asyncio.ensure_future(self._deliver(increment, self._safe))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        self._busy = len(self._uses) > _FEW
        self._uses, self._change_count, self._safe, self._timer = [], 0, None, None

    async def _deliver(self, increment: Increment, safe: asyncio.Future[None]) -> None:
        try:
            await self._send(increment.id, encode(increment))
        except BaseException as error:  # noqa: BLE001  # all waiting callers get the error
            if not safe.done():
                safe.set_exception(error if isinstance(error, Exception) else ConnectionError("the emitter is closed"))
                # Mark the exception as retrieved, in case no caller waits.
                safe.exception()
        else:
            self.sent += 1
            if not safe.done():
                safe.set_result(None)


_AT_ONCE = 1_000


class Inbox:
    """A transport that uses the store's inbox: it polls every `seconds`, and at once after a `send` in this process."""

    def __init__(self, store: CloudStore, seconds: float = 0.2) -> None:
        self._store = store
        self._seconds = seconds
        self._came = asyncio.Event()

    async def send(self, id_: bytes, body: bytes) -> None:
        await self._store.put(id_, body)
        self._came.set()

    async def arrivals(self) -> AsyncIterator[Sequence[Parcel]]:
        while True:
            yield await self.look()
            await set_within(self._came, self._seconds)
            self._came.clear()

    def hurry(self) -> None:
        self._came.set()

    async def look(self) -> list[Parcel]:
        return [Parcel(id_, body) for id_, body in await self._store.inbox(_AT_ONCE)]

    async def done(self, parcels: Sequence[Parcel]) -> None:
        # A merge deletes its increments from the inbox. Delete the copies that were sent after the merge.
        if parcels:
            with contextlib.suppress(Unavailable):
                await self._store.discard([parcel.id for parcel in parcels])

    async def waiting(self) -> int:
        return await self._store.waiting()

    async def close(self) -> None:
        """Do nothing: the owner closes the store."""


_log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.05
_LOOK_SECONDS = 0.005
_AWAY_SECONDS = 1.0
_LOOK_AGAIN_SECONDS = 1.0
"""How often a collector checks whether others have merged increments that it cannot read."""
_ACTIVE_MS = 10_000
"""How long the completeness of the cloud waits for an emitter that sends nothing."""


class _Portion(NamedTuple):
    """Increments to merge: all of `whole` and, if the next increment is too large, a `part` of it; `rest` has its other uses."""

    whole: dict[bytes, Increment]
    part: Increment | None = None
    rest: Increment | None = None


class Collector:
    """Merges increments into a store that several collectors may share.

    It merges at most `changes` tags at once (one post may have more). A merge starts when that many changes or `increments`
    increments are pending, or when an increment is `seconds` old. An increment with more changes is merged in parts. Each merge
    of a part stores the marks of its uses, and the increment is acknowledged after its last part, so a crash in between neither
    loses nor repeats a use. If more work is pending, the collector pauses for `pause` seconds after a merge, unless a caller of
    `settle` waits. A transport that limits unacknowledged increments must allow at least `increments`.
    """

    def __init__(
        self,
        store: CloudStore,
        transport: Transport,
        *,
        changes: int = 5_000,
        increments: int = 500,
        seconds: float = 1.0,
        pause: float = 0.0,
        lock_seconds: float = LOCK_SECONDS,
        sizes: Sizes = SIZES,
        updates: VersionUpdates | None = None,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._store = store
        self._transport = transport
        self._changes = changes
        self._increments = increments
        self._seconds = seconds
        self._pause = pause
        self._hurry = asyncio.Event()
        self._outage = ThrottledLog(_log)
        self._lock_seconds = lock_seconds
        self._clock = clock
        self._merger = Merger(store, clock, sizes, updates)
        self._head: Head | None = None
        self._pending: dict[bytes, tuple[Parcel, Increment]] = {}
        self._unreadable: dict[bytes, Parcel] = {}
        self._oldest = self._look_again = 0.0
        self._last_seen: dict[bytes, int] = {}
        self._hurried = 0
        self._task: asyncio.Task[None] | None = None
        self._merging: asyncio.Future[bool] | None = None
        self.merges = 0
        """Versions written by this collector."""
        self.dropped = 0
        """Increments that other collectors had merged."""

    @property
    def pending(self) -> int:
        return len(self._pending)

    def start(self) -> None:
        self._task = asyncio.create_task(self.run(), name="shoal-collector")

    async def stop(self) -> None:
        """Stop the background task. Unmerged increments are delivered again, here or elsewhere."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        if self._merging is not None:
            # Finish a running merge, so that the lock is released.
            await asyncio.gather(self._merging, return_exceptions=True)

    async def settle(self, *, merging: bool = True) -> None:
        """Wait until everything sent so far is merged: by this collector if `merging`, else by others."""
        self._hurried += merging
        if merging:
            self._hurry.set()
        try:
            while await self._transport.waiting():
                if merging:
                    self._transport.hurry()
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._hurried -= merging
            if not self._hurried:
                self._hurry.clear()

    async def run(self) -> None:
        while True:
            try:
                async for parcels in self._transport.arrivals():
                    self.take(parcels)
                    while self.due():
                        self._merging = asyncio.ensure_future(self.merge())
                        if not await asyncio.shield(self._merging):
                            break
                        if self._pause and self.due():
                            await set_within(self._hurry, self._pause)
            except Unavailable as error:
                self._outage.warning("the tag cloud is delayed: %s", error)
            except Exception:  # noqa: BLE001  # whatever it was, the increments are safe, and the next attempt may succeed
                _log.exception("merging increments failed")
            await asyncio.sleep(_AWAY_SECONDS)

    def take(self, parcels: Sequence[Parcel]) -> None:
        """Add received increments. An increment that was received before changes nothing."""
        if parcels and not self._pending:
            self._oldest = time.monotonic()
        for parcel in parcels:
            pending = self._pending.get(parcel.id)
            increment = pending[1] if pending is not None else self._read(parcel)
            if increment is not None:
                self._pending[parcel.id] = (parcel, increment)
                self._last_seen[increment.emitter] = max(self._last_seen.get(increment.emitter, 0), increment.through)

    def _read(self, parcel: Parcel) -> Increment | None:
        try:
            return decode(parcel.body)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            # A newer version of Shoal has most likely written the increment. It stays in the transport until a collector that can
            # read it merges it.
            if parcel.id not in self._unreadable:
                _log.error(
                    "cannot read an increment of tag counts (%d bytes), so it stays pending: %s",
                    len(parcel.body),
                    error,
                )
            self._unreadable[parcel.id] = parcel
            return None

    def due(self) -> bool:
        """Return whether to merge now: received increments are many or old enough, or a caller waits for them."""
        if self._unreadable and time.monotonic() >= self._look_again:
            return True
        if not self._pending:
            return False
        if self._hurried:
            return True
        if len(self._pending) >= self._increments or time.monotonic() - self._oldest >= self._seconds:
            return True
        return sum(increment.changes for _, increment in self._pending.values()) >= self._changes

    async def merge(self) -> bool:
        """Merge received increments.

        Returns False if another collector has the lock. This collector drops the increments that the other one merges later.
        """
        try:
            async with locked(self._store, self._lock_seconds) as holder:
                if holder:
                    await self._merge(holder)
                    return True
        except Overtaken:
            self._head = None
        await asyncio.sleep(_RETRY_SECONDS)
        return False

    async def _merge(self, holder: bytes) -> None:
        head = await self._newest()
        whole, part, rest = self._next()
        merged = await self._store.merged([*whole, *([part.id] if part else ()), *self._unreadable])
        self.dropped += len(merged)
        await self._forget(merged)
        whole = {id_: increment for id_, increment in whole.items() if id_ not in merged}
        if part is not None and part.id in merged:
            part = rest = None
        if whole or part:
            left = {id_: increment for id_, (_, increment) in self._pending.items() if id_ not in whole}
            if rest is not None:
                left[rest.id] = rest
            self._head = await self._merger.merge(
                head, [*whole.values()], part=part, holder=holder, complete_to=self._complete_to(left.values())
            )
            self.merges += self._head.version - head.version
            if rest is not None:
                self._pending[rest.id] = (self._pending[rest.id][0], rest)
            await self._forget(whole.keys())
        self._look_again = time.monotonic() + _LOOK_AGAIN_SECONDS

    def _next(self) -> _Portion:
        """Return the next increments to merge, oldest first, few enough that the lock is held only briefly."""
        whole: dict[bytes, Increment] = {}
        capacity = self._changes
        for id_, (_, increment) in self._pending.items():
            if increment.changes <= capacity:
                whole[id_] = increment
                capacity -= increment.changes
                continue
            # All tags of a post are merged together. If nothing else fits, the first post is merged even if it
            # exceeds the capacity.
            count = _fitting(increment.uses, capacity) or (0 if whole else 1)
            if count == len(increment.uses):
                whole[id_] = increment
            elif count:
                part, rest = (
                    replace(increment, uses=increment.uses[:count]),
                    replace(increment, uses=increment.uses[count:]),
                )
                return _Portion(whole, part, rest)
            break
        return _Portion(whole)

    async def _forget(self, ids: Collection[bytes]) -> None:
        """Acknowledge increments, and remove them from this collector."""
        parcels = [self._unreadable.pop(id_) if id_ in self._unreadable else self._pending.pop(id_)[0] for id_ in ids]
        await self._transport.done(parcels)

    def _complete_to(self, left: Collection[Increment]) -> int:
        """Return the time (Unix ms) before which every use is merged.

        It is the minimum of two times: the earliest use in `left`, the increments that are not merged yet, and the earliest
        `Increment.through` of the emitters that sent increments recently.
        """
        now = self._clock()
        self._last_seen = {name: through for name, through in self._last_seen.items() if through > now - _ACTIVE_MS}
        waits = min((use.at for increment in left for use in increment.uses), default=now)
        return min(waits, *self._last_seen.values()) if self._last_seen else min(waits, now)

    async def _newest(self) -> Head:
        if self._head is None or self._head.version != await self._store.version():
            self._head = await self._store.head()
        return self._head


def _fitting(uses: Sequence[Use], capacity: int) -> int:
    """Return the length of the longest prefix of `uses` with at most `capacity` tag changes."""
    for count, use in enumerate(uses):
        capacity -= len(use.changes)
        if capacity < 0:
            return count
    return len(uses)
