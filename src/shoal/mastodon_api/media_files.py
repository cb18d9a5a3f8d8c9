"""Media files over HTTP, whole or in ranges, with visibility checks and default images.

The content of a key never changes, so clients may cache it forever, and a strict content security policy keeps it from
running scripts. If an image has a copy with fewer bytes, clients that name its type in `Accept` get that; clients that accept
`*/*` get the JPEG. The query is a number for a smaller size of the image, with a longer edge of that many pixels, or `download`
for the file itself, which browsers then save. A file is served only while its owner is not
suspended and a visible object references it. That check takes two reads (four for media) and is cached for 30 seconds,
so a file disappears at most that long after its post or author.
"""

from __future__ import annotations

import re
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache

from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from shoal.core.errors import InvalidInput, NotFound
from shoal.core.ids import shard_of
from shoal.core.media_files import (
    MISSING_AVATAR,
    MISSING_HEADER,
    copy_of,
    files_of_member,
    id_in,
    lasting_files_of,
    sizes_of,
)
from shoal.core.model import Media, MediaKind, Member, Post
from shoal.graph.cache.lru import Recent
from shoal.graph.contract import Cursor, Reader
from shoal.graph.schema import ATTACHED, file_key, user_name_key
from shoal.http.errors import MethodNotAllowed, reply_for
from shoal.http.middleware import REQUEST_ID
from shoal.http.responses import encode
from shoal.media.clips import MP3, MP4
from shoal.media.library import MediaLibrary
from shoal.media.store import SUFFIXES, check_key, type_of

_SEA = ((222, 231, 237), (143, 168, 184))
"""Background color and foreground color of the default images (RGB)."""


@cache
def avatar() -> bytes:
    return _png(400, 400, lambda x, y: _in_circle(x, y, 200, 155, 78) or _in_circle(x, y, 200, 410, 160))


@cache
def header() -> bytes:
    """Return the default header: a PNG of 1500 x 500 pixels."""
    return _png(1500, 500, lambda x, y: _in_circle(x, y, 420, 1150, 800) or _in_circle(x, y, 1180, 1400, 1010))


@cache
def icon() -> bytes:
    return _png(64, 64, lambda x, y: _in_circle(x, y, 32, 32, 26))


def _in_circle(x: int, y: int, center_x: int, center_y: int, radius: int) -> bool:
    return (x - center_x) ** 2 + (y - center_y) ** 2 < radius**2


