"""Second factor codes: TOTP codes of RFC 6238, valid once for a minute and a half, and recovery codes."""

from __future__ import annotations

import base64
from hashlib import sha256
from urllib.parse import parse_qs, urlsplit

import pyotp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.credentials import RECOVERY_CODES, SecondFactor, address_of, key_of, new_key, new_recovery_codes, used

RFC_KEY = b"12345678901234567890"
"""The secret of RFC 6238, appendix B."""
NOW = 1_111_111_109_000


def code_at(ms: int, key: bytes = RFC_KEY) -> str:
    return pyotp.TOTP(base64.b32encode(key).decode()).at(ms // 1000)


@pytest.mark.parametrize(
    ("seconds", "code"),
    [(59, "287082"), (1_111_111_109, "081804"), (1_111_111_111, "050471"), (20_000_000_000, "353130")],
)
def test_totp_codes_match_rfc_6238(seconds: int, code: str) -> None:
    assert used(SecondFactor(key=RFC_KEY), code, seconds * 1000) is not None
    assert used(SecondFactor(key=RFC_KEY), f" {code[:3]} {code[3:]}", seconds * 1000) is not None
    assert used(SecondFactor(key=RFC_KEY), code[::-1], seconds * 1000) is None


@given(st.integers(10**9, 4 * 10**12), st.integers(-200, 200))
def test_totp_code_is_valid_in_its_own_and_adjacent_time_steps(now: int, seconds_off: int) -> None:
    made_at = now + 1000 * seconds_off
    counts = used(SecondFactor(key=RFC_KEY), code_at(made_at), now) is not None
    assert counts == (code_at(made_at) in {code_at(now + 30_000 * step) for step in (-1, 0, 1)})


@given(st.integers(10**11, 4 * 10**12), st.lists(st.integers(-60, 60), max_size=6))
def test_totp_code_is_refused_after_use_of_same_or_later_code(now: int, offsets: list[int]) -> None:
    factor: SecondFactor | None = SecondFactor(key=RFC_KEY)
    newest = 0
    for offset in offsets:
        assert factor is not None
        at = now + 1000 * offset
        after = used(factor, code_at(at), now)
        if after is not None:
            assert after.used > newest
            newest, factor = after.used, after
            assert used(factor, code_at(at), now) is None


def test_recovery_code_is_valid_once_in_any_spelling() -> None:
    codes, hashes = new_recovery_codes()
    assert (len(set(codes)), len(hashes)) == (RECOVERY_CODES, RECOVERY_CODES)
    factor: SecondFactor | None = SecondFactor(key=RFC_KEY, recovery=hashes)
    for typed in (codes[0], codes[1].upper(), codes[2].replace("-", ""), f" {codes[3]} "):
        assert factor is not None
        left = len(factor.recovery)
        after = used(factor, typed, NOW)
        assert after is not None
        assert len(after.recovery) == left - 1
        assert used(after, typed, NOW) is None
        factor = after
    digits = SecondFactor(key=RFC_KEY, recovery=(sha256(b"2345678923").digest()[:16],))
    assert used(digits, "23456-78923", NOW) is not None, "a recovery code may consist of digits only"
    assert factor is not None
    for wrong in ("", "-", "abcde-fghij", "é" * 10, "1234567890", "０８１８０４"):
        assert used(factor, wrong, NOW) is None


def test_totp_key_and_provisioning_uri_are_valid_for_authenticator_apps() -> None:
    key = new_key()
    assert (len(key), len(key_of(key))) == (32, 20)
    for wrong in ("", "abc", "A" * 16, "é", key.lower(), key + "=", "1" * 32):
        assert key_of(wrong) == b""
    asked = urlsplit(address_of(key, "ann", "Sea & Sky"))
    assert (asked.scheme, asked.netloc, asked.path) == ("otpauth", "totp", "/Sea%20%26%20Sky:ann")
    assert parse_qs(asked.query) == {"secret": [key], "issuer": ["Sea & Sky"]}
