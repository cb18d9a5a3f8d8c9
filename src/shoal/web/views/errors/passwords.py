"""Passwords that were not taken, in the language of the reader."""

from __future__ import annotations

import math
from typing import NamedTuple

from starlette.responses import Response

from shoal.core.errors import NotAllowed, TooMany, Unauthenticated
from shoal.mastodon_api.login_attempts import LockedOut
from shoal.web.views.errors.refusals import told
from shoal.words.languages import Translated

_HOUR, _MINUTE = 3_600, 60


class PasswordRefusal(NamedTuple):
    """The words of a page that asks for a password again, with the status and the headers of the answer."""

    words: str
    status: int
    headers: dict[str, str]
    locked: bool = False
    """Whether the account takes no passwords from here for a while: see `LockedOut`."""

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
            unit = _HOUR if error.retry_after > _HOUR else _MINUTE
            wait = max(1, math.ceil(error.retry_after / unit))
            again = (
                words.plural("Try again in %(n)s hour.", "Try again in %(n)s hours.", wait)
                if unit == _HOUR
                else words.plural("Try again in %(n)s minute.", "Try again in %(n)s minutes.", wait)
            )
            locked = isinstance(error, LockedOut)
            many = (
                _("Too many wrong passwords for this account.") if locked else _("Too many wrong passwords or codes.")
            )
            headers = {"Retry-After": str(math.ceil(error.retry_after))}
            return PasswordRefusal(f"{many} {again % {'n': wait}}", 429, headers, locked)
        case NotAllowed():
            return PasswordRefusal(told(words, error), 403, {})
    return PasswordRefusal(_("The name or the password is wrong. Please try again."), 422, {})
