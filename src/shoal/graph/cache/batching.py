"""Calls that are made in one turn of the event loop travel together.

Whoever asks at the same moment shares a round trip; who asks alone waits for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from shoal.tracing.record import for_many, timed

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batching(Generic[Item, Answer]):
    """`act` is given everything that was asked for in a turn, and answers in the same order; its failure is everybody's.

    It asks Redis: the record of each caller notes its wait for the shared round trip, under this name.
    """

    def __init__(self, name: str, act: Callable[[list[Item]], Awaitable[list[Answer]]]) -> None:
        self._name = name
        self._act = act
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def ask(self, item: Item) -> Answer:
        """The answer to one item. What was asked is done even when the caller is cancelled."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._leave)
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((item, answer))
        return await timed("redis", self._name, answer)

    def _leave(self) -> None:
        together, self._waiting = self._waiting, []
        with for_many():
            task = asyncio.ensure_future(self._travel(together))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _travel(self, together: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._act([item for item, _ in together])
        except Exception as error:  # noqa: BLE001  # raised again at whoever asked
            for _, answer in together:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, answer), found in zip(together, answers, strict=True):
            if not answer.done():
                answer.set_result(found)

    async def close(self) -> None:
        """Wait until everything that was asked for is answered."""
        while self._waiting or self._under_way:
            await asyncio.sleep(0)
            await asyncio.gather(*self._under_way)
