"""Proof of work: found by trying, checked by one hash, good for one name on one server for an hour."""

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


def test_a_proof_holds_for_its_name_however_it_is_typed_and_for_an_hour() -> None:
    assert is_proof(PROOF, "social.example.org", " Ann ", BITS, NOW)
    assert is_proof(PROOF, "social.example.org", "ann", BITS, NOW + GOOD_SECONDS)
    assert not is_proof(PROOF, "social.example.org", "ann", BITS, NOW + GOOD_SECONDS + 1)
    assert not is_proof(PROOF, "social.example.org", "ann", BITS, NOW - 300), "from the future"


def test_a_proof_holds_for_nothing_else() -> None:
    others = [("social.example.org", f"ann{n}") for n in range(40)] + [(f"{n}.example.org", "ann") for n in range(40)]
    right = sum(is_proof(PROOF, domain, name, BITS, NOW) for domain, name in others)
    assert right <= 12, "of 80, each is right by chance once in 32"
    number = PROOF.partition(":")[2]
    assert sum(is_proof(f"{NOW + n}:{number}", "social.example.org", "ann", BITS, NOW) for n in range(1, 81)) <= 12


def test_the_hash_is_the_one_that_browsers_have() -> None:
    """As the docstring writes it: the worker of the web app hashes the same."""
    since, number = PROOF.split(":")
    hashed = hashlib.pbkdf2_hmac("sha256", number.encode(), f"shoal:social.example.org:ann:{since}".encode(), 5_000)
    assert hashed[0] >> (8 - BITS) == 0


@pytest.mark.parametrize(
    "text", ["", ":", f"{NOW}", f"{NOW}:", f"{NOW}:x", f"{NOW}:-1", f"{NOW}:1\n", f"{NOW}:١", f"{NOW}:{10**10}"]
)
def test_what_is_no_proof_is_none(text: str) -> None:
    assert not is_proof(text, "social.example.org", "ann", 0, NOW)


@given(st.integers(0, 10_000), st.integers(1, MAX_BITS))
def test_a_proof_of_more_bits_is_one_of_fewer(number: int, bits: int) -> None:
    text = f"{NOW}:{number}"
    if is_proof(text, "a", "ann", bits, NOW):
        assert is_proof(text, "a", "ann", bits - 1, NOW)
