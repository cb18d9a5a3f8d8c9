"""Static files of the web app: styles, scripts and icons, with gzip compression of responses.

The URL of a file contains a version that changes with any of the files, so browsers cache files permanently. The style
sheets, one for each component, are sent as one file without comments; `tokens.css` declares the order of their layers.
Scripts are modules that a page loads when it needs them.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors import NotFound
from shoal.http.routes import Body, Route
from shoal.mastodon_api.context import Context

_LEAST_BYTES = 1_000
"""Smallest body that is compressed, in bytes. A smaller body fits into one network packet without compression."""
_LEVEL = 3
"""The gzip level. At level 3 a page of 80 KB takes 0.25 ms and shrinks to 11 KB; level 6 takes three times as long for 9.6 KB."""
_GZIP = 16 + zlib.MAX_WBITS
_ACCEPTED = re.compile(r"(?:^|,)\s*gzip\s*(?:;\s*q=(?!0(?:\.0*)?\s*(?:,|$))[^,]*)?(?:,|$)", re.IGNORECASE)


def _takes_gzip(request: Request) -> bool:
    return _ACCEPTED.search(request.headers.get("accept-encoding", "")) is not None


def pack(request: Request, response: Response) -> None:
    """Compress the body of a complete response if the client accepts gzip and the body is large enough."""
    response.headers.add_vary_header("Accept-Encoding")
    if len(response.body) < _LEAST_BYTES or not _takes_gzip(request):
        return
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    response.body = packer.compress(response.body) + packer.flush()
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Content-Length"] = str(len(response.body))


_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".webp": "image/webp",
}
_TOKENS = "styles/tokens.css"
_SHEET = "styles/app.css"
"""Name of the file that joins all style sheets."""
_BLANKS = re.compile(rb"(?:\s|/\*.*?\*/)+", re.DOTALL)
"""Blanks and comments of a style sheet. One blank for each leaves a tenth less to send before a page is shown."""

_REMARKS = re.compile(rb"^ *//.*\n", re.MULTILINE)
"""Lines of a script that are comments."""


class Asset(NamedTuple):
    content_type: str
    data: bytes
    packed: bytes


class Assets(NamedTuple):
    version: str
    found: dict[str, Asset]

    def get(self, name: str) -> Asset:
        if name not in self.found:
            raise NotFound("There is no such file")
        return self.found[name]


@cache
def assets() -> Assets:
    return read_assets(files("shoal.web") / "static")


def read_assets(folder: Traversable) -> Assets:
    read = dict(sorted(_files(folder, "")))
    sheets = [name for name in read if name.endswith(".css") and name != _TOKENS]
    read[_SHEET] = _BLANKS.sub(b" ", b"\n".join(read.pop(name) for name in (_TOKENS, *sheets)))
    read |= {name: _REMARKS.sub(b"", data) for name, data in read.items() if name.startswith("scripts/")}
    digest = sha256()
    for name, data in read.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    made = {name: Asset(_TYPES[_ending(name)], data, gzip.compress(data, 9, mtime=0)) for name, data in read.items()}
    return Assets(digest.hexdigest()[:12], made)


def _files(folder: Traversable, before: str) -> Iterator[tuple[str, bytes]]:
    for path in folder.iterdir():
        if path.is_dir():
            yield from _files(path, f"{before}{path.name}/")
        elif _ending(path.name) in _TYPES:
            yield before + path.name, path.read_bytes()


def _ending(name: str) -> str:
    return f".{name.rpartition('.')[2]}"


_FOR_EVER = "public, max-age=31536000, immutable"
_FOR_NOW = "public, max-age=60"
_Word = Annotated[str, Meta(max_length=80)]


class AssetPath(msgspec.Struct, frozen=True):
    version: _Word
    name: _Word
    folder: _Word = ""


async def asset(context: Context, params: AssetPath) -> object:
    """Send a file of the web app. If the URL has the current version, browsers may cache the file permanently."""
    name = f"{params.folder}/{params.name}" if params.folder else params.name
    found = assets().get(name)
    packed = _takes_gzip(context.request)
    headers = {
        "Cache-Control": _FOR_EVER if params.version == assets().version else _FOR_NOW,
        "Vary": "Accept-Encoding",
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    }
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(found.packed if packed else found.data, headers=headers, media_type=found.content_type)


ROUTES = tuple(
    Route(
        "GET",
        path,
        asset,
        auth="public",
        limit_class="files",
        params=AssetPath,
        answer=Body("application/octet-stream"),
    )
    for path in ("/static/{version}/{name}", "/static/{version}/{folder}/{name}")
)
