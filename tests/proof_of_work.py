"""The work that a browser does before a sign-up."""

from __future__ import annotations

from shoal.core.signup import is_proof


def find_proof(domain: str, name: str, bits: int, now: int) -> str:
    """Return a proof, after 2^`bits` attempts on average."""
    number = 0
    while not is_proof(proof := f"{now}:{number}", domain, name, bits, now):
        number += 1
    return proof
