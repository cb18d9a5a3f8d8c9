"""The context of a request for a page: viewer, language, URLs, forms and redirects.

A page is loaded as a whole; a script then requests the parts that change (`HX-Request`).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated
from urllib.parse import quote, quote_plus, urlencode

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shoal.commands import sessions
from shoal.commands.context import Limits, Writes
from shoal.commands.second_factor import check_staff
from shoal.core.errors import NotAllowed, Unauthenticated
from shoal.core.ids import now_ms
from shoal.core.model import Member, Role
from shoal.core.reactions import StoredReactions
from shoal.core.tokens import Origin
from shoal.graph.access import declared_reactions
from shoal.graph.cache.dependencies import good_until
from shoal.graph.contract import Graph
from shoal.http.authentication import origin_of_request
from shoal.http.params import Id
from shoal.http.routes import ANONYMOUS, Caller
from shoal.i18n import LANGUAGES, Translated, When, language_for, words_in
from shoal.mastodon_api.browser_session import Browser
from shoal.mastodon_api.context import AppContext, Context
from shoal.queries.context import Reads
from shoal.settings import Settings

_LOCAL = re.compile(r"/(?![/\\])[!-~]{0,1999}")
"""A path on this server, in printable ASCII. A path that a browser could interpret as another host does not match."""
_WITH_GRID = re.compile(r"/(?:explore|tags/[^/?]+|@[^/?]+(?:/portfolio|/albums/[0-9]+)?)?(?:\?.*)?")
"""Pages with the photos of several posts (see `web.grid_neighbors`)."""
_RESERVED = ":/%#?=@[]!$&'()*+,;"
LANGUAGE_PARAMETER = "lang"
_IN_PATHS = _RESERVED.translate(str.maketrans("", "", "%#?[]"))
LANGUAGE_COOKIE = "shoal_language"
LOOK_COOKIE = "shoal_look"
"""The appearance settings: see `web.layout`."""

_A_YEAR = 365 * 86_400

# The placeholders are random, so that no post can contain them.
TOKEN_MARK, REQUEST_MARK = (secrets.token_hex(16) for _ in range(2))


class LogInFirst(Unauthenticated):
    """A visitor requested a page for members without being logged in.

    `to` is the page to return to after the login; by default, the page that sent the request. `action` returns, for
    this page, the action that the login performs (see `Browser.postpone`).
    """

    def __init__(self, action: Callable[[str], str] | None = None, to: str = "") -> None:
        super().__init__("Log in first")
        self.action, self.to = action, to


class Expired(NotAllowed):
    """The form token is missing, or belongs to another browser session."""


MAX_LINE = 2_000
Line = Annotated[str, Meta(max_length=MAX_LINE)]
Names = Annotated[str, Meta(max_length=10_000)]
"""User names, separated by spaces."""
Text = Annotated[str, Meta(max_length=20_000)]
Handle = Annotated[str, Meta(max_length=300)]
TagName = Annotated[str, Meta(max_length=400)]


class Form(msgspec.Struct, frozen=True, kw_only=True):
    form_token: Annotated[str, Meta(max_length=200)] = ""
    to: Line = ""
    """The path to redirect to after the form."""


class IdForm(Form, frozen=True, kw_only=True):
    """A form about the object whose id is in the path of the form."""

    id: Id


class IdPath(msgspec.Struct, frozen=True):
    id: Id


_NO_REACTIONS = StoredReactions(id=0)


@dataclass(frozen=True, slots=True)
class PageContext:
    app: AppContext
    request: Request
    browser: Browser
    viewer: Member | None
    words: Translated
    now_ms: int
    session_id: int = 0
    """Id of the browser's login; 0 for an anonymous visitor."""
    reactions: StoredReactions = _NO_REACTIONS
    """The declared reactions."""
    marked: bool = False
    """Whether the page is cached, and therefore contains placeholders for values that differ in each response."""

    @property
    def member(self) -> Member:
        if self.viewer is None:
            raise LogInFirst
        return self.viewer

    def staff(self, role: Role) -> Member:
        """Return the member if they have at least this role.

        Raises `LogInFirst` for visitors, `NotAllowed` for other members, and `SecondFactorNeeded` if a second factor is
        required.
        """
        member, _ = self.member, self.words.text
        if member.role.rank < role.rank:
            raise NotAllowed(_("This page is for admins.") if role is Role.ADMIN else _("This page is for moderators."))
        check_staff(member, required=self.app.settings.staff_second_factor)
        return member

    @property
    def reads(self) -> Reads:
        return self.app.reads

    @property
    def writes(self) -> Writes:
        return self.app.writes

    @property
    def graph(self) -> Graph:
        return self.app.graph

    @property
    def settings(self) -> Settings:
        return self.app.settings

    @property
    def limits(self) -> Limits:
        return self.app.writes.limits

    @property
    def anonymous(self) -> Context:
        """Return a context for this request without its login, to check what an anonymous viewer may see."""
        return Context(ANONYMOUS, self.request, self.app, {})

    @property
    def origin(self) -> Origin:
        return origin_of_request(self.request)

    @property
    def viewer_id(self) -> int | None:
        return self.viewer.id if self.viewer else None

    @property
    def partial(self) -> bool:
        """Return whether a script requests only a part of a page. Boosted links and history restores need the whole page."""
        headers = self.request.headers
        return "hx-request" in headers and not ("hx-boosted" in headers or "hx-history-restore-request" in headers)

    @property
    def path(self) -> str:
        path = quote(self.request.scope["path"], safe=_IN_PATHS)
        query: str = self.request.scope["query_string"].decode("latin-1")
        return f"{path}?{query}" if query else path

    @property
    def form_token(self) -> str:
        """Return the form token (`Browser.form_token`), or its placeholder if the page is cached."""
        return TOKEN_MARK if self.marked else self.browser.form_token

    def new_request(self) -> str:
        """Return a new idempotency key for a form, or its placeholder if the page is cached."""
        return REQUEST_MARK if self.marked else secrets.token_urlsafe(12)

    def when(self, ms: int) -> When:
        """Return a time (Unix ms) relative to now, such as "3 min". A cached page expires when this text changes."""
        good_until(self.words.changes_at(ms, self.now_ms), self.now_ms)
        return self.words.when(ms, self.now_ms)

    @property
    def quoted_path(self) -> str:
        """Return the requested path and query, percent-encoded as a value in a query."""
        return quote_plus(self.path)

    @property
    def grid_query(self) -> str:
        return grid_query(self.path)

    def publicly_cacheable(self, seconds: int) -> str:
        """Return the `Cache-Control` header of a response that is identical for all viewers.

        On a closed network, it is private.
        """
        return f"{'public' if self.app.settings.public_pages else 'private'}, max-age={seconds}"

    def url(self, path: str, **query: object) -> str:
        return address(self.app.at.path, path, **query)

    def in_language(self, code: str) -> str:
        """Return the URL of this page in another language."""
        query = [pair for pair in self.request.query_params.multi_items() if pair[0] != LANGUAGE_PARAMETER]
        return f"{self.url(self.request.scope['path'])}?{urlencode([*query, (LANGUAGE_PARAMETER, code)])}"

    def keep_choice(self, response: Response, name: str, value: str) -> None:
        """Store a preference of the browser in a cookie for a year. An empty value deletes the cookie."""
        response.set_cookie(
            name,
            value,
            max_age=_A_YEAR if value else 0,
            path="/",
            secure=self.app.at.root.startswith("https:"),
            httponly=True,
            samesite="lax",
        )

    def checked(self, form: Form, action: Callable[[str], str] | None = None, to: str = "") -> Member:
        """Return the member who sent the form. Raises `LogInFirst`, or `Expired` for an invalid form token.

        For `action` and `to`, see `LogInFirst`.
        """
        if self.viewer is None:
            raise LogInFirst(action if self._is_sent(form) else None, to)
        member = self.viewer
        self.check_sent(form)
        return member

    def check_sent(self, form: Form) -> None:
        """Raise `Expired` unless the form token is the one of this browser."""
        self._check(valid=self._is_sent(form))

    def check_sent_by_browser(self) -> None:
        """Raise `Expired` unless the browser itself sent the request, as for shared files: see `web.sharing`."""
        self._check(valid=self.browser.sends_itself)

    def _check(self, *, valid: bool) -> None:
        if not valid:
            raise Expired(self.words.text("This page has expired, or your browser blocks cookies. Try again."))

    def _is_sent(self, form: Form) -> bool:
        return self.browser.sent(form.form_token or self.request.headers.get("x-form-token", ""))

    def back(self, form: Form, otherwise: str = "/") -> Response:
        """Redirect to the path that the form contains if this path is on this server, otherwise to `otherwise`."""
        return self.go(local(form.to, otherwise))

    def go(self, path: str, **query: object) -> Response:
        address = self.url(path, **query)
        if self.partial:
            # A header value is Latin-1, so percent-encode the URL as `RedirectResponse` does.
            return Response(status_code=204, headers={"HX-Redirect": quote(address, safe=_RESERVED)})
        return RedirectResponse(address, 303)