def _png(width: int, height: int, is_figure: Callable[[int, int], bool]) -> bytes:
    """Encode a PNG with two colors.

    `is_figure` returns whether a block has the foreground color; blocks are eight by two pixels.
    """
    rows = []
    for y in range(0, height, 2):
        row = bytes(0xFF if is_figure(x + 4, y) else 0 for x in range(0, width, 8))
        rows += [b"\0" + row] * 2
    palette = bytes(value for color in _SEA for value in color)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 3, 0, 0, 0)),
            _chunk(b"PLTE", palette),
            _chunk(b"IDAT", zlib.compress(b"".join(rows), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_REMEMBERED = 20_000
_SECONDS = 30.0
_POSTS = 16
"""Number of a file's newest posts that are checked for visibility."""


class ShownFiles:
    """Checks whether media files are visible, with a cache."""

    def __init__(
        self, graph: Reader, *, seconds: float = _SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._graph = graph
        self._seconds = seconds
        self._clock = clock
        self._until: Recent[str, float] = Recent(_REMEMBERED)

    async def check(self, key: str) -> None:
        until = self._until.get(key)
        if until is not None and self._clock() < until:
            return
        asked = self._clock()
        if not await self._is_shown(key):
            raise NotFound("there is no such file")
        self._until.put(key, asked + self._seconds)

    async def _is_shown(self, key: str) -> bool:
        folder, id_ = key.rpartition("/")[0], id_in(key)
        name = user_name_key(folder.rpartition("/")[2])
        renamed = file_key(shard_of(id_), id_)
        keys = await self._graph.key_get([name, renamed])
        media_id = keys.get(renamed, id_)
        nodes = await self._graph.obj_get([found for found in (keys.get(name, 0), media_id) if found])
        owner = nodes.get(keys.get(name, 0))
        if not isinstance(owner, Member) or owner.suspended:
            return False
        if not id_:
            return key in files_of_member(owner)
        media = nodes.get(media_id)
        if not isinstance(media, Media):
            # The file was stored before file names contained object ids, or its media object is just being deleted. No
            # post allows the download of an original then.
            return _ORIGINAL not in key
        if media.let_go or media.held or key not in lasting_files_of(media):
            return False
        return await self._is_visible(media, original=media.kind is MediaKind.IMAGE and key == media.original_key)

    async def _is_visible(self, media: Media, *, original: bool) -> bool:
        """Return whether a file is not attached to a post yet, or at least one of its posts is not hidden.

        The `original` of a picture is visible only if one of these posts also allows downloads.
        """
        attached = await self._graph.assoc_range(media.id, ATTACHED, Cursor(limit=_POSTS))
        found = await self._graph.obj_get([put.id2 for put in attached]) if attached else {}
        posts = [node for node in found.values() if isinstance(node, Post)]
        if original:
            return any(post.downloads and not post.hidden for post in posts)
        return not posts or any(not post.hidden for post in posts)


_PREFIX = "/media/"
_DEFAULT_IMAGES = {
    MISSING_AVATAR: avatar,
    MISSING_HEADER: header,
    # Every browser requests this path. All browsers accept a PNG there.
    "/favicon.ico": icon,
}
_HEADERS = {
    "Accept-Ranges": "bytes",
    "Cache-Control": "public, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'",
}
_ORIGINAL = "-original."
"""This text is in the file names of pictures in the uploaded resolution."""
_DOWNLOAD = b"download"
"""The query of a file that browsers save."""
_SIZE = re.compile(rb"\d{1,4}")
"""The query of a smaller size: pixels of its longer edge."""
_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})", re.ASCII)
_LARGE = tuple(SUFFIXES[kind] for kind in (MP4, MP3))


def is_file(path: str) -> bool:
    return path.startswith(_PREFIX) or path in _DEFAULT_IMAGES


class Files:
    def __init__(self, media: MediaLibrary, shown: ShownFiles) -> None:
        self._media = media
        self._shown = shown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        try:
            response = await self._file(scope["method"], path, Headers(scope=scope), scope["query_string"])
        except Exception as error:  # noqa: BLE001 (whatever it is, the table of errors answers it)
            reply = reply_for(error, where=f"{scope['method']} (file) ({scope.get(REQUEST_ID, '-')})")
            response = Response(encode(reply.body), reply.status, dict(reply.headers), "application/json")
        await response(scope, receive, send)

    async def _file(self, method: str, path: str, asked: Headers, query: bytes) -> Response:
        if method not in {"GET", "HEAD"}:
            raise MethodNotAllowed(("GET",))
        if path in _DEFAULT_IMAGES:
            return Response(_DEFAULT_IMAGES[path](), headers=_HEADERS, media_type="image/png")
        key = path.removeprefix(_PREFIX)
        try:
            check_key(key)
            await self._shown.check(key)
            if query == _DOWNLOAD:
                return await self._download(key, asked)
            edge = int(query) if _SIZE.fullmatch(query) else 0
            return await self._chosen(key, asked, (sizes_of(key).get(edge, ""), copy_of(key)))
        except InvalidInput:
            # A path that is not a valid key cannot belong to a file.
            raise NotFound("Record not found") from None

    async def _chosen(self, key: str, asked: Headers, smaller: Sequence[str]) -> Response:
        """Return the first of the `smaller` files that exists and whose type the client accepts, or else the file itself."""
        own, response = type_of(key), None
        for each in filter(None, smaller):
            if type_of(each) == own or _takes(asked.getlist("accept"), type_of(each)):
                with suppress(NotFound):
                    response = await self._stored(each, asked)
                    break
        response = response or await self._stored(key, asked)
        if copy_of(key):
            response.headers.add_vary_header("Accept")
        return response

    async def _download(self, key: str, asked: Headers) -> Response:
        """Return the file with a header that makes browsers save it."""
        response = await self._stored(key, asked)
        # Without a name, a browser takes that of the link, or that of the URL.
        response.headers["Content-Disposition"] = "attachment"
        return response

    async def _stored(self, key: str, asked: Headers) -> Response:
        # The name of a file contains a hash of its content, so it identifies the content.
        tag = f'"{key.rpartition("/")[2]}"'
        part = _range(asked.get("range", "")) if asked.get("if-range", tag) == tag else None
        known = {**_HEADERS, "ETag": tag}
        if _ORIGINAL in key:
            # A browser must not keep the file longer, because the author may withdraw the permission to download.
            known["Cache-Control"] = f"private, max-age={_SECONDS:.0f}"
        if part is None and not key.endswith(_LARGE):
            data, content_type = await self._media.read(key)
            return Response(data, headers=known, media_type=content_type)
        found = await self._media.part(key, *(part or (0, None)))
        if found.first > found.last:
            refused = {"Content-Range": f"bytes */{found.size}"}
            return Response(b"", 416, refused, found.content_type)
        headers = {**known, "Content-Length": str(found.last - found.first + 1)}
        if part is not None:
            headers["Content-Range"] = f"bytes {found.first}-{found.last}/{found.size}"
        return StreamingResponse(found.pieces, 200 if part is None else 206, headers, found.content_type)


def _takes(accepted: Iterable[str], content_type: str) -> bool:
    """Return whether an `Accept` header explicitly accepts a content type (RFC 9110, 12.5.1)."""
    for kind in ",".join(accepted).lower().split(","):
        name, *parameters = (part.strip() for part in kind.split(";"))
        if name == content_type:
            return not any(re.fullmatch(r"q\s*=\s*0(\.0*)?", parameter) for parameter in parameters)
    return False


def _range(asked: str) -> tuple[int | None, int | None] | None:
    """Return the first and the last byte of a `Range` header; None if the header is missing, invalid, or has several ranges."""
    match = _RANGE.fullmatch(asked)
    if match is None or (not match[1] and not match[2]):
        return None
    first, last = (int(text) if text else None for text in match.groups())
    if first is not None and last is not None and last < first:
        return None
    return first, last
