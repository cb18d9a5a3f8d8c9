"""Hashes of e-mail addresses: compatibility with clients, and validation."""

from __future__ import annotations

import hashlib

import pytest

from shoal import hash_address
from shoal.core.email import MOST_HASHES, check_hashes
from shoal.core.errors import InvalidInput, TooLarge

SALT = "000102030405060708090a0b0c0d0e0f"


def plain_hmac(key: bytes, text: bytes) -> str:
    """HMAC-SHA256 by its definition (RFC 2104), as a client without a library would compute it."""
    padded = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded) + text).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in padded) + inner).hexdigest()


def test_email_hash_is_hmac_sha256_of_normalized_address() -> None:
    expected = plain_hmac(bytes.fromhex(SALT), b"ann@example.org")
    assert {hash_address(SALT, typed) for typed in ("ann@example.org", " Ann@Example.ORG ")} == {expected}
    assert hash_address(SALT, "ann+1@example.org") != expected
    assert hash_address("ff" + SALT[2:], "ann@example.org") != expected
    assert check_hashes([expected, expected]) == (expected,)


@pytest.mark.parametrize(("salt", "address"), [(SALT, "ann"), (SALT, ""), ("salt", "ann@example.org")])
def test_email_hash_of_invalid_address_or_salt_is_refused(salt: str, address: str) -> None:
    with pytest.raises(InvalidInput):
        hash_address(salt, address)


@pytest.mark.parametrize("wrong", ["", "ann@example.org", "a" * 63, "A" * 64, "a" * 65, "g" * 64])
def test_contact_hashes_malformed_hash_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidInput, match=r"^hashes: each must have 64"):
        check_hashes(["a" * 64, wrong])


def test_contact_hashes_beyond_limit_are_refused() -> None:
    hashes = [f"{n:064x}" for n in range(MOST_HASHES)]
    assert len(check_hashes(hashes)) == MOST_HASHES
    with pytest.raises(TooLarge):
        check_hashes([*hashes, "f" * 64])
