"""Sends letters beside the jobs that want them: few at a time, and none for a while after a mail server could not be reached."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine

from shoal.core.errors import NotYet, Unavailable
from shoal.mail.contract import Letter, Mailer, Undeliverable
from shoal.mail.letters import Stationery

_log = logging.getLogger("shoal.mail")

_AT_ONCE = 4
_SECONDS = 30.0
"""Seconds after which a letter is not under way any more but failed."""
_FIRST_REST, _LONGEST_REST = 5.0, 120.0


class Postman:
    """Takes at most `at_once` works, each of which writes and sends one letter."""

    def __init__(self, mailer: Mailer, stationery: Stationery, *, at_once: int = _AT_ONCE) -> None:
        self.stationery = stationery
        self._mailer = mailer
        self._at_once = at_once
        self._works: set[asyncio.Task[None]] = set()
        self._rest = 0.0
        self._rests_until = 0.0
        self.sent = 0
        """Letters that were handed over since the process began."""

    def begin(self, work: Callable[[], Coroutine[None, None, None]]) -> asyncio.Future[None]:
        """Begin a work; the future ends with it. Raises `NotYet` when all places are taken, or the server is left alone."""
        if len(self._works) >= self._at_once:
            raise NotYet("other letters come first")
        if time.monotonic() < self._rests_until:
            raise NotYet("the mail server could not be reached a moment ago")
        task = asyncio.create_task(self._guarded(work), name="shoal-mail")
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        return task

    async def deliver(self, letter: Letter) -> None:
        """Send a letter. What the server refuses for good is logged, and done with. Raises `Unavailable`."""
        try:
            await self._mailer.send(letter)
        except Undeliverable as error:
            _log.warning("a mail is not sent: %s", error)
        except Unavailable as error:
            self._rest = min(max(2 * self._rest, _FIRST_REST), _LONGEST_REST)
            self._rests_until = time.monotonic() + self._rest
            _log.warning("mail waits for %g s: %s", self._rest, error)
            # The job need not tell it again.
            raise NotYet(str(error)) from error
        else:
            self.sent += 1
        self._rest = self._rests_until = 0.0

    async def close(self) -> None:
        """Give up what is under way: it is sent when the process is back."""
        for task in (works := list(self._works)):
            task.cancel()
        await asyncio.gather(*works, return_exceptions=True)

    async def _guarded(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                await work()
        except TimeoutError as error:
            raise NotYet("the letter took too long") from error
