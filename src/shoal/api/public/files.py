"""Media files over HTTP, whole or in parts.

What is behind a key never changes, so a client may keep it for ever; nothing in it may run. A picture with a smaller copy
beside it is answered with the copy when the client names that kind in `Accept`; a client that takes `*/*` gets the JPEG.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from shoal.api.http.errors import MethodNotAllowed, reply_for
from shoal.api.http.middleware import REQUEST_ID
from shoal.api.http.replies import encode
from shoal.api.public import placeholders
from shoal.api.public.shown_files import ShownFiles
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.media_files import MISSING_AVATAR, MISSING_HEADER, copy_of
from shoal.media.clips import MP3, MP4
from shoal.media.library import MediaLibrary
from shoal.media.store import SUFFIXES, check_key, type_of

_PREFIX = "/media/"
_DRAWN = {
    MISSING_AVATAR: placeholders.avatar,
    MISSING_HEADER: placeholders.header,
    # Every browser asks for it, and takes a PNG.
    "/favicon.ico": placeholders.icon,
}
_HEADERS = {
    "Accept-Ranges": "bytes",
    "Cache-Control": "public, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'",
}
_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})", re.ASCII)
_LARGE = tuple(SUFFIXES[kind] for kind in (MP4, MP3))
"""Sent piece by piece, not held in memory."""


def is_file(path: str) -> bool:
    """Whether `Files` answers this path itself."""
    return path.startswith(_PREFIX) or path in _DRAWN


class Files:
    """The application of the paths for which `is_file` holds."""

    def __init__(self, media: MediaLibrary, shown: ShownFiles) -> None:
        self._media = media
        self._shown = shown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        path: str = scope["path"]
        try:
            response = await self._file(scope["method"], path, Headers(scope=scope))
        except Exception as error:  # noqa: BLE001 (whatever it is, the table of errors answers it)
            reply = reply_for(error, where=f"{scope['method']} (file) ({scope.get(REQUEST_ID, '-')})")
            response = Response(encode(reply.body), reply.status, dict(reply.headers), "application/json")
        await response(scope, receive, send)

    async def _file(self, method: str, path: str, asked: Headers) -> Response:
        if method not in {"GET", "HEAD"}:
            raise MethodNotAllowed(("GET",))
        if path in _DRAWN:
            return Response(_DRAWN[path](), headers=_HEADERS, media_type="image/png")
        key = path.removeprefix(_PREFIX)
        try:
            check_key(key)
            await self._shown.check(key)
            return await self._chosen(key, asked)
        except InvalidInput:
            # A path that cannot be a key names nothing.
            raise NotFound("Record not found") from None

    async def _chosen(self, key: str, asked: Headers) -> Response:
        """A file, or the smaller copy beside it."""
        copy = copy_of(key)
        if not copy:
            return await self._stored(key, asked)
        response = None
        if _takes(asked.getlist("accept"), type_of(copy)):
            with suppress(NotFound):
                response = await self._stored(copy, asked)
        response = response or await self._stored(key, asked)
        response.headers.add_vary_header("Accept")
        return response

    async def _stored(self, key: str, asked: Headers) -> Response:
        # A key carries a hash, so that its name identifies the bytes.
        tag = f'"{key.rpartition("/")[2]}"'
        part = _range(asked.get("range", "")) if asked.get("if-range", tag) == tag else None
        known = {**_HEADERS, "ETag": tag}
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
    """Whether an `Accept` header names a content type and does not rule it out (RFC 9110, 12.5.1)."""
    for kind in ",".join(accepted).lower().split(","):
        name, *parameters = (part.strip() for part in kind.split(";"))
        if name == content_type:
            return not any(re.fullmatch(r"q\s*=\s*0(\.0*)?", parameter) for parameter in parameters)
    return False


def _range(asked: str) -> tuple[int | None, int | None] | None:
    """First and last byte of a `Range` header (RFC 9110, 14.1.2); None for none, for several, and for what cannot be read."""
    match = _RANGE.fullmatch(asked)
    if match is None or (not match[1] and not match[2]):
        return None
    first, last = (int(text) if text else None for text in match.groups())
    if first is not None and last is not None and last < first:
        return None
    return first, last
