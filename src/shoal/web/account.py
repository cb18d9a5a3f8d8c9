"""Password and email address of an account: change, reset and confirmation by email.

A page that an email links to changes nothing until the member presses its button. The response to a request for a reset
does not reveal whether the account exists.
"""

from __future__ import annotations

import math
from functools import wraps
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import credentials, external_ids, members, oauth, sessions
from shoal.core.email import MailKind
from shoal.core.errors import Gone, InvalidInput, NotAllowed, Taken, TooLarge, TooMany, TooManyMails, TooShort
from shoal.core.model import Member
from shoal.core.text import check_email
from shoal.mastodon_api import login_attempts
from shoal.web import routing
from shoal.web.authentication import begin, password_refusal
from shoal.web.form_errors import RIGHT, Wrong, error_text, wrong_of
from shoal.web.ownership import login_buttons, proof
from shoal.web.rendering import page
from shoal.web.request_context import Form, Line, PageContext
from shoal.web.routing import P, PageHandler
from shoal.web.settings_layout import NOT_SAVED, SettingsQuery, saved_at, settings_page

_Proof = Annotated[str, Meta(max_length=100)]


class ForgottenQuery(msgspec.Struct, frozen=True):
    sent: bool = False


class Forgotten(Form, frozen=True, kw_only=True):
    username: Line = ""


class ProofPath(msgspec.Struct, frozen=True):
    proof: _Proof


class ProofForm(Form, frozen=True, kw_only=True):
    proof: _Proof


class ResetForm(Form, frozen=True, kw_only=True):
    proof: _Proof
    password: Line = ""


async def forgotten(ctx: PageContext, query: ForgottenQuery) -> Response:
    return await _forgotten(ctx, sent=query.sent)


async def ask(ctx: PageContext, asked: Forgotten) -> Response:
    """Send a password-reset email if the member exists. The response does not reveal whether they do."""
    ctx.check_sent(asked)
    if not ctx.settings.mail:
        return await _forgotten(ctx)
    try:
        await login_attempts.count_mail(ctx.anonymous, asked.username)
        await credentials.forgot(ctx.writes, asked.username, ctx.words.code)
    except InvalidInput:
        return await _forgotten(ctx, asked.username, ctx.words.text("This field is required."))
    except TooMany as error:
        wrong = ctx.words.text(
            "Several e-mails were already requested. Check your spam folder and try again in an hour."
        )
        return _rate_limited(await _forgotten(ctx, asked.username, wrong), error)
    return ctx.go("/forgotten", sent=1)


def _rate_limited(response: Response, error: TooMany) -> Response:
    response.status_code = 429
    response.headers["Retry-After"] = str(math.ceil(error.retry_after))
    return response


async def _forgotten(ctx: PageContext, name: str = "", wrong: str = "", *, sent: bool = False) -> Response:
    settings = ctx.settings
    return await page(
        ctx,
        "forgotten",
        title=ctx.words.text("Forgot your password?"),
        name=name,
        wrong=wrong,
        sent=sent,
        has_mail=bool(settings.mail),
        contact=settings.contact_email,
    )


async def reset_form(ctx: PageContext, query: ProofPath) -> Response:
    return await _reset(ctx, query.proof)


async def reset(ctx: PageContext, asked: ResetForm) -> Response:
    ctx.check_sent(asked)
    try:
        member = await login_attempts.reset_password(ctx.anonymous, asked.proof, asked.password)
    except Gone:
        return await _over(ctx)
    except (TooShort, TooLarge) as error:
        length = password_length(ctx)
        return await _reset(ctx, asked.proof, wrong_of(ctx.words, error, password=length).get("password", length))
    try:
        oauth.check_welcome(member)
    except NotAllowed:
        # The login page shows why the login was refused and what the member can do.
        return ctx.go("/login")
    return await begin(ctx, member, "/")


async def _reset(ctx: PageContext, proof: str, wrong: str = "") -> Response:
    try:
        member = (await credentials.proven(ctx.writes, proof, MailKind.RESET)).member
    except Gone:
        return await _over(ctx)
    title = ctx.words.text("New password")
    return await page(ctx, "reset", title=title, proof=proof, name=member.name, wrong=wrong)


async def confirm_form(ctx: PageContext, query: ProofPath) -> Response:
    _ = ctx.words.text
    return await _button(ctx, query.proof, "confirm", _("Confirm the address"), MailKind.CONFIRM, MailKind.CHANGE)


