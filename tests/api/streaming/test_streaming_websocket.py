"""Live updates over a WebSocket: several streams per connection, refused messages, and when it closes."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Coroutine
from typing import Any, cast

import pytest
from starlette.types import Message
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from shoal.commands import moderation, oauth
from shoal.core.model import Visibility
from shoal.http.event_streams import Pace
from shoal.streaming import updates
from shoal.streaming.hub import Hub
from tests.api.in_memory_network import NetworkFixture, Someone
from tests.api.streaming.stream_clients import SLOW, StreamServer, stream_server
from tests.api.streaming.test_streaming import a_list, tell
from tests.async_runner import eventually, in_loop


@in_loop
async def test_websocket_with_stream_in_url_receives_events_after_handshake() -> None:
    async with stream_server() as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        async with (
            server.socket("?stream=public", ben) as socket,
            server.socket(f"/?stream=user&access_token={ann.token}") as own,
        ):
            post = await server.post(ann, "low tide")
            message = await socket.next()
            assert (set(message), message["stream"], message["event"]) == (
                {"stream", "event", "payload"},
                ["public"],
                "update",
            )
            assert json.loads(message["payload"]) == await server.ask(ben, "GET", f"/api/v1/statuses/{post}")
            await server.ask(ann, "DELETE", f"/api/v1/statuses/{post}")
            assert await socket.next() == {"stream": ["public"], "event": "delete", "payload": post}
            await own.hears((["user"], "+low tide"), (["user"], f"-{post}"))
            await tell(server, updates.FiltersChanged(ann.member.id))
            assert await own.next() == {"stream": ["user"], "event": "filters_changed"}


@in_loop
async def test_websocket_accepts_token_as_subprotocol_and_returns_it() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        async with server.socket("?stream=user", subprotocols=[ann.token]) as socket:
            assert socket.connection.subprotocol == ann.token
            await server.post(ann, "mine")
            await socket.hears((["user"], "+mine"))


@in_loop
async def test_websocket_accepts_token_with_base64_padding() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        assert "=" not in ann.token
        async with server.socket("?stream=user", ann._replace(token=ann.token + "=" * (-len(ann.token) % 4))) as socket:
            await server.post(ann, "mine")
            await socket.hears((["user"], "+mine"))


@in_loop
async def test_websocket_subscribe_and_unsubscribe_change_received_streams() -> None:
    async with stream_server() as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        list_id = await a_list(server, ben, ann)
        async with server.socket(who=ben) as socket:
            names = {
                "public:local": {},
                "hashtag": {"tag": "Dawn"},
                "list": {"list": list_id},
                "hashtag:local": {"tag": "dusk"},
            }
            for name, more in names.items():
                for _ in range(2):
                    await socket.ask(type="subscribe", stream=name, **more)
            await _taken(server, 5)
            await server.post(ann, "one #dawn")
            labels = [["public:local"], ["hashtag", "Dawn"], ["list", list_id]]
            found = [(await socket.next())["stream"] for _ in labels]
            assert sorted(found) == sorted(labels)
            await socket.ask(type="unsubscribe", stream="hashtag", tag="dawn")
            await socket.ask(type="unsubscribe", stream="public:local")
            await socket.ask(type="unsubscribe", stream="user")
            await _taken(server, 3)
            await server.post(ann, "two #dawn")
            assert (await socket.next())["stream"] == ["list", list_id]
            await socket.ask(type="subscribe", stream="public")
            await _taken(server, 4)
            await server.post(ben, "three")
            await socket.hears((["public"], "+three"))


@in_loop
async def test_websocket_streams_of_a_named_feed_send_its_posts_by_name_and_as_a_list() -> None:
    async with stream_server() as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        declared = {"sources": [{"from": "everybody"}], "filters": {"tags_none": ["rye"]}}
        made = await server.ask(ann, "POST", "/api/shoal/v1/feeds", title="All", declaration=declared)
        async with server.socket(f"?stream=shoal:feed&feed={made['id']}", ann) as socket:
            await socket.ask(type="subscribe", stream="list", list=made["id"])
            await _taken(server, 3)
            await server.post(ben, "#rye")
            post = await server.post(ben, "post")
            streams = (["shoal:feed", made["id"]], ["list", made["id"]])
            await socket.hears(*((stream, "+post") for stream in streams))
            await server.ask(ben, "DELETE", f"/api/v1/statuses/{post}")
            await socket.hears(*((stream, f"-{post}") for stream in streams))
            await socket.ask(type="unsubscribe", stream="list", list=made["id"])
            await _taken(server, 2)
            await server.post(ben, "again")
            await socket.hears((streams[0], "+again"))
        for path in (f"list?list={made['id']}", f"shoal/feed?feed={made['id']}", "shoal/feed?feed=missing"):
            answer = await server.client.get(
                f"/api/v1/streaming/{path}", headers={"Authorization": f"Bearer {ben.token}"}
            )
            assert answer.status_code == 404


@in_loop
async def test_websocket_refuses_more_named_feeds_than_the_maximum() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        for number in range(11):
            declared = {"sources": [{"from": "tag", "tag": f"tag{number}"}]}
            await server.ask(ann, "POST", "/api/shoal/v1/feeds", title=f"{number}", declaration=declared)
        feeds = [feed["id"] for feed in await server.ask(ann, "GET", "/api/shoal/v1/feeds")]
        async with server.socket(who=ann) as socket:
            for feed in feeds:
                await socket.ask(type="subscribe", stream="shoal:feed", feed=feed)
            message = await socket.next()
            assert message["status"] == 429
            assert "at most 10 named feeds per socket (got 11)" in message["error"]
            await socket.ask(type="unsubscribe", stream="shoal:feed", feed=feeds[0])
            await socket.ask(type="subscribe", stream="shoal:feed", feed=feeds[10])
            await _taken(server, 11)
            await server.post(ann, "#tag0 #tag10")
            message = await socket.next()
            assert message["stream"] == ["shoal:feed", feeds[10]]


@in_loop
async def test_websocket_reports_change_and_end_of_a_named_feed_and_keeps_the_other_streams() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        declared = {"sources": [{"from": "tag", "tag": "bread"}]}
        made = await server.ask(ann, "POST", "/api/shoal/v1/feeds", title="Bread", declaration=declared)
        path = f"/api/shoal/v1/feeds/{made['id']}"
        async with server.socket("?stream=user", ann) as socket:
            await socket.ask(type="subscribe", stream="list", list=made["id"])
            await _taken(server, 3)
            changed = {"sources": [{"from": "tag", "tag": "rye"}]}
            await server.ask(ann, "PUT", path, declaration=changed)
            for state in ("changed", "deleted"):
                message = await socket.next()
                assert (message["stream"], message["event"]) == (["list", made["id"]], "feed")
                assert json.loads(message["payload"]) == {"id": made["id"], "state": state}
                if state == "changed":
                    await server.ask(ann, "DELETE", path)
            await _taken(server, 2)
            await server.post(ann, "post")
            await socket.hears((["user"], "+post"))
            await socket.ask(type="subscribe", stream="list", list=made["id"])
            assert (await socket.next())["status"] == 404


@in_loop
async def test_event_stream_of_a_named_feed_ends_when_the_feed_is_deleted() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        declared = {"sources": [{"from": "everybody"}]}
        made = await server.ask(ann, "POST", "/api/shoal/v1/feeds", title="All", declaration=declared)
        async with server.ear(ann, "shoal/feed", feed=made["id"]) as ear:
            await server.ask(ann, "DELETE", f"/api/shoal/v1/feeds/{made['id']}")
            await ear.ends()
            assert [(event.name, event.json) for event in ear.events] == [
                ("feed", {"id": made["id"], "state": "deleted"})
            ]


@in_loop
async def test_websocket_refuses_parameters_of_a_stream() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        async with server.socket(who=ann) as socket:
            for given in ({"half_life": 12}, {f"p{number}": number for number in range(200)}, {}, None, 5):
                await socket.ask(type="subscribe", stream="user", parameters=given)
                message = await socket.next()
                assert message["status"] == 422
                assert "parameters: not allowed for streams" in message["error"]
            await _taken(server, 1)
        for query in ("parameters[half_life]=12", "parameters=12"):
            async with server.socket(f"?stream=user&{query}", ann) as socket:
                message = await socket.next()
                assert message["status"] == 422
                assert "parameters: not allowed for streams" in message["error"]


@in_loop
async def test_websocket_takes_a_number_as_the_id_of_a_named_feed() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        declared = {"sources": [{"from": "everybody"}]}
        made = await server.ask(ann, "POST", "/api/shoal/v1/feeds", title="All", declaration=declared)
        async with server.socket(who=ann) as socket:
            await socket.ask(type="subscribe", stream="shoal:feed", feed=int(made["id"]))
            # The same subscription, and feeds that do not exist.
            await socket.ask(type="subscribe", stream="shoal:feed", feed=made["id"])
            for missing in (5, 5.5, -1, 10**40):
                await socket.ask(type="subscribe", stream="shoal:feed", feed=missing)
                assert (await socket.next())["status"] == 404
            for invalid in (True, [5], {"id": 5}):
                await socket.ask(type="subscribe", stream="shoal:feed", feed=invalid)
                message = await socket.next()
                assert message["status"] == 422
                assert "feed must be a text" in message["error"]
            await _taken(server, 2)
            await server.post(ann, "post")
            await socket.hears((["shoal:feed", made["id"]], "+post"))


@in_loop
async def test_websocket_reports_a_full_server_and_keeps_the_other_streams() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        declared = {"sources": [{"from": "everybody"}]}
        made = await server.ask(ann, "POST", "/api/shoal/v1/feeds", title="All", declaration=declared)
        server.network.hub.most_feeds = 0
        async with server.socket("?stream=user", ann) as socket:
            await socket.ask(type="subscribe", stream="shoal:feed", feed=made["id"])
            assert (await socket.next())["status"] == 429
            await server.post(ann, "post")
            await socket.hears((["user"], "+post"))
            server.network.hub.most_feeds = 1
            await socket.ask(type="subscribe", stream="shoal:feed", feed=made["id"])
            await _taken(server, 3)


@in_loop
async def test_event_stream_of_a_ranked_feed_reports_newer_posts_and_resumes() -> None:
    async with stream_server() as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        declared = {"sources": [{"from": "everybody"}], "order": {"by": "expression", "expression": "likes"}}
        made = await server.ask(ann, "POST", "/api/shoal/v1/feeds", title="All", declaration=declared)
        server.network.hub.spacing = 3_600.0
        async with server.ear(ann, "shoal/feed", feed=made["id"]) as ear:
            await server.post(ben, "post")
            await ear.saw("newer", 1)
            (event,) = ear.events
            assert event.data == "{}"
            await server.post(ben, "another")
        async with server.ear(ann, "shoal/feed", event.id, feed=made["id"]) as ear:
            await ear.hears("newer")


@in_loop
async def test_websocket_subscription_to_foryou_list_is_accepted_and_sends_nothing() -> None:
    async with stream_server(for_you_list=True) as server:
        ann = await server.join("ann")
        async with server.socket(who=ann) as socket:
            await socket.ask(type="subscribe", stream="list", list="1")
            await socket.ask(type="subscribe", stream="user")
            await _taken(server, 3)
            for n in range(3):
                await server.post(ann, f"post {n}")
            # Each post arrives once, on the user stream and not on the list.
            await socket.hears(*((["user"], f"+post {n}") for n in range(3)))


async def _taken(server: StreamServer, count: int) -> None:
    """Wait until the hub has `count` viewers; each socket is a viewer in addition to its streams."""

    async def connected() -> int:
        return server.network.hub.connected

    await eventually(connected, count)


@in_loop
async def test_websocket_invalid_message_returns_error_and_connection_stays_open() -> None:
    async with stream_server() as server:
        ann, ben = await server.join("ann", "read:statuses"), await server.join("ben")
        list_id = await a_list(server, ben)
        async with server.socket("?stream=nothing", ann) as socket:
            assert await socket.next() == {"error": "Unknown stream type", "status": 400}
            for frame, status in (
                ({"type": "subscribe", "stream": "user:notification"}, 403),
                ({"type": "subscribe", "stream": "list", "list": list_id}, 404),
                ({"type": "subscribe", "stream": "list"}, 400),
                ({"type": "subscribe", "stream": "hashtag"}, 400),
                ({"type": "subscribe", "stream": "hashtag", "tag": "a b"}, 404),
                ({"type": "subscribe", "stream": "x" * 101}, 422),
                ({"type": "dance", "stream": "user"}, 422),
                ({"stream": "user"}, 400),
            ):
                await socket.ask(**frame)
                answer = await socket.next()
                assert (set(answer), answer["status"]) >= ({"error", "status"}, status), frame
                assert answer["status"] == status
            for text in ("", "{", "[]", "7", '"x"', "[" * 5_000):
                await socket.connection.send(text)
                assert (await socket.next())["status"] == 400
            await socket.connection.send(b'{"type": "subscribe", "stream": "user"}')
            await _taken(server, 2)
            await server.post(ben, "not hers")
            await tell(server, updates.FiltersChanged(ann.member.id))
            await socket.hears((["user"], "filters_changed"))


@pytest.mark.parametrize("path", ["?access_token=wrong", "", "/nothing"])
@in_loop
async def test_websocket_refused_handshake_is_not_logged_as_error(path: str, caplog: pytest.LogCaptureFixture) -> None:
    async with stream_server() as server:
        with pytest.raises(InvalidStatus):
            await connect(f"{server.url.replace('http', 'ws')}/api/v1/streaming{path}")
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@in_loop
async def test_websocket_stream_count_and_message_size_are_limited() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        async with server.socket(who=ann) as socket:
            for number in range(51):
                await socket.ask(type="subscribe", stream="hashtag", tag=f"t{number}")
            message = await socket.next()
            assert message["status"] == 429
            assert "at most 50 streams per socket (got 51)" in message["error"]
            await _taken(server, 51)
            await socket.connection.send("x" * 65_537)
            assert await socket.closes() == 1009
        await _taken(server, 0)


@pytest.mark.parametrize("query", ["", "?access_token=wrong", "?stream=user"])
@in_loop
async def test_websocket_without_valid_token_returns_401(query: str) -> None:
    async with stream_server() as server:
        with pytest.raises(InvalidStatus) as refused:
            async with server.socket(query):
                pass
        answer = refused.value.response
        assert (answer.status_code, json.loads(answer.body or b"")) == (401, {"error": "The access token is invalid"})


@in_loop
async def test_websocket_of_app_token_suspended_member_or_unknown_path_is_refused() -> None:
    async with stream_server() as server:
        ann, eve = await server.join("ann"), await server.join("eve")
        app = (await oauth.issue_token(server.network.writes, ann.app_id, 0, ("read",))).text
        await moderation.suspend(server.network.writes, eve.member.id)
        for query, who, status in (
            ("", Someone(ann.member, app, ann.app_id), 422),
            ("", eve, 403),
            ("/user", ann, 404),
        ):
            with pytest.raises(InvalidStatus) as refused:
                async with server.socket(query, who):
                    pass
            assert refused.value.response.status_code == status


@pytest.mark.parametrize("how", ["revoked", "suspended", "untold"])
@in_loop
async def test_websocket_is_closed_when_token_is_revoked_or_member_suspended(how: str) -> None:
    async with stream_server(SLOW._replace(check=0.1 if how == "untold" else 60.0)) as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        async with (
            server.socket("?stream=public", ann) as one,
            server.socket(who=ann) as two,
            server.socket(who=ben) as other,
        ):
            if how == "suspended":
                await moderation.suspend(server.network.writes, ann.member.id)
            else:
                token = await server.token_of(ann)
                writes = server.network.writes
                if how == "untold":
                    server.network.effects.channel.publish = _nothing  # type: ignore[assignment,method-assign]
                await oauth.revoke_token(writes, token)
            assert [await one.closes(), await two.closes()] == [1008, 1008]
            await _taken(server, 1)
            assert other.connection.close_code is None


async def _nothing(_message: bytes) -> None:
    """Drop the message."""


@in_loop
async def test_websocket_stays_open_when_other_token_of_member_is_revoked() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        writes = server.network.writes
        again = (await oauth.issue_token(writes, ann.app_id, ann.member.id, ("read",))).token
        async with server.socket("?stream=user", ann) as socket:
            await oauth.revoke_token(writes, again)
            await server.post(ann, "still here")
            await socket.hears((["user"], "+still here"))


@in_loop
async def test_websocket_with_overflowing_queue_is_closed_and_does_not_delay_others() -> None:
    async with stream_server() as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        async with server.socket("?stream=user", ben) as slow, server.socket("?stream=public", ann) as quick:
            # Publish more events in a single loop iteration than the queue of a viewer holds.
            for number in range(201):
                await tell(server, updates.NotificationMade(ben.member.id, number))
            assert await slow.closes() == 1013
            await server.post(ann, "to the quick")
            await quick.hears((["public"], "+to the quick"))


@in_loop
async def test_websocket_client_that_does_not_read_is_disconnected() -> None:
    async with stream_server(SLOW._replace(patience=0.2)) as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        post = int(await server.post(ann, "\N{WATER WAVE}" * 5_000))
        async with server.socket("?stream=public", ben) as slow:
            await _taken(server, 2)
            slow.connection.transport.pause_reading()

            async def connected() -> int:
                for _ in range(100):
                    await tell(server, updates.PostCreated(post, ann.member.id, Visibility.PUBLIC))
                return server.network.hub.connected

            await eventually(connected, 0)
            slow.connection.transport.abort()


@in_loop
async def test_websocket_with_last_event_id_resumes_and_sends_refresh_on_gap() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        async with server.socket("?stream=user&last_event_id=", ann) as socket:
            await server.post(ann, "one")
            last = (await socket.next())["id"]
        await server.post(ann, "two")
        async with server.socket(f"?stream=user&last_event_id={last}", ann) as socket:
            await socket.hears((["user"], "+two"))
        async with server.socket(who=ann) as socket:
            await socket.ask(type="subscribe", stream="user", last_event_id=last)
            await socket.hears((["user"], "+two"))
        async with server.socket("?stream=user&last_event_id=made-up-1", ann) as socket:
            assert (await socket.next())["event"] == "refresh"
            await server.post(ann, "three")
            await socket.hears((["user"], "+three"))


@in_loop
async def test_websocket_client_that_answers_no_ping_is_disconnected() -> None:
    async with stream_server(Pace(heartbeat=60, ping=0.2, check=60)) as server:
        ann = await server.join("ann")
        async with (
            server.socket(who=ann, ping_interval=None) as alive,
            server.socket(who=ann, ping_interval=None) as dead,
        ):
            await _taken(server, 2)
            # The client stops answering pings, as after a broken connection.
            dead.connection.transport.pause_reading()
            await _taken(server, 1)
            assert alive.connection.close_code is None
            dead.connection.transport.abort()


@in_loop
async def test_websocket_is_closed_immediately_on_server_shutdown() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        async with server.socket("?stream=user", ann) as socket:
            before = time.monotonic()
            server.stop.set()
            assert await socket.closes() in (1001, 1012)
            assert time.monotonic() - before < 60


@in_loop
async def test_websocket_is_closed_when_hub_closes() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        async with server.socket("?stream=user", ann) as socket:
            hub: Hub = server.network.hub
            await hub.close()
            assert await socket.closes() == 1001


@in_loop
async def test_websocket_messages_count_towards_rate_limit() -> None:
    async with stream_server(rate_limits=True) as server:
        ann = await server.join("ann")
        async with server.socket(who=ann) as socket:
            for _ in range(301):
                await socket.ask(type="unsubscribe", stream="user")
            answer = await socket.next()
            assert (answer["error"], answer["status"]) == ("Too many requests", 429)


def test_websocket_refusal_without_http_response_extension_closes_handshake(shared: NetworkFixture) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/api/v1/streaming", "headers": [], "query_string": b"", "subprotocols": []}
    shared.run(cast("Coroutine[Any, Any, None]", shared.app(scope, receive, send)))
    assert sent == [{"type": "websocket.close", "code": 1008}]
