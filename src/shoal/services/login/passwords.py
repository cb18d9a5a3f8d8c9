"""Passwords as argon2id hashes.

Hashing takes about 50 ms on each of four cores and 64 MiB by design, so it runs in threads of its own: one hash at a time,
two on a machine with enough cores for both. Of those who ask from outside at most sixteen more wait: a flood of passwords is
refused at once instead of growing a queue.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from shoal.core.errors import Unavailable
from shoal.core.text import normalized

_LANES = 4
"""Threads that each hash is computed in, argon2's parallelism."""
AT_ONCE = 2 if (os.cpu_count() or 1) >= 2 * _LANES else 1
"""More than the cores have lanes for would share the same time, each with another 64 MiB."""
WAITING = 16

_RETRY_SECONDS = 1.0
"""The whole queue is done in less."""

_NICE = 10
"""Added to the niceness of the threads that hash: requests that need no password come first."""


def _stand_back() -> None:
    # On Linux each thread has a niceness of its own, and it may always be raised.
    with suppress(OSError):
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICE)


_hasher = PasswordHasher(parallelism=_LANES)
_threads = ThreadPoolExecutor(AT_ONCE, "shoal-password", initializer=_stand_back)
_places = threading.BoundedSemaphore(AT_ONCE + WAITING)

_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$c29tZSBvdGhlciBzYWx0$lPCwXAWBVxPSfvb7XMkbNiYqmHVSfBDa4kUNExGEI9M"
"""A hash that no password has: checking against it takes as long as against a real one."""


@contextmanager
def place() -> Iterator[None]:
    """Hold a place among the callers that hash or wait to. Raises `Unavailable` when all are taken.

    The front end takes it before it calls a verb, so that a refusal costs no read. Callers inside the process need none: how
    many of them there are is for them to say.
    """
    if not _places.acquire(blocking=False):
        raise Unavailable("Too many passwords are being checked; try again in a moment", retry_after=_RETRY_SECONDS)
    try:
        yield
    finally:
        _places.release()


async def hashed(password: str) -> str:
    """Return the hash to store, of the password in NFC: keyboards spell the same character as one or as several."""
    return await asyncio.get_running_loop().run_in_executor(_threads, _hasher.hash, normalized("NFC", password))


async def matches(password: str, stored: str) -> bool:
    """Whether the password has this hash; an empty hash matches nothing, and takes as long to say so."""
    fits = await asyncio.get_running_loop().run_in_executor(_threads, _verify, password, stored or _NOBODY)
    return fits and bool(stored)


def _verify(password: str, stored: str) -> bool:
    # Older hashes were made from the password as typed.
    return any(_is_hash_of(spelling, stored) for spelling in dict.fromkeys((password, normalized("NFC", password))))


def _is_hash_of(password: str, stored: str) -> bool:
    try:
        return _hasher.verify(stored, password)
    except (Argon2Error, InvalidHashError):
        return False
