"""Sending of web push messages: bounded concurrency, backoff per push service, and guarded connections.

Members name push services, so only https to public addresses is allowed. The address is checked at connection time, so a
name that resolves differently the second time cannot bypass the check.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

import httpcore

from shoal.backoff import Backoff
from shoal.core.errors import NotYet
from shoal.locks import ConcurrencyLimits, KeyedQueue, Work
from shoal.push.encryption import ServerKey, seal
from shoal.push.messages import PushSubscription

Network = IPv4Network | IPv6Network

_SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local, cloud metadata services
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # IETF protocol assignments: DS-Lite, NAT64 discovery, PCP and TURN anycast
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # automatic multicast tunneling
            "192.88.99.0/24",  # 6to4 relay anycast
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarking
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and the limited broadcast address
        ),
    )
)
"""The IANA IPv4 special-purpose address registry (RFC 6890) and multicast.

It includes ranges that IANA marks as globally reachable: they belong to infrastructure, possibly of the local network
(PCP anycast), and never to a push service.
"""

_GLOBAL_UNICAST_V6 = IPv6Network("2000::/3")
_SPECIAL_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # IETF protocol assignments: Teredo, PCP and TURN anycast, benchmarking, AMT, AS112, ORCHID, DETs
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)
"""The part of the IANA IPv6 special-purpose address registry inside 2000::/3, the only global unicast space that IANA assigns."""

_NAT64 = IPv6Network("64:ff9b::/96")

_AT_ONCE = 32
_MAX_IDLE = 16
_KEEPALIVE_SECONDS = 30.0


def is_public(address: IPv4Address | IPv6Address, allowed: Sequence[Network] = ()) -> bool:
    """Return whether an address is globally routable unicast, or in an `allowed` range.

    An IPv4-mapped or NAT64 address is judged by the IPv4 address it embeds.
    """
    if isinstance(address, IPv6Address):
        embedded = IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address.ipv4_mapped
        if embedded is not None:
            return is_public(embedded, allowed)
        routable = address in _GLOBAL_UNICAST_V6 and not any(address in network for network in _SPECIAL_V6)
    else:
        routable = not any(address in network for network in _SPECIAL_V4)
    return routable or any(address.version == network.version and address in network for network in allowed)


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """A network backend that connects only to public IP addresses and to the `allowed` ranges."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = allowed
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (name defined by the library)
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address of the host that accepts a connection.

        Raises `httpcore.ConnectError` if no address is public.
        """
        try:
            async with asyncio.timeout(timeout):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout("resolving the host name timed out") from error
        except OSError as error:
            raise httpcore.ConnectError("the host name does not resolve") from error
        addresses = dict.fromkeys(str(info[4][0]) for info in found)
        good = [address for address in addresses if is_public(ip_address(address.partition("%")[0]), self._allowed)]
        trouble: Exception = httpcore.ConnectError("the host has no public address")
        for address in good:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                trouble = error
        raise trouble

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def open_pool(allowed: Sequence[Network] = ()) -> httpcore.AsyncConnectionPool:
    """Return a pool of reused connections. Redirects are not followed, since their targets are unchecked."""
    return httpcore.AsyncConnectionPool(
        ssl_context=ssl.create_default_context(),
        max_connections=_AT_ONCE,
        max_keepalive_connections=_MAX_IDLE,
        keepalive_expiry=_KEEPALIVE_SECONDS,
        network_backend=GuardedBackend(allowed),
    )


_log = logging.getLogger("shoal.push")

_LIMITS = ConcurrencyLimits(at_once=32, of_one=16, held=1_024, held_of_one=512, patience=20.0)
"""`of_one` and `held_of_one` limit the messages to one push service, the other limits all messages."""
_SECONDS = 10.0
"""Timeout of a message. Together with the wait for a slot, it is shorter than the lease of the message's job."""
_TTL_SECONDS = 48 * 3_600
"""How long a push service keeps a message for an app that is offline."""
_FIRST_SECONDS, _LONGEST_SECONDS = 2.0, 600.0
_REMEMBERED = 1_000


