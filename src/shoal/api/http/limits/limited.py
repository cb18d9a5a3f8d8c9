"""Rate limits and figures for what is no route of the API: plain pages and files, limited by address."""

from __future__ import annotations

from time import perf_counter

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.api.http.errors import reply_for
from shoal.api.http.limits import ratelimit
from shoal.api.http.meter import Meter, Stages
from shoal.api.http.middleware import REQUEST_ID
from shoal.core.errors import TooMany
from shoal.tracing.record import AUTHENTICATE, HANDLE, enter, name_route


class Limited:
    """An application that is asked so often at most as the limiter says for this class.

    The `meter` counts its requests under the name `route`: the time until an answer begins, as a client may take long over a file.
    """

    def __init__(
        self, app: ASGIApp, limiter: ratelimit.Limiter, limit_class: str, meter: Meter | None = None, route: str = ""
    ) -> None:
        self._app = app
        self._limiter = limiter
        self._limit_class = limit_class
        self._meter = meter or Meter()
        self._route = route or f"({limit_class})"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        began = perf_counter()
        name_route(self._route)
        enter(AUTHENTICATE)
        key = ratelimit.RateKey(self._limit_class, ratelimit.address_of(scope))
        window = await self._limiter.take(key)
        admitted = perf_counter()
        enter(HANDLE)
        more = [] if window is None else ratelimit.headers(window)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                stages = Stages((admitted - began) * 1e3, (perf_counter() - admitted) * 1e3, 0.0)
                self._meter.note(self._route, message["status"], stages, str(scope.get(REQUEST_ID, "-")))
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        app = _refusal(window.wait) if window is not None and window.wait else self._app
        await app(scope, receive, send_with_headers)


def _refusal(wait: float) -> ASGIApp:
    """For people to read as for programs."""
    reply = reply_for(TooMany("Too many requests", retry_after=wait))
    return PlainTextResponse("Too many requests: try again in a few minutes", reply.status, dict(reply.headers))
