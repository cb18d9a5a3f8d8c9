"""Hold the lock of a tag cloud during a merge: renew it, and release it.

The lock is a lease, so that a process that dies stalls the others for `LOCK_SECONDS` at most. It saves work, but does not protect
the counts: a holder that was paused for longer may continue when another process has taken the lock. With its
fencing token, the store refuses its later writes (`CloudStore.write`).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shoal.core.errors import Unavailable
from shoal.locks import set_within
from shoal.tagcloud.contract import LOCK_SECONDS, CloudStore

_RENEWALS = 3
"""Renewals in the duration of a lock: one may be late or fail."""


@asynccontextmanager
async def locked(store: CloudStore, seconds: float = LOCK_SECONDS) -> AsyncIterator[bytes]:
    """Hold the lock of the cloud during the block, and yield its fencing token; b"" if another process has the lock."""
    token, released = secrets.token_bytes(16), asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        # Release the lock also if `lock` is cancelled; this never releases another process's lock.
        stack.push_async_callback(store.unlock, token)
        if not await store.lock(token, seconds):
            yield b""
            return
        renewing = asyncio.create_task(_renew(store, token, seconds, released), name="shoal-tag-lock")
        try:
            yield token
        finally:
            # Let a running renewal finish before the lock is released.
            released.set()
            await renewing


async def _renew(store: CloudStore, token: bytes, seconds: float, released: asyncio.Event) -> None:
    while not released.is_set():
        await set_within(released, seconds / _RENEWALS)
        with contextlib.suppress(Unavailable):
            if not released.is_set() and not await store.renew(token, seconds):
                return
