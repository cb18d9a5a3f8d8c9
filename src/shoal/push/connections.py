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
_NAT64 = IPv6Network("64:ff9b::/96")
_AT_ONCE = 32
_KEPT = 16
_KEPT_SECONDS = 30.0


def is_public(address: IPv4Address | IPv6Address, allowed: Sequence[Network] = ()) -> bool:
    """Return whether an address is on the public internet, or in one of these networks.

    An IPv6 address that stands for one of IPv4 is as public as that.
    """
    within = _within(address)
    if within is not None:
        return is_public(within, allowed)
    return (address.is_global and not address.is_multicast) or any(
        address.version == network.version and address in network for network in allowed
    )


def _within(address: IPv4Address | IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address leads to (mapped, 6to4, Teredo, NAT64); None for any other."""
    if isinstance(address, IPv4Address):
        return None
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


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
