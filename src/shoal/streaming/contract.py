"""The contract of a channel, one bounded log of messages that every process of a network appends to and follows, and the
in-process reference implementation.

Messages have one order, the same for every follower, and each follower receives each message once. The log keeps the newest
`length` messages or slightly more. A follower gets `Gap` if it falls farther behind, or if the log may have lost messages: it was
emptied, it started again, or another server took over without the last messages. A channel is a cache: on `Gap`, a process tells
its viewers to read their timelines again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from typing import NamedTuple, NewType, Protocol

from shoal.core.errors import ShoalError

Position = NewType("Position", str)
"""A place in a log between two messages, or at an end. Letters, digits and dashes, so it can be the `id:` of a server-sent
event. It is good for its own log alone: one of another history, or made up, is answered with `Gap`."""


class Gap(ShoalError):
    """Messages after a position have been lost. The follower starts afresh, from the end."""


class Told(NamedTuple):
    """A message, and the position just after it."""

    position: Position
    message: bytes


class Channel(Protocol):
    """One log."""

    async def publish(self, message: bytes) -> None:
        """Append a message. What is published in one turn of the event loop travels together, in its order.

        Raises `Unavailable` when the log cannot be reached; publish again then. It may have been appended all the same: so,
        and only so, a message can be there twice.
        """
        ...

    async def end(self, back: int = 0) -> Position:
        """The position after the newest message; or `back` messages before it, or as far back as the log goes.

        A follower from the end is told everything whose publishing begins from now on. Raises `Unavailable`.
        """
        ...

    def reached(self, mark: Position, at: Position) -> bool:
        """Whether `at` is the position `mark` or one after it. False when they are not of the same log."""
        ...

    def follow(self, after: Position) -> AsyncGenerator[Told, None]:
        """Everything after a position, then everything that comes, without end; many may follow at once, none waits for another.
        Close it (`aclosing`) when enough was told.

        Raises `Gap`, and `Unavailable` when the log cannot be reached: the position of the last message told is still good then.
        """
        ...

    async def close(self) -> None:
        """Finish what is being published."""
        ...


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
