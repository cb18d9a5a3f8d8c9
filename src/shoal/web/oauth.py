"""The OAuth authorization page: a member logs in, authorizes an app, and is redirected to the app with a code.

Every form redirects to a page that can be reloaded, so a reload does not send a password again. The browser stays
logged in, so for the next app, the member only has to authorize it. These pages have no navigation. Their only script
handles passkeys.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlsplit

from msgspec import Meta
from starlette.responses import RedirectResponse, Response

from shoal.commands import oauth, second_factor, sessions
from shoal.commands.second_factor import SecondWays
from shoal.core.credentials import MOST_CHARACTERS
from shoal.core.errors import NotAllowed, TooMany, Unauthenticated
from shoal.core.model import App, Member
from shoal.http.authentication import in_words
from shoal.mastodon_api import login_attempts
from shoal.mastodon_api.oauth import OUT_OF_BAND, Authorization, AuthorizeRequest, SentBack, address_of, issuer_of, read
from shoal.web import routing
from shoal.web.authentication import code_refusal, log_in, passkey_refusal, password_refusal
from shoal.web.form_errors import error_text
from shoal.web.layout import bare_shell
from shoal.web.rendering import framed
from shoal.web.request_context import Line, PageContext, local
from shoal.web.view_models import face_of


class ClientApp(NamedTuple):
    name: str
    letter: str
    """A letter that is shown instead of an icon."""
    site: str
    """Host of the app's website; empty if the app has none."""
    website: str


def _app(app: App) -> ClientApp:
    letter = next((character for character in app.name.upper() if character.isalnum()), "?")
    parts = urlsplit(app.website)
    shown = parts.scheme in {"http", "https"}
    return ClientApp(app.name, letter, parts.netloc if shown else "", app.website if shown else "")


def _redirect_host(redirect_uri: str) -> str:
    """Return the host that will receive the code. It is shown because an app can choose any name, but not this host."""
    if redirect_uri == OUT_OF_BAND:
        return ""
    parts = urlsplit(redirect_uri)
    return parts.netloc if parts.scheme in {"http", "https"} else f"{parts.scheme}:"


# The policy has no `form-action`: Chromium would apply it to the redirect after the form, which leads to the app.
_POLICY = "default-src 'none'; img-src 'self' data:; style-src 'self'; base-uri 'none'; frame-ancestors 'none'"
_LOGIN_PAGES = {"authorize_login", "authorize_second"}
_SCRIPTED = f"{_POLICY}; script-src 'self'; connect-src 'self'"
"""The policy of the pages that use passkeys. The authorization page itself has no scripts."""


class Decision(Authorization, frozen=True):
    do: Literal["login", "passkey", "code", "allow", "deny", "switch"] = "login"
    form_token: Annotated[str, Meta(max_length=200)] = ""
    username: Line = ""
    password: Line = ""
    second: Annotated[str, Meta(max_length=MOST_CHARACTERS)] = ""
    """A code of the second factor, or the response of a passkey in JSON."""


async def show(ctx: PageContext, params: Authorization) -> Response:
    try:
        asked = await read(ctx.graph, params)
    except SentBack as back:
        return _send(ctx, back)
    return _page(ctx, asked, await _visitor(ctx, params))


async def decide(ctx: PageContext, params: Decision) -> Response:
    """Handle a form of the authorization page: log in, allow, deny, or switch to another account."""
    try:
        asked = await read(ctx.graph, params)
        visitor = await _visitor(ctx, params)
        if not ctx.browser.sent(params.form_token):
            return _page(ctx, asked, visitor, error_text=_too_old(ctx), status=403)
        match params.do:
            case "login":
                return await _log_in(ctx, asked, params)
            case "passkey":
                return await _by_passkey(ctx, asked, params)
            case "code":
                return await _show_code(ctx, asked, params)
            case "switch":
                return await _log_out(ctx, params)
            case "deny":
                denied = "The resource owner denied the request."
                raise _answer(asked, error="access_denied", error_description=denied)
        if visitor.member is None:
            return _page(ctx, asked, visitor, error_text=visitor.error_text or _too_old(ctx), status=403)
        app, redirect = asked.app.id, asked.redirect_uri
        code = await oauth.issue_code(ctx.writes, visitor.member, app, asked.scopes, redirect, asked.challenge)
        raise _answer(asked, code=code)
    except SentBack as back:
        return _send(ctx, back)


async def _log_in(ctx: PageContext, asked: AuthorizeRequest, params: Decision) -> Response:
    try:
        member = await login_attempts.knows_password(ctx.anonymous, params.username, params.password)
    except (Unauthenticated, NotAllowed, TooMany) as error:
        refusal = password_refusal(ctx.words, error)
        answer = _page(ctx, asked, _Visitor(), error_text=refusal.words, name=params.username, locked=refusal.locked)
        return refusal.on(answer)
    return await _logged_in(ctx, params, member)


async def _by_passkey(ctx: PageContext, asked: AuthorizeRequest, params: Decision) -> Response:
    try:
        member = await login_attempts.by_passkey(ctx.anonymous, params.second)
    except (Unauthenticated, NotAllowed, TooMany) as error:
        refusal = passkey_refusal(ctx.words, error)
        return refusal.on(_page(ctx, asked, _Visitor(), error_text=refusal.words))
    return await _logged_in(ctx, params, member, proved=True)


