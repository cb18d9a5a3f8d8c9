"""Grouping of concurrent requests: those that arrive while one is being served are served together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from shoal.core.errors import Unavailable
from shoal.graph.resolve import copied
from shoal.observability.tracing import for_many, timed

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Grouping(Generic[Item, Answer]):
    """Calls `act` with all items that arrived during its previous call. `act` returns a result or an error for each, in order.

    An error that `act` raises is raised for every caller. The trace of each caller records its wait under `name`.
    """

    def __init__(self, name: str, act: Callable[[list[Item]], Awaitable[Sequence[Answer | Unavailable]]]) -> None:
        self._name = name
        self._act = act
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._task: asyncio.Task[None] | None = None

    async def ask(self, item: Item) -> Answer:
        """Return the result for one item. The call is completed even if the caller is cancelled."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._task is None or self._task.done():
            with for_many():
                self._task = asyncio.create_task(self._run())
        return await timed("dynamodb", self._name, answer)

    async def _run(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            try:
                results = await self._act([item for item, _ in group])
            except Exception as error:  # noqa: BLE001  # raised again for each caller
                for _, answer in group:
                    if not answer.done():
                        answer.set_exception(copied(error) if isinstance(error, Unavailable) else error)
                continue
            for (_, answer), result in zip(group, results, strict=True):
                if answer.done():
                    continue
                if isinstance(result, Unavailable):
                    answer.set_exception(copied(result))
                else:
                    answer.set_result(result)

    async def close(self) -> None:
        if self._task is not None:
            await asyncio.wait((self._task,))
