"""Updates on new versions of the tag cloud, so that processes need not poll the store.

An update is a hint. It may be lost, late or repeated: the version in the store decides what is shown, and readers still poll at a
low rate (`tagcloud/reader.py`).
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple


class VersionUpdate(NamedTuple):
    number: int
    """Number of updates that this process has received, so that a repeated one differs too."""
    version: int
    """The new version; 0 if it is unknown."""


class VersionUpdates:
    """Distributes version updates within a process. Subclasses carry them to other processes.

    A process that is `polling` publishes updates, but ignores those that it receives.
    """

    def __init__(self, *, polling: bool = False) -> None:
        self.arrival = asyncio.Event()
        """Set when the next update arrives, and then replaced."""
        self.closed = False
        self._polling = polling
        self._newest = VersionUpdate(0, 0)

    async def publish(self, version: int) -> None:
        """Publish a version that was written. Never raises an error, and takes a second at most."""
        self.receive(version)

    def receive(self, version: int) -> None:
        """Record an update. The version 0 means that updates may have been lost."""
        self._newest = VersionUpdate(self._newest.number + 1, version)
        self.arrival.set()
        self.arrival = asyncio.Event()

    def close(self) -> None:
        self.closed = True
        self.arrival.set()

    def newest(self) -> VersionUpdate | None:
        """Return the newest version update; None if updates may have been lost, so that the caller must poll the store."""
        return None if self._polling or not self._is_connected() else self._newest

    def _is_connected(self) -> bool:
        return True
