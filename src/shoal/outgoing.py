"""Outgoing requests to hosts that members or settings name: only public addresses, TLS, and limits of time and size.

The address is checked at connection time, so a name that resolves differently the second time cannot bypass the check.
Certificates are verified. Redirects are not followed, because their targets are unchecked.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

import httpcore
import idna

from shoal.core.errors import InvalidInput, Unavailable

Network = IPv4Network | IPv6Network

_KEPT_IN_URLS = "%/:=&?~#+!$,;'@()*[]"
"""Characters that percent-encoding keeps: those that are reserved, and the sign of letters that are encoded already."""

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
(PCP anycast), and never to a service on the internet.
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

MAX_BYTES = 64 * 1024
"""Default maximum of a response body, in bytes."""
_AT_ONCE = 32
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


def networks_of(texts: Iterable[str], field: str) -> list[Network]:
    """Return the address ranges in a setting. Raises `InvalidInput`, which names the setting `field`, for an invalid range."""
    try:
        return [ip_network(text) for text in texts]
    except ValueError as error:
        raise InvalidInput(f"{field}: {error}", field=field) from error


_lookup_threads = ThreadPoolExecutor(16, "shoal-lookup")
_lookups: dict[tuple[str, int], Future[list[Any]]] = {}
"""Name lookups that run or wait for a thread, by host and port."""


def _look_up(host: str, port: int) -> Future[list[Any]]:
    """Start the lookup of a host name, or return the one that runs.

    A lookup cannot be canceled, and a name server that does not respond blocks its thread for longer than a request waits. Lookups
    therefore have threads of their own, and requests to one host share one lookup, so that they take one thread.
    """
    key = (host, port)
    running = _lookups.get(key)
    if running is None:
        running = _lookups[key] = _lookup_threads.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        running.add_done_callback(lambda _: _lookups.pop(key, None))
    return running


class _HostRefused(httpcore.ConnectError):
    """No connection was tried. The message states the reason, without the address."""


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
                found = await asyncio.shield(asyncio.wrap_future(_look_up(host, port)))
        except TimeoutError as error:
            raise httpcore.ConnectTimeout("resolving the host name timed out") from error
        except (OSError, UnicodeError) as error:
            # A label of more than 63 characters raises `UnicodeError`.
            raise _HostRefused("the host name does not resolve") from error
        addresses = dict.fromkeys(str(info[4][0]) for info in found)
        good = [address for address in addresses if is_public(ip_address(address.partition("%")[0]), self._allowed)]
        trouble: Exception = _HostRefused("the host has no public address, nor one in an allowed network")
        for address in good:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                trouble = error
        raise trouble

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def open_pool(allowed: Sequence[Network] = (), at_once: int = _AT_ONCE) -> httpcore.AsyncConnectionPool:
    """Return a pool of up to `at_once` reused connections to public addresses and to the `allowed` ranges."""
    return httpcore.AsyncConnectionPool(
        ssl_context=ssl.create_default_context(),
        max_connections=at_once,
        max_keepalive_connections=at_once,
        keepalive_expiry=_KEEPALIVE_SECONDS,
        network_backend=GuardedBackend(allowed),
    )


class OutgoingResponse(NamedTuple):
    status: int
    body: bytes


class RequestFailed(Unavailable):
    """A request got no response, or one that is too large. The message names the cause, and never the address."""


async def request(
    pool: httpcore.AsyncConnectionPool,
    method: str,
    url: str,
    *,
    seconds: float,
    headers: Mapping[str, str] | None = None,
    content: bytes = b"",
    max_bytes: int = MAX_BYTES,
    truncate: bool = False,
) -> OutgoingResponse:
    """Send a request and return the response. A redirect is returned like any other response.

    Args:
        pool: The connections (`open_pool`).
        method: The HTTP method.
        url: An https URL.
        seconds: Timeout of the whole request, including name resolution, connection and body.
        headers: Headers in addition to `Host` and `Content-Length`.
        content: The request body.
        max_bytes: Maximum bytes of the response body; 0 leaves the body unread.
        truncate: Whether to return the beginning of a body that is larger or late, instead of raising an error.

    Raises:
        RequestFailed: The URL is not https, the host is unreachable or has no public address, its certificate is invalid, or the
            response is too late or too large.
    """
    if not url.startswith("https://"):
        raise RequestFailed("expected an https URL")
    try:
        url = _ascii(url)
    except ValueError:
        raise RequestFailed("expected a valid URL") from None
    fields: list[tuple[bytes | str, bytes | str]] = [*(headers or {}).items()]
    if content:
        fields.append(("Content-Length", str(len(content))))
    status, body = 0, bytearray()
    try:
        async with (
            asyncio.timeout(seconds),
            pool.stream(method, url, headers=fields, content=content) as response,
        ):
            status = int(response.status)
            if max_bytes:
                async for chunk in response.aiter_stream():
                    body += chunk
                    if len(body) > max_bytes and truncate:
                        break
                    if len(body) > max_bytes:
                        raise RequestFailed(f"the response has more than {max_bytes} bytes")
            return OutgoingResponse(status, bytes(body[:max_bytes]))
    except (
        TimeoutError,
        OSError,
        ValueError,
        httpcore.NetworkError,
        httpcore.TimeoutException,
        httpcore.ProtocolError,
        httpcore.UnsupportedProtocol,
    ) as error:
        if truncate and status:
            return OutgoingResponse(status, bytes(body[:max_bytes]))
        raise RequestFailed(_cause_of(error, seconds)) from error


def _ascii(url: str) -> str:
    """Return a URL whose host is in IDNA and whose other letters are percent-encoded. Raises `ValueError` if it is invalid."""
    if url.isascii():
        return url
    parts = urlsplit(url)
    host, _, port = parts.netloc.partition(":")
    encoded = idna.encode(host, uts46=True).decode()
    path, query = quote(parts.path, safe=_KEPT_IN_URLS), quote(parts.query, safe=_KEPT_IN_URLS)
    return urlunsplit((parts.scheme, f"{encoded}:{port}" if port else encoded, path, query, ""))


def _cause_of(error: Exception, seconds: float) -> str:
    if isinstance(error, _HostRefused):
        return str(error)
    if isinstance(error, TimeoutError | httpcore.TimeoutException):
        return f"no response within {seconds:g} seconds"
    # The library passes the original exception to its own, and then removes it as the cause.
    cause = error.args[0] if error.args else None
    if isinstance(cause, ssl.SSLError):
        return f"TLS failed: {getattr(cause, 'verify_message', '') or cause.reason}"
    if isinstance(error, httpcore.ConnectError):
        return "the connection was refused"
    return type(error).__name__
