"""A bound on how fast a backup reads and writes, so that what else uses the disk or the line has its share."""

from __future__ import annotations

import asyncio


class Throttle:
    """Bytes a second at most; None is as fast as it goes. Shared by all that copy at the same time."""

    def __init__(self, bytes_per_second: float | None) -> None:
        self._rate = bytes_per_second
        self._free_at = 0.0

    async def spend(self, size: int) -> None:
        """Wait until so many bytes may go."""
        if self._rate is None:
            return
        now = asyncio.get_running_loop().time()
        begins = max(now, self._free_at)
        self._free_at = begins + size / self._rate
        await asyncio.sleep(begins - now)
