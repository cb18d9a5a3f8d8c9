"""The authorize page: an app sends a member here, who logs in and lets the app in, and is sent back with a code.

Each form leads to a page that may be loaded again: who logged in is sent to the question, so a password is posted once. The
browser stays logged in, and the next app need only be let in.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import RedirectResponse, Response

from shoal.api import rows
from shoal.api.context import Context, Front
from shoal.api.http.calls import Body
from shoal.api.login import authorize_pages as pages
from shoal.api.login import guesses
from shoal.api.login.authorize_request import (
    OUT_OF_BAND,
    Authorization,
    AuthorizeRequest,
    SentBack,
    address_of,
    issuer_of,
    read,
)
from shoal.api.login.browser import Browser
from shoal.core.errors import NotAllowed, TooMany, Unauthenticated
from shoal.core.model import Member
from shoal.services.login import grants, sessions

_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}

_OLD = "This page has expired, or your browser keeps no cookies. Please try again."
_TOO_MANY = "Too many wrong passwords. Please wait some minutes and try again; where you are logged in, you stay so."
_WRONG = "The name or the password is wrong. Please try again."


class Decision(Authorization, frozen=True):
    """Fields of the forms on the authorize page, by which a person decides."""

    do: Literal["login", "allow", "deny", "switch"] = "login"
    form_token: Annotated[str, Meta(max_length=200)] = ""
    username: Annotated[str, Meta(max_length=2_000)] = ""
    password: Annotated[str, Meta(max_length=2_000)] = ""


async def show(context: Context, params: Authorization) -> object:
    """The page where a member logs in and lets an app in."""
    front = context.deps
    try:
        asked = await read(front.graph, params)
    except SentBack as back:
        return _send(front, back)
    browser = _browser(context)
    member, told = await _visitor(front, browser, params)
    return _page(front, browser, asked, member, told)


async def decide(context: Context, params: Decision) -> object:
    """Handle an answer on the authorize page: log in, allow, deny, or switch to another member."""
    front = context.deps
    browser = _browser(context)
    try:
        asked = await read(front.graph, params)
        member, told = await _visitor(front, browser, params)
        if not browser.sent(params.form_token):
            return _page(front, browser, asked, member, _OLD, status=403)
        if params.do == "login":
            return await _log_in(context, browser, asked, params)
        if params.do == "switch":
            return await _log_out(front, browser, params)
        if params.do == "deny":
            raise _answer(asked, error="access_denied", error_description="The resource owner denied the request.")
        if member is None:
            return _page(front, browser, asked, None, told or _OLD, status=403)
        code = await grants.issue(front.writes, member, asked.app.id, asked.scopes, asked.redirect_uri, asked.challenge)
        raise _answer(asked, code=code)
    except SentBack as back:
        return _send(front, back)


async def _log_in(context: Context, browser: Browser, asked: AuthorizeRequest, params: Decision) -> Response:
    front = context.deps
    try:
        member = await guesses.log_in(context, params.username, params.password)
    except Unauthenticated:
        return _page(front, browser, asked, None, _WRONG, name=params.username, status=422)
    except NotAllowed as error:
        return _page(front, browser, asked, None, str(error), name=params.username, status=403)
    except TooMany as error:
        page = _page(front, browser, asked, None, _TOO_MANY, name=params.username, status=429)
        page.headers["Retry-After"] = str(math.ceil(error.retry_after))
        return page
    begun = await sessions.begin(front.writes, member)
    await sessions.leave(front.writes, browser.login)
    response = RedirectResponse(address_of(front.at, params), 303, _HEADERS)
    browser.log_in(response, begun.text)
    return response


async def _log_out(front: Front, browser: Browser, params: Decision) -> Response:
    await sessions.leave(front.writes, browser.login)
    response = RedirectResponse(address_of(front.at, params), 303, _HEADERS)
    browser.log_out(response)
    return response


def _browser(context: Context) -> Browser:
    front = context.deps
    return Browser(context.request, secure=front.at.root.startswith("https:"))


async def _visitor(front: Front, browser: Browser, params: Authorization) -> tuple[Member | None, str]:
    """Return the member who need not log in again, or None and, where somebody may not log in, the reason to show."""
    if params.force_login or not browser.login:
        return None, ""
    try:
        return await sessions.browser(front.writes, browser.login), ""
    except NotAllowed as error:
        return None, str(error)


def _page(
    front: Front,
    browser: Browser,
    asked: AuthorizeRequest,
    member: Member | None,
    told: str,
    *,
    name: str = "",
    status: int = 0,
) -> Response:
    """The question for who is logged in, the form to log in for who is not. `told` is what went wrong."""
    if member is not None:
        response = pages.question(front, asked, member, browser.form_token, told, status or 200)
    else:
        response = pages.login(front, asked, browser.form_token, told, name, status or (403 if told else 200))
    browser.keep(response)
    return response


def _answer(asked: AuthorizeRequest, **answer: str) -> SentBack:
    return SentBack(asked.redirect_uri, **answer, state=asked.state)


def _send(front: Front, back: SentBack) -> Response:
    """To the app; where it has no address, to the person."""
    if back.redirect_uri != OUT_OF_BAND:
        # 303: the browser is to ask for it, whatever it posted here.
        return RedirectResponse(back.url(issuer_of(front.at)), 303, _HEADERS)
    if code := back.answer.get("code"):
        return pages.code(front, code)
    return pages.refused(front, back.answer["error"], str(back))


ROUTES = (
    rows.oauth(
        "GET",
        "/oauth/authorize",
        show,
        limit_class="pages",
        params=Authorization,
        page=True,
        answer=Body("text/html"),
    ),
    rows.oauth(
        "POST",
        "/oauth/authorize",
        decide,
        limit_class="login",
        params=Decision,
        page=True,
        answer=Body("text/html"),
    ),
)
