"""A loop in each process that calls, for a network that several processes share.

It begins with the first call, so a server may open the network and fork its workers later (gunicorn with `--preload`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar
from weakref import WeakSet

from shoal.sync.loop_thread import CLOSED, LoopThread

T = TypeVar("T")


class LoopPerProcess(LoopThread):
    """Calls go to the loop of this process, which opens the context when it begins."""

    def __init__(self, opening: Callable[[], AbstractAsyncContextManager[object]]) -> None:
        self._opening = opening
        self._closed = False
        self._begun: LoopThread | None = None
        self._lock = threading.Lock()
        _all.add(self)

    def call(self, call: Coroutine[Any, Any, T]) -> T:
        """Return what the coroutine returns, or raise what it raises."""
        try:
            loop = self._here()
        except BaseException:
            call.close()
            raise
        return loop.call(call)

    def each(self, stream: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """Yield what the stream yields, as `LoopThread.each`."""
        return (yield from self._here().each(stream))

    def end(self) -> None:
        """End the loop of this process. A second time, do nothing."""
        with self._lock:
            self._closed, begun = True, self._begun
        if begun is not None:
            begun.end()

    def _here(self) -> LoopThread:
        with self._lock:
            if self._closed:
                raise RuntimeError(CLOSED)
            if self._begun is None:
                loop = LoopThread()
                loop.open(self._opening())
                self._begun = loop
            return self._begun

    def _forked(self) -> None:
        self._lock = threading.Lock()
        if self._begun is not None:
            # It must not be collected: its thread is in the other process.
            _left_to_parent.append(self._begun)
            self._begun = None


_all: WeakSet[LoopPerProcess] = WeakSet()
_left_to_parent: list[LoopThread] = []


def _after_fork() -> None:
    for loop in list(_all):
        loop._forked()


os.register_at_fork(after_in_child=_after_fork)
