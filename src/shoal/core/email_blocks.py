"""The values of e-mail blocklists: domains and addresses that nobody signs up with.

An e-mail domain block counts the sign-ups that it refused, day by day: how many, and of how many client addresses. The addresses
themselves are not kept. Each sets one bit of a small map, and the number of addresses is estimated from the bits that are
set (linear counting, Whang et al. 1990): of up to a hundred addresses it is seldom wrong by more than two or three.
"""

from __future__ import annotations

import math
import re
from hashlib import blake2b, sha256
from typing import NamedTuple

from msgspec.structs import replace

from shoal.core.errors import InvalidInput
from shoal.core.model import Node
from shoal.core.text import normalized_email

HISTORY_DAYS = 7
"""Days of refused attempts that are kept, today included."""
MAX_DOMAIN = 253
_MAX_TYPED_DOMAIN = 4 * MAX_DOMAIN
"""Characters of a domain in Unicode: several may become one in ASCII."""
_DAY_MS = 86_400_000
_BITS = 2_048
_DOMAIN = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class AttemptDay(NamedTuple):
    """Sign-ups that a block refused on one day, counted in days of Unix time, UTC."""

    day: int
    uses: int
    seen: bytes
    """A map of bits; each client address sets one."""

    @property
    def accounts(self) -> int:
        """Estimate of the number of client addresses."""
        unset = _BITS - int.from_bytes(self.seen).bit_count()
        return round(_BITS * math.log(_BITS / max(unset, 1)))


class EmailDomainBlock(Node, frozen=True, tag="email_domain_block"):
    """Nobody signs up with an e-mail address of this domain, or of one below it."""

    domain: str
    """In lower case and ASCII (IDNA)."""
    days: tuple[AttemptDay, ...] = ()
    """Refused attempts, newest day first; a day without any is left out."""


class CanonicalEmailBlock(Node, frozen=True, tag="canonical_email_block"):
    """Nobody signs up with an e-mail address whose canonical form has this hash."""

    digest: str
    """SHA-256, 64 hexadecimal digits in lower case."""


def check_domain(text: str) -> str:
    """The form in which a domain is compared. Raises `InvalidInput`."""
    domain = ascii_domain(text.strip().removesuffix("."))
    if len(domain) > MAX_DOMAIN or _DOMAIN.fullmatch(domain) is None:
        raise InvalidInput("Domain is not a valid domain name", field="domain")
    return domain


def ascii_domain(text: str) -> str:
    """A domain in lower case and ASCII; what cannot be written so stays as it is, in lower case."""
    # The codec normalizes, which takes quadratic time for combining marks.
    if len(text) > _MAX_TYPED_DOMAIN:
        return text.lower()
    try:
        return text.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return text.lower()


def domains_of(address: str) -> list[str]:
    """The domain of an e-mail address and all domains above it, the narrowest first."""
    labels = ascii_domain(address.rpartition("@")[2].removesuffix(".")).split(".")
    return [".".join(labels[start:]) for start in range(len(labels))]


def canonical_digest(address: str) -> str:
    """Return the hash of the canonical form of an e-mail address, as Mastodon computes it.

    The form is NFKC, in lower case, without dots and `+tag` in the name, and with the domain in ASCII (IDNA). Raises
    `InvalidInput` for a text that is no address.
    """
    name, domain = _canonical(address)
    return _digest(name, ascii_domain(domain))


def canonical_digests(address: str) -> tuple[str, ...]:
    """Return the hashes by which an e-mail address may be blocked: blocks from before IDNA have the domain in Unicode."""
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
    """The hash of a canonical e-mail address. Raises `InvalidInput`."""
    digest = text.strip().lower()
    if _DIGEST.fullmatch(digest) is None:
        raise InvalidInput(
            "Canonical email hash is not a SHA-256 hash of 64 hexadecimal digits", field="canonical_email_hash"
        )
    return digest


def attempted(block: EmailDomainBlock, client: str, now: int) -> EmailDomainBlock:
    """The block with one more refused attempt, by a client address, at a moment in Unix milliseconds."""
    today = now // _DAY_MS
    bit = int.from_bytes(blake2b(client.encode(), digest_size=8, key=block.id.to_bytes(8)).digest()) % _BITS
    kept = {day.day: day for day in block.days if today - HISTORY_DAYS < day.day}
    before = kept.get(today, AttemptDay(today, 0, b""))
    seen = int.from_bytes(before.seen) | 1 << bit
    kept[today] = AttemptDay(today, before.uses + 1, seen.to_bytes(_BITS // 8))
    return replace(block, days=tuple(kept[day] for day in sorted(kept, reverse=True)))


def history(block: EmailDomainBlock, now: int) -> list[AttemptDay]:
    """The last days of refused attempts, today first; a day without any counts 0."""
    today = now // _DAY_MS
    kept = {day.day: day for day in block.days}
    return [kept.get(day, AttemptDay(day, 0, b"")) for day in range(today, today - HISTORY_DAYS, -1)]
