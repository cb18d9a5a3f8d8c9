"""Asks all engines together, seldom enough that looking costs them nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from shoal.ops.vitals.contract import EngineProbe, EngineVitals

_log = logging.getLogger(__name__)


class EngineWatch:
    """Asks each engine for at most `patience` seconds; an answer is good for `keep` seconds, for all who ask meanwhile."""

    def __init__(self, probes: Sequence[EngineProbe], *, patience: float = 3.0, keep: float = 5.0) -> None:
        self._probes = probes
        self._patience = patience
        self._keep = keep
        self._until = 0.0
        self._asking: asyncio.Task[list[EngineVitals]] | None = None

    async def look(self) -> list[EngineVitals]:
        """Return what the engines say of themselves; one that did not answer stands there without figures."""
        if self._asking is None or (self._asking.done() and time.monotonic() >= self._until):
            self._asking = asyncio.create_task(self._ask(), name="shoal-engines")
        # A caller that stops waiting must not cancel the answer for the others.
        return await asyncio.shield(self._asking)

    async def _ask(self) -> list[EngineVitals]:
        answers = await asyncio.gather(*map(self._answer, self._probes))
        self._until = time.monotonic() + self._keep
        return [one for answer in answers for one in answer]

    async def _answer(self, probe: EngineProbe) -> list[EngineVitals]:
        try:
            async with asyncio.timeout(self._patience):
                return await probe.ask()
        except Exception as error:  # noqa: BLE001  # whatever it is, there are no figures
            _log.warning("no figures of %s at %s: %r", probe.engine, probe.place, error)
            return [EngineVitals(probe.engine, probe.place, reached=False)]
