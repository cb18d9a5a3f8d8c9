"""Asks all engines together, seldom enough that looking costs them nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from shoal.ops.vitals.contract import EngineProbe, EngineVitals
from shoal.queries.context import Renewed
from shoal.throttled_log import ThrottledLog

_log = logging.getLogger(__name__)

_KEEP_MS = 5_000


class EngineWatch:
    """Asks each engine for at most `patience` seconds; an answer is good for five seconds, for all who ask meanwhile."""

    def __init__(self, probes: Sequence[EngineProbe], *, patience: float = 3.0) -> None:
        self._probes = probes
        self._patience = patience
        self._outage = ThrottledLog(_log)
        self._answers: Renewed[list[EngineVitals]] = Renewed(_KEEP_MS, _KEEP_MS)

    async def look(self) -> list[EngineVitals]:
        """Return what the engines say of themselves; one that did not answer stands there without figures."""
        return await self._answers.get(time.monotonic_ns() // 1_000_000, self._ask)

    async def _ask(self) -> list[EngineVitals]:
        answers = await asyncio.gather(*map(self._answer, self._probes))
        return [one for answer in answers for one in answer]

    async def _answer(self, probe: EngineProbe) -> list[EngineVitals]:
        try:
            async with asyncio.timeout(self._patience):
                return await probe.ask()
        except Exception as error:  # noqa: BLE001  # whatever it is, there are no figures
            self._outage.warning(
                "no figures of %s at %s: %r", probe.engine, probe.place, error, name=(probe.engine, probe.place)
            )
            return [EngineVitals(probe.engine, probe.place, reached=False)]