class Sent(Enum):
    DONE = "done"
    ENDED = "ended"
    REFUSED = "refused"


class PushSender:
    """A queue of tasks that send one push message each: 32 concurrently, and half as many per push service."""

    def __init__(self, key: ServerKey, root: str, allowed: Sequence[Network] = ()) -> None:
        self.key = key
        self.root = root
        """Root of the network's URLs, such as `https://example.org`."""
        self._pool = open_pool(allowed)
        self._queue = KeyedQueue(_LIMITS, "other messages come first")
        self._backoff = Backoff(_FIRST_SECONDS, _LONGEST_SECONDS, _REMEMBERED)
        self.outcomes: Counter[Sent] = Counter()
        self.put_off = 0
        """Attempts since the start of the process that failed and will be retried."""

    def begin(self, endpoint: str, work: Work) -> asyncio.Future[None]:
        """Queue a task that sends a push message, and return a future that is done when the task is.

        The call and the future raise `NotYet` if the queue is full, or during the backoff after a failure of the push service.
        """
        service = origin_of(endpoint)
        return self._queue.begin(service, lambda: self._check_backoff(service), work)

    @property
    def in_flight(self) -> int:
        return len(self._queue)

    def _check_backoff(self, service: str) -> None:
        if self._backoff.is_active(service):
            raise NotYet("the push service was unreachable a moment ago")

    async def deliver(self, subscription: PushSubscription, plain: bytes) -> Sent:
        """Send a message to the push service of a subscription. Raises `NotYet` if the message should be sent again later."""
        service = origin_of(subscription.endpoint)
        try:
            async with asyncio.timeout(_SECONDS):
                status = await self._send(subscription, service, plain)
        except (
            TimeoutError,
            OSError,
            httpcore.NetworkError,
            httpcore.TimeoutException,
            httpcore.ProtocolError,
        ) as error:
            self._postpone(service)
            raise NotYet(f"a push service is unreachable: {type(error).__name__}") from error
        if status in {408, 429} or status >= 500:
            self._postpone(service)
            raise NotYet(f"a push service returned status {status}")
        self._backoff.reset(service)
        found = _outcome(status)
        if found is Sent.REFUSED:
            _log.warning("a push service rejected a message: %s returned status %d", service, status)
        self.outcomes[found] += 1
        return found

    async def _send(self, subscription: PushSubscription, service: str, plain: bytes) -> int:
        sealed = seal(plain, subscription.key, subscription.secret, standard=subscription.standard)
        token, ours = self.key.token_for(service), self.key.public
        headers: dict[bytes | str, bytes | str] = {"TTL": str(_TTL_SECONDS), "Urgency": "normal"}
        headers.update(sealed.headers)
        if subscription.standard:
            headers["Authorization"] = f"vapid t={token}, k={ours}"
        else:
            headers["Authorization"] = f"WebPush {token}"
            headers["Crypto-Key"] = f"{sealed.crypto_key};p256ecdsa={ours}"
        headers |= {"Content-Type": "application/octet-stream", "Content-Length": str(len(sealed.body))}
        async with self._pool.stream("POST", subscription.endpoint, headers=headers, content=sealed.body) as answer:
            # Ignore the response body, which may be endless: only the status is used.
            return int(answer.status)

    def _postpone(self, service: str) -> None:
        self.put_off += 1
        self._backoff.extend(service)

    async def close(self) -> None:
        """Cancel pending push messages. They are sent after the next start of the process."""
        await self._queue.close()
        await self._pool.aclose()


def origin_of(endpoint: str) -> str:
    """Return the scheme, host and port of an endpoint, which are the audience of a signature (RFC 8292, section 2)."""
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc}"


def _outcome(status: int) -> Sent:
    if 200 <= status < 300:
        return Sent.DONE
    return Sent.ENDED if status in {404, 410} else Sent.REFUSED
