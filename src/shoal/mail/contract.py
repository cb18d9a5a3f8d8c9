"""A letter, and whoever takes it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from shoal.core.errors import ShoalError, Unavailable


class Letter(NamedTuple):
    """A mail: to whom, and what it says, as plain text and as HTML."""

    to: str
    subject: str
    text: str
    html: str


class Undeliverable(ShoalError):
    """The mail server will not take this letter, however often it is tried."""


class NotNow(Unavailable):
    """The mail server does not take this letter now; others it may."""


class Mailer(Protocol):
    """Sends letters."""

    async def send(self, letter: Letter) -> None:
        """Hand a letter over. Once this returns it is somebody else's to deliver.

        Raises `Unavailable` where any may be tried again later, `NotNow` where this one may, and `Undeliverable` where not.
        """
