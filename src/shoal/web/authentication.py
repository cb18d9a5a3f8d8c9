"""Log a browser in and redirect it, or explain why a password, code or passkey was refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from starlette.responses import Response

from shoal.commands import sessions
from shoal.commands.oauth import NewToken
from shoal.core.credentials import is_answer
from shoal.core.errors import NotAllowed, TooMany, Unauthenticated
from shoal.core.model import HALFWAY, Member
from shoal.i18n import Translated
from shoal.mastodon_api import login_attempts
from shoal.mastodon_api.browser_session import PROVIDER
from shoal.mastodon_api.login_attempts import LockedOut
from shoal.web.form_errors import error_text
from shoal.web.ownership import remember_owner
from shoal.web.pending_actions import passed_on, perform
from shoal.web.rendering import page
from shoal.web.request_context import PageContext, local

_HOUR, _MINUTE = 3_600, 60


class PasswordRefusal(NamedTuple):
    words: str
    status: int = 422
    headers: Mapping[str, str] = MappingProxyType({})
    locked: bool = False
    """Whether password logins to the account are locked from this address: see `LockedOut`."""

    def on(self, response: Response) -> Response:
        response.status_code = self.status
        response.headers.update(self.headers)
        return response


def password_refusal(words: Translated, error: Unauthenticated | NotAllowed | TooMany) -> PasswordRefusal:
    """Return the response to a wrong password, to a member barred from logging in, or to too many attempts."""
    _ = words.text
    match error:
        case TooMany():
            seconds, locked = error.retry_after, isinstance(error, LockedOut)
            if seconds > _HOUR:
                hours = math.ceil(seconds / _HOUR)
                again = words.counted("Try again in %(n)s hour.", "Try again in %(n)s hours.", hours)
            else:
                minutes = max(1, math.ceil(seconds / _MINUTE))
                again = words.counted("Try again in %(n)s minute.", "Try again in %(n)s minutes.", minutes)
            many = (
                _("Too many wrong passwords for this account.") if locked else _("Too many wrong passwords or codes.")
            )
            return PasswordRefusal(f"{many} {again}", 429, {"Retry-After": str(math.ceil(seconds))}, locked)
        case NotAllowed():
            return PasswordRefusal(error_text(words, error), 403)
    return PasswordRefusal(_("Incorrect user name or password. Try again."))


async def begin(
    ctx: PageContext, member: Member, to: str, *, proved: bool = False, provider: str = "", confirmed: bool = False
) -> Response:
    """Log in a member whose password was verified, or whom a login `provider` authenticated, and redirect the browser to `to`.

    If the member has a second factor and has not passed it yet (`proved` is false), redirect to the form for the second
    factor instead. `confirmed` also confirms that the account is the member's (`web.ownership`).
    """
    begun = await sessions.begin(ctx.writes, member, proved=proved, origin=ctx.origin, provider=provider)
    asks = HALFWAY in begun.token.scopes
    path = "" if asks else await perform(ctx, member, to)
    response = ctx.go("/login/code", to=local(to, "")) if asks else ctx.go(path or local(to))
    await log_in(ctx, response, begun, passed_on(ctx, member, to))
    ctx.browser.hold(response, PROVIDER, provider, None)
    if confirmed:
        await remember_owner(ctx, response, member, begun.text)
    return response


async def log_in(ctx: PageContext, response: Response, begun: NewToken, action: str = "") -> None:
    """Set the login cookie on the response, and log out the previous member of this browser.

    `action` replaces the pending action, which a login that still asks for a second factor keeps.
    """
    if ctx.browser.login:
        await sessions.leave(ctx.writes, ctx.browser.login)
    if ctx.viewer is not None and ctx.viewer.id != begun.token.member_id:
        ctx.browser.log_out(response)
    ctx.browser.log_in(response, begun.text)
    if HALFWAY not in begun.token.scopes:
        ctx.browser.postpone(response, action)


async def leave_to(ctx: PageContext, url: str, title: str) -> Response:
    """Return a page that sends the browser to another site.

    The policy of our pages (`form-action`) forbids forms to redirect there, so the page loads the URL by itself.
    """
    words = ctx.words.text("Continue to %(site)s") % {"site": title}
    response = await page(ctx, "leave", title=words, link=url)
    response.headers["Refresh"] = f"0; url={url}"
    return response


async def code_refusal(ctx: PageContext, member: Member, code: str) -> PasswordRefusal | None:
    try:
        if await login_attempts.code_counts(ctx.anonymous, member, code):
            return None
    except TooMany as error:
        return password_refusal(ctx.words, error)
    _ = ctx.words.text
    if is_answer(code):
        return PasswordRefusal(_("This passkey does not belong to this account, or the request timed out. Try again."))
    return PasswordRefusal(_("Incorrect code. Enter the current code of your app or an unused recovery code."))


def passkey_refusal(words: Translated, error: Unauthenticated | NotAllowed | TooMany) -> PasswordRefusal:
    """Return the response to an unknown passkey, to a member barred from logging in, or to too many attempts."""
    if isinstance(error, NotAllowed | TooMany):
        return password_refusal(words, error)
    return PasswordRefusal(
        words.text("This passkey does not match an account on this server, or the request timed out. Try again.")
    )
