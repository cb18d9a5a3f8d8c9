"""Cached answers that may be a minute old and are shared between requests: what is made of them is not remembered for longer.

A question whose answer is made of them may be compared instead (`read_sets.compared`): it is put again, and finds a new one here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from shoal.graph.cache.dependencies import not_noted

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class Remembered(Generic[Key, Answer]):
    """The latest answers, limited in number and age. Moments are Unix milliseconds by the caller's clock."""

    def __init__(self, most: int = 2_000, keep_ms: int = 60_000) -> None:
        self._most = most
        self._keep_ms = keep_ms
        self._held: dict[Key, tuple[int, Answer]] = {}

    def get(self, key: Key, now: int) -> Answer | None:
        """Return the remembered answer; None when it is missing or too old."""
        not_noted()
        held = self._held.get(key)
        return held[1] if held is not None and abs(now - held[0]) < self._keep_ms else None

    def put(self, key: Key, answer: Answer, now: int) -> None:
        """Remember an answer; the oldest ones make room."""
        self._held.pop(key, None)
        self._held[key] = (now, answer)
        while len(self._held) > self._most:
            del self._held[next(iter(self._held))]


class Renewed(Generic[Answer]):
    """An answer that is the same for everybody, and is made anew once a minute, once for all who ask meanwhile.

    What is being made is finished even if nobody waits for it any more. Moments are Unix milliseconds by the caller's clock.
    """

    def __init__(self, keep_ms: int = 60_000, most_ms: int = 600_000) -> None:
        self._keep_ms = keep_ms
        self._most_ms = most_ms
        self._held: tuple[int, Answer] | None = None
        self._making: asyncio.Task[Answer] | None = None

    async def get(self, now: int, make: Callable[[], Coroutine[Any, Any, Answer]], *, outdated: bool = False) -> Answer:
        """Return the answer, at most a minute old, and raise what making it raises.

        With `outdated`, nobody waits for a new one where there is one of the last ten minutes.
        """
        not_noted()
        held = self._held
        age = abs(now - held[0]) if held is not None else self._most_ms
        if held is not None and age < self._keep_ms:
            return held[1]
        if self._making is None:
            self._making = asyncio.create_task(self._made(now, make))
            self._making.add_done_callback(self._is_made)
        if held is not None and outdated and age < self._most_ms:
            return held[1]
        return await asyncio.shield(self._making)

    def keep(self, answer: Answer, now: int) -> None:
        """Keep an answer that was made now."""
        self._held = (now, answer)

    async def _made(self, now: int, make: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        answer = await make()
        self.keep(answer, now)
        return answer

    def _is_made(self, done: asyncio.Task[Answer]) -> None:
        self._making = None
        if not done.cancelled():
            # Whoever waits for it meets the error too; here nobody may be waiting any more.
            done.exception()
