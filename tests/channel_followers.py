"""Helpers that publish to a channel and follow it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from itertools import islice

from shoal.streaming.contract import Channel, ChannelMessage, Position


async def told(channel: Channel, after: Position, count: int) -> list[ChannelMessage]:
    """Return the next `count` messages after a position. Raises as `follow` does."""
    found: list[ChannelMessage] = []
    try:
        async with asyncio.timeout(60), aclosing(channel.follow(after)) as messages:
            while len(found) < count:
                found.append(await anext(messages))
    except TimeoutError:
        raise AssertionError(f"{len(found)} of {count} messages arrived: {found[-5:]}") from None
    return found


async def publish(channel: Channel, messages: Iterable[str]) -> None:
    """Publish messages in order, up to 300 concurrently."""
    left = iter(messages)
    while some := list(islice(left, 300)):
        await asyncio.gather(*(channel.publish(message.encode()) for message in some))


class Follower:
    """A follower of a channel that stores its messages; `error` is the exception that ended it."""

    def __init__(self, channel: Channel, after: Position) -> None:
        self.channel = channel
        self.told: list[str] = []
        self.at = after
        self.error: Exception | None = None

    async def run(self) -> None:
        try:
            async with aclosing(self.channel.follow(self.at)) as messages:
                async for self.at, message in messages:
                    self.told.append(message.decode())
        except Exception as error:  # noqa: BLE001  # checked by the test
            self.error = error

    async def count(self) -> int:
        return len(self.told)

    async def ended(self) -> bool:
        return self.error is not None


@asynccontextmanager
async def following(channel: Channel, after: Position) -> AsyncIterator[Follower]:
    """Follow a channel until the block ends."""
    follower = Follower(channel, after)
    task = asyncio.create_task(follower.run())
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
