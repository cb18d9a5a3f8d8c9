"""Connection limits: total, per address, idle time, requests started per turn of the event loop, and trusted proxies.

The total leaves file descriptors to the stores. A connection counts until it is closed, also as a WebSocket or an event stream. A
trusted proxy has no limit; its requests and WebSockets count for their client. A full server closes idle and slow connections,
starting with the address ranges that have the most connections, so a few addresses cannot exhaust it.

Requests start in order of arrival, as many per turn of the event loop as fit into two milliseconds, and at least one. Rendering a
page is one step, so a turn that started a hundred requests would block every other task for 26 ms.

The client is the right-most address of `X-Forwarded-For` that is not a trusted proxy. Entries further left may be forged:

    X-Forwarded-For: 10.9.9.9, 203.0.113.7, 192.168.0.2      from 127.0.0.1; trusted are 127.0.0.0/8 and 192.168.0.0/24

127.0.0.1 and 192.168.0.2 are trusted, so the client is 203.0.113.7. If an entry is not an address, the proxy that wrote it counts
as the client. `Forwarded` (RFC 7239) is read only without `X-Forwarded-For`, because a proxy writes one of the two and passes the
client's own copy of the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import ipaddress
import logging
import re
import resource
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import lru_cache
from time import perf_counter, thread_time
from typing import NamedTuple, Protocol

from shoal.core.blocklists import parse_address
from shoal.http.rate_limits import address_key, site_key
from shoal.settings import Settings, SettingsError
from shoal.tasks import running

_log = logging.getLogger(__name__)

Header = tuple[bytes, bytes]

_NAMES = frozenset({b"x-forwarded-for", b"forwarded"})
_MAX_CACHED_BYTES = 120
"""Maximum bytes of a header whose result is cached, because clients may send headers of any length and number."""
_FOR = re.compile(r'(?:^|;)\s*for\s*=\s*("[^"]*"|[^;\s]*)\s*(?=;|$)', re.IGNORECASE)


class Proxies:
    """Trusted proxies. Raises `SettingsError` for an invalid address or address range."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self._networks = [_network(text) for text in trusted]
        self.trusts = lru_cache(maxsize=4_096)(self._trusts)
        self._known = lru_cache(maxsize=4_096)(self._walk)

    def _trusts(self, address: str) -> bool:
        parsed = parse_address(address)
        return parsed is not None and any(parsed in network for network in self._networks)

    def client(self, peer: str, headers: Sequence[Header]) -> str:
        """Return the address of the client of a request: `peer`, or the address that `peer` reports if it is a trusted proxy."""
        given = [(name, value) for name, value in headers if name in _NAMES]
        if not given or not self.trusts(peer):
            return peer
        name = b"x-forwarded-for" if any(name == b"x-forwarded-for" for name, _ in given) else b"forwarded"
        value = b",".join(value for found, value in given if found == name)
        walk = self._known if len(value) <= _MAX_CACHED_BYTES else self._walk
        return walk(peer, value, name == b"forwarded")

    def _walk(self, peer: str, value: bytes, named: bool) -> str:
        rest, read = value.decode("latin-1"), (_entry_of if named else _address)
        while rest and self.trusts(peer):
            rest, _, last = rest.rpartition(",")
            found = read(last)
            if found is None:
                break
            peer = found
        return peer


class Doubts:
    """Warns once if a proxy is not configured as trusted: all its clients share the limits of a single address."""

    def __init__(self, settings: Settings, trusts: Callable[[str], bool]) -> None:
        self._trusts = trusts
        self._open = settings.base_url.startswith("https://")

    def about(self, peer: str) -> bool:
        """Return whether this peer may be a proxy that should be configured as trusted."""
        if not self._open or self._trusts(peer):
            return False
        parsed = parse_address(peer)
        return parsed is not None and (parsed.is_private or parsed.is_loopback)

    def look(self, peer: str, headers: Sequence[Header]) -> None:
        """Warn if the headers of a request show that it came through a proxy."""
        if self._open and any(name in _NAMES for name, _ in headers):
            self._open = False
            _log.warning(
                "%s sends proxy headers but is not in trusted_proxies: all clients behind it share one rate limit",
                peer,
            )


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        raise SettingsError(
            f"settings: trusted_proxies: {text!r} is not an IP address or address range such as 10.0.0.0/8"
        ) from None


