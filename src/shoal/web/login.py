"""Login by password, second factor or demo account, and logout. `web.oidc` has the login with providers."""

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
from shoal.http.middleware import outside
from shoal.mastodon_api import login_attempts
from shoal.mastodon_api.browser_session import PROVIDER
from shoal.web import account_deletion, routing
from shoal.web.authentication import begin, code_refusal, leave_to, password_refusal
from shoal.web.ownership import is_confirmed
from shoal.web.pending_actions import in_words, pending
from shoal.web.rendering import page
from shoal.web.request_context import Form, Line, PageContext, local


class LogInQuery(msgspec.Struct, frozen=True):
    to: Line = ""


class LogIn(Form, frozen=True, kw_only=True):
    username: Line = ""
    password: Line = ""


class Code(Form, frozen=True, kw_only=True):
    """The second factor as typed: a TOTP code, a recovery code, or the response of a passkey."""

    code: Annotated[str, Meta(max_length=MOST_CHARACTERS)] = ""


async def form(ctx: PageContext, query: LogInQuery) -> Response:
    """Show the login form. A logged-in member is redirected to the page that the link names."""
    if ctx.viewer is not None:
        return ctx.go(local(query.to))
    return await login_page(ctx, query.to)


async def log_in(ctx: PageContext, asked: LogIn) -> Response:
    ctx.check_sent(asked)
    try:
        member = await login_attempts.knows_password(ctx.anonymous, asked.username, asked.password)
    except Leaving:
        return await account_deletion.ask(ctx, asked.username, status=403)
    except Unconfirmed:
        return await ask_again(ctx, asked.username)
    except (Unauthenticated, NotAllowed, TooMany) as error:
        refusal = password_refusal(ctx.words, error)
        answer = await login_page(ctx, asked.to, asked.username, refusal.words, locked=refusal.locked)
        return refusal.on(answer)
    return await begin(ctx, member, asked.to)


async def ask_again(ctx: PageContext, name: str) -> Response:
    """Send the confirmation email again to a member who has just authenticated. Return a page with the next steps."""
    member = await members.find_login(ctx.writes, name)
    with suppress(TooMany):
        await login_attempts.count_mail(ctx.anonymous, name)
        if member is not None:
            await credentials.ask_confirmation(ctx.writes, member, ctx.words.code)
    return ctx.go("/signup/confirm")


async def code_form(ctx: PageContext, query: LogInQuery) -> Response:
    found = await sessions.halfway(ctx.writes, ctx.browser.login)
    if found is None:
        return ctx.go("/login", to=local(query.to, ""))
    return await _code_form(ctx, found.member, query.to)


async def code(ctx: PageContext, asked: Code) -> Response:
    ctx.check_sent(asked)
    found = await sessions.halfway(ctx.writes, ctx.browser.login)
    if found is None:
        return ctx.go("/login", to=local(asked.to, ""))
    refusal = await code_refusal(ctx, found.member, asked.code)
    if refusal is None:
        # The link of a recovery mail confirms that the account is the member's, also if the code comes after it.
        confirmed = await is_confirmed(ctx, found.member)
        return await begin(ctx, found.member, asked.to, proved=True, provider=found.provider, confirmed=confirmed)
    return refusal.on(await _code_form(ctx, found.member, asked.to, refusal.words))


async def _code_form(ctx: PageContext, member: Member, to: str, wrong: str = "") -> Response:
    return await page(
        ctx,
        "login_code",
        action=in_words(ctx, pending(ctx, to)),
        title=ctx.words.text("One more step"),
        to=to,
        name=member.name,
        wrong=wrong,
        ways=await second_factor.ways(ctx.writes, member.id),
        contact=ctx.settings.contact_email,
    )


async def as_demo(ctx: PageContext, asked: Form) -> Response:
    ctx.check_sent(asked)
    demo_id = ctx.app.demo_member
    member = (await ctx.graph.obj_get((demo_id,))).get(demo_id) if demo_id else None
    if not isinstance(member, Member):
        raise NotFound("There is no such page")
    return await begin(ctx, member, asked.to)


async def log_out(ctx: PageContext, asked: Form) -> Response:
    ctx.check_sent(asked)
    await sessions.leave(ctx.writes, ctx.browser.login)
    provider = ctx.browser.read(PROVIDER)
    async with outside(ctx.request.scope):
        url = await ctx.app.providers.end_session_url(provider, f"{ctx.app.at.root}/") if provider else ""
    response = await leave_to(ctx, url, ctx.app.providers.titles[provider]) if url else ctx.go("/")
    ctx.browser.log_out(response)
    return response


async def login_page(ctx: PageContext, to: str, name: str = "", wrong: str = "", *, locked: bool = False) -> Response:
    """Return the login form with the name and the error.

    `locked` means that password logins are blocked for now, so the page offers other ways to log in.
    """
    action = pending(ctx, to)
    response = await page(
        ctx,
        "login",
        action=in_words(ctx, action),
        title=ctx.words.text("Log in"),
        to=to,
        name=name,
        wrong=wrong,
        locked=locked,
        has_mail=bool(ctx.settings.mail),
        contact=ctx.settings.contact_email,
        may_join=ctx.settings.registrations and (ctx.settings.password_login or bool(ctx.app.providers.titles)),
    )
    if action is None:
        ctx.browser.postpone(response, "")
    return response


ROUTES = (
    routing.page("/login", form, LogInQuery),
    routing.form("/login", log_in, LogIn, limit_class="login"),
    routing.page("/login/code", code_form, LogInQuery, secret=True),
    routing.form("/login/code", code, Code, limit_class="login", secret=True),
    routing.form("/login/demo", as_demo, Form, limit_class="pages"),
    routing.form("/logout", log_out, Form, limit_class="pages"),
)
