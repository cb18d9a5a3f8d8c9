"""E-mail addresses by which members may be found: hashed by whoever looks, so that no address book is sent.

A hash is HMAC-SHA256 (RFC 2104) of an address under the salt of the network. The salt is no secret: it makes tables of hashes that
were computed for another network useless here. Whoever has a hash can still try addresses until one fits.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence

from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.model import Node
from shoal.core.text import normalized_email

ALGORITHM = "HMAC-SHA256"
BITS = 256
"""Bits of a hash that are compared: all."""
SALT_BYTES = 16
MOST_HASHES = 2_000
"""Addresses that are looked up at once."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


class ContactSalt(Node, frozen=True, tag="contact_salt"):
    """The salt under which a network hashes e-mail addresses. It is made once, and never changes."""

    salt: bytes


def hash_address(salt: str, address: str) -> str:
    """Return the hash of an e-mail address, 64 hexadecimal digits; case and spaces around the address do not matter.

    `salt` is that of the network, in hexadecimal digits. Raises `InvalidInput` for what is no address or no salt.
    """
    try:
        key = bytes.fromhex(salt)
    except ValueError:
        raise InvalidInput("salt: hexadecimal digits", field="salt") from None
    return hmac.digest(key, normalized_email(address).encode(), "sha256").hex()


def check_hashes(hashes: Sequence[str]) -> tuple[str, ...]:
    """Return the hashes, each once. Raises `TooLarge` past 2,000, and `InvalidInput` for what is none."""
    if len(hashes) > MOST_HASHES:
        raise TooLarge(f"hashes: at most {MOST_HASHES}, not {len(hashes)}", field="hashes")
    for digest in hashes:
        if _DIGEST.fullmatch(digest) is None:
            raise InvalidInput("hashes: 64 hexadecimal digits each, in lower case", field="hashes")
    return tuple(dict.fromkeys(hashes))