def address(base: str, path: str, **query: object) -> str:
    if not query:
        return base + path
    asked = {name: value for name, value in query.items() if value not in {None, ""}}
    return f"{base}{path}?{urlencode(asked)}" if asked else base + path


def grid_query(path: str) -> str:
    """Return the query of a link from a photo to its post, for the page at this path, which shows photos of several posts.

    The query is empty for a page without `grid_neighbors`, such as search results and places nearby: people share the addresses
    of posts, which must not contain searched words or coordinates. It is also empty if the path is too long for a parameter, or
    has a token.
    """
    usable = _WITH_GRID.fullmatch(path) and "access_token" not in path and len(path) <= MAX_LINE
    return f"?grid={quote_plus(path)}" if usable else ""


def is_local(path: str) -> bool:
    return _LOCAL.fullmatch(path) is not None


def local(path: str, otherwise: str = "/") -> str:
    return path if is_local(path) else otherwise


async def ctx_of(context: Context) -> PageContext:
    member_id, graph = context.caller.member_id, context.app.graph
    node = (await graph.obj_get((member_id,))).get(member_id) if member_id is not None else None
    viewer = node if isinstance(node, Member) else None
    ctx = new_ctx(context.app, context.request, viewer, context.caller.token_id)
    return replace(ctx, reactions=await declared_reactions(graph))


