"""The contract of a channel and its in-memory reference implementation.

A channel is one bounded log of messages. Every process of a network appends to it, and reads it as a *follower*. Messages have one
order for all followers, and each follower receives each message once. The log keeps the newest `length` messages or slightly more.
A follower gets `Gap` if it falls farther behind, or if the log may have lost messages: it was emptied, it started again, or another
server took over without the last messages. A channel is a cache: on `Gap`, a process makes its viewers read their timelines again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from typing import NamedTuple, NewType, Protocol

from shoal.core.errors import ShoalError

Position = NewType("Position", str)
"""A position in a log between two messages, or at an end. It consists of letters, digits and dashes, so it can be the `id:` of a
server-sent event. A position of another log, or an invalid one, results in `Gap`.
"""


class Gap(ShoalError):
    """Messages after a position were lost. A caller that follows the log must start again from its end."""


class ChannelMessage(NamedTuple):
    position: Position
    message: bytes


class Channel(Protocol):
    async def publish(self, message: bytes) -> None:
        """Append a message. Messages published in one iteration of the event loop are sent together, in order.

        Raises `Unavailable` if the log cannot be reached; then publish again. The message may have been appended nevertheless:
        only in this case can it be in the log twice.
        """
        ...

    async def end(self, back: int = 0) -> Position:
        """Return the position after the newest message, or the position up to `back` messages earlier. Raises `Unavailable`.

        A caller that follows the log from its end receives every message whose publishing starts after this call.
        """
        ...

    def reached(self, mark: Position, at: Position) -> bool:
        """Return whether the position `at` equals `mark` or is later. False if the two positions belong to different logs."""
        ...

    def follow(self, after: Position) -> AsyncGenerator[ChannelMessage, None]:
        """Yield all messages after a position, forever; close the iterator with `aclosing`.

        Any number of followers may read, independently of each other.
        Raises `Gap`, and `Unavailable` if the log cannot be reached. After `Unavailable`, a caller may follow the log
        from the last message.
        """
        ...

    async def close(self) -> None: ...


_PAGE = 500


class MemoryChannel:
    """An update log in memory that keeps `length` messages, and up to a quarter more before the oldest are removed."""

    def __init__(self, length: int = 10_000) -> None:
        self._length = length
        self._name = secrets.token_hex(8)
        self._messages: list[bytes] = []
        self._cut = 0
        """Number of removed messages, which is also the number of the first stored message."""
        self._more = asyncio.Event()

    async def publish(self, message: bytes) -> None:
        self._messages.append(message)
        if len(self._messages) > self._length + self._length // 4:
            over = len(self._messages) - self._length
            del self._messages[:over]
            self._cut += over
        self._more.set()
        self._more = asyncio.Event()

    async def end(self, back: int = 0) -> Position:
        return self._position(self._cut + max(0, len(self._messages) - back))

    def reached(self, mark: Position, at: Position) -> bool:
        return 0 <= self._number(mark) <= self._number(at)

    async def follow(self, after: Position) -> AsyncGenerator[ChannelMessage, None]:
        at = self._number(after)
        while True:
            if not self._cut <= at <= self._cut + len(self._messages):
                raise Gap("some messages after this position have expired")
            page = self._messages[at - self._cut :][:_PAGE]
            for message in page:
                at += 1
                yield ChannelMessage(self._position(at), message)
            # Yield to other tasks even if more messages follow, because the log may be long.
            await (asyncio.sleep(0) if page else self._more.wait())

    def _position(self, number: int) -> Position:
        return Position(f"{self._name}-{number}")

    def _number(self, position: Position) -> int:
        name, _, number = position.rpartition("-")
        return int(number) if name == self._name and number.isdecimal() else -1

    async def close(self) -> None:
        """Do nothing: there are no resources to release."""
