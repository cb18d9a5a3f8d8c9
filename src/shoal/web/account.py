"""Password and email address of an account: change, reset and confirmation by email.

Loading a page that an email links to changes nothing; its button does. The response to a reset request does not reveal whether
the account exists.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import credentials, members, oauth, sessions
from shoal.core.email import MailKind
from shoal.core.errors import Gone, InvalidInput, NotAllowed, Taken, TooLarge, TooMany, TooManyMails, TooShort
from shoal.core.model import Member
from shoal.core.text import check_email
from shoal.mastodon_api import login_attempts
from shoal.web import routing
from shoal.web.authentication import begin, password_refusal
from shoal.web.form_errors import RIGHT, Wrong, told, wrong_of
from shoal.web.rendering import page
from shoal.web.request_context import Form, Line, Visit
from shoal.web.settings_layout import NOT_SAVED, SettingsQuery, saved_at, settings_page

_Proof = Annotated[str, Meta(max_length=100)]


class ForgottenQuery(msgspec.Struct, frozen=True):
    sent: bool = False


class Forgotten(Form, frozen=True, kw_only=True):
    username: Line = ""


class ProofPath(msgspec.Struct, frozen=True):
    proof: _Proof


class ProofForm(Form, frozen=True, kw_only=True):
    """The confirmation form of a page that an email linked to."""

    proof: _Proof


class ResetForm(Form, frozen=True, kw_only=True):
    """A new password, authorized by the token from a password-reset email."""

    proof: _Proof
    password: Line = ""


async def forgotten(visit: Visit, query: ForgottenQuery) -> Response:
    return await _forgotten(visit, sent=query.sent)


async def ask(visit: Visit, asked: Forgotten) -> Response:
    """Send a password-reset email if the member exists. The response does not reveal whether they do."""
    visit.check_sent(asked)
    if not visit.settings.mail:
        return await _forgotten(visit)
    try:
        await login_attempts.count_mail(visit.anonymous, asked.username)
        await credentials.forgot(visit.writes, asked.username, visit.words.code)
    except InvalidInput:
        return await _forgotten(visit, asked.username, visit.words.text("Please fill this in."))
    except TooMany as error:
        wrong = visit.words.text(
            "Several mails were asked for already. Please look in your spam folder, and try again in an hour."
        )
        return _rate_limited(await _forgotten(visit, asked.username, wrong), error)
    return visit.go("/forgotten", sent=1)


def _rate_limited(response: Response, error: TooMany) -> Response:
    response.status_code = 429
    response.headers["Retry-After"] = str(math.ceil(error.retry_after))
    return response


async def _forgotten(visit: Visit, name: str = "", wrong: str = "", *, sent: bool = False) -> Response:
    settings = visit.settings
    return await page(
        visit,
        "forgotten",
        title=visit.words.text("Forgot your password?"),
        name=name,
        wrong=wrong,
        sent=sent,
        has_mail=bool(settings.mail),
        contact=settings.contact_email,
    )


async def reset_form(visit: Visit, query: ProofPath) -> Response:
    return await _reset(visit, query.proof)


async def reset(visit: Visit, asked: ResetForm) -> Response:
    visit.check_sent(asked)
    try:
        member = await login_attempts.reset_password(visit.anonymous, asked.proof, asked.password)
    except Gone:
        return await _over(visit)
    except (TooShort, TooLarge) as error:
        length = password_length(visit)
        return await _reset(visit, asked.proof, wrong_of(visit.words, error, password=length).get("password", length))
    try:
        oauth.check_welcome(member)
    except NotAllowed:
        # The login page shows why the login was refused and what the member can do.
        return visit.go("/login")
    return await begin(visit, member, "/")


async def _reset(visit: Visit, proof: str, wrong: str = "") -> Response:
    try:
        member = (await credentials.proven(visit.writes, proof, MailKind.RESET)).member
    except Gone:
        return await _over(visit)
    title = visit.words.text("A new password")
    return await page(visit, "reset", title=title, proof=proof, name=member.name, wrong=wrong)


async def confirm_form(visit: Visit, query: ProofPath) -> Response:
    _ = visit.words.text
    return await _button(visit, query.proof, "confirm", _("Confirm the address"), MailKind.CONFIRM, MailKind.CHANGE)


async def confirm(visit: Visit, asked: ProofForm) -> Response:
    visit.check_sent(asked)
    _ = visit.words.text
    try:
        member = await credentials.confirm(visit.writes, asked.proof)
    except Taken:
        return await _over(visit, _("Somebody else has this address by now."))
    except NotAllowed as error:
        return await _over(visit, told(visit.words, error))
    except Gone:
        return await _over(visit)
    if member.pending:
        return visit.go("/signup/waiting")
    if visit.viewer is None:
        said = _("The address is confirmed.")
        return await page(visit, "mail_done", title=_("Thank you"), said=said, way="/login")
    return visit.go("/settings/email", saved=1)


async def undo_form(visit: Visit, query: ProofPath) -> Response:
    return await _button(visit, query.proof, "undo", visit.words.text("Bring the address back"), MailKind.UNDO)


async def undo(visit: Visit, asked: ProofForm) -> Response:
    """Restore the previous email address and log out all sessions."""
    visit.check_sent(asked)
    _ = visit.words.text
    try:
        await credentials.undo_change(visit.writes, asked.proof, visit.words.code)
    except (Gone, Taken):
        return await _over(visit)
    said = _(
        "Your address is back, and everybody is logged out. A mail with a link to choose a new password is on its way."
    )
    response = await page(visit, "mail_done", title=_("It is yours again"), said=said, way="")
    if visit.viewer is not None and await sessions.of_browser(visit.writes, visit.browser.login) is None:
        visit.browser.log_out(response)
    return response


async def _button(visit: Visit, proof: str, action: str, title: str, *kinds: MailKind) -> Response:
    try:
        found = await credentials.proven(visit.writes, proof, *kinds)
    except Gone:
        return await _over(visit)
    kind, address, name = found.proof.kind, found.proof.address, found.member.name
    return await page(
        visit, "mail_button", title=title, proof=proof, action=action, kind=kind, address=address, name=name
    )


async def _over(visit: Visit, why: str = "") -> Response:
    _ = visit.words.text
    said = why or _("It was used before, or its time is over. A new mail brings a new one.")
    return await page(visit, "mail_over", status=410, title=_("This link is over"), said=said)


class PasswordForm(Form, frozen=True, kw_only=True):
    current_password: Line = ""
    new_password: Line = ""


async def show_password(visit: Visit, query: SettingsQuery = NOT_SAVED, wrong: Wrong = RIGHT) -> Response:
    return await settings_page(visit, "password", wrong=wrong, saved=query.saved)


async def save(visit: Visit, asked: PasswordForm) -> Response:
    """Replace the password. All other sessions are logged out."""
    member, front = visit.checked(asked), visit.front
    try:
        await login_attempts.change_password(visit.anonymous, member.id, asked.current_password, asked.new_password)
    except InvalidInput as error:
        known = {
            "current_password": visit.words.text("This is not your password."),
            "new_password": password_length(visit),
        }
        return await show_password(visit, wrong=wrong_of(visit.words, error, **known))
    except TooMany as error:
        refusal = password_refusal(visit.words, error)
        return refusal.on(await show_password(visit, wrong={"current_password": refusal.words}))
    now = (await front.graph.obj_get((member.id,))).get(member.id)
    response = saved_at(visit, "password")
    if isinstance(now, Member):
        visit.browser.log_in(response, (await sessions.begin(front.writes, now, proved=True, origin=visit.origin)).text)
    return response


class EmailQuery(SettingsQuery, frozen=True):
    sent: Annotated[str, Meta(max_length=300)] = ""


_NOT_SENT = EmailQuery()


class EmailForm(Form, frozen=True, kw_only=True):
    email: Line = ""
    password: Line = ""


async def show_email(visit: Visit, query: EmailQuery = _NOT_SENT, wrong: Wrong = RIGHT, typed: str = "") -> Response:
    login = await members.login_of(visit.writes, visit.member)
    return await settings_page(
        visit,
        "email",
        wrong=wrong,
        saved=query.saved,
        sent=_address(query.sent),
        typed=typed,
        address=login.email if login else "",
        confirmed=login.confirmed if login else False,
        has_mail=bool(visit.settings.mail),
    )


async def change(visit: Visit, asked: EmailForm) -> Response:
    """Send a confirmation email to the new address. The address changes once its link is used."""
    member, _ = visit.checked(asked), visit.words.text
    if not visit.settings.mail:
        return await show_email(visit)
    try:
        await login_attempts.ask_email_change(
            visit.anonymous, member.id, asked.password, asked.email.strip(), visit.words.code
        )
    except InvalidInput as error:
        known = {
            "password": _("This is not your password."),
            "email": _("This is no e-mail address. One looks like name@example.org."),
        }
        return await show_email(visit, wrong=wrong_of(visit.words, error, **known), typed=asked.email)
    except NotAllowed as error:
        return await show_email(visit, wrong={"email": told(visit.words, error)}, typed=asked.email)
    except TooManyMails as error:
        return await _too_many_mails(visit, error, asked.email)
    except TooMany as error:
        refusal = password_refusal(visit.words, error)
        return refusal.on(await show_email(visit, wrong={"password": refusal.words}, typed=asked.email))
    return visit.go("/settings/email", sent=asked.email.strip())


async def again(visit: Visit, asked: Form) -> Response:
    member, front = visit.checked(asked), visit.front
    login = await members.login_of(front.writes, member)
    if login is None or not login.email or login.confirmed or not front.settings.mail:
        return visit.go("/settings/email")
    try:
        await login_attempts.count_mail(visit.anonymous, login.email)
    except TooManyMails as error:
        return await _too_many_mails(visit, error)
    await credentials.ask_confirmation(front.writes, member, visit.words.code)
    return visit.go("/settings/email", sent=login.email)


async def _too_many_mails(visit: Visit, error: TooManyMails, typed: str = "") -> Response:
    wrong = {"email": visit.words.text("Several mails were sent already. Please try again in an hour.")}
    return _rate_limited(await show_email(visit, wrong=wrong, typed=typed), error)


def _address(text: str) -> str:
    """Return the address if it is valid, else an empty string: the text comes from a link and the page repeats it."""
    try:
        return check_email(text)
    except InvalidInput:
        return ""


def password_length(visit: Visit) -> str:
    words, limits = visit.words, visit.limits
    text = words.text("A password has %(least)s to %(most)s characters.")
    return text % {"least": limits.password_least, "most": words.number(limits.password_most)}


ROUTES = (
    routing.page("/forgotten", forgotten, ForgottenQuery),
    routing.form("/forgotten", ask, Forgotten, limit_class="login"),
    routing.page("/reset/{proof}", reset_form, ProofPath, secret=True),
    routing.form("/reset/{proof}", reset, ResetForm, limit_class="login", secret=True),
    routing.page("/confirm/{proof}", confirm_form, ProofPath, secret=True),
    routing.form("/confirm/{proof}", confirm, ProofForm, limit_class="login", secret=True),
    routing.page("/undo/{proof}", undo_form, ProofPath, secret=True),
    routing.form("/undo/{proof}", undo, ProofForm, limit_class="login", secret=True),
    routing.page("/settings/password", show_password, SettingsQuery),
    routing.form("/settings/password", save, PasswordForm, limit_class="login"),
    routing.page("/settings/email", show_email, EmailQuery),
    routing.form("/settings/email", change, EmailForm, limit_class="login"),
    routing.form("/settings/email/again", again, Form, limit_class="login"),
)
