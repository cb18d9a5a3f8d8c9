"""Push messages from a like to the subscribed app: through the API, the outbox, and a push service with TLS."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from shoal import scheduler
from shoal.commands import declared_reactions, posts, reactions, relationships, sessions
from shoal.commands.posts import Draft
from shoal.core.ids import shard_of
from shoal.core.reactions import Reaction
from shoal.core.tokens import TokenUse
from shoal.graph.contract import Batch, Cursor
from shoal.graph.schema import PUSHES
from shoal.push.encryption import new_key
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture
from tests.push.service import App, PushService, push_service

PATH = "/api/v1/push/subscription"
SECONDS = 60.0
EVERYTHING = dict.fromkeys(
    ("mention", "status", "reblog", "follow", "follow_request", "favourite", "poll", "update"), True
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushService]:
    with push_service(tmp_path_factory.mktemp("push")) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(running.trusted))
        # A request that times out is sent again.
        patch.setattr("shoal.push.sender._SECONDS", 45.0)
        yield running


@pytest.fixture
def here(service: PushService) -> Iterator[NetworkFixture]:
    with network_fixture(push_key=new_key(), push_networks=["127.0.0.0/8"], base_url="https://shoal.test") as made:
        yield made


def wish(service: PushService, app: App, path: str, *, standard: bool = True, **data: Any) -> dict[str, Any]:
    """Return a subscription request in the format of a client."""
    target = {"endpoint": service.url + path, "keys": app.keys, "standard": standard}
    return {"subscription": target, "data": {"alerts": EVERYTHING, **data}}


def again(here: NetworkFixture, someone: Someone) -> Someone:
    """A member in another session."""
    return someone._replace(token=here.token(someone.app_id, someone.member.id))


def subscribed(here: NetworkFixture, someone: Someone) -> int:
    return len(here.run(here.graph.assoc_range(someone.member.id, PUSHES, Cursor(limit=200))))


def post(here: NetworkFixture, author: Someone, text: str) -> int:
    return here.run(posts.create(here.writes, author.member.id, Draft(text=text))).id


def liked(here: NetworkFixture, fan: Someone, author: Someone, text: str = "Low tide") -> int:
    made = post(here, author, text)
    here.run(reactions.like(here.writes, fan.member.id, made))
    here.settle()
    return made


@pytest.mark.parametrize("standard", [True, False])
def test_push_message_for_like_is_encrypted_and_contains_notification(
    here: NetworkFixture, service: PushService, standard: bool
) -> None:
    ann, ben = here.join("ann"), here.join("ben")
    app, path = App(), f"/like-{standard}"
    told = here.json("POST", PATH, ann, json=wish(service, app, path, standard=standard))
    key = here.json("GET", "/api/v2/instance")["configuration"]["vapid"]["public_key"]
    assert told["server_key"] == key
    assert told["endpoint"] == service.url + path
    assert told["standard"] is standard
    assert told["alerts"]["favourite"] is True
    assert told["policy"] == "all"
    assert here.json("GET", PATH, ann) == told
    liked(here, ben, ann, "Low tide at the harbour\nand more")
    (request,) = service.at(path)
    assert request.headers["ttl"] == "172800"
    assert request.headers["urgency"] == "normal"
    assert request.headers["authorization"].startswith("vapid t=" if standard else "WebPush ")
    assert key in request.headers["authorization" if standard else "crypto-key"]
    (notification,) = here.json("GET", "/api/v1/notifications", ann)
    assert app.read(request) == {
        "access_token": ann.token,
        "preferred_locale": "en",
        "notification_id": notification["id"],
        "notification_type": "favourite",
        "icon": "https://shoal.test/avatars/original/missing.png",
        "title": "ben likes your post",
        "body": "Low tide at the harbour",
    }


def test_push_subscription_missing_returns_404_and_deletion_or_session_end_removes_it(
    here: NetworkFixture, service: PushService
) -> None:
    ann, ben = here.join("ann"), here.join("ben")
    assert here.ask("GET", PATH, ann).json() == {"error": "Record not found"}
    assert here.ask("PUT", PATH, ann, json={"data": {"policy": "none"}}).status_code == 404
    here.json("POST", PATH, ann, json=wish(service, App(), "/ends"))
    assert here.json("DELETE", PATH, ann) == {}
    assert here.ask("GET", PATH, ann).status_code == 404
    here.json("POST", PATH, ann, json=wish(service, App(), "/ends"))
    assert subscribed(here, ann) == 1
    (session,) = here.run(sessions.page(here.writes, ann.member.id, Cursor())).sessions
    here.run(sessions.end(here.writes, ann.member.id, session.token.id))
    assert subscribed(here, ann) == 0
    liked(here, ben, ann)
    assert service.at("/ends") == []


@pytest.mark.parametrize(
    ("alerts", "policy", "expected"),
    [
        ({"favourite": True}, "all", ["favourite"]),
        ({"follow": True}, "all", ["follow"]),
        ({"favourite": True, "follow": True}, "followed", []),
        ({"favourite": True, "follow": True}, "follower", ["favourite"]),
        ({"favourite": True, "follow": True}, "none", []),
        ({}, "all", []),
    ],
)
def test_push_subscription_alerts_and_policy_filter_messages(
    here: NetworkFixture, service: PushService, alerts: dict[str, bool], policy: str, expected: list[str]
) -> None:
    ann, ben = here.join("ann"), here.join("ben")
    app, path = App(), f"/wanted-{policy}-{'-'.join(alerts)}"
    here.json("POST", PATH, ann, json=wish(service, app, path))
    changed = here.json("PUT", PATH, ann, json={"data": {"alerts": alerts, "policy": policy}})
    assert changed["policy"] == policy
    assert {name for name, wanted in changed["alerts"].items() if wanted} == alerts.keys()
    here.run(relationships.follow(here.writes, ben.member.id, ann.member.id))
    here.settle()
    liked(here, ben, ann)
    found = [app.read(request)["notification_type"] for request in service.at(path)]
    # Whether Ben counts as a follower at the time of the follow itself is undefined: both outcomes are correct.
    assert [kind for kind in found if policy != "follower" or kind != "follow"] == expected


def test_push_messages_are_localized_and_carry_token_of_their_session(
    here: NetworkFixture, service: PushService
) -> None:
    ann, ben = here.join("ann"), here.join("ben")
    apps = [App(), App()]
    here.json("POST", PATH, ann, json=wish(service, apps[0], "/one"))
    other = again(here, ann)
    here.json("POST", PATH, other, json=wish(service, apps[1], "/two"), headers={"Accept-Language": "de"})
    here.run(relationships.follow(here.writes, ben.member.id, ann.member.id))
    here.run(posts.create(here.writes, ben.member.id, Draft(text="@ann look", spoiler="A surprise")))
    here.settle()
    first, second = (
        [app.read(one) for one in service.at(path)] for app, path in zip(apps, ("/one", "/two"), strict=True)
    )
    assert sorted((one["title"], one["body"]) for one in first) == [
        ("ben follows you", ""),
        ("ben mentions you", "A surprise"),
    ]
    assert sorted(one["title"] for one in second) == ["ben erwähnt dich", "ben folgt dir"]
    assert {one["access_token"] for one in first} == {ann.token}
    assert {one["access_token"] for one in second} == {other.token}


def test_push_subscription_of_session_idle_for_a_year_is_deleted_without_message(
    service: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_ago = time.time_ns() // 1_000_000 - 367 * 86_400_000
    # Simulates a network that recorded token uses since then.
    monkeypatch.setattr(scheduler, "now_ms", lambda: long_ago)
    with network_fixture(push_key=new_key(), push_networks=["127.0.0.0/8"], base_url="https://shoal.test") as here:
        ann, ben = here.join("ann"), here.join("ben")
        other = again(here, ann)
        for one, path in ((ann, "/idle"), (other, "/busy")):
            here.json("POST", PATH, one, json=wish(service, App(), path))
        (idle,) = [one.token for one in here.run(sessions.page(here.writes, ann.member.id, Cursor())).sessions][1:]
        batch = Batch(shard_of(ann.member.id))
        batch.obj_set(replace(idle, use=TokenUse(long_ago), version=idle.version + 1))
        here.run(here.network.store.commit(batch))
        liked(here, ben, ann)
        assert [len(service.at(path)) for path in ("/idle", "/busy")] == [0, 1]
        assert subscribed(here, ann) == 1
        assert idle.id not in here.run(here.network.store.obj_get((idle.id,)))


def test_push_subscription_is_deleted_after_410_response(here: NetworkFixture, service: PushService) -> None:
    ann, ben = here.join("ann"), here.join("ben")
    service.answers["/gone"] = 410
    here.json("POST", PATH, ann, json=wish(service, App(), "/gone"))
    liked(here, ben, ann)
    assert len(service.at("/gone")) == 1
    assert subscribed(here, ann) == 0


@pytest.mark.parametrize("status", [302, 307, 400, 401, 413])
def test_push_message_refused_by_service_is_not_retried_and_redirects_are_not_followed(
    here: NetworkFixture, service: PushService, status: int
) -> None:
    ann, ben = here.join("ann"), here.join("ben")
    path = f"/refused-{status}"
    service.answers[path] = status
    here.json("POST", PATH, ann, json=wish(service, App(), path))
    liked(here, ben, ann)
    assert len(service.at(path)) == 1
    assert service.at("/elsewhere") == []
    assert subscribed(here, ann) == 1


def tried(here: NetworkFixture, service: PushService, path: str) -> None:
    """Wait until a message was sent for the first time."""
    end = time.monotonic() + SECONDS
    while not service.at(path):
        assert time.monotonic() < end
        here.run(asyncio.sleep(0.02))


def test_push_message_after_503_response_is_retried_until_accepted(here: NetworkFixture, service: PushService) -> None:
    ann, ben = here.join("ann"), here.join("ben")
    app = App()
    service.answers["/trouble"] = 503
    here.json("POST", PATH, ann, json=wish(service, app, "/trouble"))
    here.run(reactions.like(here.writes, ben.member.id, post(here, ann, "Low tide")))
    tried(here, service, "/trouble")
    service.answers["/trouble"] = 201
    here.settle()
    assert app.read(service.at("/trouble")[-1])["notification_type"] == "favourite"


def test_push_message_of_declared_reaction_has_title_without_direction_controls(
    here: NetworkFixture, service: PushService
) -> None:
    ann, ben = here.join("ann"), here.join("ben")
    app = App()
    here.json("POST", PATH, ann, json=wish(service, app, "/named"))
    here.run(declared_reactions.declare(here.writes, Reaction(name="evil", title="\u202elive")))
    here.run(reactions.react(here.writes, ben.member.id, post(here, ann, "Low tide"), "evil"))
    here.settle()
    assert app.read(service.at("/named")[-1])["title"] == "ben reacted with live to your post"


def test_push_message_to_service_with_endless_response_is_sent_once(here: NetworkFixture, service: PushService) -> None:
    ann, ben = here.join("ann"), here.join("ben")
    service.answers["/endless"] = -1
    here.json("POST", PATH, ann, json=wish(service, App(), "/endless"))
    liked(here, ben, ann)
    assert len(service.at("/endless")) == 1


def test_push_message_for_withdrawn_like_is_not_retried(here: NetworkFixture, service: PushService) -> None:
    ann, ben = here.join("ann"), here.join("ben")
    service.answers["/back"] = 503
    here.json("POST", PATH, ann, json=wish(service, App(), "/back"))
    made = post(here, ann, "Low tide")
    here.run(reactions.like(here.writes, ben.member.id, made))
    tried(here, service, "/back")
    here.run(reactions.unlike(here.writes, ben.member.id, made))
    service.came.clear()
    here.settle()
    assert service.at("/back") == []


def test_push_subscriptions_per_member_are_limited_to_fifty(here: NetworkFixture, service: PushService) -> None:
    ann = here.join("ann")
    sessions = [ann, *(again(here, ann) for _ in range(51))]
    for n, session in enumerate(sessions):
        here.json("POST", PATH, session, json=wish(service, App(), f"/many-{n}"))
    assert subscribed(here, ann) == 50
    assert [here.ask("GET", PATH, session).status_code for session in sessions[:3]] == [404, 404, 200]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (("subscription", "endpoint"), "http://push.example/1"),
        (("subscription", "endpoint"), ""),
        (("subscription", "keys", "p256dh"), "AAAA"),
        (("subscription", "keys", "auth"), "AAAA"),
        (("data", "policy"), "sometimes"),
    ],
)
def test_push_subscription_with_invalid_field_returns_422(
    here: NetworkFixture, service: PushService, path: tuple[str, ...], said: str
) -> None:
    ann = here.join("ann")
    wanted: Any = wish(service, App(), "/never")
    place = wanted
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = said
    assert here.ask("POST", PATH, ann, json=wanted).status_code == 422
    assert subscribed(here, ann) == 0


def test_push_subscription_on_server_without_key_returns_404(service: PushService) -> None:
    with network_fixture() as here:
        ann = here.join("ann")
        assert here.json("GET", "/api/v2/instance")["configuration"]["vapid"]["public_key"] == ""
        answer = here.ask("POST", PATH, ann, json=wish(service, App(), "/none"))
        assert answer.status_code == 404
