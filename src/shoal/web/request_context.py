"""One visit of a person to a page: who they are, in which language they read, and whether they want all of the page.

A page is fetched whole; a script asks for the part that changes (`HX-Request`), and shows that.
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote, quote_plus, urlencode

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shoal.commands import sessions
from shoal.core.errors import NotAllowed, Unauthenticated
from shoal.core.model import Member
from shoal.core.tokens import Origin
from shoal.graph.cache.responses import good_until
from shoal.http.authentication import origin_of_request
from shoal.http.routes import ANONYMOUS, Caller
from shoal.i18n import LANGUAGES, Translated, When, language_for, words_in
from shoal.mastodon_api.browser_session import Browser
from shoal.mastodon_api.context import Context, Front

_LOCAL = re.compile(r"/(?![/\\])[!-~]{0,1999}")
"""A path on this server: printable ASCII, and nothing that a browser could take for another host."""
_RESERVED = ":/%#?=@[]!$&'()*+,;"
"""Characters of an address that are left as they are."""
LANGUAGE_PARAMETER = "lang"
_IN_PATHS = _RESERVED.translate(str.maketrans("", "", "%#?[]"))
"""Characters of a decoded path that need no encoding."""
LANGUAGE_COOKIE = "shoal_language"
LOOK_COOKIE = "shoal_look"
"""The chosen colours and contrast: see `views.shell`."""

_A_YEAR = 365 * 86_400

# Nobody can write them into a post, since nobody knows them.
TOKEN_MARK, REQUEST_MARK = (secrets.token_hex(16) for _ in range(2))


class LogInFirst(Unauthenticated):
    """The page is for members, and nobody is logged in in this browser."""


class Expired(NotAllowed):
    """A form came from a page of another session, or from no page of ours."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """Fields that every form has."""

    form_token: Annotated[str, Meta(max_length=200)] = ""
    to: Annotated[str, Meta(max_length=2_000)] = ""
    """The path to go to afterwards."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A request for a page."""

    front: Front
    request: Request
    browser: Browser
    viewer: Member | None
    words: Translated
    now_ms: int
    session_id: int = 0
    """Id of the browser's login; 0 for nobody's."""
    marked: bool = False
    """Whether marks stand on the page where each answer has something of its own: it is remembered."""

    @property
    def member(self) -> Member:
        """Return the member who is logged in. Raises `LogInFirst`."""
        if self.viewer is None:
            raise LogInFirst
        return self.viewer

    @property
    def anonymous(self) -> Context:
        """Return the request as that of a stranger, for checks that must not rely on who is logged in."""
        return Context(ANONYMOUS, self.request, self.front, {})

    @property
    def origin(self) -> Origin:
        """Return the browser that asks, and its address."""
        return origin_of_request(self.request)

    @property
    def viewer_id(self) -> int | None:
        """Return the id of the member who is logged in."""
        return self.viewer.id if self.viewer else None

    @property
    def partial(self) -> bool:
        """Return whether a script asks for a part of a page. A link that it follows for the browser is asked for whole."""
        headers = self.request.headers
        return "hx-request" in headers and not ("hx-boosted" in headers or "hx-history-restore-request" in headers)

    @property
    def path(self) -> str:
        """Return the path and query that were asked for, percent-encoded."""
        path = quote(self.request.scope["path"], safe=_IN_PATHS)
        query: str = self.request.scope["query_string"].decode("latin-1")
        return f"{path}?{query}" if query else path

    @property
    def form_token(self) -> str:
        """Return the token of the page's forms (`Browser.form_token`), or the mark in its place."""
        return TOKEN_MARK if self.marked else self.browser.form_token

    def new_request(self) -> str:
        """Return a name for what a form will do, so that it is done once however often it is sent; or the mark in its place."""
        return REQUEST_MARK if self.marked else secrets.token_urlsafe(12)

    def when(self, ms: int) -> When:
        """Return a moment, given in Unix milliseconds, in words of now."""
        good_until(self.words.changes_at(ms, self.now_ms), self.now_ms)
        return self.words.when(ms, self.now_ms)

    @property
    def quoted_path(self) -> str:
        """Return the path and query that were asked for, as a value in the query of another address."""
        return quote_plus(self.path)

    def kept_by_anybody(self, seconds: int) -> str:
        """Return the `Cache-Control` of what is the same for everybody; of a closed network only a member's browser keeps it."""
        return f"{'public' if self.front.settings.public_pages else 'private'}, max-age={seconds}"

    def url(self, path: str, **query: object) -> str:
        """Return the address of a path of ours, for a link."""
        return address(self.front.at.path, path, **query)

    def in_language(self, code: str) -> str:
        """Return the address of this page in another language, for a link."""
        query = [pair for pair in self.request.query_params.multi_items() if pair[0] != LANGUAGE_PARAMETER]
        return f"{self.url(self.request.scope['path'])}?{urlencode([*query, (LANGUAGE_PARAMETER, code)])}"

    def keep_choice(self, response: Response, name: str, value: str) -> None:
        """Keep a choice in a cookie of the browser for a year. An empty one is forgotten."""
        response.set_cookie(
            name,
            value,
            max_age=_A_YEAR if value else 0,
            path="/",
            secure=self.front.at.root.startswith("https:"),
            httponly=True,
            samesite="lax",
        )

    def way_back(self, to: str) -> str:
        """Return the address of the page that somebody came from, for a link; the start page for what is none of ours."""
        return self.url(to if is_local(to) else "/")

    def checked(self, form: Form) -> Member:
        """Return the member who sent a form. Raises `LogInFirst`, or `Expired` where it is from no page of theirs."""
        member = self.member
        self.check_sent(form)
        return member

    def check_sent(self, form: Form) -> None:
        """Raise `Expired` if a form is from no page that this browser was given."""
        if not self.browser.sent(form.form_token or self.request.headers.get("x-form-token", "")):
            raise Expired(self.words.text("This page is too old, or your browser keeps no cookies. Please try again."))

    def back(self, form: Form, otherwise: str = "/") -> Response:
        """Return the answer to a form that was done: the browser goes where the form says, on this server alone."""
        return self.go(form.to if is_local(form.to) else otherwise)

    def go(self, path: str, **query: object) -> Response:
        """Return the answer that sends the browser to a path of ours."""
        address = self.url(path, **query)
        if self.partial:
            # A header takes no letters beyond Latin-1: as the other answer has them.
            return Response(status_code=204, headers={"HX-Redirect": quote(address, safe=_RESERVED)})
        return RedirectResponse(address, 303)


