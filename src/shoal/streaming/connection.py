"""One viewer who is connected: what they hear of, and what they are to be told next."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from shoal.streaming.contract import Position
from shoal.streaming.interests import Interest
from shoal.streaming.replay import PlacedUpdate


class Missed(NamedTuple):
    """Something may have been missed up to this position."""

    position: Position


class Connection:
    """At most `room` updates wait for the viewer. One who is slower than that is told so, once, instead of them."""

    def __init__(self, viewer: int, interest: Interest, room: int, since: int, session: int = 0) -> None:
        self.viewer = viewer
        self.interest = interest
        self.since = since
        """The number of the first update that they are to be told of, if it concerns them."""
        self.session = session
        """The id of the token that they came with; 0 for none."""
        self.sources: set[int] = set()
        """Whom and what they hear of."""
        self.loaded = False
        """Whether that is known yet."""
        self.loading = asyncio.Lock()
        self.ended = False
        self.dismissed = False
        """Whether it ended because the viewer may not listen any more."""
        self._room = room
        self._waiting: deque[PlacedUpdate] = deque()
        self._missed: Missed | None = None
        self._wake = asyncio.Event()

    def offer(self, heard: PlacedUpdate) -> None:
        """The viewer is to be told."""
        if len(self._waiting) >= self._room:
            self.miss(heard.position)
        elif not self.dismissed:
            self._waiting.append(heard)
            self._wake.set()

    def miss(self, position: Position) -> None:
        """Drop what waits: the viewer has to look again, and is told what comes after this position."""
        self._waiting.clear()
        self._missed = Missed(position)
        self._wake.set()

    async def take(self) -> list[PlacedUpdate | Missed]:
        """All that waits, as soon as there is something; nothing when there will be no more."""
        await self._wake.wait()
        if not self.ended:
            self._wake.clear()
        found: list[PlacedUpdate | Missed] = (
            [*self._waiting] if self._missed is None else [self._missed, *self._waiting]
        )
        self._waiting.clear()
        self._missed = None
        return found

    def end(self) -> None:
        """Nothing comes any more after what waits."""
        self.ended = True
        self._wake.set()

    def dismiss(self) -> None:
        """Nothing comes any more, not even what waits: the viewer may not listen."""
        self.dismissed = True
        self._waiting.clear()
        self._missed = None
        self.end()
