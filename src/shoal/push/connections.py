"""Connections to push services, which members name: only https, only to public addresses, and nowhere else from there.

An address is checked where it is connected to, so that a name which leads elsewhere the second time leads nowhere.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import httpcore

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
"""The IANA IPv4 special-purpose address registry (RFC 6890) and multicast. Entries that IANA marks as globally reachable are
here too: they lead to infrastructure, possibly of the local network (PCP anycast), and never to a push service."""

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
_KEPT = 16
_KEPT_SECONDS = 30.0


def is_public(address: IPv4Address | IPv6Address, allowed: Sequence[Network] = ()) -> bool:
    """Return whether an address is globally routable unicast, or in an `allowed` network.

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
    """Connects to public addresses, and those in the `allowed` networks, alone."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = allowed
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (the name is that of the library)
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address of a host that answers. Raises `httpcore.ConnectError` where it has none that is public."""
        try:
            async with asyncio.timeout(timeout):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout("its name was not found in time") from error
        except OSError as error:
            raise httpcore.ConnectError("its name is unknown") from error
        places = dict.fromkeys(str(one[4][0]) for one in found)
        good = [place for place in places if is_public(ip_address(place.partition("%")[0]), self._allowed)]
        trouble: Exception = httpcore.ConnectError("it is not on the public internet")
        for place in good:
            try:
                return await self._inner.connect_tcp(place, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                trouble = error
        raise trouble

    async def sleep(self, seconds: float) -> None:
        """Rest."""
        await asyncio.sleep(seconds)


def open_pool(allowed: Sequence[Network] = ()) -> httpcore.AsyncConnectionPool:
    """Return connections that are used again, few at a time. Redirects are not followed: nobody here knows what they are."""
    return httpcore.AsyncConnectionPool(
        ssl_context=ssl.create_default_context(),
        max_connections=_AT_ONCE,
        max_keepalive_connections=_KEPT,
        keepalive_expiry=_KEPT_SECONDS,
        network_backend=GuardedBackend(allowed),
    )
