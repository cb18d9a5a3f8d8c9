"""A server in the event loop of a test, and clients for its event streams and its WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, NamedTuple

import httpx
from websockets.asyncio.client import ClientConnection, connect

from shoal import settings as configuration
from shoal.app.network import Network, open_network
from shoal.commands import members, oauth
from shoal.core.model import Token
from shoal.graph.contract import Cursor
from shoal.graph.schema import LOGGED_IN
from shoal.http.connections import USUAL, Patience
from shoal.http.event_streams import Pace
from shoal.server import AppParts, listen, serve
from tests.api.in_memory_network import SCOPES, Someone, steady_limiter
from tests.async_runner import eventually

SLOW = Pace(heartbeat=60.0, ping=60.0, check=60.0)
"""Intervals so long that no timer fires during a test."""


class Heard(NamedTuple):
    """An event as the client received it."""

    name: str
    data: str
    id: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class Ear:
    """Events received so far on one stream."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.events: list[Heard] = []
        self.comments: list[str] = []
        self.start = ""
        """The position at which the stream starts."""
        self.ended = False

    async def listen(self) -> None:
        fields: dict[str, str] = {}
        async for line in self.answer.aiter_lines():
            if line.startswith(":"):
                self.comments.append(line)
            elif line:
                name, _, value = line.partition(": ")
                fields[name] = value
                self.start = self.start or fields.get("id", "")
            else:
                self.events.append(Heard(fields["event"], fields["data"], fields["id"]))
                fields = {}
        self.ended = True

    def said(self) -> list[str]:
        """Return the events in short form: `+text` and `~text` for new and edited posts, `-id` for deletions, else the name."""
        return [_short(event.name, event.data) for event in self.events]

    async def hears(self, *expected: str) -> None:
        """Wait for exactly these events since the previous call, in any order and in the short form of `said`."""

        async def said() -> list[str]:
            return sorted(self.said())

        await eventually(said, sorted(expected))
        self.events.clear()

    async def saw(self, name: str, count: int) -> None:
        """Wait for `count` events of a name, without clearing the received events."""

        async def seen() -> int:
            return sum(event.name == name for event in self.events)

        await eventually(seen, count)

    async def ends(self) -> None:
        async def ended() -> bool:
            return self.ended

        await eventually(ended, True)


class Socket:
    """A WebSocket client."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def ask(self, **frame: object) -> None:
        await self.connection.send(json.dumps(frame))

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(60):
            return json.loads(await self.connection.recv())  # type: ignore[no-any-return]

    async def hears(self, *expected: tuple[list[str], str]) -> None:
        """Assert that the next messages are these pairs of stream and short event, in any order."""
        said = []
        for _ in expected:
            message = await self.next()
            said.append((message["stream"], _short(message["event"], message.get("payload", "null"))))
        assert sorted(said) == sorted(expected)

    async def closes(self) -> int | None:
        """Read messages until the server closes the connection, and return its close code."""
        async with asyncio.timeout(60):
            with suppress(Exception):
                while True:
                    await self.connection.recv()
        return self.connection.close_code


def _short(name: str, data: str) -> str:
    value = json.loads(data)
    if name in ("update", "status.update"):
        return f"{'+' if name == 'update' else '~'}{(value['reblog'] or value)['content'][3:-4]}"
    return f"-{value}" if name == "delete" else name


class StreamServer:
    """A network and its server."""

    def __init__(self, network: Network, url: str, client: httpx.AsyncClient, stop: asyncio.Event) -> None:
        self.network = network
        self.url = url
        self.client = client
        self.stop = stop

    async def join(self, name: str, *scopes: str) -> Someone:
        writes = self.network.writes
        member = await members.register(writes, name)
        app = (await oauth.register(writes, "Test", redirect_uris=("urn:x",), scopes=SCOPES)).app
        return Someone(member, (await oauth.issue_token(writes, app.id, member.id, scopes or SCOPES)).text, app.id)

    async def token(self, who: Someone, *scopes: str) -> str:
        """Issue another access token for a member."""
        return (await oauth.issue_token(self.network.writes, who.app_id, who.member.id, scopes)).text

    async def token_of(self, who: Someone) -> Token:
        """Return the only access token of a member."""
        graph = self.network.store
        (held,) = await graph.assoc_range(who.member.id, LOGGED_IN, Cursor(limit=2))
        token = (await graph.obj_get((held.id2,)))[held.id2]
        assert isinstance(token, Token)
        return token

    async def ask(self, who: Someone, method: str, path: str, **body: Any) -> Any:
        """Send a request, assert that it succeeds, and return the body."""
        answer = await self.client.request(method, path, headers={"Authorization": f"Bearer {who.token}"}, json=body)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.json()

    async def post(self, who: Someone, text: str, **more: Any) -> str:
        return str((await self.ask(who, "POST", "/api/v1/statuses", status=text, **more))["id"])

    async def settle(self) -> None:
        await self.network.settle(60.0)

    @asynccontextmanager
    async def ear(self, who: Someone, path: str, last: str = "", **query: str) -> AsyncIterator[Ear]:
        """Open an event stream and receive its events in the background."""
        headers = {"Authorization": f"Bearer {who.token}", **({"Last-Event-ID": last} if last else {})}
        async with self.client.stream("GET", f"/api/v1/streaming/{path}", params=query, headers=headers) as answer:
            assert answer.status_code == 200
            ear = Ear(answer)
            task = asyncio.create_task(ear.listen())
            try:
                yield ear
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def socket(self, query: str = "", who: Someone | None = None, **more: Any) -> AsyncIterator[Socket]:
        """Open a WebSocket. The token is sent in the Authorization header."""
        headers = {**({"Authorization": f"Bearer {who.token}"} if who else {}), **more.pop("headers", {})}
        address = f"ws{self.url.removeprefix('http')}/api/v1/streaming{query}"
        options = {"compression": None, "open_timeout": 60.0, **more}
        async with connect(address, additional_headers=headers, **options) as connection:
            yield Socket(connection)


@asynccontextmanager
async def served(network: Network, pace: Pace = SLOW, patience: Patience = USUAL) -> AsyncIterator[StreamServer]:
    """Run a server of an open network."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    parts = (network.settings, network.store, network.writes, network.reads, network.media, network.hub)
    limiter = steady_limiter(network.settings)
    app_parts = AppParts(*parts, pace=pace, patience=patience, probes=network.probes, limiter=limiter)
    listener = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    serving = asyncio.create_task(serve(app_parts, listener=listener, ready=ready.set_result))
    stop = asyncio.Event()
    await ready
    stopping = asyncio.create_task(_cancel_when(stop, serving))
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        yield StreamServer(network, url, client, stop)
    stop.set()
    await stopping


async def _cancel_when(stop: asyncio.Event, serving: asyncio.Task[None]) -> None:
    await stop.wait()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


@asynccontextmanager
async def stream_server(pace: Pace = SLOW, patience: Patience = USUAL, **settings: Any) -> AsyncIterator[StreamServer]:
    """Open a network in memory and run its server."""
    chosen = configuration.load({}, **{"store": "memory://", "rate_limits": False, "port": 0, **settings})
    async with AsyncExitStack() as stack:
        network = await stack.enter_async_context(open_network(chosen))
        yield await stack.enter_async_context(served(network, pace, patience))
