"""Samples on their way into the text format, each under a metric of the catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client.metrics_core import Metric

from shoal.metrics.catalogue import METRICS


class Families:
    """Samples by metric. A name or label that the catalogue does not have is a `KeyError` or `ValueError`."""

    def __init__(self) -> None:
        self._made: dict[str, Metric] = {}

    def add(self, name: str, value: float, *labels: str) -> None:
        """Add a sample of a counter or gauge, with the values of its labels in the order of the catalogue."""
        self._of(name).add_sample(name, _labelled(name, labels), value)

    def add_histogram(
        self, name: str, edges: Sequence[float], steps: Iterable[int], total: float, *labels: str
    ) -> None:
        """Add a histogram.

        `steps` has the number of values up to each of the `edges` and above the edge before, and at its end the number
        of those above all edges; `total` is the sum of all values.
        """
        family, labelled = self._of(name), _labelled(name, labels)
        counts = [*accumulate(steps)]
        for edge, count in zip((*map(str, edges), "+Inf"), counts, strict=True):
            family.add_sample(f"{name}_bucket", {**labelled, "le": edge}, count)
        family.add_sample(f"{name}_sum", labelled, total)
        family.add_sample(f"{name}_count", labelled, counts[-1])

    def made(self) -> list[Metric]:
        """Return the metrics that have samples."""
        return [*self._made.values()]

    def _of(self, name: str) -> Metric:
        family = self._made.get(name)
        if family is None:
            described = METRICS[name]
            family = self._made[name] = Metric(name.removesuffix("_total"), described.meaning, described.kind)
        return family


def _labelled(name: str, values: Sequence[str]) -> dict[str, str]:
    return dict(zip(METRICS[name].labels, values, strict=True))
