"""Forgotten passwords, and what the links in mails lead to. A look at such a page does nothing: its button does."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import credentials, oauth, sessions
from shoal.core.email import MailKind
from shoal.core.errors import Gone, InvalidInput, NotAllowed, Taken, TooLarge, TooMany, TooShort
from shoal.mastodon_api import login_attempts
from shoal.web import rows
from shoal.web.entering import begin
from shoal.web.rendering import page
from shoal.web.views.errors.refusals import told, wrong_of
from shoal.web.visit import Form, Visit

_Typed = Annotated[str, Meta(max_length=2_000)]
_Proof = Annotated[str, Meta(max_length=100)]


class ForgottenQuery(msgspec.Struct, frozen=True):
    """Whether a mail was just asked for."""

    sent: bool = False


class Forgotten(Form, frozen=True, kw_only=True):
    """Whose password it is."""

    username: _Typed = ""


class ProofPath(msgspec.Struct, frozen=True):
    """The proof that the link of a mail carries."""

    proof: _Proof


class ProofForm(Form, frozen=True, kw_only=True):
    """The button of a page to which a mail led."""

    proof: _Proof


class ResetForm(Form, frozen=True, kw_only=True):
    """A password, chosen by whoever reads the mail of the member."""

    proof: _Proof
    password: _Typed = ""


async def forgotten(visit: Visit, query: ForgottenQuery) -> Response:
    """The form to ask for a mail, and what to do once it is sent."""
    return await _forgotten(visit, sent=query.sent)


async def ask(visit: Visit, asked: Forgotten) -> Response:
    """Have a mail sent, if there is such a member: the answer is the same if not."""
    visit.check_sent(asked)
    if not visit.front.settings.mail:
        return await _forgotten(visit)
    try:
        await login_attempts.count_mail(visit.anonymous, asked.username)
        await credentials.forgot(visit.front.writes, asked.username, visit.words.code)
    except InvalidInput:
        return await _forgotten(visit, asked.username, visit.words.text("Please fill this in."), 422)
    except TooMany as error:
        return await _too_many(visit, asked.username, error)
    return visit.go("/forgotten", sent=1)


async def _too_many(visit: Visit, name: str, error: TooMany) -> Response:
    wrong = visit.words.text(
        "Several mails were asked for already. Please look in your spam folder, and try again in an hour."
    )
    response = await _forgotten(visit, name, wrong, 429)
    response.headers["Retry-After"] = str(math.ceil(error.retry_after))
    return response


async def _forgotten(
    visit: Visit, name: str = "", wrong: str = "", status: int = 200, *, sent: bool = False
) -> Response:
    settings = visit.front.settings
    return await page(
        visit,
        "forgotten",
        status=status,
        title=visit.words.text("Forgot your password?"),
        name=name,
        wrong=wrong,
        sent=sent,
        has_mail=bool(settings.mail),
        contact=settings.contact_email,
    )


async def reset_form(visit: Visit, query: ProofPath) -> Response:
    """The form for a new password."""
    return await _reset(visit, query.proof)


async def reset(visit: Visit, asked: ResetForm) -> Response:
    """Replace the password, and log in."""
    visit.check_sent(asked)
    try:
        member = await login_attempts.reset_password(visit.anonymous, asked.proof, asked.password)
    except Gone:
        return await _over(visit)
    except (TooShort, TooLarge) as error:
        _, limits = visit.words.text, visit.front.writes.limits
        said = _("A password has %(least)s to %(most)s characters.") % {
            "least": limits.password_least,
            "most": visit.words.number(limits.password_most),
        }
        return await _reset(visit, asked.proof, wrong_of(visit.words, error, password=said).get("password", said))
    try:
        oauth.check_welcome(member)
    except NotAllowed:
        # The page to log in says why, and what there is to do.
        return visit.go("/login")
    return await begin(visit, member, "/")


async def _reset(visit: Visit, proof: str, wrong: str = "") -> Response:
    try:
        member = (await credentials.proven(visit.front.writes, proof, MailKind.RESET)).member
    except Gone:
        return await _over(visit)
    return await _titled(
        visit,
        "reset",
        422 if wrong else 200,
        visit.words.text("A new password"),
        proof=proof,
        name=member.name,
        wrong=wrong,
    )


async def confirm_form(visit: Visit, query: ProofPath) -> Response:
    """The page at which an address is confirmed."""
    _ = visit.words.text
    return await _button(visit, query.proof, "confirm", _("Confirm the address"), MailKind.CONFIRM, MailKind.CHANGE)


async def confirm(visit: Visit, asked: ProofForm) -> Response:
    """Confirm an address."""
    visit.check_sent(asked)
    _ = visit.words.text
    try:
        member = await credentials.confirm(visit.front.writes, asked.proof)
    except Taken:
        return await _over(visit, _("Somebody else has this address by now."))
    except NotAllowed as error:
        return await _over(visit, told(visit.words, error))
    except Gone:
        return await _over(visit)
    if member.pending:
        return visit.go("/signup/waiting")
    if visit.viewer is None:
        return await _titled(visit, "mail_done", 200, _("Thank you"), said=_("The address is confirmed."), way="/login")
    return visit.go("/settings/email", saved=1)


async def undo_form(visit: Visit, query: ProofPath) -> Response:
    """The page at which an address is brought back."""
    return await _button(visit, query.proof, "undo", visit.words.text("Bring the address back"), MailKind.UNDO)


async def undo(visit: Visit, asked: ProofForm) -> Response:
    """Bring an address back, and log everybody out."""
    visit.check_sent(asked)
    _ = visit.words.text
    try:
        await credentials.undo_change(visit.front.writes, asked.proof, visit.words.code)
    except (Gone, Taken):
        return await _over(visit)
    said = _(
        "Your address is back, and everybody is logged out. A mail with a link to choose a new password is on its way."
    )
    response = await _titled(visit, "mail_done", 200, _("It is yours again"), said=said, way="")
    if visit.viewer is not None and await sessions.of_browser(visit.front.writes, visit.browser.login) is None:
        visit.browser.log_out(response)
    return response


async def _button(visit: Visit, proof: str, action: str, title: str, *kinds: MailKind) -> Response:
    try:
        found = await credentials.proven(visit.front.writes, proof, *kinds)
    except Gone:
        return await _over(visit)
    kind, address, name = found.proof.kind, found.proof.address, found.member.name
    return await _titled(
        visit, "mail_button", 200, title, proof=proof, action=action, kind=kind, address=address, name=name
    )


async def _over(visit: Visit, why: str = "") -> Response:
    _ = visit.words.text
    said = why or _("It was used before, or its time is over. A new mail brings a new one.")
    return await _titled(visit, "mail_over", 410, _("This link is over"), said=said)


async def _titled(visit: Visit, template: str, status: int, title: str, **views: object) -> Response:
    return await page(visit, template, status=status, title=title, heading=title, **views)


ROUTES = (
    rows.page("/forgotten", forgotten, ForgottenQuery),
    rows.form("/forgotten", ask, Forgotten, limit_class="login"),
    rows.page("/reset/{proof}", reset_form, ProofPath, secret=True),
    rows.form("/reset/{proof}", reset, ResetForm, limit_class="login", secret=True),
    rows.page("/confirm/{proof}", confirm_form, ProofPath, secret=True),
    rows.form("/confirm/{proof}", confirm, ProofForm, limit_class="login", secret=True),
    rows.page("/undo/{proof}", undo_form, ProofPath, secret=True),
    rows.form("/undo/{proof}", undo, ProofForm, limit_class="login", secret=True),
)
