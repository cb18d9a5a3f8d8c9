"""The proof of work that a browser computes before a sign-up."""

from __future__ import annotations

from shoal.core.signup import is_proof


def find_proof(domain: str, name: str, bits: int, now: int) -> str:
    """Find a proof; this takes 2^`bits` attempts on average."""
    number = 0
    while not is_proof(proof := f"{now}:{number}", domain, name, bits, now):
        number += 1
    return proof
