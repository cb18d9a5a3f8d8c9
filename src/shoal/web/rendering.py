"""Templates become answers here: pages, the parts that scripts ask for, and the headers that go with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache, partial

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from shoal.core.text import isolated
from shoal.media.sniff import ALLOWED
from shoal.tracing.record import HANDLE, RENDER, enter
from shoal.web.assets import assets
from shoal.web.drawn import DrawnPosts
from shoal.web.packing import pack
from shoal.web.views.posts import PostView
from shoal.web.views.shell import Shell, shell_of
from shoal.web.visit import Visit, address
from shoal.words.languages import words_in

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
