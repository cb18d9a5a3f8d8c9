"""Rendering of templates: whole pages, partials for scripts, paginated lists, and the response headers of each.

The HTML of a post is cached for all viewers whose view models of it are equal. It also depends on two values of the page: its path,
to which forms return and to which photos link, and the form token. The cache holds placeholders for both.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache, partial
from secrets import token_hex
from typing import Any
from urllib.parse import quote_plus

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response

from shoal.core.text import isolated
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.http.params import CursorId, Id
from shoal.i18n import words_in
from shoal.media.sniff import ALLOWED
from shoal.observability.tracing import HANDLE, RENDER, enter
from shoal.queries.hydration import Entry
from shoal.web.assets import assets, pack
from shoal.web.layout import Shell, shell_of
from shoal.web.photo_grid import Listing, PhotoGrid
from shoal.web.request_context import Handle, PageContext, address, grid_query
from shoal.web.view_models import PostView, posts_of

_MOST_CHARACTERS = 8 << 20
_TEMPLATE = "parts/post_whole.html"
# The placeholders are random, so that a post cannot contain them.
_PATH, _QUOTED_PATH, _GRID_QUERY, _TOKEN = (token_hex(16) for _ in range(4))


class PostHtmlCache:
    """An LRU cache of the HTML of posts.

    The key is a digest of the view model, so a changed post is rendered again. `most` is the capacity in characters.
    """

    def __init__(self, most: int = _MOST_CHARACTERS) -> None:
        self.held = 0
        self._most = most
        self._html: OrderedDict[bytes, str] = OrderedDict()
        self._encoder = msgspec.msgpack.Encoder(enc_hook=str)

    def draw(self, templates: Environment, place: str, post: PostView, path: str, token: str | None) -> Markup:
        """Return a post as HTML.

        `place` identifies the language and base path of the templates. `token` is the form token; None if a script adds
        the token to requests.
        """
        encoded = self._encoder.encode((place, token is not None, post))
        key = hashlib.blake2b(encoded, digest_size=16, usedforsecurity=False).digest()
        html = self._html.get(key)
        if html is None:
            html = self._keep(key, _post_with_placeholders(templates, post, with_token=token is not None))
        else:
            self._html.move_to_end(key)
        html = html.replace(_PATH, escape(path)).replace(_QUOTED_PATH, quote_plus(path))
        html = html.replace(_GRID_QUERY, grid_query(path))
        return Markup(html if token is None else html.replace(_TOKEN, escape(token)))  # noqa: S704 (the template escaped it)

    def _keep(self, key: bytes, html: str) -> str:
        self._html[key] = html
        self.held += len(html)
        while self.held > self._most:
            self.held -= len(self._html.popitem(last=False)[1])
        return html


def _post_with_placeholders(templates: Environment, post: PostView, *, with_token: bool) -> str:
    """Render a post with placeholders for the values that depend on the page."""
    of_page = {"path": _PATH, "quoted_path": _QUOTED_PATH, "grid_query": _GRID_QUERY}
    views: dict[str, object] = {"post": post, "ctx": of_page}
    if with_token:
        views["shell"] = {"form_token": _TOKEN}
    return templates.get_template(_TEMPLATE).render(views)


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
"""The content security policy: no inline styles and scripts."""
_POST_HTML = PostHtmlCache()
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(self)",
    "Vary": "Cookie, Accept-Language, HX-Request",
}


async def page(ctx: PageContext, template: str, *, status: int = 0, title: str = "", **views: object) -> Response:
    """Return a whole page with its layout.

    `title` is the page's own title, as plain text, which is also its heading. The default status is 422 if `wrong`, the
    errors of a form, is not empty, and otherwise 200.
    """
    status = status or (422 if views.get("wrong") else 200)
    return framed(ctx, await shell_of(ctx, title), template, status=status, heading=title, **views)


def framed(ctx: PageContext, shell: Shell, template: str, *, status: int = 200, **views: object) -> Response:
    return _answer(ctx, _rendered(ctx, f"pages/{template}.html", {**views, "shell": shell}), status)


def part(ctx: PageContext, name: str, *, status: int = 200, **views: object) -> Response:
    """Return a part of a page, for a script that requested only that part."""
    return _answer(ctx, part_html(ctx, name, **views), status)


def part_html(ctx: PageContext, name: str, **views: object) -> str:
    return _rendered(ctx, f"parts/{name}.html", views)


def bare(ctx: PageContext, template: str, headers: Mapping[str, str], **views: object) -> Response:
    response = HTMLResponse(_rendered(ctx, f"pages/{template}.html", views), headers=headers)
    pack(ctx.request, response)
    return response


def _rendered(ctx: PageContext, template: str, views: Mapping[str, object]) -> str:
    enter(RENDER)
    found = templates(ctx.words.code, ctx.app.at.path).get_template(template)
    html = found.render({**views, "ctx": ctx})
    enter(HANDLE)
    return html


def _answer(ctx: PageContext, html: str, status: int) -> Response:
    response = HTMLResponse(html, status, HEADERS)
    if ctx.marked:
        return response
    ctx.browser.keep(response)
    pack(ctx.request, response)
    return response


_DIRECTIONAL = frozenset({"arrow-left", "chevron-left", "chevron-right"})
"""Icons that are mirrored in right-to-left languages."""


@lru_cache(64)
def templates(language: str, base: str) -> Environment:
    """Return the template environment for a language and a base path.

    Undefined names raise an error, and text is escaped. The functions for texts, icons and URLs are made for this
    language and base, because a page calls them hundreds of times.
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
        return words.counted(one, many, n, **_isolated(values))

    @cache
    def icon(name: str, size: str = "") -> Markup:
        if name not in icon_names():
            raise KeyError(f"there is no icon {name}: add it to scripts/web_files.py")
        turned = words.is_right_to_left and name in _DIRECTIONAL
        rendered = Markup('<svg class="icon {}" aria-hidden="true"><use href="{}#{}"/></svg>')
        return rendered.format(f"{size} turned" if turned else size, static("icons.svg"), name)

    @cache
    def static(name: str) -> str:
        return f"{base}/static/{assets().version}/{name}"

    @pass_context
    def rendered(context: Context, post: PostView) -> Markup:
        ctx, shell = context["ctx"], context.get("shell")
        return _POST_HTML.draw(made, f"{language} {base}", post, ctx.path, shell.form_token if shell else None)

    made.globals.update(
        {
            "_": text,
            "ngettext": plural,
            "icon": icon,
            "static": static,
            "url": partial(address, base),
            "words": words,
            # Templates write this mark before a sign such as @. Without the mark, the sign would move to the other side
            # of a name in right-to-left text.
            "ltr": "\N{LEFT-TO-RIGHT MARK}" if words.is_right_to_left else "",
            "rendered": rendered,
            "picture_types": ",".join(ALLOWED),
        }
    )
    return made


