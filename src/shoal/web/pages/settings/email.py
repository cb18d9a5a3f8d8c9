"""The e-mail address: where mail for a member goes, and by which they log in too."""

from __future__ import annotations

import math
from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import credentials, members
from shoal.core.errors import InvalidInput, NotAllowed, TooMany, TooManyMails
from shoal.core.text import check_email
from shoal.mastodon_api import login_attempts
from shoal.web import rows
from shoal.web.pages.settings.frame import SettingsQuery, settings_page
from shoal.web.views.errors.passwords import password_refusal
from shoal.web.views.errors.refusals import RIGHT, Wrong, told, wrong_of
from shoal.web.visit import Form, Visit

_Typed = Annotated[str, Meta(max_length=2_000)]


class EmailQuery(SettingsQuery, frozen=True):
    """Whether a mail was just sent, and to which address."""

    sent: Annotated[str, Meta(max_length=300)] = ""


class EmailForm(Form, frozen=True, kw_only=True):
    """The address that one wants, and the password."""

    email: _Typed = ""
    password: _Typed = ""


async def show(visit: Visit, query: EmailQuery) -> Response:
    """The address that one has, with the form for another."""
    return await _page(visit, saved=query.saved, sent=_address(query.sent))


async def change(visit: Visit, asked: EmailForm) -> Response:
    """Have a mail sent to another address: it is theirs once they open the link in it."""
    member, _ = visit.checked(asked), visit.words.text
    if not visit.front.settings.mail:
        return await _page(visit)
    try:
        await login_attempts.ask_email_change(
            visit.anonymous, member.id, asked.password, asked.email.strip(), visit.words.code
        )
    except InvalidInput as error:
        known = {
            "password": _("This is not your password."),
            "email": _("This is no e-mail address. One looks like name@example.org."),
        }
        return await _page(visit, wrong_of(visit.words, error, **known), typed=asked.email)
    except NotAllowed as error:
        return await _page(visit, {"email": told(visit.words, error)}, typed=asked.email)
    except TooManyMails as error:
        return await _too_many(visit, error, asked.email)
    except TooMany as error:
        refusal = password_refusal(visit.words, error)
        return refusal.on(await _page(visit, {"password": refusal.words}, typed=asked.email))
    return visit.go("/settings/email", sent=asked.email.strip())


async def again(visit: Visit, asked: Form) -> Response:
    """Have the mail sent again by which one confirms the address that one has."""
    member, front = visit.checked(asked), visit.front
    login = await members.login_of(front.writes, member)
    if login is None or not login.email or login.confirmed or not front.settings.mail:
        return visit.go("/settings/email")
    try:
        await login_attempts.count_mail(visit.anonymous, login.email)
    except TooManyMails as error:
        return await _too_many(visit, error)
    await credentials.ask_confirmation(front.writes, member, visit.words.code)
    return visit.go("/settings/email", sent=login.email)


async def _too_many(visit: Visit, error: TooManyMails, typed: str = "") -> Response:
    said = visit.words.text("Several mails were sent already. Please try again in an hour.")
    response = await _page(visit, {"email": said}, typed=typed)
    response.status_code = 429
    response.headers["Retry-After"] = str(math.ceil(error.retry_after))
    return response


def _address(text: str) -> str:
    """Return an address that a page may repeat; empty for any other text that somebody put into a link."""
    try:
        return check_email(text)
    except InvalidInput:
        return ""


async def _page(
    visit: Visit, wrong: Wrong = RIGHT, *, typed: str = "", saved: bool = False, sent: str = ""
) -> Response:
    login = await members.login_of(visit.front.writes, visit.member)
    return await settings_page(
        visit,
        "email",
        wrong=wrong,
        saved=saved,
        sent=sent,
        typed=typed,
        name=visit.member.name,
        address=login.email if login else "",
        confirmed=login.confirmed if login else False,
        has_mail=bool(visit.front.settings.mail),
    )


ROUTES = (
    rows.page("/settings/email", show, EmailQuery),
    rows.form("/settings/email", change, EmailForm, limit_class="login"),
    rows.form("/settings/email/again", again, Form, limit_class="login"),
)
