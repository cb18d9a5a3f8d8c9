"""The contract of a channel: one bounded log of messages, which every process of a network appends to and follows.

Messages have one order, the same for every follower, and each follower gets all of them, once. The log keeps the newest
`length` messages or a few more; whoever falls farther behind, or follows a log that has lost something since - it was
emptied, began again, or another server took over that may lack the last of it - gets `Gap`, never less than there was.
A channel is a cache: a process that gets `Gap` tells its viewers to look again.
"""

from __future__ import annotations

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
