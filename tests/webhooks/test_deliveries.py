"""The worker of webhooks: order, signatures, retries, parking, pauses, leases, and slow endpoints."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from email import message_from_string, policy
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from shoal.commands import members, moderation, posts, server_keys
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.errors import InvalidInput, Unavailable, Unfit
from shoal.core.ids import shard_of
from shoal.core.model import Role, Visibility
from shoal.core.webhooks import PROBE_MS, RETRY_MS, Delivery, Pause, Webhook, new_secret, signature
from shoal.graph.access import get_object
from shoal.graph.changes import change_object
from shoal.graph.contract import Batch, Cursor
from shoal.graph.event_log import EventLog
from shoal.graph.schema import EVERYBODY, PARKED_EVENTS, SERVER_KEYS, WEBHOOKS
from shoal.http.authentication import key_scopes
from shoal.monitoring.collectors import webhook_metrics
from shoal.queries.events import EventReader
from shoal.tasks import cancel
from shoal.webhooks import endpoints, worker
from shoal.webhooks.worker import LEASE_MS
from tests import doc_snippets
from tests.api.in_memory_network import BASE, network_fixture
from tests.push.service import PushService
from tests.webhooks.scene import Scene, body, opened, running_service

PAGE = Path(__file__).parents[2] / "docs/howto/webhooks.md"
DAYS = RETRY_MS / 1_000
HOUR = PROBE_MS / 1_000


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushService]:
    with running_service(tmp_path_factory.mktemp("receiver")) as running:
        yield running


@pytest.fixture
def scene(service: PushService) -> Iterator[Scene]:
    with opened(service) as made:
        yield made


def failing(scene: Scene, path: str, status: int = 500, **more: Any) -> int:
    """Return a webhook that has refused the first of two posts once."""
    id_ = scene.add(path, **more)
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


def test_webhook_documentation_verifies_requests_and_refuses_changed_and_old_ones(scene: Scene) -> None:
    id_ = scene.add("/hook")
    secrets = [scene.hook(id_).secrets[0].text]
    secrets.append(scene.here.run(endpoints.rotate(scene.here.writes, scene.hook(id_))).secret)
    scene.post("first")
    scene.deliver()
    (request,) = scene.service.at("/hook")
    found: dict[str, Any] = {}
    exec(doc_snippets.code(PAGE, "python", "def verify"), found)  # noqa: S102
    for secret in secrets:
        found["verify"](secret, request.headers, request.body)
    old = {**request.headers, "webhook-timestamp": str(int(time.time()) - 301)}
    for secret, headers, content, cause in (
        (secrets[0], request.headers, request.body + b" ", "signature"),
        (new_secret(), request.headers, request.body, "signature"),
        (secrets[0], {**request.headers, "webhook-id": "other"}, request.body, "signature"),
        (secrets[0], old, request.body, "too old"),
    ):
        with pytest.raises(ValueError, match=cause):
            found["verify"](secret, headers, content)


def test_webhook_receives_only_its_types_and_private_posts_only_with_access(scene: Scene) -> None:
    scene.add("/public")
    scene.add("/private", private=True)
    scene.add("/members", "member.updated")
    scene.post("for followers", Visibility.FOLLOWERS)
    scene.post("for all")
    scene.deliver()
    assert scene.service.at("/members") == []
    scene.here.run(members.update_profile(scene.here.writes, scene.ann.member.id, ProfileChange(display_name="Ann")))
    scene.deliver(1)
    assert [body(request)["type"] for request in scene.service.at("/members")] == ["member.updated"]
    assert scene.texts("/public") == ["for all"]
    assert scene.texts("/private") == ["for followers", "for all"]


def other_author(scene: Scene, text: str) -> int:
    """Have another member post, and return their id."""
    bea = scene.here.join("bea").member.id
    scene.here.run(posts.create(scene.here.writes, bea, Draft(text=text)))
    return bea


def test_webhook_receives_only_events_that_its_filter_selects(scene: Scene) -> None:
    bea = other_author(scene, "before")
    scene.add("/ann", "post", filter_=f"author_id={scene.ann.member.id}")
    scene.add("/tag", "post", filter_="tags=dawn,tags=dusk")
    scene.add("/both", "post.created", filter_=f"author_id={bea},tags=dawn")
    gone = scene.post("first #dawn")
    for n in range(30):
        scene.here.run(posts.create(scene.here.writes, bea, Draft(text=f"bea {n}")))
    scene.here.run(posts.create(scene.here.writes, bea, Draft(text="#Dawn of bea")))
    scene.post("second")
    scene.deliver()
    assert scene.texts("/ann") == ["first #dawn", "second"]
    assert scene.texts("/tag") == ["first #dawn", "#Dawn of bea"]
    assert scene.texts("/both") == ["#Dawn of bea"]
    scene.here.run(posts.delete(scene.here.writes, scene.ann.member.id, gone))
    scene.deliver(1)
    assert [body(scene.service.at(path)[-1])["type"] for path in ("/ann", "/tag")] == ["post.deleted"] * 2


def test_webhook_without_selected_events_takes_no_lease(scene: Scene) -> None:
    id_ = scene.add("/hook", "post", filter_="author_id=1")
    before = scene.hook(id_)
    for n in range(30):
        scene.post(str(n))
    scene.deliver()
    assert scene.hook(id_) == before
    assert scene.service.at("/hook") == []


def test_webhook_replay_drops_an_event_that_a_new_filter_excludes(scene: Scene) -> None:
    id_, _ = parked(scene, "/hook", types="post.created")
    scene.here.run(endpoints.update(scene.here.writes, scene.hook(id_), filter_="author_id=1"))
    asked = len(scene.service.at("/hook"))
    replay(scene, id_)
    assert (len(scene.service.at("/hook")), scene.parked(id_)) == (asked, 0)


def test_webhook_with_new_url_gets_queued_events_there_at_once_with_the_same_secret(scene: Scene) -> None:
    id_ = failing(scene, "/old")
    before = scene.hook(id_)
    scene.here.run(endpoints.update(scene.here.writes, before, url=scene.service.url + "/new"))
    scene.deliver()
    after = scene.hook(id_)
    assert (scene.texts("/old"), scene.texts("/new")) == (["first"], ["first", "second"])
    assert (after.secrets, after.types, after.access) == (before.secrets, before.types, before.access)
    request = scene.service.at("/new")[0]
    expected = signature(before.secrets[0].text, body(request)["id"], scene.now // 1_000, request.body)
    assert request.headers["webhook-signature"] == expected


def test_webhook_whose_url_changes_during_a_failure_tries_the_new_one_at_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_, send = scene.add("/old"), endpoints.send
    scene.statuses["/old"] = 500
    scene.post("first")

    async def and_move(*args: Any) -> Any:
        url = scene.service.url + "/new"
        await endpoints.update(scene.here.writes, await endpoints.find(scene.worker.graph, id_), url=url)
        return await send(*args)

    with monkeypatch.context() as patch:
        patch.setattr(endpoints, "send", and_move)
        scene.deliver()
    assert (scene.hook(id_).attempts, scene.texts("/old")) == (0, ["first"])
    scene.deliver()
    assert scene.texts("/new") == ["first"]


@pytest.mark.parametrize("save_seconds", [0.0, 60.0], ids=["saved after each event", "saved after a page"])
def test_webhook_with_new_filter_gets_each_selected_event_once_although_it_changes_in_a_run(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, save_seconds: float
) -> None:
    monkeypatch.setattr(worker, "_SAVE_SECONDS", save_seconds)
    bea, send = other_author(scene, "before"), endpoints.send
    id_ = scene.add("/hook", "post.created", filter_=f"author_id={bea}")
    for n in range(12):
        scene.post(f"ann {n}")
        scene.here.run(posts.create(scene.here.writes, bea, Draft(text=f"bea {n}")))
    sent = 0

    async def and_change(*args: Any) -> Any:
        nonlocal sent
        sent += 1
        if sent == 5:
            await endpoints.update(scene.here.writes, await endpoints.find(scene.worker.graph, id_), filter_="")
        return await send(*args)

    monkeypatch.setattr(endpoints, "send", and_change)
    scene.deliver()
    scene.deliver(1)
    came = scene.texts("/hook")
    assert came[:5] == [f"bea {n}" for n in range(5)]
    assert sorted(came) == sorted(f"{name} {n}" for name in ("ann", "bea") for n in range(12))


def test_webhook_at_the_end_of_the_log_gets_events_of_its_new_types(scene: Scene) -> None:
    id_, _ = scene.add("/hook", "report", private=True), scene.add("/other")
    scene.post("first")
    scene.deliver()
    scene.deliver(1)
    scene.here.run(endpoints.update(scene.here.writes, scene.hook(id_), types="post"))
    scene.deliver(1)
    assert scene.texts("/hook") == ["first"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"url": "http://shop.example"}, "url"),
        ({"types": "posts"}, "types"),
        ({"types": "report"}, "types"),
        ({"filter_": "tag=dawn"}, "filter"),
        ({"types": "like"}, "filter"),
    ],
)
def test_webhook_update_with_invalid_value_changes_nothing(scene: Scene, changes: dict[str, Any], field: str) -> None:
    id_ = scene.add("/hook", "post", filter_="tags=dawn")
    before = scene.hook(id_)
    with pytest.raises(InvalidInput) as error:
        scene.here.run(endpoints.update(scene.here.writes, before, **{"filter_": "tags=dusk", **changes}))
    assert (error.value.field, scene.hook(id_)) == (field, before)


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
    assert (hook.attempts, hook.failing_ms, hook.retry_at) == (0, 0, 0)
    assert [made.status for made in scene.log(id_)] == [201, 201, 429, 302, 500]


def test_webhook_event_that_fails_for_three_days_is_parked_and_replayed(scene: Scene) -> None:
    id_ = failing(scene, "/hook")
    assert DAYS <= scene.fail(id_) <= DAYS + 2 * HOUR
    assert (scene.parked(id_), scene.hook(id_).paused) == (1, Pause.NONE)
    assert scene.texts("/hook")[-2:] == ["first", "second"]
    scene.statuses.first["/hook"] = [201, 500]
    scene.deliver(5)
    assert scene.texts("/hook")[-2:] == ["second", "second"]
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
    assert (hook.attempts, hook.failing_ms, scene.parked(id_)) == (1, 0, 0)


def test_webhook_jump_of_the_clock_by_three_days_does_not_park_an_event(scene: Scene) -> None:
    id_ = failing(scene, "/hook")
    for days in (3, -3, 4, 3):
        scene.now += days * 86_400_000
        scene.deliver(5)
    hook = scene.hook(id_)
    assert (scene.parked(id_), hook.paused) == (0, Pause.NONE)
    assert 2 <= hook.attempts <= 4
    assert hook.failing_ms <= 20_000
    assert scene.fail(id_) >= DAYS - 20


def test_webhook_jump_of_the_clock_does_not_pause_it_after_a_parked_event(scene: Scene) -> None:
    id_ = failing(scene, "/hook")
    scene.fail(id_)
    scene.now += 2 * PROBE_MS
    scene.deliver(5)
    assert (scene.hook(id_).paused, scene.hook(id_).attempts) == (Pause.NONE, 2)


def test_webhook_processes_whose_clocks_differ_by_three_days_park_no_event(scene: Scene) -> None:
    id_, other = failing(scene, "/hook"), scene.another_worker()
    other.clock = lambda: scene.now + RETRY_MS
    for _ in range(100):
        scene.deliver(1)
        scene.here.run(other.settle())
    hook = scene.hook(id_)
    assert (scene.parked(id_), hook.paused) == (0, Pause.NONE)
    assert hook.attempts <= 8
    # The first look of the other process may count the whole pause.
    assert hook.failing_ms <= 105_000
    scene.here.run(other.stop())


def test_webhook_time_in_which_no_process_delivered_does_not_park_an_event(scene: Scene) -> None:
    id_ = failing(scene, "/hook")
    scene.here.run(scene.worker.stop())
    scene.worker = scene.another_worker()
    scene.deliver(DAYS)
    hook = scene.hook(id_)
    assert (scene.parked(id_), hook.attempts) == (0, 2)
    assert 2_500 <= hook.failing_ms <= 5_000


def test_webhook_worker_without_event_log_ends_and_reads_no_webhooks() -> None:
    with network_fixture() as here:
        worker, reads = here.network.webhooks, list[str]()
        assert worker is not None
        assert worker._task is not None
        running = worker._task

        async def read(_graph: object) -> list[Webhook]:
            reads.append("webhooks")
            return []

        async def ended() -> None:
            async with asyncio.timeout(60):
                await running

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(endpoints, "all_of", read)
            here.run(ended())
            assert here.run(webhook_metrics(here.network)) == ()
        assert reads == []


def test_webhook_is_paused_if_event_after_parked_one_fails_for_an_hour_and_resumes_with_it(scene: Scene) -> None:
    id_ = failing(scene, "/hook")
    scene.fail(id_)
    assert (scene.hook(id_).paused, scene.parked(id_)) == (Pause.NONE, 1)
    assert HOUR <= scene.fail(id_) <= 3 * HOUR
    assert (scene.hook(id_).paused, scene.parked(id_)) == (Pause.FAILING, 1)
    assert (scene.hook(id_).attempts, scene.hook(id_).retry_at) == (0, 0)
    asked = len(scene.service.at("/hook"))
    scene.deliver(DAYS)
    assert len(scene.service.at("/hook")) == asked
    scene.statuses["/hook"] = 200
    resume(scene, id_)
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
        plain = message_from_string(mail.read_text(), policy=policy.default).get_body(("plain",))
        text = plain.get_content() if plain else ""
        assert "ada@example.org" in mail.read_text()
        assert "no events are sent to 127.0.0.1." in text
        assert "the server says that this URL is gone" in text
        assert "/hook" not in text


def test_webhook_is_paused_at_once_by_status_410(scene: Scene) -> None:
    id_ = failing(scene, "/hook", 410)
    assert scene.hook(id_).paused is Pause.GONE
    assert len(scene.service.at("/hook")) == 1


def test_webhook_with_full_parking_is_paused_and_loses_no_event(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "MAX_PARKED", 0)
    id_ = failing(scene, "/hook")
    scene.fail(id_)
    assert (scene.hook(id_).paused, scene.parked(id_)) == (Pause.FULL, 0)
    assert scene.hook(id_).delivered == ()


def new_key(scene: Scene) -> int:
    scene.here.run(server_keys.create(scene.here.network.writes, "shop", key_scopes(["server:webhooks"])))
    return scene.here.run(scene.here.network.store.assoc_range(EVERYBODY, SERVER_KEYS, Cursor()))[0].id2


def test_webhook_of_deleted_server_key_is_paused_for_good(scene: Scene) -> None:
    writes, run, store = scene.here.network.writes, scene.here.run, scene.here.network.store
    id_, other = failing(scene, "/hook", key_id=new_key(scene)), scene.add("/other")
    scene.fail(id_)
    scene.statuses["/hook"] = 201
    assert run(endpoints.replay(writes, scene.hook(id_))) == 1
    run(server_keys.delete(writes, "shop"))
    asked = len(scene.service.at("/hook"))
    scene.deliver(DAYS)
    assert (scene.hook(id_).paused, scene.hook(other).paused) == (Pause.NO_KEY, Pause.NONE)
    assert len(scene.service.at("/hook")) == asked
    with pytest.raises(Unfit, match="key of this webhook was deleted"):
        run(endpoints.resume(writes, EventReader(store, BASE), scene.hook(id_)))
    with pytest.raises(Unfit, match="key of this webhook was deleted"):
        run(endpoints.replay(writes, scene.hook(id_)))
    run(endpoints.pause(writes, scene.hook(id_)))
    assert scene.hook(id_).paused is Pause.NO_KEY


def test_webhook_gets_no_further_event_after_its_server_key_is_deleted_in_a_run(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.add("/hook", key_id=new_key(scene))
    for n in range(30):
        scene.post(str(n))
    monkeypatch.setattr(worker, "_SAVE_SECONDS", 0.0)
    sent, send = 0, endpoints.send

    async def and_delete(*args: Any) -> Any:
        nonlocal sent
        sent += 1
        if sent == 25:
            await server_keys.delete(scene.here.network.writes, "shop")
        return await send(*args)

    monkeypatch.setattr(endpoints, "send", and_delete)
    scene.deliver()
    assert scene.texts("/hook") == [str(n) for n in range(25)]


def test_webhook_whose_position_was_trimmed_is_paused_and_resumes_at_the_end(scene: Scene) -> None:
    id_ = scene.add("/hook")
    for n in range(3):
        scene.post(str(n))
    run, store = scene.here.run, scene.here.network.store
    run(EventLog(store).trim(scene.now + 10_000_000))
    scene.deliver()
    scene.deliver(60)
    assert scene.hook(id_).paused is Pause.NONE
    scene.deliver(120)
    assert scene.hook(id_).paused is Pause.EXPIRED
    resume(scene, id_)
    scene.post("later")
    scene.deliver()
    assert scene.texts("/hook") == ["later"]


def test_webhook_paused_as_expired_resumes_where_it_stopped_if_nothing_is_missing(scene: Scene) -> None:
    id_ = failing(scene, "/hook")
    run, graph = scene.here.run, scene.here.network.effects.graph
    run(
        change_object(
            graph, lambda: get_object(graph, Webhook, id_), lambda before: replace(before, paused=Pause.EXPIRED)
        )
    )
    scene.statuses["/hook"] = 201
    resume(scene, id_)
    scene.deliver()
    assert scene.texts("/hook") == ["first", "first", "second"]


def test_webhooks_at_the_end_of_the_log_are_not_read_one_by_one(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(5):
        scene.add(f"/{n}")
    scene.post("first")
    scene.deliver()
    scene.deliver(1)
    read, reads = scene.worker.events.read, 0

    async def counted(*args: Any) -> Any:
        nonlocal reads
        reads += 1
        return await read(*args)

    monkeypatch.setattr(scene.worker.events, "read", counted)
    scene.deliver(1)
    assert reads == 0
    scene.post("second")
    scene.deliver(1)
    assert [scene.texts(f"/{n}") for n in range(5)] == [["first", "second"]] * 5


def test_webhook_position_without_matching_events_is_stored_every_five_minutes(scene: Scene) -> None:
    id_ = scene.add("/hook", "report", private=True)
    before = scene.hook(id_)
    scene.post("first")
    scene.deliver(60)
    scene.deliver(60)
    assert scene.hook(id_) == before
    scene.deliver(300)
    after = scene.hook(id_)
    assert after.position != before.position
    scene.deliver(60)
    assert scene.hook(id_) == after


def test_webhook_that_does_not_respond_delays_no_other(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "REQUEST_SECONDS", 600.0)
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
        await cancel(*scene.worker._runs.values())

    scene.here.run(watch())
    assert scene.texts("/slow") == ["first"]


def test_webhook_log_names_the_cause_if_there_is_no_response(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "REQUEST_SECONDS", 0.2)
    id_ = failing(scene, "/hook", 0)
    (made,) = scene.log(id_)
    assert (made.status, made.excerpt) == (0, "no response within 0.2 seconds")


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


def test_webhook_is_served_by_one_worker_at_a_time(scene: Scene) -> None:
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
    monkeypatch.setattr(endpoints, "REQUEST_SECONDS", 600.0)
    id_ = scene.add("/hook")
    scene.post("first")
    other, send, ended = scene.another_worker(), endpoints.send, asyncio.Event()
    scene.statuses["/hook"] = 0

    async def until_ended(*args: Any) -> Delivery:
        """Send a request, which gets no response until its time is over."""
        sending = asyncio.create_task(send(*args))
        ending = asyncio.create_task(ended.wait())
        await asyncio.wait((sending, ending), return_when=asyncio.FIRST_COMPLETED)
        await cancel(ending)
        if sending.done():
            return sending.result()
        await cancel(sending)
        return Delivery(args[-1], args[2], args[3], 0, 600_000, "no response within 600 seconds")

    monkeypatch.setattr(endpoints, "send", until_ended)

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
        ended.set()
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
    resume(scene, id_)
    scene.deliver()
    assert scene.texts("/hook") == ["first"]


def test_webhook_deleted_leaves_no_objects_and_lists(scene: Scene) -> None:
    id_ = failing(scene, "/hook")
    scene.fail(id_)
    hook, run, store = scene.hook(id_), scene.here.run, scene.here.network.store
    run(endpoints.delete(scene.here.writes, hook))
    assert run(store.obj_get((hook.id, hook.log_id))) == {}
    assert run(store.assoc_range(EVERYBODY, WEBHOOKS, Cursor())) == []
    assert run(store.assoc_range(hook.id, PARKED_EVENTS, Cursor())) == []
    scene.post("third")
    scene.deliver(DAYS)
    assert scene.findings() == []


def resume(scene: Scene, id_: int) -> None:
    events = EventReader(scene.here.network.store, BASE)
    scene.here.run(endpoints.resume(scene.here.writes, events, scene.hook(id_)))


def replay(scene: Scene, id_: int) -> None:
    scene.here.run(endpoints.replay(scene.here.writes, scene.hook(id_)))
    scene.deliver()


def parked(scene: Scene, path: str, **more: Any) -> tuple[int, int]:
    """Return a webhook that has parked the event of a post and accepts events now, and the id of that post."""
    id_ = scene.add(path, **more)
    scene.statuses[path] = 500
    post = scene.post("first")
    scene.deliver()
    scene.fail(id_)
    scene.statuses[path] = 201
    assert scene.parked(id_) == 1
    return id_, post


def test_webhook_replay_shows_the_current_state_of_posts_and_drops_those_that_are_gone(scene: Scene) -> None:
    writes, run, ann = scene.here.writes, scene.here.run, scene.ann.member.id
    changed, post = parked(scene, "/changed")
    run(posts.update(writes, ann, post, Draft(text="second")))
    replay(scene, changed)
    assert scene.texts("/changed")[-2:] == ["second", "second"]
    deleted, post = parked(scene, "/deleted", types="post.created")
    run(posts.delete(writes, ann, post))
    asked = len(scene.service.at("/deleted"))
    replay(scene, deleted)
    assert (len(scene.service.at("/deleted")), scene.parked(deleted)) == (asked, 0)


def test_webhook_replay_omits_a_post_that_moderators_hid(scene: Scene) -> None:
    id_, post = parked(scene, "/hook", types="post.created")
    asked = len(scene.service.at("/hook"))
    scene.here.run(moderation.hide(scene.here.network.writes, post))
    replay(scene, id_)
    assert len(scene.service.at("/hook")) == asked
    assert scene.parked(id_) == 0


def test_webhook_replay_with_success_ends_the_shorter_retries_after_a_parked_event(scene: Scene) -> None:
    id_, _ = parked(scene, "/hook")
    assert scene.hook(id_).parked_last
    replay(scene, id_)
    assert not scene.hook(id_).parked_last


def test_webhook_replay_that_is_answered_with_410_pauses_the_webhook(scene: Scene) -> None:
    id_, _ = parked(scene, "/hook")
    scene.statuses["/hook"] = 410
    replay(scene, id_)
    assert (scene.hook(id_).paused, scene.parked(id_)) == (Pause.GONE, 1)


def test_webhook_replay_ends_when_an_operator_pauses_it(scene: Scene) -> None:
    id_, _ = parked(scene, "/hook")
    scene.here.run(endpoints.replay(scene.here.writes, scene.hook(id_)))
    scene.here.run(endpoints.pause(scene.here.writes, scene.hook(id_)))
    asked = len(scene.service.at("/hook"))
    scene.deliver(DAYS)
    assert len(scene.service.at("/hook")) == asked


def test_webhook_event_that_cannot_be_rendered_is_retried_and_then_parked(scene: Scene) -> None:
    id_ = scene.add("/hook", "status.created", private=True, format_="mastodon")
    render, broken = scene.worker.render, scene.post("first")

    async def fails(name: str, event: Any) -> bytes | None:
        if event.data.id == str(broken):
            raise ZeroDivisionError
        return await render(name, event)

    scene.worker.render = fails
    scene.post("second")
    scene.deliver()
    assert (scene.hook(id_).attempts, scene.service.at("/hook")) == (1, [])
    assert scene.log(id_)[0].excerpt == "the event could not be rendered: ZeroDivisionError"
    scene.fail(id_)
    assert [body(request)["object"]["content"] for request in scene.service.at("/hook")] == ["<p>second</p>"]
    assert scene.parked(id_) == 1
    replay(scene, id_)
    assert scene.parked(id_) == 1
    scene.worker.render = render
    replay(scene, id_)
    assert scene.parked(id_) == 0


@pytest.mark.parametrize("error", [Unavailable("the store is away"), InvalidInput("unknown type")])
def test_webhook_whose_events_cannot_be_read_is_tried_again_after_growing_pauses(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    scene.add("/hook")
    scene.post("first")
    reads = 0

    async def fails(*_: Any) -> Any:
        nonlocal reads
        reads += 1
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(scene.worker.events, "read", fails)
        for _ in range(60):
            scene.deliver(1)
        assert reads == 4
    scene.deliver(300)
    assert scene.texts("/hook") == ["first"]


def test_webhook_sends_nothing_after_a_failure_whose_commit_takes_long(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = type(scene.worker.graph).commit

    async def slow(graph: Any, batch: Any) -> None:
        await commit(graph, batch)
        scene.now += 60_000

    monkeypatch.setattr(type(scene.worker.graph), "commit", slow)
    failing(scene, "/hook")
    assert scene.texts("/hook") == ["first"]


def test_webhook_lease_and_retry_of_a_process_with_a_fast_clock_are_ignored(scene: Scene) -> None:
    id_ = failing(scene, "/hook")
    hook, run, graph = scene.hook(id_), scene.here.run, scene.here.network.effects.graph
    day = 86_400_000
    ahead = replace(
        hook, lease="killed", leased_until=scene.now + day, retry_at=scene.now + day, version=hook.version + 1
    )
    batch = Batch(shard_of(id_))
    batch.obj_set(ahead)
    run(graph.commit(batch))
    scene.statuses["/hook"] = 201
    scene.here.run(scene.worker.stop())
    scene.worker = scene.another_worker()
    scene.deliver()
    assert scene.texts("/hook") == ["first", "first", "second"]


def test_webhook_failure_ends_if_the_event_disappears(scene: Scene) -> None:
    id_ = scene.add("/hook", "post.created")
    scene.statuses["/hook"] = 500
    post = scene.post("first")
    scene.deliver()
    scene.here.run(posts.delete(scene.here.writes, scene.ann.member.id, post))
    scene.deliver(DAYS)
    assert (scene.hook(id_).attempts, scene.hook(id_).retry_at) == (0, 0)


def test_webhook_pause_by_the_worker_keeps_that_of_an_operator(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    id_, send = scene.add("/hook"), endpoints.send

    async def and_pause(*args: Any) -> Any:
        await endpoints.pause(scene.here.network.writes, await endpoints.find(scene.worker.graph, id_))
        return await send(*args)

    monkeypatch.setattr(endpoints, "send", and_pause)
    scene.statuses["/hook"] = 410
    scene.post("first")
    scene.deliver()
    assert scene.hook(id_).paused is Pause.MANUAL


def test_webhook_resume_of_one_that_is_not_paused_keeps_its_failures(scene: Scene) -> None:
    id_ = failing(scene, "/hook")
    before = scene.hook(id_)
    resume(scene, id_)
    assert scene.hook(id_) == before


def test_webhook_expired_secret_is_deleted_with_the_next_progress(scene: Scene) -> None:
    id_ = scene.add("/hook")
    scene.here.run(endpoints.rotate(scene.here.writes, scene.hook(id_), 60))
    scene.post("first")
    scene.deliver()
    assert len(scene.hook(id_).secrets) == 2
    scene.post("second")
    scene.deliver(120)
    assert len(scene.hook(id_).secrets) == 1


def test_webhook_lag_counts_events_that_were_not_accepted(scene: Scene) -> None:
    id_ = failing(scene, "/hook")
    run, now = scene.here.run, scene.now
    lag = run(scene.worker.lag(scene.hook(id_)))
    assert lag.events == 2
    scene.now = now + 60_000
    assert run(scene.worker.lag(scene.hook(id_))).seconds > 50.0
    scene.statuses["/hook"] = 201
    scene.deliver(5)
    assert run(scene.worker.lag(scene.hook(id_))) == (0, 0.0)
    assert scene.worker.results == {"refused": 1, "accepted": 2}


@pytest.mark.parametrize("state", ["on", "off"])
def test_webhook_worker_runs_only_with_an_event_log(state: str) -> None:
    with network_fixture(event_log=state) as here:
        assert (here.network.webhooks is not None) is (state == "on")
