"""Helpers for tests in which several members act."""

from __future__ import annotations

from collections.abc import Sequence

from shoal import Handle, Shoal
from shoal.queries.hydration import Entry
from shoal.queries.pipeline import Page


async def register(shoal: Shoal, *names: str) -> list[Handle]:
    """Register members without passwords."""
    return [await shoal.register(name) for name in names]


def texts(found: Page | Sequence[Entry]) -> list[str]:
    """Return the texts of the posts, in order. The text of a shared post begins with `>`."""
    entries = found.entries if isinstance(found, Page) else found
    return [("> " if entry.share else "") + entry.post.text for entry in entries]


async def home_texts(handle: Handle, limit: int = 50) -> list[str]:
    """Return the texts of a member's whole home timeline, read in pages."""
    found: list[str] = []
    page = await handle.home(limit=limit)
    found += texts(page)
    while page.next is not None:
        page = await handle.home(before=page.next, limit=limit)
        found += texts(page)
    return found


async def connected(shoal: Shoal) -> int:
    """Return the number of open home streams and other streams of live updates."""
    return shoal.network.hub.connected
