"""Blocklist values and matching rules: email domains, canonical addresses, IP address ranges and user names.

Sign-up attempts against an email domain are counted per day. Client addresses are not stored: each sets one bit of a small bitmap,
from which linear counting (Whang et al. 1990) estimates the number of addresses. Looking up an IP address takes one table lookup
per prefix length that is in use, at most 33 for IPv4. A name block compares plain forms, in which look-alike digits are replaced by
letters, so `h4te_speech` matches `hatespeech`; a sign-up looks up at most 407 keys and reads no list.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import NamedTuple

from msgspec.structs import replace

from shoal.core.errors import InvalidInput
from shoal.core.model import Node
from shoal.core.text import MAX_USER_NAME, normalized_email

HISTORY_DAYS = 7
"""Number of days, including today, for which refused attempts are kept."""
MAX_DOMAIN = 253
_MAX_TYPED_DOMAIN = 4 * MAX_DOMAIN
"""Maximum characters of a domain in Unicode, where several characters may correspond to one in ASCII."""
_DAY_MS = 86_400_000
_BITS = 2_048
_DOMAIN = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class AttemptDay(NamedTuple):
    """The number of sign-ups that a block refused on one day. `day` counts the days since 1970-01-01 UTC."""

    day: int
    uses: int
    seen: bytes
    """A bitmap; each client address sets one bit."""

    @property
    def accounts(self) -> int:
        """Estimated number of distinct client addresses of the refused sign-ups."""
        unset = _BITS - int.from_bytes(self.seen).bit_count()
        return round(_BITS * math.log(_BITS / max(unset, 1)))


class EmailDomainBlock(Node, frozen=True, tag="email_domain_block"):
    """Refuses sign-ups with email addresses of this domain and its subdomains."""

    domain: str
    """In lower case and ASCII (IDNA)."""
    days: tuple[AttemptDay, ...] = ()
    """Refused attempts per day, newest day first. Days without attempts are omitted."""


class CanonicalEmailBlock(Node, frozen=True, tag="canonical_email_block"):
    """Refuses sign-ups with email addresses whose canonical form has this hash."""

    digest: str
    """SHA-256, 64 hexadecimal digits in lower case."""


def check_domain(text: str) -> str:
    """Return the normalized form of a domain. Raises `InvalidInput` if it is not a domain name."""
    domain = ascii_domain(text.strip().removesuffix("."))
    if len(domain) > MAX_DOMAIN or _DOMAIN.fullmatch(domain) is None:
        raise InvalidInput("Domain is not a valid domain name", field="domain")
    return domain


def ascii_domain(text: str) -> str:
    """Return a domain in lower case and ASCII, or only in lower case if it cannot be encoded."""
    # Limit the length, because the normalization by the codec takes quadratic time for combining marks.
    if len(text) > _MAX_TYPED_DOMAIN:
        return text.lower()
    try:
        return text.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return text.lower()


def domains_of(address: str) -> list[str]:
    labels = ascii_domain(address.rpartition("@")[2].removesuffix(".")).split(".")
    return [".".join(labels[start:]) for start in range(len(labels))]


def canonical_digest(address: str) -> str:
    """Return the hash of the canonical form of an email address, as Mastodon computes it.

    The canonical form is NFKC, in lower case, without dots and `+tag` in the local part, and with the domain in ASCII (IDNA).
    Raises `InvalidInput` for an invalid address.
    """
    name, domain = _canonical(address)
    return _digest(name, ascii_domain(domain))


def canonical_digests(address: str) -> tuple[str, ...]:
    """Return the hashes under which an email address may be blocked.

    There are two for an internationalized domain, because older blocks were computed with the domain in Unicode.
    """
    name, domain = _canonical(address)
    domain = ascii_domain(domain)
    return tuple(dict.fromkeys((_digest(name, domain), _digest(name, _unicode_domain(domain)))))


def _canonical(address: str) -> tuple[str, str]:
    name, _, domain = normalized_email(address).partition("@")
    return name.replace(".", "").partition("+")[0], domain


def _digest(name: str, domain: str) -> str:
    return sha256(f"{name}@{domain}".encode()).hexdigest()


def _unicode_domain(domain: str) -> str:
    try:
        return domain.encode("ascii").decode("idna")
    except UnicodeError:
        return domain


def check_digest(text: str) -> str:
    """Return a normalized hash of a canonical email address. Raises `InvalidInput` if it is not a SHA-256 hash."""
    digest = text.strip().lower()
    if _DIGEST.fullmatch(digest) is None:
        raise InvalidInput(
            "Canonical email hash is not a SHA-256 hash of 64 hexadecimal digits", field="canonical_email_hash"
        )
    return digest


def attempted(block: EmailDomainBlock, client: str, now: int) -> EmailDomainBlock:
    """Return the block with one more refused sign-up, which came from the address `client` at `now` (Unix milliseconds)."""
    today = now // _DAY_MS
    bit = int.from_bytes(blake2b(client.encode(), digest_size=8, key=block.id.to_bytes(8)).digest()) % _BITS
    by_day = {day.day: day for day in block.days if today - HISTORY_DAYS < day.day}
    before = by_day.get(today, AttemptDay(today, 0, b""))
    seen = int.from_bytes(before.seen) | 1 << bit
    by_day[today] = AttemptDay(today, before.uses + 1, seen.to_bytes(_BITS // 8))
    return replace(block, days=tuple(by_day[day] for day in sorted(by_day, reverse=True)))


def history(block: EmailDomainBlock, now: int) -> list[AttemptDay]:
    """Return how many sign-ups the block has refused on each of the last days, today first, including days without any."""
    today = now // _DAY_MS
    by_day = {day.day: day for day in block.days}
    return [by_day.get(day, AttemptDay(day, 0, b"")) for day in range(today, today - HISTORY_DAYS, -1)]


MAX_NETWORK = 64
_REMEMBERED = 4_096
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
"""IPv4 addresses written as IPv6."""

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class IpSeverity(StrEnum):
    """The effect of an IP block, from mildest to most severe; each level includes the effects of the milder ones."""

    SIGN_UP_REQUIRES_APPROVAL = "sign_up_requires_approval"
    SIGN_UP_BLOCK = "sign_up_block"
    NO_ACCESS = "no_access"

    @property
    def rank(self) -> int:
        return list(IpSeverity).index(self)


class IpBlock(Node, frozen=True, tag="ip_block"):
    """An address range from which requests or sign-ups are refused, or sign-ups wait for approval."""

    network: str
    """In CIDR notation, with the first address of the range: `203.0.113.0/24`."""
    severity: IpSeverity
    comment: str = ""
    expires_at: int = 0
    """Unix milliseconds; 0 for never."""
    ticket_id: int = 0
    """Id of the schedule entry of its expiry; 0 for a block that does not expire."""

    def in_force(self, now: int) -> bool:
        return not self.expires_at or now < self.expires_at


def check_network(text: str) -> str:
    """Return the normalized form of an address range or a single IP address. Raises `InvalidInput` if it is neither."""
    try:
        network = _plain(ipaddress.ip_network(text.strip()[: MAX_NETWORK + 1], strict=False))
    except ValueError:
        raise InvalidInput("Ip is not an IP address or address range such as 203.0.113.0/24", field="ip") from None
    return str(network)


def contains(network: str, address: str) -> bool:
    parsed = parse_address(address)
    return parsed is not None and parsed in ipaddress.ip_network(network)


class IpTable:
    def __init__(self, blocks: Iterable[IpBlock] = ()) -> None:
        self._by_length: dict[tuple[int, int], dict[int, list[IpBlock]]] = {}
        for block in blocks:
            network = ipaddress.ip_network(block.network)
            group = self._by_length.setdefault((network.version, network.prefixlen), {})
            start = int(network.network_address) >> network.max_prefixlen - network.prefixlen
            group.setdefault(start, []).append(block)
        self.is_empty = not self._by_length
        self.blocks_of = lru_cache(maxsize=_REMEMBERED)(self._find)
        """The blocks that contain an address, including expired ones."""

    def _find(self, address: str) -> tuple[IpBlock, ...]:
        parsed = parse_address(address)
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
    """Return the highest severity among blocks that have not expired at `now` (Unix ms); None if there are none."""
    found = [block.severity for block in blocks if block.in_force(now)]
    return max(found, key=lambda severity: severity.rank, default=None)


def parse_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an IP address without its zone; None for invalid text. An IPv4 address that is mapped to IPv6 becomes IPv4."""
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


