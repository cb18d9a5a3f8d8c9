"""When the network is counted: once somebody asks, beside the requests, and never for more than a hundredth of the time."""

from __future__ import annotations

import asyncio
import logging
import time

from shoal.core.errors import Unavailable
from shoal.graph.contract import Store
from shoal.ops.statistics.counting import count
from shoal.ops.statistics.figures import Figures

_log = logging.getLogger(__name__)

_FRESH_SECONDS = 60.0
_REST = 100.0
"""After a reading the figures stay for so many times as long as it took, if that is longer."""
_PATIENCE_SECONDS = 0.5
"""How long a request waits for new figures where there are older ones."""
_FIRST_PATIENCE_SECONDS = 10.0
"""How long it waits where there are none."""


class Ledger:
    """The newest figures of a store; several requests at the same time share one reading."""

    def __init__(
        self, store: Store, *, fresh: float = _FRESH_SECONDS, patience: float = _FIRST_PATIENCE_SECONDS
    ) -> None:
        self._store = store
        self._fresh = fresh
        self._patience = patience
        self._figures: Figures | None = None
        self._again_at = float("-inf")
        self._counting: asyncio.Task[None] | None = None

    async def figures(self) -> Figures:
        """The figures as last counted. Raises `Unavailable` while they are counted for the first time."""
        if self._counting is None and time.monotonic() >= self._again_at:
            self._counting = asyncio.create_task(self._count(), name="shoal-statistics")
        if self._counting is not None:
            patience = self._patience if self._figures is None else _PATIENCE_SECONDS
            await asyncio.wait({self._counting}, timeout=patience)
        if self._figures is None:
            raise Unavailable("The network is being counted; ask again in a moment")
        return self._figures

    async def close(self) -> None:
        """Stop counting."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait({self._counting})

    async def _count(self) -> None:
        began = time.monotonic()
        try:
            self._figures = await count(self._store, time.time_ns() // 1_000_000)
        except Exception:  # noqa: BLE001 (those who ask have the old figures; it is in the log)
            _log.exception("counting the network by day failed")
        finally:
            # After a failure as well: a store in trouble is not read at every request.
            now = time.monotonic()
            self._again_at = now + max(self._fresh, _REST * (now - began))
            self._counting = None