def _entry_of(element: str) -> str | None:
    """Return the address in an element of a `Forwarded` header, such as `for=192.0.2.1;proto=https` or `for="[::1]:4711"`."""
    found = _FOR.search(element)
    return _address(found[1].strip('"')) if found else None


def _address(text: str) -> str | None:
    """Return the address without its port, from `1.2.3.4`, `1.2.3.4:5`, `::1` or `[::1]:5`; None for any other text."""
    text = text.strip()
    if len(text) > 64:
        return None
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    parsed = parse_address(text)
    return None if parsed is None else str(parsed)


_PAUSE_SECONDS = 0.002
_MOST = 64
_WAITING_SECONDS = 0.15
"""A request that has waited for longer is late."""
_QUEUE_SECONDS = 0.05
"""Wait of a new request, at the current rate of starts, beyond which an overloaded process refuses it. It also is the time over
which that rate is measured."""
_BURST_SECONDS = 0.5
"""If each request waits longer than that for so long, this is not a burst: requests arrive faster than they are processed."""
_OVERLOAD_SECONDS = 10.0
"""Seconds after the last refusal for which the process counts as overloaded."""
_LONGEST_TURN_SECONDS = 0.1
"""Of a longer time between two clock readings, only the processor time of the thread counts: the process may have been stopped."""


class _Waiting(NamedTuple):
    since: float
    start: Callable[[], None]
    refuse: Callable[[], None] | None


