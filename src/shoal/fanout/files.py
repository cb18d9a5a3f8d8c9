"""Delete files that nothing has any more. A key is used only once, so nothing else can have them by now."""

from __future__ import annotations

from shoal.core.events import FilesReleased
from shoal.fanout.effects import Effects


async def remove(effects: Effects, event: FilesReleased, mark: int) -> int | None:
    """Delete the files; those that are gone already are passed over."""
    await effects.workshop.library.remove(event.keys)
    return None
