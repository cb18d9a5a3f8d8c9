"""Log a browser in and redirect it, or explain why a password, code or passkey was refused."""

from __future__ import annotations

import math
from typing import NamedTuple

from starlette.responses import Response

from shoal.commands import sessions
from shoal.commands.oauth import NewToken
from shoal.core.credentials import is_answer
from shoal.core.errors import NotAllowed, TooMany, Unauthenticated
from shoal.core.model import HALFWAY, Member
from shoal.i18n import Translated
from shoal.mastodon_api import login_attempts
from shoal.mastodon_api.login_attempts import LockedOut
from shoal.web.form_errors import told
from shoal.web.request_context import Visit, is_local

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


async def begin(visit: Visit, member: Member, to: str, *, proved: bool = False) -> Response:
    """Log a member in who knows the password, and send the browser on its way.

    Where a code of a second factor is wanted that is the page which asks for it, unless it was `proved`.
    """
    begun = await sessions.begin(visit.front.writes, member, proved=proved, origin=visit.origin)
    asks = HALFWAY in begun.token.scopes
    response = visit.go("/login/code", to=to if is_local(to) else "") if asks else visit.go(goal(to))
    await log_in(visit, response, begun)
    return response


async def log_in(visit: Visit, response: Response, begun: NewToken) -> None:
    """Log the browser in with an answer to it. The member who was logged in there before is logged out."""
    if visit.browser.login:
        await sessions.leave(visit.front.writes, visit.browser.login)
    if visit.viewer is not None and visit.viewer.id != begun.token.member_id:
        visit.browser.log_out(response)
    visit.browser.log_in(response, begun.text)


async def code_refusal(visit: Visit, member: Member, code: str) -> PasswordRefusal | None:
    """Use a code of a second factor, and return what is answered where it does not count; None where it does."""
    try:
        if await login_attempts.code_counts(visit.anonymous, member, code):
            return None
    except TooMany as error:
        return password_refusal(visit.words, error)
    _ = visit.words.text
    if is_answer(code):
        return PasswordRefusal(
            _("This passkey is none of this account, or it took too long. Please try again."), 422, {}
        )
    wrong = _("This is not the code that the app shows now, nor a recovery code that is left.")
    return PasswordRefusal(wrong, 422, {})


def passkey_refusal(words: Translated, error: Unauthenticated | NotAllowed | TooMany) -> PasswordRefusal:
    """Return what is answered to a passkey that opens nothing, to a member who may not come in, and to one too many."""
    if isinstance(error, NotAllowed | TooMany):
        return password_refusal(words, error)
    return PasswordRefusal(
        words.text("This passkey opens no account here, or it took too long. Please try again."), 422, {}
    )


def goal(to: str) -> str:
    """Return the path to go to afterwards: the start page for what is none of ours."""
    return to if is_local(to) else "/"
