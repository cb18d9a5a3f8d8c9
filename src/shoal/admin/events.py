"""An operation that reads the event log, for the command line."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec

from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.report import Progress
from shoal.queries.events import FULL, POLL_SECONDS, EventReader


class EventLines(msgspec.Struct):
    """Events in JSON, and the position after them."""

    lines: list[bytes]
    position: str
    more: bool


class ReadEvents(Operation[EventLines]):
    """Read a page of events, and wait for one for about `wait` seconds. `source` is the root URL of the network."""

    source: str
    after: str
    types: str
    wait: int = 0
    limit: int = 10
    """Few events, because an answer of the control socket has at most 1 MiB, and the data of a post 64 KiB."""

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> EventLines:
        remaining = self.wait

        async def pause() -> bool:
            nonlocal remaining
            remaining -= 1
            if remaining >= 0:
                await asyncio.sleep(POLL_SECONDS)
            return remaining >= 0

        reader = EventReader(network.store, self.source)
        async with aclosing(reader.pages(self.after, self.types, FULL, self.limit, pause)) as pages:
            async for page in pages:
                if page.events or page.more:
                    break
        lines = [msgspec.json.encode(event) for event in page.positioned()]
        return EventLines(lines, page.position, page.more)