class RequestPace:
    """Starts requests in the order of arrival. The number per event loop iteration is limited, and adapts to their duration.

    If every request of the last half second was late, the process is overloaded, and each request would wait longer than the one
    before it. The late ones are then refused. From then on, a new request is refused at once if the queue is longer than the number
    of requests that started in the last 0.05 seconds, so that the others wait for about that long. A shorter burst, or a pause of
    the process, only delays requests.
    """

    def __init__(
        self,
        pause_seconds: float = _PAUSE_SECONDS,
        *,
        clock: Callable[[], float] = perf_counter,
        worked: Callable[[], float] = thread_time,
    ) -> None:
        """Create a queue. `worked` returns the processor time of this thread in seconds."""
        self._pause_seconds = pause_seconds
        self._clock = clock
        self._worked = worked
        self._waiting: deque[_Waiting] = deque()
        self._most = self._left = 1
        self._turning = self._begun = False
        self._since = self._prompt_at = self._overloaded_until = 0.0
        self._measured_at = self._time = self._worked_before = 0.0
        self._started = 0
        self._counted_since = 0.0
        self._max_queue = 1
        """Maximum length of the queue while the process is overloaded."""
        self.refused = 0

    def begin(self, start: Callable[[], None], refuse: Callable[[], None] | None = None) -> None:
        """Start a request in this iteration of the event loop or in a later one. Without `refuse`, it is never refused."""
        now = self._now()
        if refuse is not None and len(self._waiting) >= self._max_queue and self._overloaded:
            self._refuse(refuse)
            return
        if not self._waiting:
            self._prompt_at = now
        self._waiting.append(_Waiting(now, start, refuse))
        if not self._turning:
            self._turning = True
            self._left = self._most
            self._since = self._counted_since = now
            self._started = 0
            asyncio.get_running_loop().call_soon(self._next_batch)
        self._go_on()

    def _now(self) -> float:
        """Return a clock reading in seconds that excludes pauses of the process."""
        measured_at = self._clock()
        passed = measured_at - self._measured_at
        if passed > _LONGEST_TURN_SECONDS:
            passed = min(passed, max(_LONGEST_TURN_SECONDS, self._worked() - self._worked_before))
        self._time += passed
        self._measured_at = measured_at
        return self._time

    @property
    def _overloaded(self) -> bool:
        return self._measured_at < self._overloaded_until

    def _next_batch(self) -> None:
        now = self._now()
        self._worked_before = self._worked()
        if now - self._since > self._pause_seconds:
            self._most = max(1, self._most // 2)
        elif self._waiting:
            self._most = min(self._most + 1, _MOST)
        self._since = now
        self._left = self._most
        self._turning, self._begun = self._begun, False
        if now - self._counted_since >= _QUEUE_SECONDS:
            self._max_queue = max(1, round(self._started * _QUEUE_SECONDS / (now - self._counted_since)))
            self._started, self._counted_since = 0, now
        if self._waiting:
            self._refuse_late(now)
        if self._turning:
            self._go_on()
            asyncio.get_running_loop().call_soon(self._next_batch)

    def _refuse_late(self, now: float) -> None:
        """If the process is overloaded, refuse requests that have waited for too long, at most `_MOST` at once."""
        if not self._overloaded and now - self._prompt_at < _BURST_SECONDS:
            return
        for _ in range(min(_MOST, len(self._waiting))):
            if now - self._waiting[0].since < _WAITING_SECONDS:
                return
            late = self._waiting.popleft()
            if late.refuse is None:
                late.start()
            else:
                self._refuse(late.refuse)

    def _refuse(self, refuse: Callable[[], None]) -> None:
        self.refused += 1
        self._overloaded_until = self._measured_at + _OVERLOAD_SECONDS
        refuse()

    def _go_on(self) -> None:
        while self._waiting and self._left:
            self._left -= 1
            self._started += 1
            self._begun = True
            waiting = self._waiting.popleft()
            if self._since - waiting.since < _WAITING_SECONDS:
                self._prompt_at = self._since
            waiting.start()


MOST = 10_000
"""Maximum connections of a process, if the limit of open files allows them."""
_BACKLOG = 2_048
_SPARE = 32
"""Additional connections for trusted proxies and this machine, so that monitoring works when the server is full."""
_PER_SITE = 4
"""The connection limit of an IPv6 /48 range, which has 65,536 networks (/64), as a multiple of the limit of one address."""
_EVICTION_DIVISOR = 64
"""A full server closes 1/64 of its connections at once, because the search for idle connections is expensive."""
_REPORT_SECONDS = 60


class Patience(NamedTuple):
    """Timeouts for clients, in seconds. They are checked every `interval` seconds, so they may expire that much later."""

    interval: float = 1.0
    head: float = 10.0
    """Seconds for the head of a request, from the connection or from its first byte after another request."""
    head_bytes: int = 32 << 10
    rate: int = 1_024
    """Minimum bytes of a body per second, while the server reads."""
    grace: float = 10.0
    """Seconds at the start of a body during which the minimum rate does not apply."""
    advance: float = 30.0
    """Maximum seconds that a client may fall silent after it has sent faster than the minimum rate."""
    idle: float = 5.0
    """Seconds that a connection stays open between requests."""
    idle_proxy: float = 75.0
    """As `idle`, for a trusted proxy: longer than a proxy keeps connections (nginx: 60), because it may not retry after a close."""
    unread: float = 60.0


USUAL = Patience()


class Idleness(NamedTuple):
    """How idle a connection is, for comparisons. A full server first closes the connections that compare greatest."""

    rank: int
    """2: between two requests. 1: in the head of a request. 0: in a body, or slow to read a response."""
    seconds: float
    """For `rank` 1 and 2, seconds in this state. For a body, seconds behind the minimum rate, negative if it is ahead."""


class Watched(Protocol):
    @property
    def peer(self) -> str: ...

    def tick(self) -> None:
        """Check the time limits of the connection; called every `Patience.interval` seconds."""

    def idleness(self) -> Idleness | None:
        """Return how idle or slow the connection is; None while the server computes a response."""

    def evict(self) -> None: ...


@lru_cache(maxsize=2 * MOST)
def _counted_as(client: str) -> tuple[tuple[str, int], ...]:
    """Return the keys under which a client's connections are counted: its address and, for IPv6, its site.

    With each key comes its limit, as a multiple of the limit per address.
    """
    key = address_key(client)
    return ((key, 1), (site_key(key), _PER_SITE)) if ":" in key else ((key, 1),)


class OpenConnections:
    """The connections of a server: at most `most`, and `per_address` per address, if it is not 0."""

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
        """Connections, and requests of clients behind a proxy, that were refused since the start of the process."""
        self.evicted = 0
        self._leaving = 0
        self._evicting = 0
        self._refused_from: int | None = None
        """Connections of the smallest network for which nothing could be evicted since the last check of deadlines."""
        self._most = most
        self._per_address = per_address
        self._of: dict[str, int] = {}
        self._refused: Counter[str] = Counter()

    def enter(self, peer: str) -> int:
        """Count a new connection. Return 0, or the HTTP status with which to refuse it. Call `leave` in both cases.

        A refused connection counts until it is closed. A trusted proxy may exceed the limit by a few connections.
        Refused connections do not count toward these few.
        """
        self.open += 1
        trusted = self.proxies.trusts(peer)
        allowed = self.begin(peer)
        there = self.open - self._evicting
        full = there - self._leaving > self._most + _SPARE if trusted else there > self._most
        if full and allowed and not trusted:
            full = not self._evict(peer)
        if full:
            self._refuse(address_key(peer))
        if full or not allowed:
            self._leaving += 1
        return 503 if full else 0 if allowed else 429

    def leave(self, peer: str, *, refused: bool = False, evicted: bool = False) -> None:
        """Stop counting a closed connection.

        `refused` is whether `enter` refused it; `evicted` is whether it was closed to make room for another connection.
        """
        self.open -= 1
        self._leaving -= refused
        self._evicting -= evicted
        self.end(peer)

    def _evict(self, peer: str) -> bool:
        """Close idle or slow connections of clients with at least as many connections as this peer. Return False if there are none.

        Clients in one /48 range of IPv6 addresses count as one.
        """
        own = self._of_network(peer)
        if self._refused_from is not None and own >= self._refused_from:
            return False
        found = [
            (size, idleness, connection)
            for connection in self.watched
            # Check idleness first, because this is cheap and excludes most connections.
            if (idleness := connection.idleness()) is not None and (size := self._of_network(connection.peer)) >= own
        ]
        chosen = heapq.nlargest(max(1, self._most // _EVICTION_DIVISOR), found, key=lambda candidate: candidate[:2])
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
        """Count a connection or request of a client. Return False if it exceeds the client's limit. Call `end` in both cases.

        Requests that a trusted proxy itself makes are not counted.
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
        async with running(self._watch(), "shoal-connections"):
            yield

    async def _watch(self) -> None:
        passed = 0.0
        while True:
            await asyncio.sleep(self.patience.interval)
            self._refused_from = None
            for connection in list(self.watched):
                try:
                    connection.tick()
                except Exception:  # noqa: BLE001  # one of them must not end the watch over the others
                    _log.exception("connection handler failed")
                    self.watched.discard(connection)
            passed += self.patience.interval
            if passed >= _REPORT_SECONDS:
                passed = 0.0
                self._tell()

    def _tell(self) -> None:
        for key, times in self._refused.most_common(1):
            _log.warning("refused %d connections, %d of them from %s", self._refused.total(), times, key)
        self._refused.clear()


def connections(settings: Settings, most: int, patience: Patience) -> OpenConnections:
    proxies = Proxies(settings.trusted_proxies)
    return OpenConnections(proxies, Doubts(settings, proxies.trusts), most, settings.connections_per_address, patience)


class DescriptorLimits(NamedTuple):
    """Numbers of connections for which a process has file descriptors: open connections, and connections in the backlog."""

    most: int
    backlog: int


def descriptor_limits() -> DescriptorLimits:
    """Raise the limit of open files to its maximum, and divide the descriptors.

    Half is for open connections. A quarter is for connections that one iteration of the event loop accepts before it
    can refuse any. The rest is for the stores.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    if soft == resource.RLIM_INFINITY:
        return DescriptorLimits(MOST, _BACKLOG)
    return DescriptorLimits(max(1, min(MOST, soft // 2)), max(1, min(_BACKLOG, soft // 4)))
