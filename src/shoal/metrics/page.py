"""The text that Prometheus reads, made anew for each scrape from what the parts have counted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_log = logging.getLogger(__name__)


class MetricSource(Protocol):
    """A part of the metrics."""

    async def read(self) -> Iterable[Metric]:
        """Return the metrics as they are now. They are gone through in another thread, so nothing may change them."""
        ...


class _Readings(Collector):
    """The metrics of the scrape under way."""

    def __init__(self) -> None:
        self.metrics: Iterable[Metric] = ()

    def collect(self) -> Iterable[Metric]:
        """Return them, each name once: several sources may have samples of one."""
        merged: dict[str, Metric] = {}
        for metric in self.metrics:
            if metric.name in merged:
                merged[metric.name].samples.extend(metric.samples)
            else:
                merged[metric.name] = metric
        return merged.values()


class MetricsPage:
    """Makes the text of all sources and of the process itself, in a registry of its own."""

    def __init__(self, sources: Sequence[MetricSource]) -> None:
        self._sources = sources
        self._readings = _Readings()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self._readings)
        ProcessCollector(namespace="shoal", registry=self._registry)
        self._making: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """Return the text. One is made at a time: it is shared by all who ask while it is made."""
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._make(), name="shoal-metrics")
        # A client that goes must not cancel the text for the others.
        return await asyncio.shield(self._making)

    async def close(self) -> None:
        """Give up the text that is being made: what it is made of may close now."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)

    async def _make(self) -> bytes:
        read = await asyncio.gather(*map(_read, self._sources))
        self._readings.metrics = (metric for metrics in read for metric in metrics)
        # Thousands of lines take some 10 ms: requests have the loop meanwhile.
        return await asyncio.to_thread(generate_latest, self._registry)


async def _read(source: MetricSource) -> Iterable[Metric]:
    try:
        return await source.read()
    except Exception:  # noqa: BLE001  # whatever it is, the other sources are told
        _log.exception("%s could not be read", type(source).__name__)
        return ()
