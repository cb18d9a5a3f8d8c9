"""Connections of viewers to the hub of a process: the updates that wait for each, and an index by viewer and source.

The connections of a named feed share its reading.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from shoal.core.errors import NotFound, Unavailable
from shoal.graph.contract import Reader
from shoal.graph.feed_lookup import FeedReading, read_feed
from shoal.streaming.contract import Position
from shoal.streaming.history import PlacedUpdate
from shoal.streaming.subscriptions import Interest
from shoal.streaming.updates import ViewerUpdate


class Missed(NamedTuple):
    """Updates may have been missed up to this position."""

    position: Position


class _SharedReading:
    """A reading of a named feed that began when `number` updates had been received. `ended` is set after it.

    It stores no exception, because the traceback of a shared one would grow with each connection that raises it.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.ended = asyncio.Event()
        self.feed: FeedReading | None = None
        """None during the read, after an error, and if the connection that reads was cancelled."""
        self.missing = False
        self.failed = False


class SharedFeed:
    """The reading of a named feed that its connections share.

    Connections that handle an update at the same time share one reading. A connection never gets a reading that began before its
    updates arrived, or that ended before it asked, except in the same iteration of the event loop. So access is checked with a feed
    that is older than the check by the duration of one read at most. `received` returns the number of updates that the hub has
    received.
    """

    def __init__(self, feed_id: int, received: Callable[[], int]) -> None:
        self._feed_id = feed_id
        self._received = received
        self._latest: _SharedReading | None = None

    async def read(self, graph: Reader) -> FeedReading:
        """Return the feed with the feeds that it names. Access is not checked.

        If the read of another connection fails, one of the waiting connections reads again. If that fails too, the others end, so
        that many connections do not read a failing store in turn.

        Raises `NotFound`, `Unavailable`, and the error of the own read.
        """
        needed, failures = self._received(), 0
        while True:
            latest = self._latest
            if latest is None or latest.number < needed:
                return await self._read(graph)
            await latest.ended.wait()
            if latest.feed is not None:
                return latest.feed
            if latest.missing:
                raise NotFound(f"there is no feed {self._feed_id}")
            failures += latest.failed
            if failures > 1:
                raise Unavailable("the feed could not be read; try again later")

    async def _read(self, graph: Reader) -> FeedReading:
        reading = self._latest = _SharedReading(self._received())
        try:
            reading.feed = await read_feed(graph, self._feed_id)
        except NotFound:
            reading.missing = True
            raise
        except Exception:
            reading.failed = True
            raise
        finally:
            if reading.feed is None:
                self._expire(reading)
            else:
                # The other connections that handle the update may not have asked yet, although the event loop has woken them.
                asyncio.get_running_loop().call_soon(self._expire, reading)
            reading.ended.set()
        return reading.feed

    def _expire(self, reading: _SharedReading) -> None:
        if self._latest is reading:
            self._latest = None