async def confirm(ctx: PageContext, asked: ProofForm) -> Response:
    ctx.check_sent(asked)
    _ = ctx.words.text
    try:
        member = await credentials.confirm(ctx.writes, asked.proof)
    except Taken:
        return await _over(ctx, _("This e-mail address now belongs to another account."))
    except NotAllowed as error:
        return await _over(ctx, error_text(ctx.words, error))
    except Gone:
        return await _over(ctx)
    if member.pending:
        return ctx.go("/signup/waiting")
    if ctx.viewer is None:
        message = _("The address is confirmed.")
        return await page(ctx, "mail_done", title=_("Thank you"), message=message, way="/login")
    return ctx.go("/settings/email", saved=1)


async def undo_form(ctx: PageContext, query: ProofPath) -> Response:
    return await _button(ctx, query.proof, "undo", ctx.words.text("Restore the address"), MailKind.UNDO)


async def undo(ctx: PageContext, asked: ProofForm) -> Response:
    ctx.check_sent(asked)
    _ = ctx.words.text
    try:
        await credentials.undo_change(ctx.writes, asked.proof, ctx.words.code)
    except (Gone, Taken):
        return await _over(ctx)
    message = _(
        "Your address was restored and all sessions were logged out. We sent you an e-mail with a link to log in again."
    )
    response = await page(ctx, "mail_done", title=_("E-mail address restored"), message=message, way="")
    if ctx.viewer is not None and await sessions.of_browser(ctx.writes, ctx.browser.login) is None:
        ctx.browser.log_out(response)
    return response


async def recover_form(ctx: PageContext, query: ProofPath) -> Response:
    return await _button(ctx, query.proof, "recover", ctx.words.text("Log in"), MailKind.RECOVERY)


async def recover(ctx: PageContext, asked: ProofForm) -> Response:
    """Log in by the link of a recovery mail, which also confirms that the account is the member's."""
    ctx.check_sent(asked)
    try:
        member = await credentials.recover(ctx.writes, asked.proof)
        oauth.check_welcome(member)
    except Gone:
        return await _over(ctx)
    except NotAllowed:
        return ctx.go("/login")
    return await begin(ctx, member, "/settings/passkeys", confirmed=True)


async def _button(ctx: PageContext, proof: str, action: str, title: str, *kinds: MailKind) -> Response:
    try:
        found = await credentials.proven(ctx.writes, proof, *kinds)
    except Gone:
        return await _over(ctx)
    kind, address, name = found.proof.kind, found.proof.address, found.member.name
    stay = await external_ids.foreign_issuers(ctx.graph, found.member.id) if kind is MailKind.UNDO else frozenset()
    linked = [button.title for button in login_buttons(ctx) if ctx.app.providers.issuer(button.name) in stay]
    return await page(
        ctx,
        "mail_button",
        title=title,
        proof=proof,
        action=action,
        kind=kind,
        address=address,
        name=name,
        linked=linked,
    )


async def _over(ctx: PageContext, why: str = "") -> Response:
    _ = ctx.words.text
    message = why or _("The link was already used or has expired. Request a new e-mail to get a new link.")
    return await page(ctx, "mail_over", status=410, title=_("This link has expired"), message=message)


class PasswordForm(Form, frozen=True, kw_only=True):
    current_password: Line = ""
    new_password: Line = ""


async def show_password(ctx: PageContext, query: SettingsQuery = NOT_SAVED, wrong: Wrong = RIGHT) -> Response:
    return await settings_page(ctx, "password", wrong=wrong, saved=query.saved)


async def save(ctx: PageContext, asked: PasswordForm) -> Response:
    """Replace the password. All other sessions are logged out."""
    member, app_context = ctx.checked(asked), ctx.app
    try:
        current = await proof(ctx, asked.current_password)
        await login_attempts.change_password(ctx.anonymous, member.id, current, asked.new_password)
    except NotAllowed:
        return await show_password(ctx)
    except InvalidInput as error:
        known = {
            "current_password": ctx.words.text("Incorrect password."),
            "new_password": password_length(ctx),
        }
        return await show_password(ctx, wrong=wrong_of(ctx.words, error, **known))
    except TooMany as error:
        refusal = password_refusal(ctx.words, error)
        return refusal.on(await show_password(ctx, wrong={"current_password": refusal.words}))
    now = (await app_context.graph.obj_get((member.id,))).get(member.id)
    response = saved_at(ctx, "password")
    if isinstance(now, Member):
        ctx.browser.log_in(
            response, (await sessions.begin(app_context.writes, now, proved=True, origin=ctx.origin)).text
        )
    return response


class EmailQuery(SettingsQuery, frozen=True):
    sent: Annotated[str, Meta(max_length=300)] = ""


_NOT_SENT = EmailQuery()


class EmailForm(Form, frozen=True, kw_only=True):
    email: Line = ""
    password: Line = ""


