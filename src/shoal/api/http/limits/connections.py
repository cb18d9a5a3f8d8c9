"""Limits on connections: how many in all, how many of one address, and how long a client may keep one waiting.

There is a maximum for all of them, which leaves file descriptors to the stores, and one for each address. A connection counts until
it is closed, also when it has become a WebSocket or a stream of events. A trusted proxy may have as many as it likes:
what comes through it counts for its client, as long as a request or a WebSocket lasts.

A full server makes room for a new connection: it closes idle and slow ones, first those of the networks that have the most. A few
addresses cannot shut the others out that way.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import resource
from collections import Counter
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import NamedTuple, Protocol

from shoal.api.http.limits.pacing import RequestPace
from shoal.api.http.limits.ratelimit import address_key, site_key
from shoal.api.http.proxies import Doubts, Proxies
from shoal.settings import Settings

_log = logging.getLogger(__name__)

MOST = 10_000
"""Connections of one process, where the limit of open files allows as many."""
_BACKLOG = 2_048
_SPARE = 32
"""Extra places for trusted proxies and for this machine, so that monitoring is answered when the server is full."""
_PER_SITE = 4
"""How many times as many connections as one address may come from a /48 of IPv6, which is 65,536 addresses (/64)."""
_MADE_ROOM = 64
"""A full server closes 1/64 of its connections together, which keeps the search cheap for each."""
_TOLD_EVERY = 60
"""Seconds between two lines in the log about connections that were refused."""


class Patience(NamedTuple):
    """Deadlines for clients. They are checked every `interval` seconds, so a client may have that much more time."""

    interval: float = 1.0
    head: float = 10.0
    """Seconds for the whole head of a request, from the connection or from the first byte after another request."""
    head_bytes: int = 32 << 10
    rate: int = 1_024
    """Bytes of a body that must come in a second, while the server reads."""
    grace: float = 10.0
    """Seconds for which nothing need come at first."""
    advance: float = 30.0
    """Seconds for which nothing need come after much has come at once."""
    idle: float = 5.0
    """Seconds that a connection stays open between two requests."""
    idle_proxy: float = 75.0
    """As `idle`, for a trusted proxy: longer than proxies wait (nginx: 60), as one may not ask again after a close."""
    unread: float = 60.0
    """Seconds in which a client must take something of its answer."""


USUAL = Patience()


class Idleness(NamedTuple):
    """How little a connection is in use. The greater, the sooner a full server closes it."""

    rank: int
    """2: between two requests, 1: in the head of one, 0: in a body, or slow to read an answer."""
    seconds: float
    """How long it has lasted, or by how much the body is behind; below 0 it is ahead."""


class Watched(Protocol):
    """A connection for HTTP requests, whose deadlines are checked."""

    @property
    def peer(self) -> str:
        """The address at the other end."""
        ...

    def tick(self) -> None:
        """Check deadlines; called every `interval` seconds."""

    def idleness(self) -> Idleness | None:
        """Return how idle or slow the connection is; None while an answer is made."""

    def evict(self) -> None:
        """Close the connection, to make room for another."""


@lru_cache(maxsize=2 * MOST)
def _counted_as(client: str) -> tuple[tuple[str, int], ...]:
    """Return the keys that a client's connections are counted under, each with how many times the limit it may have."""
    key = address_key(client)
    return ((key, 1), (site_key(key), _PER_SITE)) if ":" in key else ((key, 1),)


