"""Readiness of the engines that this process needs, for proxies and supervisors that poll it.

Results are cached for a second and shared by concurrent callers, so frequent polling is cheap.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from shoal.throttled_log import ThrottledLog

_log = logging.getLogger(__name__)

Probe = Callable[[], Awaitable[object]]
"""Sends a small query to an engine. Raises an error if there is no reply."""


class Readiness:
    """Checks whether the engines (databases, Redis, broker) respond, for at most `patience` seconds each.

    Results are reused for `keep` seconds.
    """

    def __init__(self, probes: Mapping[str, Probe], *, patience: float = 2.0, keep: float = 1.0) -> None:
        self._probes = probes
        self._patience = patience
        self._keep = keep
        self._until = 0.0
        self._outage = ThrottledLog(_log)
        self._probing: asyncio.Task[dict[str, bool]] | None = None

    async def parts(self) -> dict[str, bool]:
        """Return whether each engine responds, by the name of the engine."""
        if self._probing is None or (self._probing.done() and time.monotonic() >= self._until):
            self._probing = asyncio.create_task(self._ask(), name="shoal-ready")
        # A caller that disconnects must not cancel the query for other callers.
        return await asyncio.shield(self._probing)

    async def _ask(self) -> dict[str, bool]:
        answers = await asyncio.gather(*[self._answers(name, probe) for name, probe in self._probes.items()])
        self._until = time.monotonic() + self._keep
        return dict(zip(self._probes, answers, strict=True))

    async def _answers(self, name: str, probe: Probe) -> bool:
        try:
            async with asyncio.timeout(self._patience):
                await probe()
        except Exception as error:  # noqa: BLE001  # whatever it is, the part cannot be used
            self._outage.warning("%s does not respond: %r", name, error, name=name)
            return False
        return True