def address(base: str, path: str, **query: object) -> str:
    """Return the address of a path below `base`, with what of the query is not empty."""
    if not query:
        return base + path
    asked = {name: value for name, value in query.items() if value not in {None, ""}}
    return f"{base}{path}?{urlencode(asked)}" if asked else base + path


def is_local(path: str) -> bool:
    """Return whether a path leads to this server, and nowhere else."""
    return _LOCAL.fullmatch(path) is not None


async def visit_of(context: Context) -> Visit:
    """Return the visit of a request for a page."""
    front, request = context.deps, context.request
    viewer = None
    if context.caller.member_id is not None:
        node = (await front.graph.obj_get((context.caller.member_id,))).get(context.caller.member_id)
        viewer = node if isinstance(node, Member) else None
    now, session = time.time_ns() // 1_000_000, context.caller.token_id
    return Visit(front, request, browser_of(front, request), viewer, spoken(request), now, session)


def spoken(request: Request) -> Translated:
    """Return the language in which a page is asked for: in its address, by an earlier choice, or by the browser."""
    chosen = asked_language(request) or request.cookies.get(LANGUAGE_COOKIE, "")
    return words_in(language_for(request.headers.get("accept-language", ""), chosen))


def asked_language(request: Request) -> str:
    """Return the language that the address asks for (`?lang=de`); empty for none that there is."""
    if b"lang=" not in request.scope["query_string"]:
        return ""
    code = request.query_params.get(LANGUAGE_PARAMETER, "").partition("-")[0].lower()
    return code if code in LANGUAGES else ""


def browser_of(front: Front, request: Request) -> Browser:
    """Return the browser that asks."""
    return Browser(request, secure=front.at.root.startswith("https:"))


async def logged_in(front: Front, request: Request) -> Caller | None:
    """Return who is logged in in the browser that asks; None for nobody, and for a member who may not log in (any more)."""
    browser = browser_of(front, request)
    if not browser.login:
        return None
    try:
        found = await sessions.of_browser(front.writes, browser.login)
    except NotAllowed:
        return None
    if found is None:
        return None
    token, member = found
    front.uses.note(token, lambda: origin_of_request(request))
    unguarded = member.unguarded(required=front.settings.staff_second_factor)
    return Caller(token.id, 0, member.id, frozenset(), member.role, unguarded, member.name)
