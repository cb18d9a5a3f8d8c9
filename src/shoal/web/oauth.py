"""The OAuth authorization page: a member logs in, authorizes an app, and is redirected to the app with a code.

Every form redirects to a page that can be reloaded, so a password is submitted once. The browser stays logged in; the next
app needs only authorization. These pages have no navigation. Their only script handles passkeys.
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
from shoal.web.form_errors import told
from shoal.web.layout import bare_shell
from shoal.web.rendering import framed
from shoal.web.request_context import Line, Visit
from shoal.web.view_models import face_of


class AskingApp(NamedTuple):
    name: str
    letter: str
    """Shown instead of an icon."""
    site: str
    """Host of its website; empty if it has none."""
    website: str


def _app(app: App) -> AskingApp:
    letter = next((character for character in app.name.upper() if character.isalnum()), "?")
    parts = urlsplit(app.website)
    shown = parts.scheme in {"http", "https"}
    return AskingApp(app.name, letter, parts.netloc if shown else "", app.website if shown else "")


def _redirect_host(redirect_uri: str) -> str:
    """Return the host that the code is sent to. An app can choose any name, but not this address."""
    if redirect_uri == OUT_OF_BAND:
        return ""
    parts = urlsplit(redirect_uri)
    return parts.netloc if parts.scheme in {"http", "https"} else f"{parts.scheme}:"


# No `form-action`: Chromium also applies it to the redirect that follows the form, which leads to the app.
_POLICY = "default-src 'none'; img-src 'self' data:; style-src 'self'; base-uri 'none'; frame-ancestors 'none'"
_ASKING = {"authorize_login", "authorize_second"}
_SCRIPTED = f"{_POLICY}; script-src 'self'; connect-src 'self'"
"""The policy of the pages that use passkeys. The authorization page itself has no scripts."""


class Decision(Authorization, frozen=True):
    do: Literal["login", "passkey", "code", "allow", "deny", "switch"] = "login"
    form_token: Annotated[str, Meta(max_length=200)] = ""
    username: Line = ""
    password: Line = ""
    second: Annotated[str, Meta(max_length=MOST_CHARACTERS)] = ""
    """A code of the second factor, or the response of a passkey."""


async def show(visit: Visit, params: Authorization) -> Response:
    try:
        asked = await read(visit.graph, params)
    except SentBack as back:
        return _send(visit, back)
    return _page(visit, asked, await _visitor(visit, params))


async def decide(visit: Visit, params: Decision) -> Response:
    """Handle a form of the authorization page: log in, allow, deny, or switch to another account."""
    try:
        asked = await read(visit.graph, params)
        visitor = await _visitor(visit, params)
        if not visit.browser.sent(params.form_token):
            return _page(visit, asked, visitor, told=_too_old(visit), status=403)
        match params.do:
            case "login":
                return await _log_in(visit, asked, params)
            case "passkey":
                return await _by_passkey(visit, asked, params)
            case "code":
                return await _show_code(visit, asked, params)
            case "switch":
                return await _log_out(visit, params)
            case "deny":
                denied = "The resource owner denied the request."
                raise _answer(asked, error="access_denied", error_description=denied)
        if visitor.member is None:
            return _page(visit, asked, visitor, told=visitor.told or _too_old(visit), status=403)
        app, redirect = asked.app.id, asked.redirect_uri
        code = await oauth.issue_code(visit.writes, visitor.member, app, asked.scopes, redirect, asked.challenge)
        raise _answer(asked, code=code)
    except SentBack as back:
        return _send(visit, back)


async def _log_in(visit: Visit, asked: AuthorizeRequest, params: Decision) -> Response:
    try:
        member = await login_attempts.knows_password(visit.anonymous, params.username, params.password)
    except (Unauthenticated, NotAllowed, TooMany) as error:
        refusal = password_refusal(visit.words, error)
        answer = _page(visit, asked, _Visitor(), told=refusal.words, name=params.username, locked=refusal.locked)
        return refusal.on(answer)
    return await _logged_in(visit, params, member)


async def _by_passkey(visit: Visit, asked: AuthorizeRequest, params: Decision) -> Response:
    try:
        member = await login_attempts.by_passkey(visit.anonymous, params.second)
    except (Unauthenticated, NotAllowed, TooMany) as error:
        refusal = passkey_refusal(visit.words, error)
        return refusal.on(_page(visit, asked, _Visitor(), told=refusal.words))
    return await _logged_in(visit, params, member, proved=True)


async def _show_code(visit: Visit, asked: AuthorizeRequest, params: Decision) -> Response:
    found = await sessions.halfway(visit.writes, visit.browser.login)
    if found is None:
        return _page(visit, asked, _Visitor(), told=_too_old(visit), status=403)
    refusal = await code_refusal(visit, found.member, params.second)
    if refusal is None:
        return await _logged_in(visit, params, found.member, proved=True)
    return refusal.on(_page(visit, asked, await _halfway(visit, found.member), told=refusal.words))


async def _logged_in(visit: Visit, params: Decision, member: Member, *, proved: bool = False) -> Response:
    response = RedirectResponse(address_of(visit.front.at, params), 303)
    await log_in(visit, response, await sessions.begin(visit.writes, member, proved=proved, origin=visit.origin))
    return response


async def _log_out(visit: Visit, params: Decision) -> Response:
    await sessions.leave(visit.writes, visit.browser.login)
    response = RedirectResponse(address_of(visit.front.at, params), 303)
    visit.browser.log_out(response)
    return response


class _Visitor(NamedTuple):
    """The login state of the browser on the authorization page."""

    member: Member | None = None
    half: Member | None = None
    """The member whose password was verified and whose second factor is missing."""
    ways: SecondWays | None = None
    """The second factors available to `half`."""
    told: str = ""
    """Why the member may not log in."""


async def _visitor(visit: Visit, params: Authorization) -> _Visitor:
    if params.force_login or not visit.browser.login:
        return _Visitor()
    writes, login = visit.writes, visit.browser.login
    try:
        member = await sessions.browser(writes, login)
        half = None if member is not None else await sessions.halfway(writes, login)
    except NotAllowed as error:
        return _Visitor(told=told(visit.words, error))
    return await _halfway(visit, half.member) if half is not None else _Visitor(member)


async def _halfway(visit: Visit, member: Member) -> _Visitor:
    return _Visitor(half=member, ways=await second_factor.ways(visit.writes, member.id))


def _page(
    visit: Visit,
    asked: AuthorizeRequest,
    visitor: _Visitor,
    *,
    told: str = "",
    name: str = "",
    status: int = 0,
    locked: bool = False,
) -> Response:
    """Return the authorization form, or the form to log in or for a second factor.

    `told` is the error message. `locked`: see `login_page`.
    """
    app, told, member = _app(asked.app), told or visitor.told, visitor.member
    if visitor.half is not None:
        name, ways = visitor.half.name, visitor.ways
        return _alone(visit, "authorize_second", status or 200, app=app, told=told, name=name, ways=ways)
    if member is None:
        settings = visit.settings
        return _alone(
            visit,
            "authorize_login",
            status or (403 if told else 200),
            app=app,
            told=told,
            name=name,
            locked=locked,
            has_mail=bool(settings.mail),
            contact=settings.contact_email,
        )
    return _alone(
        visit,
        "authorize",
        status or 200,
        app=app,
        told=told,
        domain=visit.front.at.domain,
        face=face_of(visit, member),
        permissions=[visit.words.text(line) for line in in_words(asked.scopes)],
        whither=_redirect_host(asked.redirect_uri),
    )


def _alone(visit: Visit, template: str, status: int = 200, **views: object) -> Response:
    response = framed(visit, bare_shell(visit, visit.words.text("Let an app in")), template, status=status, **views)
    response.headers["Content-Security-Policy"] = _SCRIPTED if template in _ASKING else _POLICY
    return response


def _too_old(visit: Visit) -> str:
    return visit.words.text("This page is too old, or your browser keeps no cookies. Please try again.")


def _answer(asked: AuthorizeRequest, **answer: str) -> SentBack:
    return SentBack(asked.redirect_uri, **answer, state=asked.state)


def _send(visit: Visit, back: SentBack) -> Response:
    """Redirect to the app with the response, or show it on a page if the app has no redirect address."""
    if back.redirect_uri != OUT_OF_BAND:
        # 303 makes the browser use GET after its POST.
        return RedirectResponse(back.url(issuer_of(visit.front.at)), 303)
    if code := back.answer.get("code"):
        return _alone(visit, "authorize_code", code=code)
    denied = back.answer["error"] == "access_denied"
    return _alone(visit, "authorize_refused", 200 if denied else 400, denied=denied, told=str(back))


ROUTES = (
    routing.page("/oauth/authorize", show, Authorization, once=True, secret=True),
    routing.form("/oauth/authorize", decide, Decision, limit_class="login", once=True, secret=True),
)
