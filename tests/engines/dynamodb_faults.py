"""A DynamoDB that has its moods: it passes requests on to the real one, but for those that a test has something against.

The server of the tests is never busy and its transactions never conflict, so what DynamoDB says then is said here.
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
"""A handler of one request that replaces passing it on."""


class Moods:
    """The requests that came, and the faults that the next ones meet."""

    def __init__(self, client: ClientSession) -> None:
        self.url = ""
        self.operations: list[str] = []
        self.faults: dict[str, deque[Fault]] = {}
        """By operation: one for each of its next requests."""
        self.always: Fault | None = None
        """The fault of every request that no other fault applies to."""
        self._client = client

    def next(self, operation: str, *faults: Fault) -> None:
        """The next requests of this operation meet these faults, one each."""
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
        """As the real one answers."""
        names = ("X-Amz-Target", "Authorization", "X-Amz-Date", "Content-Type")
        headers = {name: request.headers[name] for name in names}
        async with self._client.post(endpoint(), data=body, headers=headers) as answer:
            content_type = answer.headers["Content-Type"]
            return web.Response(status=answer.status, body=await answer.read(), headers={"Content-Type": content_type})


@asynccontextmanager
async def moody(context: SSLContext | None = None) -> AsyncIterator[Moods]:
    """One in front of the real one, on a port of its own; over TLS with a context."""
    async with ClientSession() as client:
        moods = Moods(client)
        app = web.Application(client_max_size=2**24)
        app.router.add_post("/", moods.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
            await site.start()
            moods.url = f"http{'s' if context else ''}://127.0.0.1:{runner.addresses[0][1]}"
            yield moods
        finally:
            await runner.cleanup()


def says(error: str, *reasons: str) -> Fault:
    """It does nothing and answers with this error; a cancelled transaction has its reasons, one an item."""

    async def fault(_moods: Moods, _request: web.Request, _body: bytes) -> web.Response:
        answer: dict[str, Any] = {"__type": f"com.amazonaws.dynamodb.v20120810#{error}", "message": "not now"}
        if reasons:
            answer["CancellationReasons"] = [{"Code": reason} for reason in reasons]
        return _json(answer, status=400)

    return fault


async def loses_its_answer(moods: Moods, request: web.Request, body: bytes) -> web.StreamResponse:
    """It does what it is asked, and the line is cut before it can say so."""
    answer = await moods.pass_on(request, body)
    assert request.transport is not None
    request.transport.close()
    return answer


async def leaves_all_undone(_moods: Moods, _request: web.Request, body: bytes) -> web.Response:
    """It processes none of the items of a batch, and says so."""
    asked = json.loads(body)["RequestItems"]
    return _json({"Responses": {}, "UnprocessedKeys": asked, "UnprocessedItems": asked})


async def has_a_late_index(moods: Moods, request: web.Request, body: bytes) -> web.StreamResponse:
    """Its index has nothing yet of what is in the table."""
    if "IndexName" in json.loads(body):
        return _json({"Items": [], "Count": 0, "ScannedCount": 0})
    return await moods.pass_on(request, body)


def after(act: Callable[[], Awaitable[object]]) -> Fault:
    """Somebody else acts first; then it does what it is asked."""

    async def fault(moods: Moods, request: web.Request, body: bytes) -> web.Response:
        await act()
        return await moods.pass_on(request, body)

    return fault


def _json(answer: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(status=status, body=json.dumps(answer).encode(), content_type="application/x-amz-json-1.0")