@dataclass(eq=False)
class Connection:
    """A connected viewer.

    At most `capacity` updates wait for the viewer; if there are more, one `Missed` replaces them.
    """

    viewer: int
    interest: Interest
    capacity: int
    since: int
    """The number of the first update to offer."""
    start: Position = Position("")  # noqa: RUF009  # an immutable string
    """The position before this update, from which a client can resume that has received no update."""
    session: int = 0
    """The id of the token of the connection; 0 for none."""
    spacing: float = 0.0
    """Minimum seconds between two reports of newer entries in a ranked feed."""
    shared_feed: SharedFeed | None = None
    """The named feed of the connection; None for other interests."""
    feed_changed: int = 0
    """An id of the time of the first change of the named feed since its sources were read; 0 for none, 1 for an unknown time."""
    sources: set[int] = field(default_factory=set)
    former: dict[int, int] = field(default_factory=dict)
    """Sources of a named feed that are no longer followed, with the number of the first update that was not offered for them."""
    delivered: Position = Position("")  # noqa: RUF009  # the same
    """The position of the last update that was converted for the client."""
    loaded: bool = False
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)
    ended: bool = False
    dismissed: bool = False
    """Whether it ended because the viewer lost access."""
    _waiting: deque[PlacedUpdate] = field(default_factory=deque)
    _missed: Missed | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _quiet_until: float = 0.0

    def offer(self, placed: PlacedUpdate) -> None:
        if len(self._waiting) >= self.capacity:
            self.miss(placed.position)
        elif not self.dismissed:
            self._waiting.append(placed)
            self._wake.set()

    def miss(self, position: Position) -> None:
        """Replace the waiting updates by `Missed`, so that the viewer reloads the timeline. Later updates are delivered."""
        self._waiting.clear()
        self._missed = Missed(position)
        self._wake.set()

    async def take(self) -> list[PlacedUpdate | Missed]:
        """Wait for and return the waiting updates; empty when the connection has ended."""
        await self._wake.wait()
        if self._quiet_until > asyncio.get_running_loop().time():
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._quiet_until):
                    await self._over.wait()
        if not self.ended:
            self._wake.clear()
        found: list[PlacedUpdate | Missed] = (
            [*self._waiting] if self._missed is None else [self._missed, *self._waiting]
        )
        self._waiting.clear()
        self._missed = None
        return found

    def throttle(self) -> None:
        """Let updates wait for `spacing` seconds, after which `take` returns them together."""
        self._quiet_until = asyncio.get_running_loop().time() + self.spacing

    async def lasts(self, seconds: float) -> bool:
        """Wait for up to `seconds`, and return whether the connection has not ended. Discards updates."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.take()
        return not self.ended

    def end(self) -> None:
        self.ended = True
        self._wake.set()
        self._over.set()

    def dismiss(self) -> None:
        """End the connection at once, without the waiting updates, because the viewer lost access."""
        self.dismissed = True
        self._waiting.clear()
        self._missed = None
        self.end()


_NONE: frozenset[Connection] = frozenset()


class Matching:
    def __init__(self) -> None:
        self._by_viewer: dict[int, set[Connection]] = {}
        self._by_source: dict[int, set[Connection]] = {}

    def all_connections(self) -> list[Connection]:
        return [connection for found in self._by_viewer.values() for connection in found]

    def of(self, viewer: int) -> Collection[Connection]:
        return self._by_viewer.get(viewer, _NONE)

    def following(self, source: int) -> Collection[Connection]:
        return self._by_source.get(source, _NONE)

    def concerned(self, update: ViewerUpdate) -> Collection[Connection]:
        """Return the connections that follow a source of the update, or whose viewer the update names and concerns, each once."""
        found = [self._by_source.get(source, _NONE) for source in update.sources()]
        # Connections that are still loading their sources are left out: they receive these updates in order afterwards.
        found += [
            {
                subscription
                for subscription in self.of(member)
                if subscription.loaded and subscription.interest.matches(update)
            }
            for member in update.named()
        ]
        every = [connections for connections in found if connections]
        return every[0] if len(every) == 1 else _NONE.union(*every)

    def join(self, connection: Connection) -> None:
        self._by_viewer.setdefault(connection.viewer, set()).add(connection)

    def leave(self, connection: Connection) -> None:
        self.unfollow(connection, list(connection.sources))
        _discard(self._by_viewer, connection.viewer, connection)

    def follow(self, connection: Connection, sources: Iterable[int]) -> None:
        for source in sources:
            connection.sources.add(source)
            self._by_source.setdefault(source, set()).add(connection)

    def unfollow(self, connection: Connection, sources: Iterable[int]) -> None:
        for source in sources:
            connection.sources.discard(source)
            _discard(self._by_source, source, connection)


def _discard(among: dict[int, set[Connection]], key: int, connection: Connection) -> None:
    found = among.get(key)
    if found is not None:
        found.discard(connection)
        if not found:
            del among[key]
