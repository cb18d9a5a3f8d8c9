"""Doubt about the shard map: a process may have missed that it changed."""

from __future__ import annotations

from typing import Protocol


class Watch(Protocol):
    """Knows whether the shard map may still be believed where it names a store."""

    def fresh(self, place: int) -> bool:
        """Whether it was told so a moment ago."""
        ...

    async def renew(self, place: int) -> None:
        """Wait until it is; the map may be another one then. Raises `Unavailable` when the store cannot be reached."""
        ...