def _isolated(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values with each text in Unicode isolation marks, so that it cannot change the direction of its surroundings."""
    return {name: isolated(value) if type(value) is str else value for name, value in values.items()}


@cache
def icon_names() -> frozenset[str]:
    return frozenset(re.findall(r'<symbol id="([a-z0-9-]+)"', assets().get("icons.svg").data.decode()))


SIZE = 20


class BeforeQuery(msgspec.Struct, frozen=True, kw_only=True):
    before: CursorId = CursorId(0)

    def cursor(self, size: int = SIZE) -> Cursor:
        return Cursor(self.before or MAX_TIME, 0, size)


class IdQuery(BeforeQuery, frozen=True, kw_only=True):
    """A page of a list that belongs to the object with the id in the path."""

    id: Id


class HandlePath(BeforeQuery, frozen=True, kw_only=True):
    """A page of a list that belongs to the member with the name in the path."""

    handle: Handle


def next_of(ctx: PageContext, path: str, before: int | None, **query: object) -> str:
    """Return the URL of the next page of a list; empty on the last page.

    `before` is the last id of this page, or None at the end.
    """
    return ctx.url(path, **query, before=before) if before else ""


async def feed_page(
    ctx: PageContext,
    template: str,
    entries: Sequence[Entry],
    following: str,
    *,
    title: str = "",
    end: str = "",
    **views: Any,
) -> Response:
    posts = await posts_of(ctx, entries)
    if ctx.partial:
        return part(ctx, "posts", posts=posts, next=following, end=end)
    return await page(ctx, template, title=title, posts=posts, next=following, end=end, **views)


async def listing_page(ctx: PageContext, template: str, listing: Listing, *, end: str = "", **views: Any) -> Response:
    """Return a page with photos or posts. A script that loads more gets only the photos or posts."""
    if ctx.partial and listing.grid is not None:
        return part(ctx, "photo_rows", grid=listing.grid, next=listing.next)
    grid = listing.grid or PhotoGrid()
    return await feed_page(ctx, template, listing.entries, listing.next, end=end, grid=grid, **views)
