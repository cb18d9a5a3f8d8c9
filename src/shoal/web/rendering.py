"""Rendering of templates: whole pages, partials for scripts, paginated lists, and the response headers of each.

The HTML of a post is cached across readers who see the same view of it. It depends on the view and on two values of the
page: the path that its forms return to, and the form token. The cache holds placeholders for both.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping
from functools import cache, lru_cache, partial
from secrets import token_hex
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote_plus

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape
from msgspec import Meta
from starlette.responses import HTMLResponse, Response

from shoal.core.text import isolated
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.http.params import CursorId
from shoal.i18n import words_in
from shoal.media.sniff import ALLOWED
from shoal.observability.tracing import HANDLE, RENDER, enter
from shoal.queries.pipeline import Page
from shoal.web.assets import assets, pack
from shoal.web.layout import Shell, shell_of
from shoal.web.request_context import Visit, address
from shoal.web.view_models import PostView, posts_of

_MOST_CHARACTERS = 8 << 20
_TEMPLATE = "parts/post_whole.html"
# Nobody can write them into a post, since nobody knows them.
_PATH, _QUOTED_PATH, _TOKEN = (token_hex(16) for _ in range(3))


class PageAround(NamedTuple):
    """The part of a visit that a post needs, with the names that it has there: see `web.visit.Visit`."""

    path: str
    quoted_path: str


class Sending(NamedTuple):
    """The part of a page's frame that a post needs, with the name that it has there: see `web.views.shell.Shell`."""

    form_token: str


class DrawnPosts:
    """Posts as HTML, those that were asked for last.

    They are kept by a digest of their view, so that what has changed is drawn anew. `most` is in characters.
    """

    def __init__(self, most: int = _MOST_CHARACTERS) -> None:
        self.held = 0
        self._most = most
        self._html: OrderedDict[bytes, str] = OrderedDict()
        self._encoder = msgspec.msgpack.Encoder(enc_hook=str)

    def draw(self, templates: Environment, place: str, post: PostView, path: str, token: str | None) -> Markup:
        """Return a post as HTML.

        `place` names the language and the base of addresses of these templates. `token` is that of the forms; None where a
        script sends it.
        """
        said = self._encoder.encode((place, token is not None, post))
        key = hashlib.blake2b(said, digest_size=16, usedforsecurity=False).digest()
        html = self._html.get(key)
        if html is None:
            html = self._keep(key, _drawn(templates, post, whole=token is not None))
        else:
            self._html.move_to_end(key)
        html = html.replace(_PATH, escape(path)).replace(_QUOTED_PATH, quote_plus(path))
        return Markup(html if token is None else html.replace(_TOKEN, escape(token)))  # noqa: S704 (the template escaped it)

    def _keep(self, key: bytes, html: str) -> str:
        self._html[key] = html
        self.held += len(html)
        while self.held > self._most:
            self.held -= len(self._html.popitem(last=False)[1])
        return html


def _drawn(templates: Environment, post: PostView, *, whole: bool) -> str:
    views = {"post": post, "visit": PageAround(_PATH, _QUOTED_PATH)}
    return templates.get_template(_TEMPLATE).render({**views, "shell": Sending(_TOKEN)} if whole else views)


_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "media-src 'self' blob:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""The content security policy: nothing stands in the page itself, no style and no script."""
_DRAWN = DrawnPosts()
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(self)",
    "Vary": "Cookie, Accept-Language, HX-Request",
}
"""Headers of every page, and of its parts."""


async def page(visit: Visit, template: str, *, status: int = 200, title: str = "", **views: object) -> Response:
    """Return a whole page, with the frame around it. `title` is the page's own, as text."""
    return framed(visit, await shell_of(visit, title), template, status=status, **views)


def framed(visit: Visit, shell: Shell, template: str, *, status: int = 200, **views: object) -> Response:
    """Return a page in a frame that is made already."""
    return _answer(visit, _rendered(visit, f"pages/{template}.html", {**views, "shell": shell}), status)


def part(
    visit: Visit, name: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **views: object
) -> Response:
    """Return one part of a page, for the script that asked for it."""
    response = _answer(visit, part_html(visit, name, **views), status)
    response.headers.update(headers or {})
    return response