async def show_email(
    ctx: PageContext, query: EmailQuery = _NOT_SENT, wrong: Wrong = RIGHT, typed: str = ""
) -> Response:
    login = await members.login_of(ctx.writes, ctx.member)
    return await settings_page(
        ctx,
        "email",
        wrong=wrong,
        saved=query.saved,
        sent=_address(query.sent),
        typed=typed,
        address=login.email if login else "",
        confirmed=login.confirmed if login else False,
        has_mail=bool(ctx.settings.mail),
    )


async def change(ctx: PageContext, asked: EmailForm) -> Response:
    """Send a confirmation email to the new address. The address changes once its link is used."""
    member, _ = ctx.checked(asked), ctx.words.text
    if not ctx.settings.mail:
        return await show_email(ctx)
    try:
        await login_attempts.ask_email_change(
            ctx.anonymous, member.id, await proof(ctx, asked.password), asked.email.strip(), ctx.words.code
        )
    except InvalidInput as error:
        known = {
            "password": _("Incorrect password."),
            "email": _("Enter a valid e-mail address, such as name@example.org."),
        }
        return await show_email(ctx, wrong=wrong_of(ctx.words, error, **known), typed=asked.email)
    except NotAllowed as error:
        return await show_email(ctx, wrong={"email": error_text(ctx.words, error)}, typed=asked.email)
    except TooManyMails as error:
        return await _too_many_mails(ctx, error, asked.email)
    except TooMany as error:
        refusal = password_refusal(ctx.words, error)
        return refusal.on(await show_email(ctx, wrong={"password": refusal.words}, typed=asked.email))
    return ctx.go("/settings/email", sent=asked.email.strip())


async def again(ctx: PageContext, asked: Form) -> Response:
    member, app_context = ctx.checked(asked), ctx.app
    login = await members.login_of(app_context.writes, member)
    if login is None or not login.email or login.confirmed or not app_context.settings.mail:
        return ctx.go("/settings/email")
    try:
        await login_attempts.count_mail(ctx.anonymous, login.email)
    except TooManyMails as error:
        return await _too_many_mails(ctx, error)
    await credentials.ask_confirmation(app_context.writes, member, ctx.words.code)
    return ctx.go("/settings/email", sent=login.email)


async def _too_many_mails(ctx: PageContext, error: TooManyMails, typed: str = "") -> Response:
    wrong = {"email": ctx.words.text("Several e-mails were already sent. Try again in an hour.")}
    return _rate_limited(await show_email(ctx, wrong=wrong, typed=typed), error)


def _address(text: str) -> str:
    """Return the email address if it is valid, otherwise an empty string. The text comes from a link and is displayed."""
    try:
        return check_email(text)
    except InvalidInput:
        return ""


def password_length(ctx: PageContext) -> str:
    words, limits = ctx.words, ctx.limits
    text = words.text("Use %(least)s to %(most)s characters.")
    return text % {"least": limits.password_least, "most": words.number(limits.password_most)}


def _of_passwords(handler: PageHandler[P], otherwise: str) -> PageHandler[P]:
    """Wrap a handler that is about passwords. On a server without passwords, it redirects to the page `otherwise`."""

    @wraps(handler)
    async def handled(ctx: PageContext, params: P) -> Response:
        return await handler(ctx, params) if ctx.settings.password_login else ctx.go(otherwise)

    return handled


ROUTES = (
    routing.page("/forgotten", _of_passwords(forgotten, "/login"), ForgottenQuery),
    routing.form("/forgotten", _of_passwords(ask, "/login"), Forgotten, limit_class="login"),
    routing.page("/reset/{proof}", _of_passwords(reset_form, "/login"), ProofPath, secret=True),
    routing.form("/reset/{proof}", _of_passwords(reset, "/login"), ResetForm, limit_class="login", secret=True),
    routing.page("/confirm/{proof}", confirm_form, ProofPath, secret=True),
    routing.form("/confirm/{proof}", confirm, ProofForm, limit_class="login", secret=True),
    routing.page("/undo/{proof}", undo_form, ProofPath, secret=True),
    routing.form("/undo/{proof}", undo, ProofForm, limit_class="login", secret=True),
    routing.page("/recover/{proof}", recover_form, ProofPath, secret=True),
    routing.form("/recover/{proof}", recover, ProofForm, limit_class="login", secret=True),
    routing.page("/settings/password", _of_passwords(show_password, "/settings/sessions"), SettingsQuery),
    routing.form("/settings/password", _of_passwords(save, "/settings/sessions"), PasswordForm, limit_class="login"),
    routing.page("/settings/email", show_email, EmailQuery),
    routing.form("/settings/email", change, EmailForm, limit_class="login"),
    routing.form("/settings/email/again", again, Form, limit_class="login"),
)
