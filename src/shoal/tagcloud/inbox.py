"""Increments carried by the store of the cloud itself: laid into its inbox, where every collector finds them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from shoal.core.errors import Unavailable
from shoal.tagcloud.contract import CloudStore, Parcel

_AT_ONCE = 1_000


class Inbox:
    """A transport for collectors that look every `seconds`, and at once when something is sent in this process."""

    def __init__(self, store: CloudStore, seconds: float = 0.2) -> None:
        self._store = store
        self._seconds = seconds
        self._came = asyncio.Event()

    async def send(self, id_: bytes, body: bytes) -> None:
        await self._store.put(id_, body)
        self._came.set()

    async def arrivals(self) -> AsyncIterator[Sequence[Parcel]]:
        while True:
            yield await self.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._came.wait()
            self._came.clear()

    def hurry(self) -> None:
        self._came.set()

    async def look(self) -> list[Parcel]:
        """Return the increments that lie in the inbox, up to a fixed number."""
        return [Parcel(id_, body) for id_, body in await self._store.inbox(_AT_ONCE)]

    async def done(self, parcels: Sequence[Parcel]) -> None:
        # A merge takes its own out; those that came again after it are left.
        if parcels:
            with contextlib.suppress(Unavailable):
                await self._store.discard([parcel.id for parcel in parcels])

    async def waiting(self) -> int:
        return await self._store.waiting()

    async def close(self) -> None:
        """There is nothing to let go of: the store is its owner's."""