LEAST_PART = 3
"""Minimum characters of a word that is blocked as a part of names: a shorter word would block too many names."""
_PLAIN = str.maketrans("0123456789", "oizeasgtbg", "_")
"""Digits and the letters that they resemble. Underscores are removed."""


class NameBlock(Node, frozen=True, tag="name_block"):
    """Refuses sign-ups with user names that equal this word, or contain it."""

    word: str
    """The word in its plain form."""
    part: bool = False
    """Whether names that contain the word are refused too."""


def plain(text: str) -> str:
    return text.strip().lower().translate(_PLAIN)


def check_word(text: str, *, part: bool) -> str:
    """Return the plain form of a word to be blocked. Raises `InvalidInput` for an invalid length or character."""
    word, least = plain(text), LEAST_PART if part else 1
    if not (least <= len(word) <= MAX_USER_NAME and word.isascii() and word.isalpha()):
        raise InvalidInput(
            f"a word must have {least} to {MAX_USER_NAME} characters, from a-z, 0-9 and underscore", field="word"
        )
    return word


def key_text(word: str, *, part: bool) -> str:
    """Return the text that identifies the block of a word: `*word` if names that contain it are refused too, else `=word`."""
    return f"{'*' if part else '='}{word}"


def refusing(name: str) -> Sequence[str]:
    """Return the identifying texts (`key_text`) of all possible name blocks that would refuse a user name."""
    word = plain(name)
    parts = {word[first:last] for first in range(len(word)) for last in range(first + LEAST_PART, len(word) + 1)}
    return [key_text(word, part=False), *(key_text(part, part=True) for part in sorted(parts))]
