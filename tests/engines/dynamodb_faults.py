"""A proxy in front of the DynamoDB test server that forwards requests and injects faults.

The test server never throttles and its transactions never conflict, so this proxy returns the errors of DynamoDB.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any

from aiohttp import ClientSession, web

from tests.engines.dynamodb import endpoint

Fault = Callable[["Moods", web.Request, bytes], Awaitable[web.StreamResponse]]
"""A handler of one request, called instead of forwarding it."""


class Moods:
    """The received requests, and the faults for the next ones."""

    def __init__(self, client: ClientSession) -> None:
        self.url = ""
        self.operations: list[str] = []
        self.faults: dict[str, deque[Fault]] = {}
        """Faults by operation, one for each of its next requests."""
        self.always: Fault | None = None
        """The fault for every request without a fault of its operation."""
        self._client = client

    def next(self, operation: str, *faults: Fault) -> None:
        """Queue faults for the next requests of this operation, one each."""
        self.faults.setdefault(operation, deque()).extend(faults)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        operation = request.headers["X-Amz-Target"].rpartition(".")[2]
        self.operations.append(operation)
        if waiting := self.faults.get(operation):
            return await waiting.popleft()(self, request, body)
        if self.always is not None:
            return await self.always(self, request, body)
        return await self.pass_on(request, body)

    async def pass_on(self, request: web.Request, body: bytes) -> web.Response:
        """Forward a request to the test server and return its response."""
        names = ("X-Amz-Target", "Authorization", "X-Amz-Date", "Content-Type")
        headers = {name: request.headers[name] for name in names}
        async with self._client.post(endpoint(), data=body, headers=headers) as answer:
            content_type = answer.headers["Content-Type"]
            return web.Response(status=answer.status, body=await answer.read(), headers={"Content-Type": content_type})


@asynccontextmanager
async def moody(context: SSLContext | None = None) -> AsyncIterator[Moods]:
    """Start a proxy in front of the test server on a free port, with TLS if there is a context."""
    async with ClientSession() as client:
        moods = Moods(client)
        app = web.Application(client_max_size=2**24)
        app.router.add_post("/", moods.answer)
        # A request that a test never answers must not delay the end of the test.
        runner = web.AppRunner(app, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
            await site.start()
            moods.url = f"http{'s' if context else ''}://127.0.0.1:{runner.addresses[0][1]}"
            yield moods
        finally:
            await runner.cleanup()


def says(error: str, *reasons: str) -> Fault:
    """Return a fault that responds with this error and does nothing; a cancelled transaction has one reason per item."""

    async def fault(_moods: Moods, _request: web.Request, _body: bytes) -> web.Response:
        answer: dict[str, Any] = {"__type": f"com.amazonaws.dynamodb.v20120810#{error}", "message": "not now"}
        if reasons:
            answer["CancellationReasons"] = [{"Code": reason} for reason in reasons]
        return _json(answer, status=400)

    return fault


async def loses_its_answer(moods: Moods, request: web.Request, body: bytes) -> web.StreamResponse:
    """Execute the request, then close the connection before the response."""
    answer = await moods.pass_on(request, body)
    assert request.transport is not None
    request.transport.close()
    return answer


async def leaves_all_undone(_moods: Moods, _request: web.Request, body: bytes) -> web.Response:
    """Process no item of a batch, and return all of them as unprocessed."""
    asked = json.loads(body)["RequestItems"]
    return _json({"Responses": {}, "UnprocessedKeys": asked, "UnprocessedItems": asked})


async def has_a_late_index(moods: Moods, request: web.Request, body: bytes) -> web.StreamResponse:
    """Return no items for index queries, as if the index had not received the table's items yet."""
    if "IndexName" in json.loads(body):
        return _json({"Items": [], "Count": 0, "ScannedCount": 0})
    return await moods.pass_on(request, body)


def after(act: Callable[[], Awaitable[object]]) -> Fault:
    """Return a fault that calls `act` before it forwards the request."""

    async def fault(moods: Moods, request: web.Request, body: bytes) -> web.Response:
        await act()
        return await moods.pass_on(request, body)

    return fault


def _json(answer: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(status=status, body=json.dumps(answer).encode(), content_type="application/x-amz-json-1.0")
