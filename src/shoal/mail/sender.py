"""Sends letters beside the jobs that want them: few at a time, and none for a while after a mail server could not be reached."""

from __future__ import annotations

import asyncio
import logging

from shoal.backoff import Rests
from shoal.core.errors import NotYet, Unavailable
from shoal.locks import TurnLimits, Turns, Work
from shoal.mail.mailers import Letter, Mailer, NotNow, Undeliverable
from shoal.mail.messages import Stationery

_log = logging.getLogger("shoal.mail")

_LIMITS = TurnLimits(at_once=4, of_one=4, held=256, held_of_one=256, patience=10.0)
_SECONDS = 45.0
"""Seconds after which a letter is not under way any more but failed: with the wait for its turn less than the lease of its job."""
_REMEMBERED = 10_000
"""Letters that rest by themselves, at most."""
_SERVER = "server"
"""The name under which the mail server rests."""
_FIRST_REST, _LONGEST_REST = 5.0, 120.0


class Postman:
    """Does works, each of which writes and sends one letter: four at a time, and others wait their turn."""

    def __init__(self, mailer: Mailer, stationery: Stationery) -> None:
        self.stationery = stationery
        self._mailer = mailer
        self._turns = Turns(_LIMITS, "other letters come first")
        self._letters = Rests(_FIRST_REST, _LONGEST_REST, _REMEMBERED)
        self._server = Rests(_FIRST_REST, _LONGEST_REST, 1)
        self.sent = 0
        """Letters that were handed over since the process began."""
        self.refused = 0
        """Letters that the mail server refused for good since then."""
        self.put_off = 0
        """How often a letter had to wait since then: the mail server did not take it, or was not reached."""

    @property
    def under_way(self) -> int:
        """Letters that are being written or sent, or wait for their turn."""
        return len(self._turns)

    def begin(self, number: int, work: Work) -> asyncio.Future[None]:
        """Have the work of a letter done in its turn; the future ends with it.

        Raises `NotYet` when too many wait, when the server is left alone, or this letter is; the future does so too.
        """
        return self._turns.begin(_SERVER, lambda: self._check_rests(number), work)

    def _check_rests(self, number: int) -> None:
        if self._server.is_resting(_SERVER):
            raise NotYet("the mail server could not be reached a moment ago")
        if self._letters.is_resting(number):
            raise NotYet("the mail server did not take this letter a moment ago")

    async def deliver(self, number: int, letter: Letter) -> None:
        """Send a letter. What the server refuses for good is logged, and done with. Raises `NotYet`."""
        try:
            async with asyncio.timeout(_SECONDS):
                await self._mailer.send(letter)
        except Undeliverable as error:
            self.refused += 1
            _log.warning("a mail is not sent: %s", error)
        except NotNow as error:
            self._letters.lengthen(number)
            self.put_off += 1
            _log.warning("a mail waits: %s", error)
            raise NotYet(str(error)) from error
        except (Unavailable, TimeoutError) as error:
            self.put_off += 1
            seconds = self._server.lengthen(_SERVER)
            _log.warning("mail waits for %g s: %s", seconds, str(error) or "the mail server took too long")
            # The job need not tell it again.
            raise NotYet(str(error)) from error
        else:
            self.sent += 1
        self._letters.end(number)
        self._server.end(_SERVER)

    async def close(self) -> None:
        """Give up what is under way: it is sent when the process is back."""
        await self._turns.close()
