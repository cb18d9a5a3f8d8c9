"""Login by password, second factor or demo account, and logout."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import credentials, members, second_factor, sessions
from shoal.core.credentials import MOST_CHARACTERS
from shoal.core.errors import Leaving, NotAllowed, NotFound, TooMany, Unauthenticated, Unconfirmed
from shoal.core.model import Member
from shoal.mastodon_api import login_attempts
from shoal.web import account_deletion, routing
from shoal.web.authentication import begin, code_refusal, password_refusal
from shoal.web.rendering import page
from shoal.web.request_context import Form, Line, Visit, local


class LogInQuery(msgspec.Struct, frozen=True):
    to: Line = ""


class LogIn(Form, frozen=True, kw_only=True):
    username: Line = ""
    password: Line = ""


class Code(Form, frozen=True, kw_only=True):
    """A TOTP code, a recovery code, or the response of a passkey."""

    code: Annotated[str, Meta(max_length=MOST_CHARACTERS)] = ""


async def form(visit: Visit, query: LogInQuery) -> Response:
    """Show the login form. A logged-in member is redirected to the target."""
    if visit.viewer is not None:
        return visit.go(local(query.to))
    return await login_page(visit, query.to)


async def log_in(visit: Visit, asked: LogIn) -> Response:
    visit.check_sent(asked)
    try:
        member = await login_attempts.knows_password(visit.anonymous, asked.username, asked.password)
    except Leaving:
        return await account_deletion.ask(visit, asked.username, status=403)
    except Unconfirmed:
        return await _ask_again(visit, asked.username)
    except (Unauthenticated, NotAllowed, TooMany) as error:
        refusal = password_refusal(visit.words, error)
        answer = await login_page(visit, asked.to, asked.username, refusal.words, locked=refusal.locked)
        return refusal.on(answer)
    return await begin(visit, member, asked.to)


async def _ask_again(visit: Visit, name: str) -> Response:
    """Send the confirmation email again, because the password was right, and show what to do with it."""
    member = await members.find(visit.writes, name)
    with suppress(TooMany):
        await login_attempts.count_mail(visit.anonymous, name)
        if member is not None:
            await credentials.ask_confirmation(visit.writes, member, visit.words.code)
    return visit.go("/signup/confirm")


async def code_form(visit: Visit, query: LogInQuery) -> Response:
    """Show the second-factor form. Without a verified password, redirect to the login page."""
    found = await sessions.halfway(visit.writes, visit.browser.login)
    if found is None:
        return visit.go("/login", to=local(query.to, ""))
    return await _code_form(visit, found.member, query.to)


async def code(visit: Visit, asked: Code) -> Response:
    visit.check_sent(asked)
    found = await sessions.halfway(visit.writes, visit.browser.login)
    if found is None:
        return visit.go("/login", to=local(asked.to, ""))
    refusal = await code_refusal(visit, found.member, asked.code)
    if refusal is None:
        return await begin(visit, found.member, asked.to, proved=True)
    return refusal.on(await _code_form(visit, found.member, asked.to, refusal.words))


async def _code_form(visit: Visit, member: Member, to: str, wrong: str = "") -> Response:
    return await page(
        visit,
        "login_code",
        title=visit.words.text("One more step"),
        to=to,
        name=member.name,
        wrong=wrong,
        ways=await second_factor.ways(visit.writes, member.id),
        contact=visit.settings.contact_email,
    )


async def as_demo(visit: Visit, asked: Form) -> Response:
    """Log in as the shared demo member."""
    visit.check_sent(asked)
    lent = visit.front.demo_member
    member = (await visit.graph.obj_get((lent,))).get(lent) if lent else None
    if not isinstance(member, Member):
        raise NotFound("There is no such page")
    return await begin(visit, member, asked.to)


async def log_out(visit: Visit, asked: Form) -> Response:
    visit.check_sent(asked)
    await sessions.leave(visit.writes, visit.browser.login)
    response = visit.go("/")
    visit.browser.log_out(response)
    return response


async def login_page(visit: Visit, to: str, name: str = "", wrong: str = "", *, locked: bool = False) -> Response:
    """Return the login form with the typed name and the error.

    `locked`: password logins are locked for now, and the page offers other ways to log in.
    """
    return await page(
        visit,
        "login",
        title=visit.words.text("Log in"),
        to=to,
        name=name,
        wrong=wrong,
        locked=locked,
        has_mail=bool(visit.settings.mail),
        contact=visit.settings.contact_email,
        may_join=visit.settings.registrations,
    )


ROUTES = (
    routing.page("/login", form, LogInQuery),
    routing.form("/login", log_in, LogIn, limit_class="login"),
    routing.page("/login/code", code_form, LogInQuery, secret=True),
    routing.form("/login/code", code, Code, limit_class="login", secret=True),
    routing.form("/login/demo", as_demo, Form, limit_class="pages"),
    routing.form("/logout", log_out, Form, limit_class="pages"),
)