def part_html(visit: Visit, name: str, **views: object) -> str:
    """Return one part of a page as HTML."""
    return _rendered(visit, f"parts/{name}.html", views)


def bare(visit: Visit, template: str, headers: Mapping[str, str], **views: object) -> Response:
    """Return a page that stands by itself: without the frame, without cookies, with headers of its own."""
    response = HTMLResponse(_rendered(visit, f"pages/{template}.html", views), headers=headers)
    pack(visit.request, response)
    return response


def _rendered(visit: Visit, template: str, views: Mapping[str, object]) -> str:
    enter(RENDER)
    found = templates(visit.words.code, visit.front.at.path).get_template(template)
    html = found.render({**views, "visit": visit})
    enter(HANDLE)
    return html


def _answer(visit: Visit, html: str, status: int) -> Response:
    response = HTMLResponse(html, status, HEADERS)
    if visit.marked:
        return response
    visit.browser.keep(response)
    pack(visit.request, response)
    return response


@lru_cache(64)
def templates(language: str, base: str) -> Environment:
    """Return the templates in a language, for pages below the path `base`.

    What a template uses must be there, and whatever stands in text is escaped. Words, icons and addresses are plain functions
    of these two: a page calls them hundreds of times.
    """
    made = Environment(
        loader=PackageLoader("shoal.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    words = words_in(language)

    def text(message: str, **values: object) -> str:
        return words.text(message) % _isolated(values) if values else words.text(message)

    def plural(one: str, many: str, n: int, **values: object) -> str:
        return words.plural(one, many, n) % {"n": words.number(n), **_isolated(values)}

    @cache
    def icon(name: str, size: str = "") -> Markup:
        if name not in icon_names():
            raise KeyError(f"there is no icon {name}: add it to scripts/web_files.py")
        drawn = Markup('<svg class="icon {}" aria-hidden="true"><use href="{}#{}"/></svg>')
        return drawn.format(size, static("icons.svg"), name)

    @cache
    def static(name: str) -> str:
        return f"{base}/static/{assets().version}/{name}"

    @pass_context
    def drawn(context: Context, post: PostView) -> Markup:
        visit, shell = context["visit"], context.get("shell")
        return _DRAWN.draw(made, f"{language} {base}", post, visit.path, shell.form_token if shell else None)

    made.globals.update(
        {
            "_": text,
            "ngettext": plural,
            "icon": icon,
            "static": static,
            "url": partial(address, base),
            "words": words,
            "drawn": drawn,
            "picture_types": ",".join(ALLOWED),
        }
    )
    return made


def _isolated(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values of a sentence so that none changes the direction of what follows it."""
    return {name: isolated(value) if type(value) is str else value for name, value in values.items()}


@cache
def icon_names() -> frozenset[str]:
    """Return the names of all icons."""
    return frozenset(re.findall(r'<symbol id="([a-z0-9-]+)"', assets().get("icons.svg").data.decode()))


SIZE = 20
"""Posts on a page."""


class BeforeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list."""

    before: CursorId = CursorId(0)
    """Id of the last entry of the page before."""

    def cursor(self, size: int = SIZE) -> Cursor:
        """Return the part of the list that is asked for."""
        return Cursor(self.before or MAX_TIME, 0, size)


class NamedQuery(BeforeQuery, frozen=True, kw_only=True):
    """A page of a list that has a name in its path."""

    name: Annotated[str, Meta(max_length=400)]


def next_of(visit: Visit, path: str, before: int | None, **query: object) -> str:
    """Return the address of the page that follows in a list, by the last id of this one; empty at its end, which has none."""
    return visit.url(path, **query, before=before) if before else ""


async def feed_page(
    visit: Visit, template: str, found: Page, following: str, *, title: str = "", end: str = "", **views: Any
) -> Response:
    """Return a page with posts, or, for a script that asks for more of them, those alone."""
    posts = await posts_of(visit, found.entries)
    if visit.partial:
        return part(visit, "posts", posts=posts, next=following, end=end)
    return await page(visit, template, title=title, posts=posts, next=following, end=end, **views)
