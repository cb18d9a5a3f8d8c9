"""Cheap password hashes for processes of the tests. A real hash takes 0.2 seconds of processor time, by design."""

from __future__ import annotations

from argon2 import PasswordHasher

from shoal.commands import authentication

REAL_HASHES = authentication._hasher, authentication._DUMMY_HASH


def make_hashes_cheap() -> None:
    """Make password hashes cheap in this process."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    authentication._hasher, authentication._DUMMY_HASH = cheap, cheap.hash("nobody's")
