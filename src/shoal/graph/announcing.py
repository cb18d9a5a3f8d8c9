"""Announcing a change before it is handed to a store.

A caller in another process asks for a call to be made here. If this process is killed, the caller must know whether the call can be
repeated: it can, as long as it has not begun to change the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

Announce = Callable[[], Awaitable[None]]

announcing: ContextVar[Announce | None] = ContextVar("announcing", default=None)
"""Awaited before each change that this context makes. When it raises, the change is not made."""


async def announce() -> None:
    """Announce a change to the caller, if one wants to know. Raises `Unavailable` where it could not be announced."""
    tell = announcing.get()
    if tell is not None:
        await tell()
