"""Proof of work: found by trying, checked with one hash, valid for one name on one server for an hour."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.signup import GOOD_SECONDS, MAX_BITS, is_proof
from tests.proof_of_work import find_proof

NOW = 1_764_086_400
BITS = 5
PROOF = find_proof("social.example.org", "ann", BITS, NOW)


def test_proof_of_work_is_valid_for_normalized_name_and_one_hour() -> None:
    assert is_proof(PROOF, "social.example.org", " Ann ", BITS, NOW)
    assert is_proof(PROOF, "social.example.org", "ann", BITS, NOW + GOOD_SECONDS)
    assert not is_proof(PROOF, "social.example.org", "ann", BITS, NOW + GOOD_SECONDS + 1)
    assert not is_proof(PROOF, "social.example.org", "ann", BITS, NOW - 300), "from the future"


def test_proof_of_work_for_other_name_domain_or_time_is_invalid() -> None:
    others = [("social.example.org", f"ann{n}") for n in range(40)] + [(f"{n}.example.org", "ann") for n in range(40)]
    right = sum(is_proof(PROOF, domain, name, BITS, NOW) for domain, name in others)
    assert right <= 12, "each of 80 is valid with probability 1/32"
    number = PROOF.partition(":")[2]
    assert sum(is_proof(f"{NOW + n}:{number}", "social.example.org", "ann", BITS, NOW) for n in range(1, 81)) <= 12


def test_proof_of_work_hash_matches_web_app_algorithm() -> None:
    """The algorithm of the docstring of `is_proof`, which the web worker of the web app implements too."""
    since, number = PROOF.split(":")
    hashed = hashlib.pbkdf2_hmac("sha256", number.encode(), f"shoal:social.example.org:ann:{since}".encode(), 5_000)
    assert hashed[0] >> (8 - BITS) == 0


@pytest.mark.parametrize(
    "text", ["", ":", f"{NOW}", f"{NOW}:", f"{NOW}:x", f"{NOW}:-1", f"{NOW}:1\n", f"{NOW}:١", f"{NOW}:{10**10}"]
)
def test_proof_of_work_malformed_text_is_invalid(text: str) -> None:
    assert not is_proof(text, "social.example.org", "ann", 0, NOW)


@given(st.integers(0, 10_000), st.integers(1, MAX_BITS))
def test_proof_of_work_with_more_bits_than_required_is_valid(number: int, bits: int) -> None:
    text = f"{NOW}:{number}"
    if is_proof(text, "a", "ann", bits, NOW):
        assert is_proof(text, "a", "ann", bits - 1, NOW)
