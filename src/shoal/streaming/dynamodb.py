"""A channel on DynamoDB, in the table of the home timelines: one item with the number of the newest message, and the messages.

A transaction increments the number and adds an item with the messages that one process published together, so numbers are
consecutive, and a missing message is detected. Followers poll the number. Messages expire.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from typing import NamedTuple

from shoal.graph.dynamodb.client import Backoff, ConditionFailed, Service, TransactionOvertaken
from shoal.graph.dynamodb.grouping import Grouping
from shoal.graph.dynamodb.items import Item, ItemKey, attribute, digits, item_of, typed
from shoal.graph.dynamodb.transactions import ABSENT, still
from shoal.streaming.contract import ChannelMessage, Gap, Position

_LOG = ItemKey("channel", "log")
_AT_ONCE = 100
"""Maximum number of messages in an item."""
_PAGE = 100
_LIFE_SECONDS = 3_600
_POLL_SECONDS = 1.0
_POSITION = re.compile(r"([0-9a-f]{16})-(\d{1,15})", re.ASCII)


class _Log(NamedTuple):
    name: str
    newest: int


class DynamoChannel:
    """An update log in DynamoDB that keeps `length` messages for an hour. Other processes poll it every `poll_seconds`."""

    def __init__(
        self,
        service: Service,
        length: int = 10_000,
        *,
        poll_seconds: float = _POLL_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._service = service
        self._length = length
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._published = asyncio.Event()
        self._publishing = Grouping("channel.publish", self._publish)

    async def publish(self, message: bytes) -> None:
        await self._publishing.ask(message)

    async def _publish(self, messages: list[bytes]) -> list[None]:
        for first in range(0, len(messages), _AT_ONCE):
            await self._append(messages[first : first + _AT_ONCE])
        self._published.set()
        self._published = asyncio.Event()
        return [None] * len(messages)

    async def _append(self, messages: list[bytes]) -> None:
        patience = Backoff(self._service.patience)
        while True:
            log = await self._log()
            newest = log.newest + len(messages)
            item = item_of(_at(newest), {"first": log.newest + 1, "until": int(self._clock()) + _LIFE_SECONDS})
            counted = item_of(_LOG, {"log": log.name, "newest": newest})
            unchanged = still(log=log.name, newest=log.newest).parameters()
            table = self._service.table
            try:
                await self._service.transact(
                    [
                        {"Put": {"TableName": table, "Item": counted, **unchanged}},
                        {
                            "Put": {
                                "TableName": table,
                                "Item": {**item, "messages": {"L": [attribute(message) for message in messages]}},
                            }
                        },
                    ]
                )
            except TransactionOvertaken as error:
                await patience.pause(error)
            else:
                return

    async def _log(self) -> _Log:
        while True:
            for item in await self._service.get([_LOG]):
                return _Log(typed(item, "log"), typed(item, "newest"))
            new = item_of(_LOG, {"log": secrets.token_hex(8), "newest": 0})
            try:
                await self._service.write("put_item", Item=new, **ABSENT.parameters())
            except ConditionFailed:
                # Another process has used this number first, so try again.
                continue

    async def end(self, back: int = 0) -> Position:
        log = await self._log()
        at, limit = max(0, log.newest - min(back, self._length)), 1
        while at < log.newest:
            # Usually the first message exists. If it has expired, look for the first existing one in large pages.
            items = await self._service.stretch(_at(at + 1), _at(log.newest), limit)
            for item in items:
                if self._exists(item):
                    return _position(log.name, max(at, typed(item, "first") - 1))
                at = typed(item, "first") + len(item["messages"]["L"]) - 1
            if len(items) < limit:
                at = log.newest
            limit = _PAGE
        return _position(log.name, log.newest)

    def _exists(self, item: Item) -> bool:
        """Return whether the messages in an item have not expired. DynamoDB deletes expired items much later."""
        return bool(typed(item, "until") > self._clock())

    def reached(self, mark: Position, at: Position) -> bool:
        marked, reached = _POSITION.fullmatch(mark), _POSITION.fullmatch(at)
        return bool(marked and reached and marked[1] == reached[1] and int(marked[2]) <= int(reached[2]))

    async def follow(self, after: Position) -> AsyncGenerator[ChannelMessage, None]:
        if (found := _POSITION.fullmatch(after)) is None:
            raise _gap()
        name, at = found[1], int(found[2])
        while True:
            published = self._published
            log = await self._log()
            if log.name != name or not 0 <= log.newest - at <= self._length:
                raise _gap()
            if log.newest == at:
                await self._wait(published)
                continue
            items = await self._service.stretch(_at(at + 1), _at(log.newest), _PAGE)
            if not items:
                raise _gap()
            for item in items:
                # A message may expire before an earlier one, because the clocks of publishers differ.
                if typed(item, "first") > at + 1 or not self._exists(item):
                    raise _gap()
                for number, message in enumerate(item["messages"]["L"], typed(item, "first")):
                    if number > at:
                        at = number
                        yield ChannelMessage(_position(name, at), message["B"])

    async def _wait(self, published: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(self._poll_seconds):
                await published.wait()
        except TimeoutError:
            return

    async def close(self) -> None:
        await self._publishing.close()


def _at(number: int) -> ItemKey:
    return ItemKey("channel", f"message#{digits(number)}")


def _position(name: str, number: int) -> Position:
    return Position(f"{name}-{number}")


def _gap() -> Gap:
    return Gap("some messages after this position have expired")
