"""The interfaces of held content: the API for server keys and moderators, the pages, and the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal.cli.group import main
from shoal.commands import moderation, posts, server_keys
from shoal.commands.posts import Draft
from shoal.core.errors import Held
from shoal.core.model import Role
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture, picture
from tests.async_runner import run
from tests.moderation.checks import WordCheck, network
from tests.web.browser import member, visitor

PATH = "/api/shoal/v1/moderation/held"


@pytest.fixture
def checks() -> WordCheck:
    return WordCheck()


@pytest.fixture
def here(checks: WordCheck) -> Iterator[NetworkFixture]:
    with network_fixture(moderation=checks) as made:
        yield made


def key(here: NetworkFixture, *scopes: str) -> str:
    return here.run(server_keys.create(here.network.writes, f"key{len(scopes)}{scopes[0][-3:]}", scopes)).secret


def hold(here: NetworkFixture, who: Someone, text: str = "hold this") -> str:
    return str(here.ask("POST", "/api/v1/statuses", who, json={"status": text}).json()["held_id"])


def statuses(here: NetworkFixture, who: Someone) -> list[str]:
    return [status["content"] for status in here.json("GET", f"/api/v1/accounts/{who.id}/statuses")]


def test_server_key_lists_and_approves_held_post(here: NetworkFixture) -> None:
    ann, secret = here.join("ann"), key(here, "server:moderation")
    id_ = hold(here, ann)
    (item,) = here.json("GET", PATH, secret)
    assert (item["id"], item["account_id"], item["kind"], item["text"]) == (id_, ann.id, "post", "hold this")
    decision = here.json("POST", f"{PATH}/{id_}/decision", secret, json={"action": "approve"})
    assert decision == here.json("POST", f"{PATH}/{id_}/decision", secret, json={"action": "approve"})
    assert here.json("GET", f"/api/v1/statuses/{decision['published_id']}")["content"] == "<p>hold this</p>"
    assert len(statuses(here, ann)) == 1


def test_server_key_rejects_held_post_with_reason_for_author(here: NetworkFixture) -> None:
    ann, secret = here.join("ann"), key(here, "server:moderation")
    id_ = hold(here, ann)
    body = {"action": "reject", "reason": "off topic"}
    assert here.json("POST", f"{PATH}/{id_}/decision", secret, json=body)["published_id"] is None
    (own,) = here.json("GET", "/api/shoal/v1/held", ann)
    assert own["refusal"] == "off topic"
    assert own["rejected_at"]
    assert here.json("GET", PATH, secret) == []
    refused = here.ask("POST", f"{PATH}/{id_}/decision", secret, json={"action": "approve"})
    assert (refused.status_code, refused.json()) == (422, {"error": "This was rejected already"})
    here.json("DELETE", f"/api/shoal/v1/held/{id_}", ann)
    assert here.json("GET", "/api/shoal/v1/held", ann) == []


@pytest.mark.parametrize("scopes", [("server:members",), ("server:act", "admin:read"), ("server:events",)])
def test_server_key_without_the_scope_cannot_decide(here: NetworkFixture, scopes: tuple[str, ...]) -> None:
    id_ = hold(here, here.join("ann"))
    secret = key(here, *scopes)
    assert here.ask("GET", PATH, secret).status_code == 403
    assert here.ask("POST", f"{PATH}/{id_}/decision", secret, json={"action": "approve"}).status_code == 403


def test_moderator_decides_and_member_cannot(here: NetworkFixture) -> None:
    ann, chief = here.join("ann"), here.staff("chief", Role.MODERATOR)
    path = f"/api/shoal/v1/admin/held/{hold(here, ann)}"
    assert here.ask("GET", path, ann).status_code == 403
    assert here.ask("POST", f"{path}/decision", ann, json={"action": "approve"}).status_code == 403
    assert here.json("GET", path, chief)["text"] == "hold this"
    assert here.json("POST", f"{path}/decision", chief, json={"action": "approve"})["action"] == "approve"
    assert statuses(here, ann) == ["<p>hold this</p>"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"action": "maybe"}, "action must be one of"),
        ({}, "action is missing"),
        ({"action": "reject", "reason": "x" * 501}, "reason must have at most 500 characters"),
    ],
)
def test_invalid_decision_is_refused_without_effect(here: NetworkFixture, body: dict[str, str], message: str) -> None:
    id_, secret = hold(here, here.join("ann")), key(here, "server:moderation")
    refused = here.ask("POST", f"{PATH}/{id_}/decision", secret, json=body)
    assert refused.status_code in {400, 422}
    assert message in refused.json()["error"]
    assert len(here.json("GET", PATH, secret)) == 1


def test_rejected_post_is_answered_with_the_reason(here: NetworkFixture) -> None:
    refused = here.ask("POST", "/api/v1/statuses", here.join("ann"), json={"status": "reject this"})
    assert (refused.status_code, refused.json()) == (422, {"error": "no such words here"})


def test_repeated_request_of_held_post_names_the_same_content(here: NetworkFixture) -> None:
    ann = here.join("ann")
    ids = {
        here.ask("POST", "/api/v1/statuses", ann, json={"status": "hold"}, headers={"Idempotency-Key": "once"}).json()[
            "held_id"
        ]
        for _ in range(3)
    }
    assert len(ids) == 1


def test_held_upload_is_served_to_nobody_until_its_post_is_approved(here: NetworkFixture, checks: WordCheck) -> None:
    checks.holds_uploads = True
    ann, secret = here.join("ann"), key(here, "server:moderation")
    file = here.json("POST", "/api/v1/media", ann, files={"file": ("a.png", picture())})
    path = file["url"].removeprefix("http://shoal.test")
    assert here.ask("GET", path).status_code == 404
    answer = here.ask("POST", "/api/v1/statuses", ann, json={"status": "a boat", "media_ids": [file["id"]]})
    id_ = answer.json()["held_id"]
    assert here.ask("GET", path).status_code == 404
    here.json("POST", f"{PATH}/{id_}/decision", secret, json={"action": "approve"})
    assert here.ask("GET", path).status_code == 200


@pytest.mark.parametrize("held", ["post", "edit"])
def test_file_of_held_post_is_not_served_until_approval_nor_after_rejection(here: NetworkFixture, held: str) -> None:
    ann, secret = here.join("ann"), key(here, "server:moderation")
    shown = here.json("POST", "/api/v1/statuses", ann, json={"status": "a boat"})
    path = {"post": ("POST", "/api/v1/statuses"), "edit": ("PUT", f"/api/v1/statuses/{shown['id']}")}[held]
    for action, status in (("reject", 404), ("approve", 200)):
        file = here.json("POST", "/api/v1/media", ann, files={"file": ("a.png", picture())})
        url = file["url"].removeprefix("http://shoal.test")
        answer = here.ask(*path, ann, json={"status": "hold a boat", "media_ids": [file["id"]]})
        id_ = answer.json()["held_id"]
        assert here.ask("GET", url).status_code == 404
        here.json("POST", f"{PATH}/{id_}/decision", secret, json={"action": action})
        assert here.ask("GET", url).status_code == status


def test_held_edit_leaves_the_files_of_its_post_public(here: NetworkFixture) -> None:
    ann = here.join("ann")
    file = here.json("POST", "/api/v1/media", ann, files={"file": ("a.png", picture())})
    post = here.json("POST", "/api/v1/statuses", ann, json={"status": "a boat", "media_ids": [file["id"]]})
    body = {"status": "hold a boat", "media_ids": [file["id"]]}
    assert "held_id" in here.ask("PUT", f"/api/v1/statuses/{post['id']}", ann, json=body).json()
    assert here.ask("GET", file["url"].removeprefix("http://shoal.test")).status_code == 200


def test_moderators_see_descriptions_and_data_of_held_post(here: NetworkFixture) -> None:
    author = member(here, "ann")
    ann = Someone(author, here.token(here.join("other").app_id, author.id), 0)
    chief = member(here, "chief")
    here.run(moderation.set_role(here.writes, chief.id, Role.MODERATOR))
    file = here.json(
        "POST", "/api/v1/media", ann, files={"file": ("a.png", picture())}, data={"description": "two pelicans"}
    )
    post = Draft(text="hold a boat", media=(int(file["id"]),), data={"place": "the quay"})
    with pytest.raises(Held):
        here.run(posts.create(here.writes, author.id, post))
    (item,) = here.json("GET", PATH, key(here, "server:moderation"))
    assert (item["descriptions"], item["data"]) == (["two pelicans"], '{"place":"the quay"}')
    page = visitor(here, "chief").open("/moderation/held").text
    assert "two pelicans" in page
    assert "the quay" in page


def test_moderators_page_approves_and_rejects_held_posts(here: NetworkFixture, checks: WordCheck) -> None:
    checks.holds_uploads = True
    chief = member(here, "chief")
    here.run(moderation.set_role(here.writes, chief.id, Role.MODERATOR))
    author = member(here, "ann")
    ann = Someone(author, here.token(here.join("other").app_id, author.id), 0)
    file = here.json("POST", "/api/v1/media", ann, files={"file": ("a.png", picture())})
    here.ask("POST", "/api/v1/statuses", ann, json={"status": "a held boat", "media_ids": [file["id"]]})
    browser = visitor(here, "chief")
    queue = browser.open("/moderation/held")
    assert "a held boat" in queue.text
    shown = queue.html.select_one("article img[src*='/pictures/']")
    assert shown is not None
    source = str(shown["src"])
    assert browser.open(source).answer.headers["content-type"].startswith("image/")
    assert visitor(here, "ann").open(source).status == 200
    member(here, "cyd")
    assert visitor(here, "cyd").open(source).status == 404
    assert "It is public now" in queue.press("Approve").text
    assert len(statuses(here, ann)) == 1
    hold(here, ann, "hold the second")
    done = browser.open("/moderation/held").press("Reject", reason="off topic")
    assert "Nothing is waiting" in done.text
    own = visitor(here, "ann").open("/pending")
    assert "Rejected: off topic" in own.text
    assert "Nothing is waiting" in own.press("Delete").text


def test_held_post_leads_its_author_to_the_page_of_pending_posts(here: NetworkFixture) -> None:
    member(here, "ann")
    page = visitor(here, "ann").open("/compose").press("Post", text="hold this")
    assert page.path == "/pending"
    assert "hold this" in page.text


def test_scheduled_post_that_is_sent_now_and_held_is_not_scheduled_any_more(here: NetworkFixture) -> None:
    member(here, "ann")
    browser = visitor(here, "ann")
    page = browser.open("/compose").press("Post", text="hold this", at="2030-05-01T18:30", zone="UTC")
    assert page.path == "/scheduled"
    page = page.follow("Edit").press("Post", at="")
    assert page.path == "/pending"
    assert "hold this" in page.text
    assert "No scheduled posts" in browser.open("/scheduled").text


def test_redraft_that_is_held_leaves_the_public_post(here: NetworkFixture) -> None:
    ann = member(here, "ann")
    made = here.run(posts.create(here.writes, ann.id, Draft(text="a boat")))
    page = visitor(here, "ann").open(f"/compose?again={made.id}").press("Post", text="hold this")
    assert page.path == "/pending"
    assert here.json("GET", f"/api/v1/statuses/{made.id}")["content"] == "<p>a boat</p>"


def test_tabs_of_moderation_distinguish_held_content_from_reported_posts(here: NetworkFixture) -> None:
    chief = member(here, "chief")
    here.run(moderation.set_role(here.writes, chief.id, Role.MODERATOR))
    page = visitor(here, "chief").open("/moderation")
    assert page.links("Posts held for review")
    assert page.follow("Approval queue").path == "/moderation/held"


def test_held_profile_leads_its_author_to_the_page_of_pending_changes(here: NetworkFixture) -> None:
    member(here, "ann")
    page = visitor(here, "ann").open("/settings/profile").press("Save", note="hold this note")
    assert page.path == "/pending"
    assert "hold this note" in page.text


def test_command_line_lists_approves_and_rejects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_STORE", f"sqlite:///{tmp_path / 'shoal.db'}")
    monkeypatch.chdir(tmp_path)

    async def prepare() -> None:
        async with network("sqlite", tmp_path, WordCheck()) as shoal:
            ann = await shoal.register("ann")
            for text in ("hold one", "hold two"):
                with pytest.raises(Exception, match="waiting for approval"):
                    await ann.create(text)

    run(prepare())
    cli = CliRunner()
    listed = cli.invoke(main, ["held", "list"], catch_exceptions=False)
    rows = [line.split("\t") for line in listed.output.splitlines()[1:]]
    assert [(row[2], row[4], row[5]) for row in rows] == [
        ("post", "a word", "hold two"),
        ("post", "a word", "hold one"),
    ]
    approved = cli.invoke(main, ["held", "approve", rows[0][0]], catch_exceptions=False)
    assert approved.output.startswith(f"approved {rows[0][0]}: it is public as ")
    rejected = cli.invoke(main, ["held", "reject", rows[1][0], "--reason", "off topic"], catch_exceptions=False)
    assert rejected.output == f"rejected {rows[1][0]}\n"
    assert cli.invoke(main, ["held", "list"], catch_exceptions=False).output.count("\n") == 1