async def _show_code(ctx: PageContext, asked: AuthorizeRequest, params: Decision) -> Response:
    found = await sessions.halfway(ctx.writes, ctx.browser.login)
    if found is None:
        return _page(ctx, asked, _Visitor(), error_text=_too_old(ctx), status=403)
    refusal = await code_refusal(ctx, found.member, params.second)
    if refusal is None:
        return await _logged_in(ctx, params, found.member, proved=True)
    return refusal.on(_page(ctx, asked, await _halfway(ctx, found.member), error_text=refusal.words))


async def _logged_in(ctx: PageContext, params: Decision, member: Member, *, proved: bool = False) -> Response:
    response = RedirectResponse(address_of(ctx.app.at, params), 303)
    await log_in(ctx, response, await sessions.begin(ctx.writes, member, proved=proved, origin=ctx.origin))
    return response


async def _log_out(ctx: PageContext, params: Decision) -> Response:
    await sessions.leave(ctx.writes, ctx.browser.login)
    response = RedirectResponse(address_of(ctx.app.at, params), 303)
    ctx.browser.log_out(response)
    return response


class _Visitor(NamedTuple):
    """The login state of the browser on the authorization page."""

    member: Member | None = None
    half: Member | None = None
    """The member, if a second factor is still required."""
    ways: SecondWays | None = None
    """The second factors available to `half`."""
    error_text: str = ""


async def _visitor(ctx: PageContext, params: Authorization) -> _Visitor:
    if params.force_login or not ctx.browser.login:
        return _Visitor()
    writes, login = ctx.writes, ctx.browser.login
    try:
        found = await sessions.of_browser(writes, login)
        half = None if found is not None else await sessions.halfway(writes, login)
    except NotAllowed as error:
        return _Visitor(error_text=error_text(ctx.words, error))
    if half is not None:
        return await _halfway(ctx, half.member)
    return _Visitor(found.member if found is not None else None)


async def _halfway(ctx: PageContext, member: Member) -> _Visitor:
    return _Visitor(half=member, ways=await second_factor.ways(ctx.writes, member.id))


def _page(
    ctx: PageContext,
    asked: AuthorizeRequest,
    visitor: _Visitor,
    *,
    error_text: str = "",
    name: str = "",
    status: int = 0,
    locked: bool = False,
) -> Response:
    """Return the authorization form, or the form to log in or for a second factor.

    `error_text` is the error message. `locked` means that password logins are blocked for now, so the page offers other ways to
    log in.
    """
    app, error_text, member = _app(asked.app), error_text or visitor.error_text, visitor.member
    if visitor.half is not None:
        name, ways = visitor.half.name, visitor.ways
        return _alone(ctx, "authorize_second", status or 200, app=app, error_text=error_text, name=name, ways=ways)
    if member is None:
        settings = ctx.settings
        return _alone(
            ctx,
            "authorize_login",
            status or (403 if error_text else 200),
            app=app,
            error_text=error_text,
            to=local(_path_of(ctx, asked), ""),
            name=name,
            locked=locked,
            has_mail=bool(settings.mail),
            contact=settings.contact_email,
        )
    return _alone(
        ctx,
        "authorize",
        status or 200,
        app=app,
        error_text=error_text,
        domain=ctx.app.at.domain,
        face=face_of(ctx, member),
        permissions=[ctx.words.text(line) for line in in_words(asked.scopes)],
        whither=_redirect_host(asked.redirect_uri),
    )


def _path_of(ctx: PageContext, asked: AuthorizeRequest) -> str:
    """Return the path of this page, to which a login with a provider returns."""
    params = Authorization(
        response_type="code",
        client_id=str(asked.app.id),
        redirect_uri=asked.redirect_uri,
        scope=" ".join(asked.scopes),
        state=asked.state,
        code_challenge=asked.challenge,
        code_challenge_method="S256" if asked.challenge else "",
    )
    return address_of(ctx.app.at, params).removeprefix(ctx.app.at.path)


def _alone(ctx: PageContext, template: str, status: int = 200, **views: object) -> Response:
    response = framed(ctx, bare_shell(ctx, ctx.words.text("Authorize app")), template, status=status, **views)
    response.headers["Content-Security-Policy"] = _SCRIPTED if template in _LOGIN_PAGES else _POLICY
    return response


def _too_old(ctx: PageContext) -> str:
    return ctx.words.text("This page has expired, or your browser blocks cookies. Try again.")


def _answer(asked: AuthorizeRequest, **answer: str) -> SentBack:
    return SentBack(asked.redirect_uri, **answer, state=asked.state)


def _send(ctx: PageContext, back: SentBack) -> Response:
    """Redirect to the app with the response. If the app has no redirect URL, show the response on a page."""
    if back.redirect_uri != OUT_OF_BAND:
        # Status 303 makes the browser send GET after its POST.
        return RedirectResponse(back.url(issuer_of(ctx.app.at)), 303)
    if code := back.answer.get("code"):
        return _alone(ctx, "authorize_code", code=code)
    denied = back.answer["error"] == "access_denied"
    return _alone(ctx, "authorize_refused", 200 if denied else 400, denied=denied, error_text=str(back))


ROUTES = (
    routing.page("/oauth/authorize", show, Authorization, once=True, secret=True),
    routing.form("/oauth/authorize", decide, Decision, limit_class="login", once=True, secret=True),
)
