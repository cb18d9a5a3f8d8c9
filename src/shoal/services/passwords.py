"""Passwords as argon2id hashes. Hashing takes about 50 ms and 64 MiB by design, so it runs in threads, two at a time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

_hasher = PasswordHasher()
_threads = ThreadPoolExecutor(2, "shoal-password")

_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$c29tZSBvdGhlciBzYWx0$lPCwXAWBVxPSfvb7XMkbNiYqmHVSfBDa4kUNExGEI9M"
"""A hash that no password has: checking against it takes as long as against a real one."""


async def hashed(password: str) -> str:
    """The hash to store."""
    return await asyncio.get_running_loop().run_in_executor(_threads, _hasher.hash, password)


async def matches(password: str, stored: str) -> bool:
    """Whether the password has this hash; an empty hash matches nothing, and takes as long to say so."""
    fits = await asyncio.get_running_loop().run_in_executor(_threads, _verify, password, stored or _NOBODY)
    return fits and bool(stored)


def _verify(password: str, stored: str) -> bool:
    try:
        return _hasher.verify(stored, password)
    except (Argon2Error, InvalidHashError):
        return False
