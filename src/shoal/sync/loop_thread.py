"""An event loop in a thread of its own, for callers without `await`.

Any number of threads may call, whether a loop runs in them or not. A call that is interrupted (Ctrl-C, a signal handler that
raises) is cancelled in the loop as well. Calls after the end, and in a process that was forked from the one that opened, raise
`RuntimeError`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401  # before `_end_all` is registered
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator
from concurrent.futures import CancelledError, Future, wait
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, TypeVar
from weakref import WeakSet

import uvloop

T = TypeVar("T")

_GRACE_SECONDS = 10.0
"""How long the end waits for calls of other threads."""
CLOSED = "this Shoal is closed"
_FORKED = "this Shoal was opened before the process was forked: open one in each process"


class LoopThread:
    """A loop that runs as long as something is open in it."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = uvloop.new_event_loop()
        self._thread: threading.Thread | None = None
        self._holding: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._left: Future[None] = Future()
        self._lock = threading.Lock()
        """Held where something is handed to the loop, so that nothing is once it has ended."""
        self._ended = False
        self._calls: set[Future[Any]] = set()

    def open(self, context: AbstractAsyncContextManager[T]) -> T:
        """Begin: open the context in the new thread, where it stays open until the end. Raises as the context does."""
        entered: Future[T] = Future()
        self._thread = threading.Thread(target=self._run, args=(context, entered), name="shoal-loop", daemon=True)
        self._thread.start()
        try:
            opened = entered.result()
        except BaseException:
            with self._lock:
                if not self._ended:
                    self._ended = True
                    self._loop.call_soon_threadsafe(self._give_up)
            self._thread.join()
            raise
        _open.add(self)
        return opened

    def call(self, call: Coroutine[Any, Any, T]) -> T:
        """Return what the coroutine returns, or raise what it raises."""
        future = self._submit(call, waited_for=True)
        try:
            return future.result()
        except CancelledError:
            raise RuntimeError(CLOSED) from None
        except BaseException:
            future.cancel()
            raise

    def each(self, stream: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """Yield what the stream yields, a step at a time. It is closed with this generator, and ends with the loop."""
        asked: asyncio.Queue[Future[T]] = asyncio.Queue()
        driver = self._submit(_drive(stream, asked), waited_for=False)
        try:
            while self._ask(asked, reply := Future[T]()):
                yield reply.result()
        except CancelledError:
            return
        finally:
            # The garbage collector may close it, in any thread: nothing is waited for.
            driver.cancel()

    def end(self) -> None:
        """Let calls under way end, close what is open, and stop. A second time, or in a forked process, do nothing."""
        if self._thread is None or os.getpid() != self._process:
            return
        with self._lock:
            first, self._ended = not self._ended, True
        if first:
            wait(self._calls.copy(), _GRACE_SECONDS)
            self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        _open.discard(self)
        if first:
            self._left.result()

    def _run(self, context: AbstractAsyncContextManager[T], entered: Future[T]) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._hold(context, entered))
            self._left.set_result(None)
        except BaseException as error:  # noqa: BLE001  # it is raised in the thread that opens, or in the one that closes
            (self._left if entered.done() else entered).set_exception(error)

    async def _hold(self, context: AbstractAsyncContextManager[T], entered: Future[T]) -> None:
        self._holding = asyncio.current_task()
        try:
            async with context as opened:
                entered.set_result(opened)
                await self._ending.wait()
                for call in self._calls.copy():
                    call.cancel()
        finally:
            with self._lock:
                self._ended = True

    def _give_up(self) -> None:
        self._ending.set()
        if self._holding is not None:
            self._holding.cancel()

    def _submit(self, call: Coroutine[Any, Any, T], *, waited_for: bool) -> Future[T]:
        try:
            self._check_process()
            with self._lock:
                self._check_open()
                future = asyncio.run_coroutine_threadsafe(call, self._loop)
                if waited_for:
                    self._calls.add(future)
        except RuntimeError:
            call.close()
            raise
        future.add_done_callback(self._calls.discard)
        return future

    def _ask(self, asked: asyncio.Queue[Future[T]], reply: Future[T]) -> bool:
        """Ask the driver of a stream for its next step; False where the loop has ended."""
        self._check_process()
        with self._lock:
            if not self._ended:
                self._loop.call_soon_threadsafe(asked.put_nowait, reply)
            return not self._ended

    def _check_open(self) -> None:
        if self._ended:
            raise RuntimeError(CLOSED)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(_FORKED)


async def _drive(stream: AsyncGenerator[T, None], asked: asyncio.Queue[Future[T]]) -> None:
    """Step through a stream in one task, as its context is bound to one; a reply that is cancelled says that it is over."""
    reply: Future[T] = Future()
    try:
        async with aclosing(stream):
            while True:
                reply = await asked.get()
                reply.set_result(await anext(stream))
    except StopAsyncIteration:
        reply.cancel()
    except Exception as error:  # noqa: BLE001  # it is raised in the thread that asked
        reply.set_exception(error)
    finally:
        reply.cancel()
        while not asked.empty():
            asked.get_nowait().cancel()


def _end_all() -> None:
    for loop in list(_open):
        loop.end()


_open: WeakSet[LoopThread] = WeakSet()
# Executors, of which a network has several, refuse work by the time that `atexit` begins. What is registered here is called
# before they do. Where Python has it no more, a process ends without closing, which loses nothing that was acknowledged.
getattr(threading, "_register_atexit", lambda _: None)(_end_all)
