"""Passwords that were not taken, in the language of the reader."""

from __future__ import annotations

import math
from typing import NamedTuple

from starlette.responses import Response

from shoal.core.errors import NotAllowed, TooMany, Unauthenticated
from shoal.web.views.errors.refusals import told
from shoal.words.languages import Translated

_LONG = 3_600
"""Seconds from which on a wait is one of hours."""


class PasswordRefusal(NamedTuple):
    """The words of a page that asks for a password again, with the status and the headers of the answer."""

    words: str
    status: int
    headers: dict[str, str]

    def on(self, response: Response) -> Response:
        """Return the page that says it, with the status and the headers."""
        response.status_code = self.status
        response.headers.update(self.headers)
        return response


def password_refusal(words: Translated, error: Unauthenticated | NotAllowed | TooMany) -> PasswordRefusal:
    """Return what is answered to a wrong password, to a member who may not come in, and to one wrong password too many."""
    _ = words.text
    match error:
        case TooMany():
            many = (
                _(
                    "Too many wrong passwords or codes. Please try again in some hours; where you are logged in, you stay so."
                )
                if error.retry_after > _LONG
                else _("Too many wrong passwords. Please wait some minutes; where you are logged in, you stay so.")
            )
            return PasswordRefusal(many, 429, {"Retry-After": str(math.ceil(error.retry_after))})
        case NotAllowed():
            return PasswordRefusal(told(words, error), 403, {})
    return PasswordRefusal(_("The name or the password is wrong. Please try again."), 422, {})
