"""Files that nothing has any more are deleted. A key is used once, so nothing else can have come to have them since."""

from __future__ import annotations

from shoal.core.events import FilesReleased
from shoal.fanout.effects import Effects


async def remove(effects: Effects, event: FilesReleased, mark: int) -> int | None:
    """Delete them; those that are gone already are passed over."""
    await effects.workshop.library.remove(event.keys)
    return None
