"""Webhooks through the API for server keys, the pages for admins, and in Mastodon's format."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.commands import members, moderation, posts, reports, server_keys
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.commands.reports import Complaint
from shoal.core.audit import AuditVerb
from shoal.core.errors import InvalidInput, TooMany
from shoal.core.model import Role
from shoal.core.webhooks import Pause
from shoal.graph.event_log import OFF, EventLog
from shoal.http.authentication import key_scopes
from shoal.tasks import cancel
from shoal.webhooks import endpoints
from shoal.webhooks.endpoints import WebhookView
from tests.api.in_memory_network import BASE
from tests.audit.log_reader import entries
from tests.push.service import PushService
from tests.web.browser import PASSWORD, Visitor, member, visitor
from tests.webhooks.scene import Scene, body, opened, running_service

PATH = "/api/shoal/v1/webhooks"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushService]:
    with running_service(tmp_path_factory.mktemp("receiver")) as running:
        yield running


@pytest.fixture
def scene(service: PushService) -> Iterator[Scene]:
    with opened(service) as made:
        yield made


def key(scene: Scene, name: str, *scopes: str) -> str:
    return scene.here.run(server_keys.create(scene.here.network.writes, name, key_scopes(scopes))).secret


def views(scene: Scene) -> list[WebhookView]:
    return scene.here.run(endpoints.views(scene.here.network.effects.graph))


def refused(scene: Scene, secret: str, status: int, **wish: Any) -> str:
    answer = scene.here.ask("POST", PATH, secret, json=wish)
    assert answer.status_code == status, answer.text
    return str(answer.json()["error"])


def test_webhook_api_creates_tests_pauses_rotates_and_deletes(scene: Scene) -> None:
    here, secret = scene.here, key(scene, "shop", "server:webhooks")
    made = here.json("POST", PATH, secret, json={"url": f"{scene.service.url}/hook", "types": "post.created"})
    assert re.fullmatch(r"whsec_[\w+/]{43}=", made["secret"])
    path = f"{PATH}/{made['id']}"
    shown = {
        "id": made["id"],
        "url": f"{scene.service.url}/hook",
        "types": "post.created",
        "filter": "",
        "private": False,
        "format": "standard",
        "paused": None,
        "failed_attempts": 0,
        "retry_at": None,
        "parked": 0,
        "lag_events": 0,
        "lag_seconds": 0.0,
    }
    assert here.json("GET", PATH, secret) == [shown]
    assert here.json("GET", path, secret) == shown
    scene.post("first")
    scene.deliver()
    assert here.json("POST", f"{path}/pause", secret) == {**shown, "paused": "key"}
    told = here.json("POST", f"{path}/test", secret)
    assert (told["status"], told["type"]) == (201, "webhook.test")
    assert [body(request)["type"] for request in scene.service.at("/hook")] == ["post.created", "webhook.test"]
    listed = here.json("GET", f"{path}/deliveries", secret)
    assert [made["type"] for made in listed] == ["webhook.test", "post.created"]
    assert listed[0] == told
    assert here.json("POST", f"{path}/resume", secret) == shown
    assert here.json("POST", f"{path}/replay", secret) == {"parked": 0}
    rotated = here.json("POST", f"{path}/rotate", secret, json={"grace": 60})
    assert rotated["secret"] != made["secret"]
    here.json("POST", f"{path}/test", secret)
    assert len(scene.service.at("/hook")[-1].headers["webhook-signature"].split()) == 2
    assert here.json("DELETE", path, secret) == {}
    assert here.json("GET", PATH, secret) == []
    assert here.ask("GET", path, secret).status_code == 404


def test_webhook_api_changes_url_types_and_filter_and_shows_the_lag(scene: Scene) -> None:
    here, secret, url = scene.here, key(scene, "shop", "server:webhooks"), f"{scene.service.url}/new"
    wish = {"url": f"{scene.service.url}/old", "types": "post", "filter": "tags=Dawn"}
    path = f"{PATH}/{here.json('POST', PATH, secret, json=wish)['id']}"
    for text in ("first #dawn", "second", "third #dawn"):
        scene.post(text)
    shown = here.json("GET", path, secret)
    assert (shown["filter"], shown["lag_events"]) == ("tags=dawn", 2)
    assert 0 < shown["lag_seconds"] < 600
    assert here.json("PATCH", path, secret, json={}) | {"lag_seconds": 0} == shown | {"lag_seconds": 0}
    assert here.json("PATCH", path, secret, json={"url": url})["url"] == url
    changed = here.json("PATCH", path, secret, json={"types": "post.created", "filter": ""})
    assert (changed["url"], changed["types"], changed["filter"], changed["lag_events"]) == (url, "post.created", "", 3)
    scene.deliver()
    assert (scene.service.at("/old"), len(scene.service.at("/new"))) == ([], 3)
    assert here.json("GET", path, secret)["lag_events"] == 0
    found = [one.entry for one in here.run(entries(here.network.store, AuditVerb.WEBHOOK_UPDATED))]
    assert [entry.target_name for entry in found] == ["127.0.0.1"] * 2
    assert found[0].details == {
        "url": "127.0.0.1 -> 127.0.0.1",
        "types": "post",
        "filter": "tags=dawn",
        "key": "shop",
    }
    assert found[1].details == {"types": "post.created", "key": "shop"}


def test_webhook_api_refuses_changes_beyond_the_access_and_invalid_ones(scene: Scene) -> None:
    here, secret = scene.here, key(scene, "shop", "server:webhooks", "server:events")
    id_ = int(here.json("POST", PATH, secret, json={"url": f"{scene.service.url}/hook"})["id"])
    before = scene.hook(id_)
    for status, wish in (
        (403, {"types": "report"}),
        (422, {"url": "http://shop.example"}),
        (422, {"types": "posts"}),
        (422, {"types": "post", "filter": "author_id=ann"}),
        (422, {"filter": "x" * 1_001}),
    ):
        assert here.ask("PATCH", f"{PATH}/{id_}", secret, json=wish).status_code == status, wish
    assert scene.hook(id_) == before


def test_webhook_api_shows_no_lag_if_events_are_missing(scene: Scene) -> None:
    secret = key(scene, "shop", "server:webhooks")
    id_ = scene.here.json("POST", PATH, secret, json={"url": f"{scene.service.url}/hook"})["id"]
    for n in range(3):
        scene.post(str(n))
    scene.here.run(EventLog(scene.here.network.store).trim(scene.now + 10_000_000))
    shown = scene.here.json("GET", f"{PATH}/{id_}", secret)
    assert (shown["lag_events"], shown["lag_seconds"]) == (None, None)


def test_webhook_lag_beyond_many_other_events_is_found_or_unknown(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.queries.events._MOST_READS", 1)
    monkeypatch.setattr(endpoints, "MAX_EVENTS", 2)
    id_ = scene.add("/hook", filter_="tags=dawn")
    for n in range(7):
        scene.post(str(n))
    scene.post("#dawn")

    def lag() -> endpoints.Lag | None:
        return scene.here.run(endpoints.view(scene.here.network.effects.graph, scene.worker.events, id_)).lag

    found = lag()
    assert found is not None
    assert found.events == 1
    for n in range(20):
        scene.post(str(n))
    scene.deliver()
    for n in range(20):
        scene.post(str(n))
    monkeypatch.setattr(endpoints, "_LAG_READS", 2)
    assert lag() is None


def test_webhook_of_another_server_key_is_not_found(scene: Scene) -> None:
    one, other = key(scene, "one", "server:webhooks"), key(scene, "other", "server:webhooks")
    id_ = scene.here.json("POST", PATH, one, json={"url": f"{scene.service.url}/hook"})["id"]
    assert scene.here.json("GET", PATH, other) == []
    for method, end in (
        ("GET", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("GET", "/deliveries"),
        *(("POST", f"/{do}") for do in DO),
    ):
        assert scene.here.ask(method, f"{PATH}/{id_}{end}", other).status_code == 404, end
    assert scene.service.at("/hook") == []
    scene.here.json("GET", f"{PATH}/{id_}", one)


def test_webhook_api_is_not_included_in_the_scope_of_all_server_routes(scene: Scene) -> None:
    refused(scene, key(scene, "old", "server", "admin:read"), 403, url=f"{scene.service.url}/hook")
    assert views(scene) == []


DO = ("pause", "resume", "test", "replay", "rotate")


def test_webhook_api_refuses_access_beyond_the_scopes_of_the_key(scene: Scene) -> None:
    url = f"{scene.service.url}/hook"
    secret = key(scene, "shop", "server:webhooks", "server:events")
    mastodon = {"format": "mastodon", "private": True}
    for wish in ({"private": True}, mastodon, {"types": "report"}, {"types": "audit"}):
        refused(scene, secret, 403, url=url, **wish)
    moderator = key(scene, "moderator", "server:webhooks", "admin:read")
    refused(scene, moderator, 403, url=url, **mastodon)
    assert "allow private data" in refused(scene, moderator, 422, url=url, format="mastodon")
    reader = key(scene, "reader", "server:events", "server:private")
    refused(scene, reader, 403, url=url)
    assert scene.here.json("GET", PATH, secret) == []


def test_webhook_api_refuses_invalid_parameters_and_more_than_the_maximum(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, secret = f"{scene.service.url}/hook", key(scene, "shop", "server", "server:webhooks", "admin:read")
    assert "(got 'http://shop.example')" in refused(scene, secret, 422, url="http://shop.example")
    assert "'posts' is not one of" in refused(scene, secret, 422, url=url, types="posts")
    assert "'post' is not one of account.approved" in refused(
        scene, secret, 422, url=url, types="post", format="mastodon", private=True
    )
    refused(scene, secret, 422, url=url, format="xml")
    monkeypatch.setattr("shoal.webhooks.endpoints.MAX_WEBHOOKS", 1)
    scene.here.json("POST", PATH, secret, json={"url": url})
    assert "there are 1 webhooks already" in refused(scene, secret, 422, url=url)


def test_webhook_api_refuses_more_than_the_maximum_of_a_key(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = key(scene, "one", "server:webhooks"), key(scene, "other", "server:webhooks")
    url = f"{scene.service.url}/hook"
    monkeypatch.setattr("shoal.webhooks.endpoints.MAX_PER_KEY", 1)
    scene.here.json("POST", PATH, one, json={"url": url})
    assert "this server key has 1 webhooks already" in refused(scene, one, 422, url=url)
    scene.here.json("POST", PATH, other, json={"url": url})


def test_webhook_paused_by_operator_is_not_resumed_by_its_key(scene: Scene) -> None:
    here, secret = scene.here, key(scene, "shop", "server:webhooks")
    path = f"{PATH}/{here.json('POST', PATH, secret, json={'url': f'{scene.service.url}/hook'})['id']}"
    id_ = int(path.rpartition("/")[2])
    assert here.json("POST", f"{path}/pause", secret)["paused"] == "key"
    assert here.json("POST", f"{path}/resume", secret)["paused"] is None
    here.json("POST", f"{path}/pause", secret)
    here.run(endpoints.pause(here.writes, scene.hook(id_)))
    assert here.ask("POST", f"{path}/resume", secret).status_code == 403
    assert here.json("POST", f"{path}/pause", secret)["paused"] == "manual"


def test_webhook_rotations_keep_valid_secrets_up_to_the_maximum(scene: Scene) -> None:
    here, secret = scene.here, key(scene, "shop", "server:webhooks")
    path = f"{PATH}/{here.json('POST', PATH, secret, json={'url': f'{scene.service.url}/hook'})['id']}"
    for _ in range(4):
        here.json("POST", f"{path}/rotate", secret)
    here.json("POST", f"{path}/test", secret)
    assert len(scene.service.at("/hook")[-1].headers["webhook-signature"].split()) == 5
    assert here.ask("POST", f"{path}/rotate", secret).status_code == 422
    here.json("POST", f"{path}/rotate", secret, json={"grace": 0})
    here.json("POST", f"{path}/test", secret)
    assert len(scene.service.at("/hook")[-1].headers["webhook-signature"].split()) == 1


def test_webhook_tests_of_one_endpoint_do_not_run_at_the_same_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "REQUEST_SECONDS", 600.0)
    id_, other = scene.add("/slow"), scene.add("/quick")
    scene.statuses["/slow"] = 0
    writes, networks = scene.here.writes, scene.worker._allowed

    async def compete() -> None:
        first = asyncio.create_task(endpoints.test(writes, networks, BASE, scene_hook))
        while not scene.service.at("/slow"):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        with pytest.raises(TooMany):
            await endpoints.test(writes, networks, BASE, scene_hook)
        assert (await endpoints.test(writes, networks, BASE, another)).status == 201
        await cancel(first)

    scene_hook, another = scene.hook(id_), scene.hook(other)
    scene.here.run(compete())
    scene.statuses["/slow"] = 201
    assert scene.here.run(endpoints.test(writes, networks, BASE, scene_hook)).status == 201


def test_webhook_audit_entry_names_the_host_but_not_the_rest_of_the_url(scene: Scene) -> None:
    scene.add("/secret", "post", private=True)
    entry = scene.here.run(entries(scene.here.network.store))[-1].entry
    assert (entry.verb, entry.target_name) == (AuditVerb.WEBHOOK_CREATED, "127.0.0.1")
    assert entry.details == {"types": "post", "format": "standard", "private": "yes"}


def test_webhook_in_mastodon_format_receives_admin_events_as_the_api_shows_them(scene: Scene) -> None:
    here, run = scene.here, scene.here.run
    ada = here.staff("ada", Role.ADMIN)
    id_ = scene.add("/mastodon", "", private=True, format_="mastodon")
    secret = scene.hook(id_).secrets[0].text
    pam = run(members.register(here.network.writes, "pam", email="pam@example.org", pending=True))
    run(moderation.approve(here.writes, pam.id))
    post = scene.post("Low tide")
    run(posts.update(here.writes, scene.ann.member.id, post, Draft(text="High tide")))
    report = run(reports.file(here.writes, pam.id, scene.ann.member.id, Complaint(post_ids=(post,), comment="spam")))
    run(reports.resolve(here.writes, report.id, ada.member.id))
    here.settle()
    scene.deliver()
    came = scene.service.at("/mastodon")
    for request in came:
        digest = hmac.digest(secret.encode(), request.body, "sha256").hex()
        assert request.headers["x-hub-signature"] == f"sha256={digest}"
        assert set(body(request)) == {"event", "created_at", "object"}
    first = {(one := body(request))["event"]: one["object"] for request in reversed(came)}
    assert {"account.created", "account.approved", "status.created", "status.updated"} <= first.keys()
    assert {"report.created", "report.updated"} <= first.keys()
    account = here.json("GET", f"/api/v1/admin/accounts/{pam.id}", ada)
    assert first["account.approved"]["email"] == "pam@example.org"
    assert first["account.approved"].keys() == account.keys()
    assert first["status.updated"] == here.json("GET", f"/api/v1/statuses/{post}")
    assert first["report.updated"].keys() == here.json("GET", f"/api/v1/admin/reports/{report.id}", ada).keys()
    assert len(came) == len({request.headers["webhook-id"] for request in came})


def test_webhook_in_mastodon_format_receives_only_its_types(scene: Scene) -> None:
    scene.add("/some", "status.created, account.approved", private=True, format_="mastodon")
    scene.here.run(members.update_profile(scene.here.writes, scene.ann.member.id, ProfileChange(display_name="Ann")))
    scene.post("for all")
    scene.deliver()
    assert [body(request)["event"] for request in scene.service.at("/some")] == ["status.created"]
    assert "for all" in body(scene.service.at("/some")[0])["object"]["content"]


def admin(scene: Scene) -> Visitor:
    made = member(scene.here, "ada")
    scene.here.run(moderation.set_role(scene.here.network.writes, made.id, Role.ADMIN))
    return visitor(scene.here, "ada")


def test_webhook_pages_create_test_pause_and_delete(scene: Scene) -> None:
    operator, url = admin(scene), f"{scene.service.url}/hook"
    page = operator.open("/ops").follow("Send events to other products")
    assert "No webhooks yet." in page.text
    page = page.press("Create webhook", url=url, types="post")
    (id_,) = [view.id for view in views(scene)]
    secret = str(page.one("input[readonly]")["value"])
    assert scene.hook(id_).secrets[0].text == secret
    page = operator.open("/ops/webhooks").follow(url)
    assert secret not in page.answer.text
    assert "No deliveries yet." in page.text
    page = page.press("Send a test event")
    assert "The server accepted the test event." in page.text
    assert [body(request)["type"] for request in scene.service.at("/hook")] == ["webhook.test"]
    assert re.search(r"webhook\.test 201 · \d+ ms", page.text)
    page = page.press("Pause")
    assert scene.hook(id_).paused is Pause.MANUAL
    scene.post("waits")
    page = operator.open("/ops/webhooks")
    assert "1 pending event · oldest:" in page.text
    page = page.follow(url)
    assert "1 pending event · oldest:" in page.text
    page = page.press("Save", page.one("form[action$=edit]"), url=f"{url}2", types="post,share", filter="author_id=7")
    assert "Done." in page.text
    hook = scene.hook(id_)
    assert (hook.url, hook.types, hook.filter) == (f"{url}2", "post,share", "author_id=7")
    assert hook.secrets[0].text == secret
    assert "pending" not in page.text
    page = page.press("Resume")
    assert scene.hook(id_).paused is Pause.NONE
    page = page.press("Rotate")
    assert str(page.one("input[readonly]")["value"]) == scene.hook(id_).secrets[0].text != secret
    assert "No webhooks yet." in page.press("Delete").text


def test_webhook_page_escapes_response_of_the_receiver(scene: Scene) -> None:
    id_ = scene.add("/hook")
    scene.service.bodies["/hook"] = b"<script>alert(1)</script>\x1b\xff"
    page = admin(scene).open(f"/ops/webhooks/{id_}").press("Send a test event")
    assert "<script>alert(1)</script> \ufffd" in page.text
    assert page.html.find("script", string="alert(1)") is None


def test_webhook_pages_show_failures_and_replay_parked_events(scene: Scene) -> None:
    operator, id_ = admin(scene), scene.add("/hook")
    scene.statuses["/hook"] = 500
    page = operator.open(f"/ops/webhooks/{id_}").press("Send a test event")
    assert "The test event was not accepted: 500" in page.text
    scene.post("first")
    scene.post("second")
    scene.deliver()
    assert "1 failed attempt" in operator.open("/ops/webhooks").text
    scene.fail(id_)
    scene.fail(id_)
    page = operator.open(f"/ops/webhooks/{id_}")
    assert "Paused: deliveries failed for three days" in page.text
    assert "1 parked event" in page.text
    scene.statuses["/hook"] = 200
    page.press("Replay parked events")
    scene.deliver()
    assert scene.parked(id_) == 0


def test_webhook_pages_show_errors_next_to_their_fields(scene: Scene) -> None:
    operator = admin(scene)
    page = operator.open("/ops/webhooks").press("Create webhook", url="http://shop.example")
    assert page.status == 422
    assert "https" in page.one("#url-wrong").text
    page = operator.open("/ops/webhooks").press("Create webhook", url="https://shop.example", types="report")
    assert "private data" in page.one("#types-wrong").text
    assert views(scene) == []


def test_webhook_edit_shows_errors_next_to_their_fields_and_keeps_what_was_typed(scene: Scene) -> None:
    id_ = scene.add("/hook")
    before, page = scene.hook(id_), admin(scene).open(f"/ops/webhooks/{id_}")
    for field, value, cause in (
        ("url", "http://shop.example", "expected an https URL"),
        ("types", "posts", "'posts' is not one of"),
        ("filter", "tag=dawn", "post.created has no field 'tag'; it has"),
        ("filter", "author_id=ann", "author_id is a number (got 'ann')"),
    ):
        wrong = page.press("Save", page.one("form[action$=edit]"), **{field: value})
        assert (wrong.status, cause.lower() in wrong.one(f"#{field}-wrong").text.lower()) == (422, True)
        assert wrong.one(f"#{field}")["value"] == value
    assert scene.hook(id_) == before


def test_webhook_edit_requires_the_password_for_another_url_of_private_data(scene: Scene) -> None:
    id_ = scene.add("/hook", private=True)
    page = admin(scene).open(f"/ops/webhooks/{id_}")
    form = page.one("form[action$=edit]")
    for password in ("", "a wrong password"):
        wrong = page.press("Save", form, url="https://thief.example", password=password)
        assert (wrong.status, wrong.one("#password-wrong").text.strip()) == (422, "Incorrect password.")
    assert scene.hook(id_).url == f"{scene.service.url}/hook"
    assert "Done." in page.press("Save", form, types="post,report").text
    assert scene.hook(id_).types == "post,report"
    assert "Done." in page.press("Save", form, url="https://shop.example/new", password=PASSWORD).text
    assert scene.hook(id_).url == "https://shop.example/new"


def test_webhook_pages_require_the_password_for_private_data(scene: Scene) -> None:
    operator, url = admin(scene), f"{scene.service.url}/hook"
    for password in ("", "a wrong password"):
        page = operator.open("/ops/webhooks").press("Create webhook", url=url, private="true", password=password)
        assert page.status == 422
        assert page.one("#password-wrong").text.strip() == "Incorrect password."
    assert views(scene) == []
    operator.open("/ops/webhooks").press("Create webhook", url=url, private="true", password=PASSWORD)
    assert [view.private for view in views(scene)] == [True]


def test_webhook_pages_require_a_confirmation_for_private_data_of_admins_without_password(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, url = admin(scene), f"{scene.service.url}/hook"
    monkeypatch.setattr("shoal.commands.authentication.has_password", lambda *_: False)
    monkeypatch.setattr("shoal.web.ownership.has_password", lambda *_: False)
    page = operator.open("/ops/webhooks")
    assert page.html.find(id="password") is None
    page = page.press("Create webhook", url=url, private="true")
    assert page.status == 403
    assert "confirm in the web app that it is yours" in page.text
    assert views(scene) == []
    operator.open("/ops/webhooks").press("Create webhook", url=url)
    assert [view.private for view in views(scene)] == [False]


def test_webhook_form_sent_again_creates_no_second_webhook(scene: Scene) -> None:
    operator, url = admin(scene), f"{scene.service.url}/hook"
    wish = {"url": url, "types": "post", "filter": "tags=Dawn"}
    operator.open("/ops/webhooks").press("Create webhook", **wish)
    page = operator.open("/ops/webhooks").press("Create webhook", **wish)
    assert page.status == 422
    assert "exists already" in page.one("#url-wrong").text
    assert len(views(scene)) == 1
    operator.open("/ops/webhooks").press("Create webhook", url=url, types="member")
    assert len(views(scene)) == 2


def test_webhook_pages_report_that_the_event_log_is_off(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    operator, id_ = admin(scene), scene.add("/hook")
    paths, words = ("/ops/webhooks", f"/ops/webhooks/{id_}"), "The event log is off"
    assert all(words not in operator.open(path).text for path in paths)

    async def read(*_: Any, **__: Any) -> None:
        raise InvalidInput(OFF)

    monkeypatch.setattr("shoal.queries.events.EventReader.read", read)
    assert all(words in operator.open(path).text for path in paths)


def test_webhook_pages_are_for_admins_only(scene: Scene) -> None:
    id_ = scene.add("/hook")
    member(scene.here, "bob")
    made = member(scene.here, "max")
    scene.here.run(moderation.set_role(scene.here.network.writes, made.id, Role.MODERATOR))
    for name in ("bob", "max"):
        browser = visitor(scene.here, name)
        for path in ("/ops/webhooks", f"/ops/webhooks/{id_}"):
            assert browser.open(path).status == 403
        token = browser.open("/settings/privacy").form_token
        for path, field in (
            ("/ops/webhooks", ("url", f"{scene.service.url}/x")),
            (f"/ops/webhooks/{id_}", ("do", "delete")),
            (f"/ops/webhooks/{id_}/edit", ("url", f"{scene.service.url}/x")),
        ):
            assert browser.post(path, [("form_token", token), field]).status == 403
    assert len(views(scene)) == 1
