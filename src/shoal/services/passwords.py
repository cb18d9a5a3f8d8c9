"""Passwords as argon2id hashes. Hashing takes about 50 ms and 64 MiB by design, so it runs in threads, two at a time."""

from __future__ import annotations

import asyncio

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

_hasher = PasswordHasher()
_at_once = asyncio.Semaphore(2)

_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$c29tZSBvdGhlciBzYWx0$lPCwXAWBVxPSfvb7XMkbNiYqmHVSfBDa4kUNExGEI9M"
"""A hash that no password has: checking against it takes as long as against a real one."""


async def hashed(password: str) -> str:
    """The hash to store."""
    async with _at_once:
        return await asyncio.to_thread(_hasher.hash, password)


async def matches(password: str, stored: str) -> bool:
    """Whether the password has this hash; an empty hash matches nothing, and takes as long to say so."""
    async with _at_once:
        return await asyncio.to_thread(_verify, password, stored or _NOBODY) and bool(stored)


def _verify(password: str, stored: str) -> bool:
    try:
        return _hasher.verify(stored, password)
    except (Argon2Error, InvalidHashError):
        return False
