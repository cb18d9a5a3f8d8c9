"""Posts as HTML, drawn once for everybody who sees them alike.

What a post looks like is told by its view alone, but for two things of the page around it: the path that its forms lead back
to, and the token that they carry. Marks stand in their places in what is kept.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from secrets import token_hex
from typing import NamedTuple
from urllib.parse import quote_plus

import msgspec
from jinja2 import Environment
from markupsafe import Markup, escape

from shoal.web.views.posts import PostView

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
