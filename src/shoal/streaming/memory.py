"""A channel for one process: a list. It is the reference for the others."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator

from shoal.streaming.contract import Gap, Position, Told

_PAGE = 500


class MemoryChannel:
    """Keeps `length` messages, up to a quarter more before it is cut."""

    def __init__(self, length: int = 10_000) -> None:
        self._length = length
        self._name = secrets.token_hex(8)
        self._kept: list[bytes] = []
        self._cut = 0
        """How many messages are gone: the number of the first one that is kept."""
        self._more = asyncio.Event()

    async def publish(self, message: bytes) -> None:
        self._kept.append(message)
        if len(self._kept) > self._length + self._length // 4:
            over = len(self._kept) - self._length
            del self._kept[:over]
            self._cut += over
        self._more.set()
        self._more = asyncio.Event()

    async def end(self, back: int = 0) -> Position:
        return self._position(self._cut + max(0, len(self._kept) - back))

    def reached(self, mark: Position, at: Position) -> bool:
        return 0 <= self._number(mark) <= self._number(at)

    async def follow(self, after: Position) -> AsyncGenerator[Told, None]:
        at = self._number(after)
        while True:
            if not self._cut <= at <= self._cut + len(self._kept):
                raise Gap("what was told meanwhile is no longer all there")
            page = self._kept[at - self._cut :][:_PAGE]
            for message in page:
                at += 1
                yield Told(self._position(at), message)
            # Others have a turn in any case: the log may be long.
            await (asyncio.sleep(0) if page else self._more.wait())

    def _position(self, number: int) -> Position:
        return Position(f"{self._name}-{number}")

    def _number(self, position: Position) -> int:
        name, _, number = position.rpartition("-")
        return int(number) if name == self._name and number.isdecimal() else -1

    async def close(self) -> None:
        """Nothing is under way."""
