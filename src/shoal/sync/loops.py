"""Event loops in background threads, for callers without `await`.

Any number of threads may call, whether an event loop runs in them or not. Interrupting a call (Ctrl-C, a signal handler that
raises) also cancels it in the loop. Calls to a closed loop raise `RuntimeError`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401  # registers its exit callback before `_end_all`
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import CancelledError, Future, wait
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, TypeVar
from weakref import WeakSet

import uvloop

T = TypeVar("T")

_GRACE_SECONDS = 10.0
"""Seconds that `end` waits for calls of other threads."""
_CLOSED = "this Shoal is closed"
_FORKED = "this Shoal was opened before the process was forked: open one in each process"


class LoopThread:
    """An event loop in a background thread, and a context manager that is open in it as long as it runs.

    The thread belongs to the process that created it: calls in a forked process raise `RuntimeError`.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = uvloop.new_event_loop()
        self._thread: threading.Thread | None = None
        self._holding: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._left: Future[None] = Future()
        self._lock = threading.Lock()
        """Guards submissions, so that no call is submitted to a loop that has ended."""
        self._ended = False
        self._calls: set[Future[Any]] = set()

    def open(self, context: AbstractAsyncContextManager[T]) -> T:
        """Start the thread, and keep the context manager open in it until `end`. Raise the error if it cannot be entered."""
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
        """Run the coroutine in the thread, and return its result or raise its exception."""
        future = self._submit(call, waited_for=True)
        try:
            return future.result()
        except CancelledError:
            raise RuntimeError(_CLOSED) from None
        except BaseException:
            future.cancel()
            raise

    def each(self, stream: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """Yield the items of the stream, each computed when it is requested."""
        asked: asyncio.Queue[Future[T]] = asyncio.Queue()
        driver = self._submit(_drive(stream, asked), waited_for=False)
        try:
            while self._ask(asked, reply := Future[T]()):
                yield reply.result()
        except CancelledError:
            return
        finally:
            # Do not wait for the driver to end: the garbage collector may close this generator in any thread.
            driver.cancel()

    def end(self) -> None:
        """Wait for running calls, exit the context manager and stop. Do nothing if called again or in a forked process."""
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
        except BaseException as error:  # noqa: BLE001  # raised again in `open` or `end`
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
        """Request the next item of a stream, which becomes the result of `reply`. Return False if the loop has ended."""
        self._check_process()
        with self._lock:
            if not self._ended:
                self._loop.call_soon_threadsafe(asked.put_nowait, reply)
            return not self._ended

    def _check_open(self) -> None:
        if self._ended:
            raise RuntimeError(_CLOSED)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(_FORKED)


class LoopPerProcess(LoopThread):
    """One `LoopThread` per process, started by the first call in each process.

    A server may therefore open a network and fork its workers afterwards (gunicorn with `--preload`).
    """

    def __init__(self, opening: Callable[[], AbstractAsyncContextManager[object]]) -> None:
        self._opening = opening
        self._closed = False
        self._current: LoopThread | None = None
        self._lock = threading.Lock()
        _per_process.add(self)

    def call(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            loop = self._here()
        except BaseException:
            call.close()
            raise
        return loop.call(call)

    def each(self, stream: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        return (yield from self._here().each(stream))

    def end(self) -> None:
        """End the loop of this process. Do nothing if called again."""
        with self._lock:
            self._closed, current = True, self._current
        if current is not None:
            current.end()

    def _here(self) -> LoopThread:
        with self._lock:
            if self._closed:
                raise RuntimeError(_CLOSED)
            if self._current is None:
                loop = LoopThread()
                loop.open(self._opening())
                self._current = loop
            return self._current

    def _forked(self) -> None:
        self._lock = threading.Lock()
        if self._current is not None:
            # Keep the loop from being garbage collected, because its thread belongs to the parent process.
            _left_to_parent.append(self._current)
            self._current = None


async def _drive(stream: AsyncGenerator[T, None], asked: asyncio.Queue[Future[T]]) -> None:
    """Compute the items of a stream in a single task, so that its context variables are kept.

    Each future in `asked` requests an item, and gets it as its result. After the last item, the next future is cancelled.
    """
    reply: Future[T] = Future()
    try:
        async with aclosing(stream):
            while True:
                reply = await asked.get()
                reply.set_result(await anext(stream))
    except StopAsyncIteration:
        reply.cancel()
    except Exception as error:  # noqa: BLE001  # raised again in the thread that requested it
        reply.set_exception(error)
    finally:
        reply.cancel()
        while not asked.empty():
            asked.get_nowait().cancel()


def _end_all() -> None:
    for loop in list(_open):
        loop.end()


def _after_fork() -> None:
    for loop in list(_per_process):
        loop._forked()


_open: WeakSet[LoopThread] = WeakSet()
_per_process: WeakSet[LoopPerProcess] = WeakSet()
_left_to_parent: list[LoopThread] = []
os.register_at_fork(after_in_child=_after_fork)
# Executors, of which a network has several, refuse work before `atexit` handlers run; `_register_atexit` callbacks run earlier.
# A Python without this private function exits without closing the network, which loses no acknowledged write.
getattr(threading, "_register_atexit", lambda _: None)(_end_all)
