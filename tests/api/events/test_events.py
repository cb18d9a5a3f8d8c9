"""The event log over HTTP: pages, types, cursors, errors, long polls, and the schemas of events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from shoal import Shoal
from shoal.commands import posts, server_keys
from shoal.graph.event_log import EventLog
from shoal.mastodon_api.events import MAX_WAIT
from shoal.queries.events import MAX_BYTES, MAX_EVENTS, SCHEMAS, TYPES
from tests.api.events.consumer import EVENTS, EVERYTHING, LABELS, PUBLIC, all_events, ask, key_of, page
from tests.api.in_memory_network import BASE, NetworkFixture, network_fixture, picture
from tests.async_runner import eventually


@pytest.fixture
def logged() -> Iterator[NetworkFixture]:
    with network_fixture(event_log="on") as made:
        yield made


async def populate(shoal: Shoal) -> None:
    """Cause events of every type that can be caused in a moment."""
    ann, ben, cyd = [await shoal.register(name) for name in ("ann", "ben", "cyd")]
    photo = await ann.upload(picture(), description="the sea")
    post = await ann.create("A photo #tide @ben", media=[photo], place=(54.3, 10.1), data={"sku": 7})
    other = await ann.create("other")
    await ben.react(other, "🌊")
    await ben.react(other, "🐟")
    await ben.share(other)
    await ben.update_profile(display_name="Ben")
    await ben.follow(ann)
    await ben.follow(ann, notify=True)
    await ben.unfollow(ann)
    await ben.like(post)
    await ben.unlike(post)
    await ben.react(post, "🌊")
    await ben.react(post, "🐟")
    await ben.unreact(post, "🌊")
    await ben.unreact(post, "🐟")
    await ben.unshare(await ben.share(post))
    report = await ben.report(cyd, comment="spam")
    await shoal.moderation.assign(report, ann)
    await ann.update(post, "edited")
    await ann.delete(await ann.create("deleted"))
    await shoal.moderation.silence(cyd)
    await shoal.settle()


def test_events_page_shows_change_as_cloudevent(logged: NetworkFixture) -> None:
    secret = key_of(logged, *PUBLIC)
    cursor = page(logged, secret)["cursor"]
    ann = logged.join("ann")
    post = logged.json("POST", "/api/v1/statuses", ann, json={"status": "Low tide #sea"})["id"]
    found = page(logged, secret, after=cursor, types="post")
    (event,) = found["events"]
    assert event.pop("id")
    assert event.pop("time") >= event["data"]["created_at"]
    data = event.pop("data")
    assert event == {
        "specversion": "1.0",
        "source": BASE,
        "type": "post.created",
        "subject": f"post/{post}",
        "datacontenttype": "application/json",
        "dataschema": f"{BASE}{SCHEMAS}/post.created",
        "version": "1",
    }
    assert (data["id"], data["author_id"], data["text"], data["tags"]) == (post, ann.id, "Low tide #sea", ["sea"])
    assert not found["more"]


def test_events_of_every_type_match_their_published_schemas(logged: NetworkFixture) -> None:
    secret = key_of(logged, *EVERYTHING)
    logged.run(populate(Shoal(logged.network)))
    seen: set[str] = set()
    for event in all_events(logged, secret):
        schema = logged.json("GET", event["dataschema"].removeprefix(BASE))
        jsonschema_rs.validator_for(schema).validate(event["data"])
        assert schema["properties"].keys() >= event["data"].keys()
        seen.add(event["type"])
    never = {"member.deleted", "media.deleted", "report.deleted", "share.updated"}
    assert seen >= LABELS - never, LABELS - seen


def test_events_schema_of_unknown_type_is_not_found(logged: NetworkFixture) -> None:
    assert logged.ask("GET", f"{SCHEMAS}/post.exploded").status_code == 404


def test_events_types_are_those_of_the_log() -> None:
    assert TYPES.keys() == LABELS


def test_events_are_delivered_again_with_equal_ids(logged: NetworkFixture) -> None:
    secret = key_of(logged, *EVERYTHING)
    logged.run(populate(Shoal(logged.network)))
    whole = list(all_events(logged, secret, limit=MAX_EVENTS))
    assert list(all_events(logged, secret, limit=3)) == whole
    assert len({event["id"] for event in whole}) == len(whole)


def test_events_filter_selects_types_and_groups_of_types(logged: NetworkFixture) -> None:
    secret = key_of(logged, *EVERYTHING)
    logged.run(populate(Shoal(logged.network)))
    chosen = {event["type"] for event in all_events(logged, secret, types="like, post.deleted", limit=2)}
    assert chosen == {"like.created", "like.deleted", "post.deleted"}


def test_events_filter_for_deletions_includes_withdrawn_posts(logged: NetworkFixture) -> None:
    secret, ann = key_of(logged, *PUBLIC), logged.join("ann")
    post = logged.json("POST", "/api/v1/statuses", ann, json={"status": "x"})["id"]
    logged.run(Shoal(logged.network).hide(int(post)))
    (event,) = all_events(logged, secret, types="post.deleted")
    assert event["data"] == {"id": post, "withdrawn": True}


BAD_FILTERS = (
    ({"types": "post.exploded"}, 422, "types: 'post.exploded' is not one of member.created"),
    ({"types": "report"}, 403, "types: report needs the scope admin:read:reports"),
    ({"types": "audit.created"}, 403, "types: audit.created needs the scope admin:read"),
    ({"types": "media.updated"}, 403, "types: media.updated needs the scope server:private"),
    ({"after": "x"}, 422, "after: this is not a cursor of the event log"),
)
BAD_PAGES = (
    ({"limit": 0}, 422, "limit must be at least 1"),
    ({"limit": MAX_EVENTS + 1}, 422, f"limit must be at most {MAX_EVENTS}"),
    ({"wait": MAX_WAIT + 1}, 422, f"wait must be at most {MAX_WAIT}"),
)


@pytest.mark.parametrize(
    ("path", "query", "status", "said"),
    [
        *((EVENTS, *case) for case in (*BAD_FILTERS, *BAD_PAGES)),
        *((f"{EVENTS}/stream", *case) for case in BAD_FILTERS),
    ],
)
def test_events_request_with_invalid_parameter_is_refused(
    logged: NetworkFixture, path: str, query: dict[str, Any], status: int, said: str
) -> None:
    answer = logged.ask("GET", path, key_of(logged, *PUBLIC), params=query)
    assert (answer.status_code, said in answer.json()["error"]) == (status, True), answer.text


@pytest.mark.parametrize("path", [EVENTS, f"{EVENTS}/stream"])
def test_events_of_network_without_event_log_are_refused(shoal: NetworkFixture, path: str) -> None:
    answer = shoal.ask("GET", path, key_of(shoal, *PUBLIC))
    assert answer.status_code == 422
    assert "keeps no event log: set event_log = on" in answer.json()["error"]


@pytest.mark.parametrize("path", [EVENTS, f"{EVENTS}/stream"])
def test_events_after_trimmed_cursor_are_gone_and_say_how_to_resynchronize(logged: NetworkFixture, path: str) -> None:
    secret = key_of(logged, *PUBLIC)
    logged.join("ann")
    early = page(logged, secret, after="start", limit=1)["cursor"]
    for name in ("ben", "cyd"):
        logged.join(name)
    logged.run(EventLog(logged.network.store).trim(2**62))
    answer = logged.ask("GET", path, secret, params={"after": early})
    assert answer.status_code == 410
    assert "take the end of the log, read the current state again" in answer.json()["error"]
    end = page(logged, secret)["cursor"]
    dan = logged.join("dan")
    assert [event["data"]["id"] for event in all_events(logged, secret, end)] == [dan.id]


@pytest.mark.parametrize("scopes", [("server:members",), ("server:act", "read"), ("server:private",)])
def test_events_for_key_without_their_scope_are_refused(logged: NetworkFixture, scopes: tuple[str, ...]) -> None:
    answer = ask(logged, key_of(logged, *scopes))
    assert (answer.status_code, answer.json()["error"]) == (403, "This action is outside the authorized scopes")


def test_events_long_poll_returns_when_event_is_committed(logged: NetworkFixture) -> None:
    secret, ann = key_of(logged, *PUBLIC), logged.join("ann")

    async def poll() -> Any:
        waiting = asyncio.create_task(logged.request("GET", EVENTS, secret, params={"wait": MAX_WAIT, "types": "post"}))

        async def connected() -> int:
            return logged.network.hub.connected

        # A connected poll has read the end of the log.
        await eventually(connected, 1)
        await logged.request("POST", "/api/v1/statuses", ann, json={"status": "now"})
        return (await waiting).json()

    found = logged.run(poll())
    assert [event["data"]["text"] for event in found["events"]] == ["now"]


def test_events_long_poll_of_deleted_key_returns_no_events(logged: NetworkFixture) -> None:
    secret, ann = key_of(logged, *PUBLIC), logged.join("ann")

    async def poll() -> Any:
        waiting = asyncio.create_task(logged.request("GET", EVENTS, secret, params={"wait": MAX_WAIT, "types": "post"}))

        async def connected() -> int:
            return logged.network.hub.connected

        await eventually(connected, 1)
        # The poll reads the next events before the hub learns of the deletion.
        for connection in logged.network.hub._matching.all_connections():
            connection.dismiss = lambda: None  # type: ignore[method-assign]
        await server_keys.delete(logged.network.writes, "key 0")
        await logged.request("POST", "/api/v1/statuses", ann, json={"status": "secret"})
        return (await waiting).json()

    found = logged.run(poll())
    assert found["events"] == []
    later = all_events(logged, key_of(logged, *PUBLIC), found["cursor"], types="post")
    assert [event["data"]["text"] for event in later] == ["secret"]


def test_events_page_of_large_events_is_bounded_by_bytes(logged: NetworkFixture) -> None:
    secret, ann = key_of(logged, *PUBLIC), logged.join("ann")

    async def write() -> None:
        for n in range(40):
            draft = posts.Draft(text=f"post {n}", data={"text": "x" * 60_000})
            await posts.create(logged.network.writes, int(ann.id), draft)

    logged.run(write())
    answer = ask(logged, secret, after="start", limit=MAX_EVENTS)
    assert len(answer.content) < MAX_BYTES + 10_000
    assert answer.json()["more"]
    found = all_events(logged, secret, types="post", limit=MAX_EVENTS)
    assert [event["data"]["text"] for event in found] == [f"post {n}" for n in range(40)]


def test_events_long_poll_without_event_returns_empty_page_after_wait(logged: NetworkFixture) -> None:
    secret = key_of(logged, *PUBLIC)
    found = page(logged, secret, wait=1)
    assert found["events"] == []
    assert page(logged, secret, after=found["cursor"])["events"] == []


def test_events_long_polls_of_a_key_are_limited(logged: NetworkFixture) -> None:
    secret, other, ann = key_of(logged, *PUBLIC), key_of(logged, *PUBLIC), logged.join("ann")

    async def polls() -> list[int]:
        keys = [secret] * 51 + [other]
        asked = {"wait": MAX_WAIT, "types": "post"}
        tasks = [asyncio.create_task(logged.request("GET", EVENTS, key, params=asked)) for key in keys]

        async def open_and_refused() -> tuple[int, int]:
            return logged.network.hub.connected, sum(task.done() for task in tasks)

        await eventually(open_and_refused, (51, 1))
        # The polls end with this event.
        await logged.request("POST", "/api/v1/statuses", ann, json={"status": "now"})
        return [answer.status_code for answer in await asyncio.gather(*tasks)]

    *of_key, of_other = logged.run(polls())
    assert sorted(of_key) == [200] * 50 + [429]
    assert of_other == 200