def new_ctx(
    app_context: AppContext, request: Request, viewer: Member | None = None, session_id: int = 0
) -> PageContext:
    # The language of the page is that of the URL, of the language cookie, or of the browser, in this order.
    chosen = asked_language(request) or request.cookies.get(LANGUAGE_COOKIE, "")
    words = words_in(language_for(request.headers.get("accept-language", ""), chosen))
    return PageContext(app_context, request, _browser(app_context, request), viewer, words, now_ms(), session_id)


def asked_language(request: Request) -> str:
    """Return the language in the URL (`?lang=de`); empty if the URL has none or it is not available."""
    if b"lang=" not in request.scope["query_string"]:
        return ""
    code = request.query_params.get(LANGUAGE_PARAMETER, "").partition("-")[0].lower()
    return code if code in LANGUAGES else ""


def _browser(app_context: AppContext, request: Request) -> Browser:
    return Browser(request, secure=app_context.at.root.startswith("https:"))


async def logged_in(app_context: AppContext, request: Request) -> Caller | None:
    """Return the caller with this browser's login; None without a login, or if the member may no longer log in."""
    login = _browser(app_context, request).login
    try:
        found = await sessions.of_browser(app_context.writes, login) if login else None
    except NotAllowed:
        return None
    if found is None:
        return None
    token, member = found
    app_context.uses.note(token, lambda: origin_of_request(request))
    unguarded = member.unguarded(required=app_context.settings.staff_second_factor)
    return Caller(token.id, 0, member.id, frozenset(), member.role, unguarded, member.name)
