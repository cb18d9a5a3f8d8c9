"""Refuses new posts at the door while deliveries are behind: before a request has a place, a caller, or a body.

A refusal is to cost next to nothing, or refusing would be what a server in need does. So nobody is asked who they are, no
limit counts it, and what was sent is not read.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.api.http.bodies import BodyReceiver, deliver
from shoal.api.http.errors import reply_for
from shoal.api.http.replies import encode
from shoal.core.errors import ShoalError

Refusal = Callable[[], ShoalError | None]
"""Why one more is refused now; None when it is not. Each call decides about another."""


class Relief:
    """An application whose requests with consequences are let in as the `refusal` says."""

    def __init__(self, app: ASGIApp, brings_deliveries: Callable[[str, str], bool], refusal: Refusal) -> None:
        self._app = app
        self._brings_deliveries = brings_deliveries
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection."""
        if (
            scope["type"] == "http"
            and scope["method"] == "POST"
            and self._brings_deliveries("POST", scope["path"])
            and (error := self._refusal()) is not None
        ):
            reply = reply_for(error)
            await deliver(reply, encode(reply.body), [], BodyReceiver(scope, receive), send)
        else:
            await self._app(scope, receive, send)
