"""Requests to the application of a network in this process, called as a server would: the processor time is the application's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import structs

from shoal.app.network import Network
from shoal.mastodon_api.context import AppContext, app_context_of
from shoal.server import AppParts, application

BASE = "http://shoal.test"

Headers = tuple[tuple[bytes, bytes], ...]
Ask = Callable[[str, Headers], Awaitable[tuple[int, bytes]]]
"""Sends a GET request for a path; returns its status and body."""


def front_in(network: Network, **settings: object) -> AppContext:
    """Return an application of this network with its own caches, and with changed settings if given."""
    parts = (
        structs.replace(network.settings, **settings),
        network.store,
        network.writes,
        network.reads,
        network.media,
        network.hub,
    )
    return app_context_of(AppParts(*parts, base_url=BASE, engines=network.engines))


def asking(front: AppContext) -> Ask:
    app = application(front, https=False)

    async def ask(path: str, headers: Headers) -> tuple[int, bytes]:
        status, body = 0, b""
        address, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": "GET",
            "path": address,
            "raw_path": address.encode(),
            "query_string": query.encode(),
            "headers": ((b"host", b"shoal.test"), *headers),
            "client": ("127.0.0.1", 1),
            "server": ("shoal.test", 80),
            "scheme": "http",
            "http_version": "1.1",
            "root_path": "",
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status, body
            status = message.get("status", status)
            body += message.get("body", b"")

        await app(scope, receive, send)
        return status, body

    return ask
