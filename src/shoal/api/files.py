"""Media files over HTTP. What is behind a key never changes, so a client may keep it for ever; nothing in it may run."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.api import placeholders
from shoal.api.addresses import MISSING_AVATAR, MISSING_HEADER
from shoal.api.errors import MethodNotAllowed, reply_for
from shoal.api.replies import encode
from shoal.core.errors import InvalidInput, NotFound
from shoal.media.library import MediaLibrary

_PREFIX = "/media/"
_DRAWN = {MISSING_AVATAR: placeholders.avatar, MISSING_HEADER: placeholders.header}
_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'",
}


def is_file(path: str) -> bool:
    """Whether `Files` answers this path itself."""
    return path.startswith(_PREFIX) or path in _DRAWN


class Files:
    """The application below `/media/` and of the two pictures of who has none; all else goes on to `otherwise`."""

    def __init__(self, media: MediaLibrary, otherwise: ASGIApp) -> None:
        self._media = media
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        path: str = scope["path"]
        if not is_file(path):
            await self._otherwise(scope, receive, send)
            return
        try:
            response = await self._file(scope["method"], path)
        except Exception as error:  # noqa: BLE001 (whatever it is, the table of errors answers it)
            reply = reply_for(error, where=f"{scope['method']} {path}")
            response = Response(encode(reply.body), reply.status, dict(reply.headers), "application/json")
        await response(scope, receive, send)

    async def _file(self, method: str, path: str) -> Response:
        if method not in {"GET", "HEAD"}:
            raise MethodNotAllowed(("GET",))
        if path in _DRAWN:
            return Response(_DRAWN[path](), headers=_HEADERS, media_type="image/png")
        try:
            data, content_type = await self._media.read(path.removeprefix(_PREFIX))
        except InvalidInput:
            # A path that cannot be a key names nothing.
            raise NotFound("Record not found") from None
        return Response(data, headers=_HEADERS, media_type=content_type)