class OpenConnections:
    """The connections of one server. `most` is how many there may be, `per_address` how many of one address; 0 is no limit."""

    def __init__(
        self, proxies: Proxies, doubts: Doubts, most: int, per_address: int, patience: Patience = USUAL
    ) -> None:
        self.proxies = proxies
        self.doubts = doubts
        self.patience = patience
        self.pace = RequestPace()
        self.watched: set[Watched] = set()
        self.open = 0
        self.refused = 0
        """Connections, and requests of clients behind a proxy, that were too many, since the process began."""
        self.evicted = 0
        """Connections that were closed to make room, since the process began."""
        self._leaving = 0
        """Number of open connections that were refused, and are not closed yet."""
        self._evicting = 0
        """Number of open connections that were evicted, and are not closed yet."""
        self._refused_from: int | None = None
        """The smallest size of a network for which no connection could be evicted since the last check of deadlines."""
        self._most = most
        self._per_address = per_address
        self._of: dict[str, int] = {}
        self._refused: Counter[str] = Counter()

    def enter(self, peer: str) -> int:
        """Count a new connection from this address. Return 0, or the status of the refusal; call `leave` after each.

        A refused connection counts as well, until it is closed; not for trusted proxies, which many refused ones at once would
        take the extra places from.
        """
        self.open += 1
        trusted = self.proxies.trusts(peer)
        allowed = self.begin(peer)
        there = self.open - self._evicting
        full = there - self._leaving > self._most + _SPARE if trusted else there > self._most
        if full and allowed and not trusted:
            full = not self._make_room(peer)
        if full:
            self._refuse(address_key(peer))
        if full or not allowed:
            self._leaving += 1
        return 503 if full else 0 if allowed else 429

    def leave(self, peer: str, *, refused: bool = False, evicted: bool = False) -> None:
        """Stop counting a connection from this address, which is closed after it was `refused` or `evicted`, or by itself."""
        self.open -= 1
        self._leaving -= refused
        self._evicting -= evicted
        self.end(peer)

    def _make_room(self, peer: str) -> bool:
        """Evict connections of networks that have at least as many as this peer's. Return False if none is idle or slow."""
        own = self._of_network(peer)
        if self._refused_from is not None and own >= self._refused_from:
            return False
        found = [
            (size, idleness, connection)
            for connection in self.watched
            # First the cheap question: of thousands of connections, few are idle for long.
            if (idleness := connection.idleness()) is not None and (size := self._of_network(connection.peer)) >= own
        ]
        chosen = heapq.nlargest(max(1, self._most // _MADE_ROOM), found, key=lambda candidate: candidate[:2])
        if not chosen:
            self._refused_from = own
        for _, _, connection in chosen:
            self.watched.discard(connection)
            self._evicting += 1
            self.evicted += 1
            connection.evict()
        return bool(chosen)

    def _of_network(self, peer: str) -> int:
        return self._of.get(_counted_as(peer)[-1][0], 0)

    def begin(self, client: str) -> bool:
        """Count one more thing that this client has open; False when that is too many. Call `end` after each.

        The requests of trusted proxies themselves are not counted.
        """
        if self.proxies.trusts(client):
            return True
        allowed = True
        for key, times in _counted_as(client):
            now = self._of[key] = self._of.get(key, 0) + 1
            if allowed and self._per_address and now > self._per_address * times:
                self._refuse(key)
                allowed = False
        return allowed

    def _refuse(self, key: str) -> None:
        self.refused += 1
        self._refused[key] += 1

    def end(self, client: str) -> None:
        """Stop counting one thing that `begin` counted."""
        if self.proxies.trusts(client):
            return
        for key, _ in _counted_as(client):
            left = self._of[key] - 1
            if left:
                self._of[key] = left
            else:
                del self._of[key]

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Check the deadlines of all connections until the block ends."""
        task = asyncio.create_task(self._watch(), name="shoal-connections")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self) -> None:
        passed = 0.0
        while True:
            await asyncio.sleep(self.patience.interval)
            self._refused_from = None
            for connection in list(self.watched):
                try:
                    connection.tick()
                except Exception:  # noqa: BLE001  # one of them must not end the watch over the others
                    _log.exception("a connection could not be looked after")
                    self.watched.discard(connection)
            passed += self.patience.interval
            if passed >= _TOLD_EVERY:
                passed = 0.0
                self._tell()

    def _tell(self) -> None:
        for key, times in self._refused.most_common(1):
            _log.warning("%d connections were refused, %d of them from %s", self._refused.total(), times, key)
        self._refused.clear()


def connections(settings: Settings, most: int, patience: Patience) -> OpenConnections:
    """The connections of a server with these settings. Raises `SettingsError`."""
    proxies = Proxies(settings.trusted_proxies)
    return OpenConnections(proxies, Doubts(settings, proxies.trusts), most, settings.connections_per_address, patience)


class DescriptorRoom(NamedTuple):
    """How many connections a process has descriptors for, open and waiting to be accepted."""

    most: int
    backlog: int


def room() -> DescriptorRoom:
    """Raise the limit of open files as far as it goes, and divide it: half for connections, a quarter for those that are accepted
    in one turn before any can be refused, the rest for the stores."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    if soft == resource.RLIM_INFINITY:
        return DescriptorRoom(MOST, _BACKLOG)
    return DescriptorRoom(max(1, min(MOST, soft // 2)), max(1, min(_BACKLOG, soft // 4)))
