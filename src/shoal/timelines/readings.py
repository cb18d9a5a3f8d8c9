"""Readings of ranked feeds: the order that a first page gave, kept for an hour, so that later pages neither repeat nor skip.

A store may forget a reading at any time: then the feed is ranked anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

KEPT_SECONDS = 3_600


class Readings(Protocol):
    """Packed readings by id. Raises `Unavailable` where they are shared and cannot be reached."""

    async def keep(self, id_: int, data: bytes) -> None:
        """Keep a reading for an hour."""
        ...

    async def get(self, id_: int) -> bytes | None:
        """Return a reading that is kept."""
        ...


class MemoryReadings:
    """Readings in this process, up to so many bytes together: the oldest make room."""

    def __init__(self, most_bytes: int = 16 << 20, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most_bytes
        self._clock = clock
        self._held: dict[int, tuple[float, bytes]] = {}
        self._bytes = 0

    async def keep(self, id_: int, data: bytes) -> None:
        self._forget(id_)
        self._held[id_] = (self._clock(), data)
        self._bytes += len(data)
        while self._bytes > self._most:
            self._forget(next(iter(self._held)))

    async def get(self, id_: int) -> bytes | None:
        kept_at, data = self._held.get(id_, (0.0, None))
        return data if self._clock() - kept_at < KEPT_SECONDS else None

    def _forget(self, id_: int) -> None:
        if (held := self._held.pop(id_, None)) is not None:
            self._bytes -= len(held[1])
