"""The age of the newest backup, which `shoal backup` leaves in the store."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from shoal.core.errors import ShoalError
from shoal.core.ids import milliseconds_of
from shoal.graph.schema import backup_key
from shoal.metrics.families import Families
from shoal.wiring import Network


class BackupFigures:
    """A source of this figure. It is left out while the store does not answer."""

    def __init__(self, network: Network) -> None:
        # Another process wrote it: what this one remembers may be old.
        self._graph = network.memory.beneath()

    async def read(self) -> Iterable[Metric]:
        """Return the figure as it is now."""
        families = Families()
        try:
            found = (await self._graph.key_get((backup_key(),))).get(backup_key())
        except ShoalError:
            return ()
        families.add("shoal_last_backup_timestamp_seconds", milliseconds_of(found) / 1_000 if found else 0)
        return families.made()
