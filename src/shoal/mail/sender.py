"""Mail sender: bounded concurrency in addition to the jobs, with a backoff after the mail server could not be reached."""

from __future__ import annotations

import asyncio
import logging

from shoal.backoff import Backoff
from shoal.core.errors import NotYet, Unavailable
from shoal.locks import ConcurrencyLimits, KeyedQueue, Work
from shoal.mail.mailers import Letter, Mailer, NotNow, Undeliverable
from shoal.mail.messages import Stationery

_log = logging.getLogger("shoal.mail")

_LIMITS = ConcurrencyLimits(at_once=4, of_one=4, held=256, held_of_one=256, patience=10.0)
_SECONDS = 45.0
"""Timeout of sending a mail. Together with the wait for a slot, it is shorter than the lease of the mail's job."""
_REMEMBERED = 10_000
"""Maximum number of mails with a separate backoff."""
_SERVER = "server"
_FIRST_SECONDS, _LONGEST_SECONDS = 5.0, 120.0


class MailSender:
    """A queue of tasks, each of which writes and sends one mail; four run concurrently."""

    def __init__(self, mailer: Mailer, stationery: Stationery) -> None:
        self.stationery = stationery
        self._mailer = mailer
        self._queue = KeyedQueue(_LIMITS, "other mails are ahead in the queue")
        self._letters = Backoff(_FIRST_SECONDS, _LONGEST_SECONDS, _REMEMBERED)
        self._server = Backoff(_FIRST_SECONDS, _LONGEST_SECONDS, 1)
        self.sent = 0
        self.refused = 0
        self.put_off = 0
        """Delays since the start of the process, because the mail server temporarily rejected a mail or was not reached."""

    @property
    def in_flight(self) -> int:
        return len(self._queue)

    def begin(self, number: int, work: Work) -> asyncio.Future[None]:
        """Queue a task that writes and sends a mail. Return a future that is done when the task is.

        `number` identifies the mail. The call and the future raise `NotYet` if the queue is full, and during the backoff after
        a failure of the server or of this mail.
        """
        return self._queue.begin(_SERVER, lambda: self._check_backoff(number), work)

    def _check_backoff(self, number: int) -> None:
        if self._server.is_active(_SERVER):
            raise NotYet("the mail server was unreachable a moment ago")
        if self._letters.is_active(number):
            raise NotYet("the mail server temporarily rejected this mail a moment ago")

    async def deliver(self, number: int, letter: Letter) -> None:
        """Send a mail. A permanent rejection is logged and final. Raises `NotYet` if the mail must be sent again later."""
        try:
            async with asyncio.timeout(_SECONDS):
                await self._mailer.send(letter)
        except Undeliverable as error:
            self.refused += 1
            _log.warning("mail not sent: %s", error)
        except NotNow as error:
            self._letters.extend(number)
            self.put_off += 1
            _log.warning("mail delayed: %s", error)
            raise NotYet(str(error)) from error
        except (Unavailable, TimeoutError) as error:
            self.put_off += 1
            seconds = self._server.extend(_SERVER)
            _log.warning("mail paused for %g s: %s", seconds, str(error) or "the mail server took too long")
            # The error is already logged, so the job must not log it again.
            raise NotYet(str(error)) from error
        else:
            self.sent += 1
        self._letters.reset(number)
        self._server.reset(_SERVER)

    async def close(self) -> None:
        """Cancel the tasks of pending mails. These mails are sent after the next start of the process."""
        await self._queue.close()
