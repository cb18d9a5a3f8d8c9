"""The event log as an event stream: delivery, resumption, and the end of access."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx

from shoal import settings as configuration
from shoal.app.network import open_network
from shoal.commands import members, posts, server_keys
from shoal.graph.event_log import EventLog
from shoal.http.authentication import key_scopes
from shoal.http.event_streams import Pace
from shoal.mastodon_api.events import _messages
from shoal.queries.events import EventReader
from tests.api.streaming.stream_clients import SLOW, Heard, StreamServer, served
from tests.async_runner import eventually, in_loop

EVENTS = "/api/shoal/v1/events"
QUICK = SLOW._replace(poll=0.02)


@asynccontextmanager
async def log_server(pace: Pace = QUICK, **settings: Any) -> AsyncIterator[StreamServer]:
    chosen = configuration.load({}, **{"store": "memory://", "rate_limits": False, "event_log": "on", **settings})
    async with open_network(chosen) as network, served(network, pace) as server:
        yield server


async def key(server: StreamServer, name: str = "shop") -> str:
    return (await server_keys.create(server.network.writes, name, key_scopes(["server:events"]))).secret


class Listener:
    """The events received on a stream, as a client of the standard reads them: an id may come without an event."""

    def __init__(self) -> None:
        self.events: list[Heard] = []
        self.comments = 0
        self.last_id = ""
        self.ended = False

    async def listen(self, answer: httpx.Response) -> None:
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            if line.startswith(":"):
                self.comments += 1
            elif line:
                name, _, value = line.partition(": ")
                fields[name] = value
            else:
                self.last_id = fields.get("id", self.last_id)
                if "data" in fields:
                    self.events.append(Heard(fields["event"], fields["data"], fields.get("id", "")))
                fields = {}
        self.ended = True

    async def texts(self) -> list[str]:
        return [event.json["data"]["text"] for event in self.events if event.name == "post.created"]

    async def is_over(self) -> bool:
        return self.ended


@asynccontextmanager
async def listener(server: StreamServer, secret: str, last: str = "", **query: Any) -> AsyncIterator[Listener]:
    headers = {"Authorization": f"Bearer {secret}", **({"Last-Event-ID": last} if last else {})}
    async with server.client.stream("GET", f"{EVENTS}/stream", params=query, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        heard = Listener()
        task = asyncio.create_task(heard.listen(answer))
        try:
            yield heard
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def write(server: StreamServer, author: int, texts: Sequence[str]) -> None:
    for text in texts:
        await posts.create(server.network.writes, author, posts.Draft(text=text))


@in_loop
async def test_event_log_stream_sends_committed_events_and_heartbeats() -> None:
    async with log_server(QUICK._replace(heartbeat=0.1)) as server:
        ann = await members.register(server.network.writes, "ann")
        await write(server, ann.id, ["before"])
        async with listener(server, await key(server), types="post") as heard:
            await write(server, ann.id, ["one", "two"])
            await eventually(heard.texts, ["one", "two"])
            assert heard.last_id

            async def beats() -> bool:
                return heard.comments > 2

            await eventually(beats, True)


@in_loop
async def test_event_log_stream_resumes_after_last_event_id_without_loss() -> None:
    async with log_server() as server:
        ann, secret = await members.register(server.network.writes, "ann"), await key(server)
        texts = [f"post {n}" for n in range(120)]
        received: list[str] = []
        last = "start"
        for begin in range(0, 120, 40):
            async with listener(server, secret, last, types="post") as heard:
                await write(server, ann.id, texts[begin : begin + 40])
                await eventually(heard.texts, texts[begin : begin + 40])
                received += await heard.texts()
                last = heard.last_id
        assert received == texts


@in_loop
async def test_event_log_stream_id_advances_past_events_of_other_types() -> None:
    async with log_server() as server:
        ann, secret = await members.register(server.network.writes, "ann"), await key(server)
        async with listener(server, secret, types="like") as heard:
            ids = {""}

            async def is_new() -> bool:
                return heard.last_id not in ids

            await eventually(is_new, True)
            ids.add(heard.last_id)
            await write(server, ann.id, ["other"])
            await eventually(is_new, True)
            assert heard.events == []
        async with listener(server, secret, heard.last_id, types="post") as later:
            await write(server, ann.id, ["new"])
            await eventually(later.texts, ["new"])


@in_loop
async def test_event_log_stream_without_event_has_id_from_which_to_continue() -> None:
    async with log_server() as server:
        ann, secret = await members.register(server.network.writes, "ann"), await key(server)
        await write(server, ann.id, ["before"])
        async with listener(server, secret, types="post") as heard:

            async def last() -> bool:
                return bool(heard.last_id)

            await eventually(last, True)
            assert heard.events == []
        await write(server, ann.id, ["in between"])
        async with listener(server, secret, heard.last_id, types="post") as later:
            await eventually(later.texts, ["in between"])


@in_loop
async def test_event_log_stream_sends_each_event_as_a_message() -> None:
    async with log_server() as server:
        ann = await members.register(server.network.writes, "ann")
        await write(server, ann.id, ["one", "two", "three"])
        page = await EventReader(server.network.store, server.url).read("start", "post")
        messages = list(_messages(page))
        assert [message.startswith(b"event: post.created\ndata: {") for message in messages] == [True] * 3
        assert [message.endswith(b"\n\n") for message in messages] == [True] * 3
        assert [f"id: {page.position}".encode() in message for message in messages] == [False, False, True]


@in_loop
async def test_event_log_stream_ends_when_key_is_deleted() -> None:
    # The token is not checked during the test.
    async with log_server(QUICK._replace(check=600.0)) as server:
        ann, secret = await members.register(server.network.writes, "ann"), await key(server)
        async with listener(server, secret) as heard:
            await server_keys.delete(server.network.writes, "shop")
            await eventually(heard.is_over, True)
            await write(server, ann.id, ["secret"])
            assert heard.events == []


@in_loop
async def test_event_log_stream_ends_when_server_stops() -> None:
    async with log_server() as server, listener(server, await key(server)) as heard:
        server.stop.set()
        await eventually(heard.is_over, True)


@in_loop
async def test_event_log_stream_after_trimmed_position_is_gone() -> None:
    async with log_server(QUICK._replace(poll=30.0)) as server:
        ann, secret = await members.register(server.network.writes, "ann"), await key(server)
        async with listener(server, secret, "start") as heard:

            async def last() -> bool:
                return bool(heard.last_id)

            await eventually(last, True)
        await write(server, ann.id, ["one", "two"])
        await EventLog(server.network.store).trim(2**62)
        headers = {"Authorization": f"Bearer {secret}", "Last-Event-ID": heard.last_id}
        answer = await server.client.get(f"{EVENTS}/stream", headers=headers)
        assert answer.status_code == 410


@in_loop
async def test_event_log_streams_of_a_key_are_limited() -> None:
    async with log_server() as server:
        secret, other = await key(server), await key(server, "other")
        limits = httpx.Limits(max_connections=100)
        async with httpx.AsyncClient(base_url=server.url, limits=limits) as client, AsyncExitStack() as stack:
            server.client, first = client, server.client
            for _ in range(50):
                await stack.enter_async_context(listener(server, secret))
            answer = await client.get(f"{EVENTS}/stream", headers={"Authorization": f"Bearer {secret}"})
            assert (answer.status_code, "retry-after" in answer.headers) == (429, True)
            async with listener(server, other):
                pass
            await stack.aclose()
            server.client = first


@in_loop
async def test_event_log_long_poll_ends_when_client_disconnects() -> None:
    async with log_server(QUICK) as server:
        headers = {"Authorization": f"Bearer {await key(server)}"}

        async def connected() -> int:
            return server.network.hub.connected

        async with server.client.stream("GET", EVENTS, params={"wait": 30}, headers=headers) as answer:
            assert answer.status_code == 200
            await eventually(connected, 1)
        # Long before the end of the wait.
        await eventually(connected, 0, 20)
