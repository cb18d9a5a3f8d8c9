"""Helpers to run asynchronous code in synchronous tests."""

from __future__ import annotations

import asyncio
import functools
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


def run(main: Coroutine[Any, Any, T], loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    """Run a coroutine in a new event loop, created by `loop`. Errors that the loop would only log fail the test."""
    complaints: list[str] = []

    async def watched() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(str(context)))
        return await main

    with asyncio.Runner(loop_factory=loop) as runner:
        answer = runner.run(watched())
    assert not complaints
    return answer


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Return a synchronous test that runs an asynchronous one."""

    @functools.wraps(test)
    def ordinary(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return ordinary


class TurnClock(asyncio.SelectorEventLoop):
    """An event loop whose clock counts its iterations, so that timing does not depend on the speed of the machine.

    A wait ends after a number of iterations, or at once if no other task is ready.
    """

    _TURN_SECONDS = 5e-5

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        selector = cast("Any", self)._selector
        look = selector.select

        def select(timeout: float | None = None) -> Any:
            self._now += max(timeout or 0.0, self._TURN_SECONDS)
            return look(timeout and 0.0)

        selector.select = select

    def time(self) -> float:
        return self._now


async def eventually(
    question: Callable[[], Awaitable[T]], answer: T, seconds: float = 60.0, pause: float = 0.005
) -> None:
    """Poll until the result of `question` is `answer`, for guarantees that hold with a delay.

    A `pause` of a second between questions saves the processor time of hundreds of questions while a lease expires.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while (given := await question()) != answer:
        assert loop.time() < deadline, f"got {given!r} after {seconds:g} s, expected {answer!r}"
        await asyncio.sleep(pause)


def at_a_desk() -> None:
    """Restore the default action of SIGINT. Call it in a child process, because background jobs of a shell inherit SIG_IGN."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
