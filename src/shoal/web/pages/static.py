"""Files of the web app."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.http.routes import Body, Route
from shoal.mastodon_api.context import Context
from shoal.web.assets import assets
from shoal.web.packing import takes_gzip

_FOR_EVER = "public, max-age=31536000, immutable"
_FOR_NOW = "public, max-age=60"
_Word = Annotated[str, Meta(max_length=80)]


class AssetPath(msgspec.Struct, frozen=True):
    """The version that a page was made with, and the name of a file."""

    version: _Word
    name: _Word
    folder: _Word = ""


async def asset(context: Context, params: AssetPath) -> object:
    """A file of the web app. With its present version in the address it may be kept for ever."""
    name = f"{params.folder}/{params.name}" if params.folder else params.name
    found = assets().get(name)
    packed = takes_gzip(context.request)
    headers = {
        "Cache-Control": _FOR_EVER if params.version == assets().version else _FOR_NOW,
        "Vary": "Accept-Encoding",
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    }
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(found.packed if packed else found.data, headers=headers, media_type=found.content_type)


def _public(path: str, handler: object, content_type: str, params: type[msgspec.Struct] | None = None) -> Route:
    return Route(
        "GET",
        path,
        handler,  # type: ignore[arg-type]  # each is a handler of its parameters
        auth="public",
        limit_class="files",
        params=params,
        answer=Body(content_type),
    )


ROUTES = (
    _public("/static/{version}/{name}", asset, "application/octet-stream", AssetPath),
    _public("/static/{version}/{folder}/{name}", asset, "application/octet-stream", AssetPath),
)
