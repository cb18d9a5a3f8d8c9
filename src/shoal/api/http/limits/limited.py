"""Rate limits for what is no route of the API: plain pages and files, counted by address."""

from __future__ import annotations

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.api.http.errors import reply_for
from shoal.api.http.limits import ratelimit
from shoal.core.errors import TooMany


class Limited:
    """An application that is asked so often at most as the limiter says for this class."""

    def __init__(self, app: ASGIApp, limiter: ratelimit.Limiter, limit_class: str) -> None:
        self._app = app
        self._limiter = limiter
        self._limit_class = limit_class

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        key = ratelimit.RateKey(self._limit_class, ratelimit.address_of(scope))
        window = await self._limiter.take(key)
        if window is None:
            await self._app(scope, receive, send)
            return
        more = ratelimit.headers(window)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        app = _refusal(window.wait) if window.wait else self._app
        await app(scope, receive, send_with_headers)


def _refusal(wait: float) -> ASGIApp:
    """For people to read as for programs."""
    reply = reply_for(TooMany("Too many requests", retry_after=wait))
    return PlainTextResponse("Too many requests: try again in a few minutes", reply.status, dict(reply.headers))
