"""The values of IP blocks, and the search for those that an address falls under.

Blocks are grouped by the length of their prefix. An address is cut to each length that occurs, and looked up:

    203.0.113.9    blocks of /24 and /16    203.0.113 in the table of /24?  203.0 in the table of /16?

So a search costs a look-up for each length, at most 33 for IPv4, however many blocks there are; and its result is remembered.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

from shoal.core.errors import InvalidInput
from shoal.core.model import Node

MAX_NETWORK = 64
"""Characters of a network in CIDR notation."""
_REMEMBERED = 4_096
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
"""IPv4 addresses written as IPv6."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class IpSeverity(StrEnum):
    """Effect of an IP block, from the mildest to the most severe; each includes those before it."""

    SIGN_UP_REQUIRES_APPROVAL = "sign_up_requires_approval"
    """Members who sign up from there wait until somebody lets them in."""
    SIGN_UP_BLOCK = "sign_up_block"
    """Nobody signs up from there."""
    NO_ACCESS = "no_access"
    """Every request from there is refused."""

    @property
    def rank(self) -> int:
        """Position in the order of severity."""
        return list(IpSeverity).index(self)


class IpBlock(Node, frozen=True, tag="ip_block"):
    """A network from which requests or sign-ups are refused, or sign-ups wait for approval."""

    network: str
    """In CIDR notation, with the first address of the network: `203.0.113.0/24`."""
    severity: IpSeverity
    comment: str = ""
    expires_at: int = 0
    """Unix milliseconds; 0 for never."""
    ticket_id: int = 0
    """Ticket of its expiry on the agenda; 0 for a block that does not expire."""

    def in_force(self, now: int) -> bool:
        """Whether it has not expired at a moment in Unix milliseconds."""
        return not self.expires_at or now < self.expires_at


def check_network(text: str) -> str:
    """The form in which a network, or a single address, is compared. Raises `InvalidInput`."""
    try:
        network = _plain(ipaddress.ip_network(text.strip()[: MAX_NETWORK + 1], strict=False))
    except ValueError:
        raise InvalidInput("Ip is not an address or a network such as 203.0.113.0/24", field="ip") from None
    return str(network)


def contains(network: str, address: str) -> bool:
    """Whether a client's address is in a network that `check_network` gave."""
    parsed = _parsed(address)
    return parsed is not None and parsed in ipaddress.ip_network(network)


class IpTable:
    """IP blocks, looked up by address."""

    def __init__(self, blocks: Iterable[IpBlock] = ()) -> None:
        self._by_length: dict[tuple[int, int], dict[int, list[IpBlock]]] = {}
        for block in blocks:
            network = ipaddress.ip_network(block.network)
            group = self._by_length.setdefault((network.version, network.prefixlen), {})
            start = int(network.network_address) >> network.max_prefixlen - network.prefixlen
            group.setdefault(start, []).append(block)
        self.is_empty = not self._by_length
        self.blocks_of = lru_cache(maxsize=_REMEMBERED)(self._find)
        """The blocks that an address falls under, expired or not."""

    def _find(self, address: str) -> tuple[IpBlock, ...]:
        parsed = _parsed(address)
        if parsed is None:
            return ()
        number, version, bits = int(parsed), parsed.version, parsed.max_prefixlen
        return tuple(
            block
            for (of_version, length), group in self._by_length.items()
            if of_version == version
            for block in group.get(number >> bits - length, ())
        )


def most_severe(blocks: Iterable[IpBlock], now: int) -> IpSeverity | None:
    """The greatest severity of blocks that are in force at a moment in Unix milliseconds; None where there are none."""
    found = [block.severity for block in blocks if block.in_force(now)]
    return max(found, key=lambda severity: severity.rank, default=None)


def _parsed(address: str) -> _Address | None:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return (parsed.ipv4_mapped or parsed) if isinstance(parsed, ipaddress.IPv6Address) else parsed


def _plain(network: _Network) -> _Network:
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        first = int(network.network_address) & (1 << 32) - 1
        return ipaddress.IPv4Network((first, network.prefixlen - 96))
    return network
