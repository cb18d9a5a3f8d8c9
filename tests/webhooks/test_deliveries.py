"""The worker of webhooks: order, signatures, retries, parking, pauses, leases, and slow endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.commands import moderation, posts, server_keys
from shoal.core.model import Role, Visibility
from shoal.core.webhooks import RETRY_MS, Pause, signature
from shoal.graph.contract import Cursor
from shoal.graph.event_log import EventLog
from shoal.graph.schema import EVERYBODY, PARKED_EVENTS, SERVER_KEYS, WEBHOOKS
from shoal.http.authentication import key_scopes
from shoal.queries.events import EventReader
from shoal.webhooks import endpoints
from shoal.webhooks.worker import LEASE_MS
from tests.api.in_memory_network import BASE
from tests.push.service import PushService
from tests.webhooks.scene import Scene, body, opened, running_service

DAYS = RETRY_MS / 1_000


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushService]:
    with running_service(tmp_path_factory.mktemp("receiver")) as running:
        yield running


@pytest.fixture
def scene(service: PushService) -> Iterator[Scene]:
    with opened(service) as made:
        yield made


def failing(scene: Scene, path: str, status: int = 500) -> int:
    """Return a webhook that failed for three days, with two posts that it did not receive."""
    id_ = scene.add(path)
    scene.statuses[path] = status
    scene.post("first")
    scene.post("second")
    scene.deliver()
    return id_


def test_webhook_receives_events_in_order_with_valid_signatures(scene: Scene) -> None:
    scene.post("before")
    id_ = scene.add("/hook")
    secret = scene.hook(id_).secrets[0].text
    for n in range(45):
        scene.post(str(n))
    scene.deliver()
    assert scene.texts("/hook") == [str(n) for n in range(45)]
    ids = [request.headers["webhook-id"] for request in scene.service.at("/hook")]
    assert len(set(ids)) == 45
    for request in scene.service.at("/hook"):
        headers, event = request.headers, body(request)
        assert (headers["webhook-id"], headers["content-type"]) == (event["id"], "application/json")
        seconds = int(headers["webhook-timestamp"])
        assert seconds == scene.now // 1_000
        assert headers["webhook-signature"] == signature(secret, event["id"], seconds, request.body)
        assert (event["type"], event["specversion"], event["source"]) == ("post.created", "1.0", BASE)
    scene.deliver(1)
    assert len(scene.service.at("/hook")) == 45
    assert [(made.status, made.type) for made in scene.log(id_)] == [(201, "post.created")] * 45
    assert scene.hook(id_).lease == ""


def test_webhook_receives_only_its_types_and_private_posts_only_with_access(scene: Scene) -> None:
    scene.add("/public")
    scene.add("/private", private=True)
    scene.add("/members", "member.updated")
    scene.post("for followers", Visibility.FOLLOWERS)
    scene.post("for all")
    scene.deliver()
    assert scene.texts("/public") == ["for all"]
    assert scene.texts("/private") == ["for followers", "for all"]
    assert scene.service.at("/members") == []


def test_webhook_failed_event_is_retried_with_equal_id_before_later_events(scene: Scene) -> None:
    id_ = scene.add("/hook")
    scene.statuses.first["/hook"] = [500, 302, 429]
    scene.post("first")
    scene.post("second")
    scene.deliver()
    assert scene.hook(id_).attempts == 1
    scene.deliver(1)
    assert len(scene.service.at("/hook")) == 1
    scene.deliver(5)
    scene.deliver(10)
    assert scene.hook(id_).attempts == 3
    scene.deliver(20)
    assert scene.texts("/hook") == ["first"] * 4 + ["second"]
    assert len({request.headers["webhook-id"] for request in scene.service.at("/hook")}) == 2
    assert scene.service.at("/elsewhere") == []
    hook = scene.hook(id_)
    assert (hook.attempts, hook.failing_since, hook.retry_at) == (0, 0, 0)
    assert [made.status for made in scene.log(id_)] == [201, 201, 429, 302, 500]


def test_webhook_event_that_fails_for_three_days_is_parked_and_replayed(scene: Scene) -> None:
    id_ = failing(scene, "/hook")
    scene.deliver(DAYS - 1)
    assert scene.parked(id_) == 0
    scene.statuses.first["/hook"] = [500, 201]
    scene.deliver(7_200)
    assert (scene.parked(id_), scene.hook(id_).paused) == (1, Pause.NONE)
    assert scene.texts("/hook") == ["first"] * 3 + ["second"]
    assert scene.findings() == []
    run, hook = scene.here.run, scene.hook(id_)
    assert run(endpoints.replay(scene.here.writes, hook)) == 1
    scene.deliver()
    assert (scene.parked(id_), scene.hook(id_).replaying) == (1, False)
    scene.statuses["/hook"] = 204
    assert run(endpoints.replay(scene.here.writes, hook)) == 1
    scene.deliver()
    assert (scene.parked(id_), scene.hook(id_).replaying) == (0, False)
    assert scene.texts("/hook")[-2:] == ["first", "first"]
    first = [request for request in scene.service.at("/hook") if body(request)["data"]["text"] == "first"]
    assert len({request.headers["webhook-id"] for request in first}) == 1
    assert run(endpoints.replay(scene.here.writes, hook)) == 0


def test_webhook_failed_event_whose_object_is_deleted_leaves_full_time_to_the_next(scene: Scene) -> None:
    id_ = scene.add("/hook", "post.created")
    scene.statuses["/hook"] = 500
    first = scene.post("first")
    scene.deliver()
    scene.here.run(posts.delete(scene.here.writes, scene.ann.member.id, first))
    scene.post("second")
    scene.deliver(DAYS)
    hook = scene.hook(id_)
    assert (hook.attempts, hook.failing_since, scene.parked(id_)) == (1, scene.now, 0)


def test_webhook_is_paused_if_event_after_parked_one_fails_and_resumes_with_it(scene: Scene) -> None:
    id_ = failing(scene, "/hook")
    scene.deliver(DAYS)
    assert (scene.hook(id_).paused, scene.parked(id_)) == (Pause.FAILING, 1)
    asked = len(scene.service.at("/hook"))
    scene.deliver(DAYS)
    assert len(scene.service.at("/hook")) == asked
    scene.statuses["/hook"] = 200
    scene.here.run(endpoints.resume(scene.here.writes, EventReader(scene.here.network.store, BASE), scene.hook(id_)))
    scene.post("third")
    scene.deliver()
    assert scene.texts("/hook")[asked:] == ["second", "third"]


def test_webhook_pause_for_failures_sends_mail_to_admins_only(service: PushService, tmp_path: Path) -> None:
    with opened(service, mail=f"file://{tmp_path}") as scene:
        here = scene.here
        for name, role in (("ada", Role.ADMIN), ("max", Role.MODERATOR)):
            made = here.join(name, email=f"{name}@example.org")
            here.run(moderation.set_role(here.network.writes, made.member.id, role))
        here.settle()
        before = set(tmp_path.iterdir())
        failing(scene, "/hook", 410)
        here.settle()
        (mail,) = set(tmp_path.iterdir()) - before
        text = mail.read_text()
        assert "ada@example.org" in text
        assert "webhook" in text.lower()


def test_webhook_is_paused_at_once_by_status_410(scene: Scene) -> None:
    id_ = failing(scene, "/hook", 410)
    assert scene.hook(id_).paused is Pause.GONE
    assert len(scene.service.at("/hook")) == 1


def test_webhook_with_full_parking_is_paused_and_loses_no_event(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "MAX_PARKED", 0)
    id_ = failing(scene, "/hook")
    scene.deliver(DAYS)
    assert (scene.hook(id_).paused, scene.parked(id_)) == (Pause.FULL, 0)
    assert scene.hook(id_).delivered == ()


def test_webhook_of_deleted_server_key_is_paused(scene: Scene) -> None:
    writes, run = scene.here.network.writes, scene.here.run
    run(server_keys.create(writes, "shop", key_scopes(["server:webhooks"])))
    key_id = run(scene.here.network.store.assoc_range(EVERYBODY, SERVER_KEYS, Cursor()))[0].id2
    id_ = scene.add("/hook", key_id=key_id)
    scene.post("first")
    scene.deliver()
    run(server_keys.delete(writes, "shop"))
    scene.post("second")
    scene.deliver(1)
    assert scene.texts("/hook") == ["first"]
    assert scene.hook(id_).paused is Pause.NO_KEY


def test_webhook_whose_position_was_trimmed_is_paused_and_resumes_at_the_end(scene: Scene) -> None:
    id_ = scene.add("/hook")
    for n in range(3):
        scene.post(str(n))
    run, store = scene.here.run, scene.here.network.store
    run(EventLog(store).trim(scene.now + 10_000_000))
    scene.deliver()
    assert scene.hook(id_).paused is Pause.EXPIRED
    run(endpoints.resume(scene.here.writes, EventReader(store, BASE), scene.hook(id_)))
    scene.post("later")
    scene.deliver()
    assert scene.texts("/hook") == ["later"]


def test_webhook_position_without_matching_events_is_stored_once_an_hour(scene: Scene) -> None:
    id_ = scene.add("/hook", "report", private=True)
    before = scene.hook(id_)
    scene.post("first")
    scene.deliver(60)
    scene.deliver(60)
    assert scene.hook(id_) == before
    scene.deliver(3_600)
    after = scene.hook(id_)
    assert after.position != before.position
    scene.deliver(60)
    assert scene.hook(id_) == after


def test_webhook_that_does_not_respond_delays_no_other(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "SECONDS", 0.5)
    slow, _ = scene.add("/slow"), scene.add("/quick")
    scene.statuses["/slow"] = 0
    scene.post("first")
    scene.post("second")

    async def watch() -> None:
        await scene.worker.once()
        async with asyncio.timeout(60):
            while len(scene.service.at("/quick")) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert slow in scene.worker._runs
        await asyncio.gather(*scene.worker._runs.values())

    scene.here.run(watch())
    assert scene.texts("/slow") == ["first"]
    (made,) = scene.log(slow)
    assert (made.status, made.excerpt) == (0, "TimeoutError")
    assert 500 <= made.milliseconds < 60_000


def test_webhook_log_has_beginning_of_response_and_endless_response_is_cut(scene: Scene) -> None:
    id_ = scene.add("/hook")
    scene.service.bodies["/hook"] = b"thank\nyou" + b"!" * 100_000
    scene.post("first")
    scene.deliver()
    assert scene.log(id_)[0].excerpt == "thank you".ljust(200, "!")
    scene.statuses["/hook"] = -1
    scene.post("second")
    scene.deliver()
    assert (scene.log(id_)[0].status, scene.log(id_)[0].excerpt) == (201, "x" * 200)


def test_webhook_log_keeps_newest_fifty_deliveries(scene: Scene) -> None:
    id_ = scene.add("/hook")
    for n in range(55):
        scene.post(str(n))
    scene.deliver()
    ids = [request.headers["webhook-id"] for request in scene.service.at("/hook")]
    assert [made.event_id for made in scene.log(id_)] == ids[:-51:-1]


def test_webhook_is_served_by_one_worker_until_its_lease_ends(scene: Scene) -> None:
    scene.add("/hook")
    other = scene.another_worker()
    scene.service.bodies["/hook"] = b"x" * 60_000
    for n in range(30):
        scene.post(str(n))

    async def compete() -> None:
        await asyncio.gather(scene.worker.settle(), other.settle())
        # The loser of the first commit finds the rest, if any.
        await other.settle()
        await other.stop()

    scene.here.run(compete())
    assert scene.texts("/hook") == [str(n) for n in range(30)]


def test_webhook_progress_of_worker_without_lease_is_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "SECONDS", 2.0)
    id_ = scene.add("/hook")
    scene.post("first")
    other = scene.another_worker()
    scene.statuses["/hook"] = 0

    async def late() -> None:
        # The first worker waits for a response for longer than its lease.
        await scene.worker.once()
        while not scene.service.at("/hook"):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        scene.now += LEASE_MS
        scene.statuses["/hook"] = 201
        await other.settle()
        await other.stop()
        assert len(scene.service.at("/hook")) == 2
        await asyncio.gather(*scene.worker._runs.values())

    scene.here.run(late())
    hook = scene.hook(id_)
    assert (hook.attempts, hook.lease) == (0, "")
    assert [made.status for made in scene.log(id_)] == [201]
    ids = {request.headers["webhook-id"] for request in scene.service.at("/hook")}
    assert len(ids) == 1


def test_webhook_paused_by_an_operator_keeps_its_events(scene: Scene) -> None:
    id_ = scene.add("/hook")
    scene.here.run(endpoints.pause(scene.here.writes, scene.hook(id_)))
    scene.post("first")
    scene.deliver()
    assert scene.service.at("/hook") == []
    scene.here.run(endpoints.resume(scene.here.writes, EventReader(scene.here.network.store, BASE), scene.hook(id_)))
    scene.deliver()
    assert scene.texts("/hook") == ["first"]


def test_webhook_deleted_leaves_no_objects_and_lists(scene: Scene) -> None:
    id_ = failing(scene, "/hook")
    scene.deliver(DAYS)
    hook, run, store = scene.hook(id_), scene.here.run, scene.here.network.store
    run(endpoints.delete(scene.here.writes, hook))
    assert run(store.obj_get((hook.id, hook.log_id))) == {}
    assert run(store.assoc_range(EVERYBODY, WEBHOOKS, Cursor())) == []
    assert run(store.assoc_range(hook.id, PARKED_EVENTS, Cursor())) == []
    scene.post("third")
    scene.deliver(DAYS)
    assert scene.findings() == []
