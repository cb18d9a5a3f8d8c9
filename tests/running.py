"""Running what is asynchronous from an ordinary test."""

from __future__ import annotations

import asyncio
import functools
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


def run(main: Coroutine[Any, Any, T], loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    """Run it to its end in a loop of its own, made by `loop`. What the loop would only log fails the test."""
    complaints: list[str] = []

    async def watched() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(str(context)))
        return await main

    with asyncio.Runner(loop_factory=loop) as runner:
        answer = runner.run(watched())
    assert not complaints
    return answer


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """An asynchronous test as an ordinary one."""

    @functools.wraps(test)
    def ordinary(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return ordinary


class TurnClock(asyncio.SelectorEventLoop):
    """A loop whose clock goes by its turns, so that nothing depends on how fast the machine is: a wait ends after so many
    turns, or at once when nobody else has anything to do."""

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


async def eventually(question: Callable[[], Awaitable[T]], answer: T, seconds: float = 60.0) -> None:
    """Ask until the answer is this one: for what is promised, but not at once."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while (given := await question()) != answer:
        assert loop.time() < deadline, f"{given!r} is still not {answer!r}"
        await asyncio.sleep(0.005)


def at_a_desk() -> None:
    """In a child, before it starts: Ctrl-C reaches it. In the background of a shell it is ignored, and that is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
