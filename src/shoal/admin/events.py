"""Operations that read the event log and the state that it describes, for the command line."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Literal

import msgspec

from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.report import Progress
from shoal.queries.events import FULL, POLL_SECONDS, PUBLIC, Access, EventReader


class EventLines(msgspec.Struct):
    """Events in JSON, and the position after them."""

    lines: list[bytes]
    position: str
    more: bool


def access_named(name: str) -> Access:
    return {"full": FULL, "private": Access(private=True), "public": PUBLIC}[name]


class ReadEvents(Operation[EventLines]):
    """Read a page of events, and wait for one for about `wait` seconds. `source` is the root URL of the network."""

    source: str
    after: str
    types: str
    wait: int = 0
    limit: int = 10
    """Few events, because an answer of the control socket has at most 1 MiB, and the data of a post 64 KiB."""
    access: Literal["full", "private", "public"] = "full"

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> EventLines:
        remaining = self.wait

        async def pause() -> bool:
            nonlocal remaining
            remaining -= 1
            if remaining >= 0:
                await asyncio.sleep(POLL_SECONDS)
            return remaining >= 0

        reader = EventReader(network.store, self.source)
        async with aclosing(
            reader.pages(self.after, self.types, access_named(self.access), self.limit, pause)
        ) as pages:
            async for page in pages:
                if page.events or page.more:
                    break
        lines = [msgspec.json.encode(event) for event in page.positioned()]
        return EventLines(lines, page.position, page.more)


class StateLines(msgspec.Struct):
    """A part of the current state as events in JSON, and the place after them; None at the end."""

    lines: list[bytes]
    next: str | None


class ReadState(Operation[StateLines]):
    """Read a page of the current state as events, of the network or of one member."""

    source: str
    after: str
    access: Literal["private", "public"]
    member_id: int = 0
    limit: int = 10

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> StateLines:
        reader = EventReader(network.store, self.source)
        page = await reader.state(self.after, access_named(self.access), self.limit, self.member_id)
        return StateLines([msgspec.json.encode(event) for event in page.events], page.next)
