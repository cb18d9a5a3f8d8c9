"""The client of a request through a proxy: the right-most address of `X-Forwarded-For` that is no trusted proxy.

Every proxy appends the address that it was asked from, so the list is believed from its right end, as long as the one who wrote
an entry is trusted. What stands further left may have been made up by the client:

    X-Forwarded-For: 10.9.9.9, 203.0.113.7, 192.168.0.2      from 127.0.0.1; trusted are 127.0.0.0/8 and 192.168.0.0/24

127.0.0.1 is trusted, so 192.168.0.2 was there; it is trusted too, so 203.0.113.7 was there, and that is the client. An entry that
is no address ends the walk at the proxy that wrote it. `Forwarded` (RFC 7239) is read only where there is no `X-Forwarded-For`:
a proxy writes one of the two, and lets the client's own copy of the other one pass.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from shoal.settings import Settings, SettingsError

_log = logging.getLogger(__name__)

Header = tuple[bytes, bytes]

_NAMES = frozenset({b"x-forwarded-for", b"forwarded"})
_LONGEST_KEPT = 120
"""Bytes of a header whose meaning is remembered: a client may send others of any length and number."""
_FOR = re.compile(r'(?:^|;)\s*for\s*=\s*("[^"]*"|[^;\s]*)\s*(?=;|$)', re.IGNORECASE)


class Proxies:
    """The proxies whose word is taken. Raises `SettingsError` for one that is neither an address nor a network."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self._networks = [_network(text) for text in trusted]
        self.trusts = lru_cache(maxsize=4_096)(self._trusts)
        self._known = lru_cache(maxsize=4_096)(self._walk)

    def _trusts(self, address: str) -> bool:
        """Whether this address is that of a trusted proxy."""
        parsed = _parsed(address)
        return parsed is not None and any(parsed in network for network in self._networks)

    def client(self, peer: str, headers: Sequence[Header]) -> str:
        """The address of the client of a request that came from `peer`; `peer` itself when it is not trusted or says nothing."""
        given = [(name, value) for name, value in headers if name in _NAMES]
        if not given or not self.trusts(peer):
            return peer
        name = b"x-forwarded-for" if any(name == b"x-forwarded-for" for name, _ in given) else b"forwarded"
        value = b",".join(value for found, value in given if found == name)
        walk = self._known if len(value) <= _LONGEST_KEPT else self._walk
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
    """Warns once when a proxy that is not trusted seems to stand in front: then everybody behind it would be one client."""

    def __init__(self, settings: Settings, trusts: Callable[[str], bool]) -> None:
        self._trusts = trusts
        self._open = settings.base_url.startswith("https://")

    def about(self, peer: str) -> bool:
        """Whether what comes from this address is to be looked at."""
        if not self._open or self._trusts(peer):
            return False
        parsed = _parsed(peer)
        return parsed is not None and (parsed.is_private or parsed.is_loopback)

    def look(self, peer: str, headers: Sequence[Header]) -> None:
        """Warn when the headers of a request say that it came through a proxy."""
        if self._open and any(name in _NAMES for name, _ in headers):
            self._open = False
            _log.warning(
                "requests come from %s, which says that it is a proxy and is not in trusted_proxies: all who ask through it "
                "are limited as one client",
                peer,
            )


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        raise SettingsError(
            f"settings: trusted_proxies has {text!r}; each must be an address or a network, such as 10.0.0.0/8"
        ) from None


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _entry_of(element: str) -> str | None:
    """The address in one element of `Forwarded`: `for=192.0.2.1;proto=https`, `for="[2001:db8::1]:4711"`."""
    found = _FOR.search(element)
    return _address(found[1].strip('"')) if found else None


def _address(text: str) -> str | None:
    """The address alone, of `1.2.3.4`, `1.2.3.4:5`, `::1` or `[::1]:5`; None for anything else."""
    text = text.strip()
    if len(text) > 64:
        return None
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    parsed = _parsed(text)
    return None if parsed is None else str(parsed)
