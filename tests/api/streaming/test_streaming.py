"""Live updates as server-sent events: contents of each stream, when streams close, and how clients resume."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import httpx
import pytest

from shoal.commands import credentials, members, moderation, oauth
from shoal.core.ids import shard_of
from shoal.core.model import Visibility
from shoal.graph.contract import Batch
from shoal.graph.schema import LISTS
from shoal.http.event_streams import Pace
from shoal.streaming import updates
from tests.api.in_memory_network import NetworkFixture, Someone, picture
from tests.api.streaming.stream_clients import SLOW, Ear, Heard, StreamServer, served, stream_server
from tests.async_runner import eventually, in_loop
from tests.flows.shared_network import SharedDatabases as Databases
from tests.flows.shared_network import processes

PATHS = ("user", "user/notification", "public", "public/local", "public/remote", "hashtag", "list", "direct")


async def a_list(server: StreamServer, owner: Someone, *listed: Someone) -> str:
    """Create a list with these members, whom its owner follows."""
    made = await server.ask(owner, "POST", "/api/v1/lists", title="Some")
    for one in listed:
        await put_into(server, made["id"], owner, one)
    return str(made["id"])


async def put_into(server: StreamServer, list_id: str, owner: Someone, listed: Someone, *, there: bool = True) -> None:
    """Add the account to the list, or remove it."""
    if there:
        await server.ask(owner, "POST", f"/api/v1/accounts/{listed.id}/follow")
    method = "POST" if there else "DELETE"
    await server.ask(owner, method, f"/api/v1/lists/{list_id}/accounts", account_ids=[listed.id])
    await server.settle()


async def slip_into(server: StreamServer, list_id: str, listed: Someone) -> None:
    """Add the account to a list whose owner does not follow it, as a delayed job could."""
    writes = server.network.writes
    batch = Batch(shard_of(int(list_id)))
    batch.assoc_add(int(list_id), LISTS, listed.member.id, writes.new_id(batch.shard))
    await writes.graph.commit(batch)


async def tell(server: StreamServer, update: updates.AnyUpdate) -> None:
    await server.network.effects.channel.publish(updates.encode(update))


@in_loop
async def test_user_stream_receives_new_edited_and_deleted_statuses() -> None:
    async with stream_server() as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        await server.ask(ben, "POST", f"/api/v1/accounts/{ann.id}/follow")
        await server.ask(ben, "PATCH", "/api/v1/accounts/update_credentials", shoal={"aggregate_reblogs": False})
        await server.settle()
        async with server.ear(ben, "user") as at_ben:
            post = await server.post(ann, "low tide")
            await at_ben.hears("+low tide")
            await server.ask(ann, "PUT", f"/api/v1/statuses/{post}", status="high tide")
            await at_ben.hears("~high tide")
            share = (await server.ask(ann, "POST", f"/api/v1/statuses/{post}/reblog"))["id"]
            await at_ben.hears("+high tide")
            await server.ask(ann, "DELETE", f"/api/v1/statuses/{post}")
            await at_ben.hears(f"-{post}", f"-{share}")


@in_loop
async def test_public_stream_event_equals_status_of_rest_api() -> None:
    async with stream_server() as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        async with server.ear(ben, "public") as ear:
            post = await server.post(ann, "as it is #dawn", spoiler_text="careful", language="en")
            await eventually(lambda: _count(ear), 1)
            assert ear.events[0].json == await server.ask(ben, "GET", f"/api/v1/statuses/{post}")


async def _count(ear: Ear) -> int:
    return len(ear.events)


@in_loop
async def test_public_stream_receives_public_posts_and_self_replies_only() -> None:
    async with stream_server() as server:
        ann, ben, cyd = [await server.join(name) for name in ("ann", "ben", "cyd")]
        async with (
            server.ear(cyd, "public") as all_,
            server.ear(cyd, "public", only_media="true") as media,
            server.ear(cyd, "public/remote") as remote,
        ):
            root = await server.post(ann, "root")
            for visibility in ("unlisted", "private", "direct"):
                await server.post(ann, visibility, visibility=visibility)
            await server.post(ben, "an answer", in_reply_to_id=root)
            more = await server.post(ann, "and more", in_reply_to_id=root)
            await server.ask(ben, "POST", f"/api/v1/statuses/{root}/reblog")
            await server.settle()
            await server.ask(ann, "PUT", f"/api/v1/statuses/{more}", status="still more")
            await server.settle()
            await server.post(ann, "the last", media_ids=[await _picture(server, ann)])
            await all_.hears("+root", "+and more", "~still more", "+the last")
            await media.hears("+the last")
            await remote.hears()


async def _picture(server: StreamServer, who: Someone) -> str:
    answer = await server.client.post(
        "/api/v2/media", headers={"Authorization": f"Bearer {who.token}"}, files={"file": ("a.png", picture())}
    )
    return str(answer.json()["id"])


@in_loop
async def test_hashtag_stream_ignores_case_and_receives_delete_when_tag_is_removed() -> None:
    async with stream_server() as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        async with server.ear(ben, "hashtag", tag="DAWN") as ear, server.ear(ben, "hashtag/local", tag="dusk") as other:
            post = await server.post(ann, "with #dawn")
            await server.post(ann, "with none")
            await server.post(ann, "hidden #dawn", visibility="unlisted")
            await eventually(lambda: _count(ear), 1)
            ear.events.clear()
            await server.ask(ann, "PUT", f"/api/v1/statuses/{post}", status="without")
            await ear.hears(f"-{post}")
            await other.hears()


@in_loop
async def test_list_stream_reflects_changes_of_list_members() -> None:
    async with stream_server() as server:
        ann, ben, cyd, dan = [await server.join(name) for name in ("ann", "ben", "cyd", "dan")]
        list_id = await a_list(server, cyd, ann)
        async with server.ear(cyd, "list", list=list_id) as ear:
            root = await server.post(ann, "of ann")
            outside = await server.post(dan, "of dan")
            await server.post(ann, "to dan", in_reply_to_id=outside)
            await server.ask(ann, "POST", f"/api/v1/statuses/{outside}/reblog")
            await ear.hears("+of ann", "+of dan")
            await put_into(server, list_id, cyd, ben)
            await server.post(ben, "to ann", in_reply_to_id=root)
            await ear.hears("+to ann")
            await put_into(server, list_id, cyd, ann, there=False)
            await server.post(ann, "unheard")
            await server.post(ben, "the last")
            await ear.hears("+the last")


@in_loop
async def test_filters_changed_event_is_sent_to_user_stream_only() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        async with server.ear(ann, "user") as home, server.ear(ann, "direct") as direct:
            await tell(server, updates.FiltersChanged(ann.member.id))
            await home.hears("filters_changed")
            await direct.hears()


@in_loop
async def test_notification_events_reach_user_and_notification_streams_according_to_scope() -> None:
    async with stream_server() as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        limited = ann._replace(token=await server.token(ann, "read:statuses"))
        post = await server.post(ann, "like me")
        async with (
            server.ear(ann, "user") as home,
            server.ear(limited, "user") as narrow,
            server.ear(ann, "user/notification") as alone,
            server.ear(ben, "user/notification") as other,
        ):
            await server.ask(ben, "POST", f"/api/v1/statuses/{post}/favourite")
            await server.ask(ben, "POST", f"/api/v1/accounts/{ann.id}/follow")
            await alone.saw("notification", 2)
            assert {event.json["type"] for event in alone.events} == {"favourite", "follow"}
            listed = await server.ask(ann, "GET", "/api/v1/notifications")
            assert {event.json["id"] for event in alone.events} == {one["id"] for one in listed}
            assert [event.json for event in alone.events if event.json["type"] == "follow"] == listed[:1]
            await home.hears("notification", "notification")
            await tell(server, updates.FiltersChanged(ann.member.id))
            await narrow.hears("filters_changed")
            await other.hears()


@in_loop
async def test_notification_event_from_account_blocked_after_event_is_not_streamed() -> None:
    async with stream_server() as server:
        ann, ben, cyd = [await server.join(name) for name in ("ann", "ben", "cyd")]
        async with server.ear(ann, "user/notification") as ear:
            await server.post(ben, "hello @ann")
            await ear.saw("notification", 1)
            time = int(ear.events[0].json["id"])
            await server.ask(ann, "POST", f"/api/v1/accounts/{ben.id}/block")
            await tell(server, updates.NotificationMade(ann.member.id, time))
            await server.post(cyd, "hello @ann")
            await ear.hears("notification", "notification")


@in_loop
async def test_conversation_event_is_sent_to_participants_only() -> None:
    async with stream_server() as server:
        ann, ben, cyd = [await server.join(name) for name in ("ann", "ben", "cyd")]
        async with server.ear(ben, "direct") as at_ben, server.ear(cyd, "direct") as at_cyd:
            await server.post(ann, "@ben alone", visibility="direct")
            await at_ben.saw("conversation", 1)
            (listed,) = await server.ask(ben, "GET", "/api/v1/conversations")
            assert at_ben.events[0].json == listed
            await server.settle()
            await at_cyd.hears()


@in_loop
async def test_status_hidden_by_moderator_sends_delete_to_all_but_author() -> None:
    async with stream_server() as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        async with server.ear(ben, "public") as at_ben, server.ear(ann, "public") as at_ann:
            post = await server.post(ann, "for now")
            await at_ben.hears("+for now")
            await moderation.hide(server.network.writes, int(post))
            await at_ben.hears(f"-{post}")
            await at_ann.hears("+for now")


STANDS = ("stranger", "blocked", "blocker", "muter", "follower")


@in_loop
async def test_streams_never_send_statuses_that_viewer_may_not_see() -> None:
    """An author creates, edits and deletes posts of each visibility; every viewer has a different relationship to the author."""
    async with stream_server() as server:
        author = await server.join("author")
        people = {name: await server.join(name) for name in STANDS}
        lists = {name: await a_list(server, one) for name, one in people.items()}
        for name, one in people.items():
            if name in ("muter", "follower"):
                await server.ask(one, "POST", f"/api/v1/accounts/{author.id}/follow")
            await slip_into(server, lists[name], author)
        await server.ask(author, "POST", f"/api/v1/accounts/{people['blocked'].id}/block")
        await server.ask(people["blocker"], "POST", f"/api/v1/accounts/{author.id}/block")
        await server.ask(people["muter"], "POST", f"/api/v1/accounts/{author.id}/mute")
        for one in people.values():
            # Members who follow the tag see public posts in their home timeline.
            await server.ask(one, "POST", "/api/v1/tags/dawn/follow")
        await server.settle()
        listening = {}
        stack = AsyncExitStack()
        for name, one in people.items():
            for path, query in (
                ("user", {}),
                ("public", {}),
                ("hashtag", {"tag": "dawn"}),
                ("list", {"list": lists[name]}),
            ):
                listening[name, path] = await stack.enter_async_context(server.ear(one, path, **query))
        for visibility in ("public", "unlisted", "private", "direct"):
            post = await server.post(author, f"{visibility} #dawn", visibility=visibility)
            await server.settle()
            await server.ask(author, "PUT", f"/api/v1/statuses/{post}", status=f"{visibility} again #dawn")
            await server.settle()
            await server.ask(author, "DELETE", f"/api/v1/statuses/{post}")
            await server.settle()
        for (name, path), ear in listening.items():
            await tell(server, updates.FiltersChanged(people[name].member.id))
            if path == "user":
                await eventually(partial(_has, ear, "filters_changed"), True)
            await eventually(partial(_told, ear), _may_hear(name, path))
            if name != "stranger" and not _may_hear(name, path):
                assert [event.name for event in ear.events if event.name != "filters_changed"] == []
        await stack.aclose()


async def _told(ear: Ear) -> set[str]:
    """Return the visibilities of the posts that were streamed."""
    return {event.json["visibility"] for event in ear.events if event.name in ("update", "status.update")}


async def _has(ear: Ear, name: str) -> bool:
    return any(event.name == name for event in ear.events)


def _may_hear(name: str, path: str) -> set[str]:
    if name in ("blocked", "blocker", "muter"):
        return set()
    if path in ("public", "hashtag"):
        return {"public"}
    if name == "follower":
        return {"public", "unlisted", "private"}
    # A list shows only accounts that its owner follows.
    return {"public"} if path == "user" else set()


@in_loop
async def test_event_stream_starts_immediately_and_sends_keepalive_comments() -> None:
    async with stream_server(Pace(heartbeat=0.05, ping=60, check=60)) as server:
        ann = await server.join("ann")
        async with server.ear(ann, "user") as ear:
            assert ear.answer.headers["content-type"].startswith("text/event-stream")
            assert (ear.answer.headers["cache-control"], ear.answer.headers["x-accel-buffering"]) == ("no-store", "no")
            assert ear.answer.headers["access-control-allow-origin"] == "*"

            async def signs() -> bool:
                return ear.comments[:1] == [":)"] and ear.comments.count(":thump") >= 3

            await eventually(signs, True)
        head = await server.client.head("/api/v1/streaming/user", headers={"Authorization": f"Bearer {ann.token}"})
        assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("path", PATHS)
def test_event_stream_without_token_returns_401_as_json(shared: NetworkFixture, path: str) -> None:
    answer = shared.ask("GET", f"/api/v1/streaming/{path}?tag=x&list=1")
    assert (answer.status_code, answer.json()) == (401, {"error": "The access token is invalid"})


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("hashtag", 400),
        ("hashtag?tag=a%20b", 404),
        ("list", 400),
        ("list?list=5", 404),
        ("nothing", 404),
        ("shoal/feed", 400),
        ("shoal/feed?feed=5", 404),
        ("shoal/feed?feed=missing&parameters[half_life]=12", 422),
        ("list?list=5&parameters[half_life]=12", 422),
        ("user?parameters=12", 422),
    ],
)
def test_event_stream_unknown_or_with_invalid_parameters_is_refused(
    shared: NetworkFixture, path: str, status: int
) -> None:
    one = shared.join(f"one{status}{sum(path.encode())}")
    assert shared.ask("GET", f"/api/v1/streaming/{path}", one).status_code == status


@in_loop
async def test_list_stream_of_other_member_returns_404() -> None:
    async with stream_server() as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        list_id = await a_list(server, ann, ben)
        answer = await server.client.get(
            f"/api/v1/streaming/list?list={list_id}", headers={"Authorization": f"Bearer {ben.token}"}
        )
        assert answer.status_code == 404


def test_streaming_health_endpoint_returns_ok(shared: NetworkFixture) -> None:
    answer = shared.ask("GET", "/api/v1/streaming/health")
    assert (answer.text, answer.headers["content-type"]) == ("OK", "text/plain; charset=utf-8")


Ending = Callable[[StreamServer, Someone], Awaitable[object]]


async def _revoke(server: StreamServer, who: Someone) -> None:
    await oauth.revoke_token(server.network.writes, await server.token_of(who))


async def _suspend(server: StreamServer, who: Someone) -> None:
    await moderation.suspend(server.network.writes, who.member.id)


async def _remove_silently(server: StreamServer, who: Someone) -> None:
    """Delete the token without publishing the change."""
    token = await server.token_of(who)
    batch = Batch(shard_of(token.id))
    batch.obj_del(token.id)
    await server.network.store.commit(batch)


@pytest.mark.parametrize(
    ("end", "check"),
    [(_revoke, 60.0), (_suspend, 60.0), (_remove_silently, 0.1)],
    ids=["revoked", "suspended", "untold"],
)
@in_loop
async def test_event_stream_is_closed_when_token_is_revoked_or_member_suspended(end: Ending, check: float) -> None:
    async with stream_server(SLOW._replace(check=check)) as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        async with server.ear(ann, "public") as at_ann, server.ear(ben, "public") as at_ben:
            await server.post(ben, "before")
            await at_ann.hears("+before")
            await end(server, ann)
            await at_ann.ends()
            await server.post(ben, "after")
            await at_ben.hears("+before", "+after")
            assert at_ann.events == []
            assert server.network.hub.connected == 1


@in_loop
async def test_event_stream_is_closed_after_password_change() -> None:
    async with stream_server() as server:
        joined = await members.register(
            server.network.writes, "ann", email="ann@example.org", password="low tide at dawn"
        )
        app = (await oauth.register(server.network.writes, "Test", redirect_uris=("urn:x",), scopes=("read",))).app
        token = (await oauth.issue_token(server.network.writes, app.id, joined.id, ("read",))).text
        async with server.ear(Someone(joined, token, app.id), "user") as ear:
            await credentials.set_password(server.network.writes, joined.id, "high tide at dusk")
            await ear.ends()


@in_loop
async def test_event_stream_is_removed_from_hub_after_client_disconnect() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        hub = server.network.hub

        async def connected() -> int:
            return hub.connected

        async with server.ear(ann, "user"):
            await eventually(connected, 1)
        await eventually(connected, 0)


@in_loop
async def test_event_stream_client_that_does_not_read_is_disconnected() -> None:
    async with stream_server(SLOW._replace(patience=0.2)) as server:
        ann = await server.join("ann")
        post = int(await server.post(ann, "\N{WATER WAVE}" * 5_000))
        headers = {"Authorization": f"Bearer {ann.token}"}
        async with server.client.stream("GET", "/api/v1/streaming/public", headers=headers):

            async def connected() -> int:
                for _ in range(100):
                    await tell(server, updates.PostCreated(post, ann.member.id, Visibility.PUBLIC))
                return server.network.hub.connected

            await eventually(connected, 0)


@in_loop
async def test_event_stream_is_closed_immediately_on_server_shutdown() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        async with server.ear(ann, "user") as ear:
            before = time.monotonic()
            server.stop.set()
            await ear.ends()
            assert time.monotonic() - before < 60


@in_loop
async def test_event_stream_starts_with_position_from_which_it_resumes() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        async with server.ear(ann, "user") as ear:
            start = await _start(ear)
        await server.post(ann, "missed")
        async with server.ear(ann, "user", start) as ear:
            await ear.hears("+missed")


async def _start(ear: Ear) -> str:
    async def found() -> bool:
        return bool(ear.start)

    await eventually(found, True)
    return ear.start


@in_loop
async def test_event_stream_with_unknown_last_event_id_sends_refresh() -> None:
    async with stream_server() as server:
        ann = await server.join("ann")
        for last in ("made-up-7", "x"):
            async with server.ear(ann, "user", last) as ear:
                await ear.hears("refresh")
                await server.post(ann, "now")
                await ear.hears("+now")
        async with server.ear(ann, "user", last_event_id="made-up-7") as ear:
            await ear.hears("refresh")


@in_loop
async def test_event_stream_limit_per_member_returns_429_and_other_members_connect() -> None:
    async with stream_server() as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        limits = httpx.Limits(max_connections=100)
        async with httpx.AsyncClient(base_url=server.url, limits=limits) as client:
            server.client, first = client, server.client
            stack = AsyncExitStack()
            for _ in range(50):
                await stack.enter_async_context(server.ear(ann, "user"))
            answer = await client.get("/api/v1/streaming/user", headers={"Authorization": f"Bearer {ann.token}"})
            assert (answer.status_code, "retry-after" in answer.headers) == (429, True)
            assert answer.json() == {"error": "At most 50 open streams per account or server key (got 51)"}
            async with server.ear(ben, "user"):
                pass
            await stack.aclose()
            server.client = first


@in_loop
async def test_event_stream_with_repeated_reconnects_loses_no_events() -> None:
    """The client disconnects at random moments during posts, edits and deletions, and resumes with the last event id."""
    chance = random.Random(7)
    async with stream_server() as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        await server.ask(ben, "POST", f"/api/v1/accounts/{ann.id}/follow")
        await server.settle()
        heard: list[str] = []
        done = asyncio.Event()
        async with server.ear(ben, "user") as ear:
            await server.post(ann, "first")
            await eventually(lambda: _count(ear), 1)
            last = ear.events[0].id
        breaks = 0
        acting = asyncio.create_task(_act(server, ann, done, lambda: breaks))
        while not (done.is_set() and f"+end{NUMBER}" in heard):
            assert breaks < 1_000, heard
            async with server.ear(ben, "user", last) as ear:
                await asyncio.sleep(chance.random() * 0.06)
                if done.is_set():
                    await server.settle()
                    await asyncio.sleep(0.2)
                found = list(ear.events)
            assert "refresh" not in [event.name for event in found]
            heard += _shorts(found)
            last = found[-1].id if found else last
            breaks += 1
        posts = await acting
        for number, post in posts.items():
            assert f"-{post}" in heard or number % 3
            if number % 3:
                # A post deleted early may be gone before its event is rendered.
                assert f"+post {number}" in heard or f"+edited {number}" in heard
            if number % 3 == 1:
                assert any(said in heard for said in (f"~edited {number}", f"+edited {number}"))


NUMBER = 45


def _shorts(found: list[Heard]) -> list[str]:
    ear = Ear(None)  # type: ignore[arg-type]
    ear.events = found
    return ear.said()


async def _act(
    server: StreamServer, who: Someone, done: asyncio.Event, reconnects: Callable[[], int]
) -> dict[int, str]:
    posts = {}
    for number in range(NUMBER):
        while reconnects() < number // 6:  # noqa: ASYNC110  # reconnects are spread over the posts
            await asyncio.sleep(0.005)
        posts[number] = await server.post(who, f"post {number}")
        if number % 3 == 0:
            await server.ask(who, "DELETE", f"/api/v1/statuses/{posts[number]}")
        elif number % 3 == 1:
            await server.ask(who, "PUT", f"/api/v1/statuses/{posts[number]}", status=f"edited {number}")
        await asyncio.sleep(0.005)
    await server.post(who, f"end{NUMBER}")
    done.set()
    return posts


@in_loop
async def test_event_stream_resumes_on_other_process_without_losing_events() -> None:
    databases = Databases()
    settings = await databases.settings(rate_limits=False)
    async with AsyncExitStack() as stack:
        one, two = await stack.enter_async_context(processes(2, settings))
        here, there = [await stack.enter_async_context(served(shoal.network)) for shoal in (one, two)]
        ann, ben = await here.join("ann"), await here.join("ben")
        await here.ask(ben, "POST", f"/api/v1/accounts/{ann.id}/follow")
        await here.settle()
        async with there.ear(ben, "user") as ear:
            await here.post(ann, "one")
            await eventually(lambda: _count(ear), 1)
            last = ear.events[0].id
        await here.post(ann, "two")
        async with here.ear(ben, "user", last) as ear:
            await ear.hears("+two")
        async with there.ear(ben, "user", last) as ear:
            await ear.hears("+two")
            await _revoke(here, ben)
            await ear.ends()
