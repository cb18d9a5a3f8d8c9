"""The pages of moderators."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import moderation, posts, reports
from shoal.commands.posts import Draft
from shoal.commands.reports import Complaint
from shoal.core.model import Role
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import member, visitor


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture(rules=("Be kind", "No advertising")) as made:
        chief = member(made, "chief")
        made.run(moderation.set_role(made.writes, chief.id, Role.MODERATOR))
        yield made


def file(here: NetworkFixture, reporter: str, target: str, text: str, **more: object) -> int:
    """Report a new post; return the id of the post."""
    author = member(here, target)
    post = here.run(posts.create(here.writes, author.id, Draft(text=text)))
    complaint = Complaint(post_ids=(post.id,), **more)  # type: ignore[arg-type]  # of its fields
    here.run(reports.file(here.writes, member(here, reporter).id, author.id, complaint, rules={"1", "2"}))
    here.settle()
    return post.id


def test_moderation_queue_shows_report_with_context_and_upholds_it(here: NetworkFixture) -> None:
    post = file(here, "ann", "ben", "Buy my boat", comment="Again and again", category="violation", rule_ids=("2",))
    chief = visitor(here, "chief")
    page = chief.open("/moderation")
    assert "Again and again" in page.text
    assert "No advertising" in page.text
    report = page.follow("ben")
    assert "Buy my boat" in report.text
    hidden = report.press("Hide post")
    assert "Unhide post" in hidden.text
    assert visitor(here).open(f"/@ben/{post}").status == 404
    done = hidden.press("Uphold")
    assert "Upheld" in done.text
    assert "Again and again" not in chief.open("/moderation").text
    assert "Again and again" in chief.open("/moderation?show=closed").text
    assert "Report reopened" in done.press("Reopen report").text


def test_moderation_queue_dismisses_several_reports_at_once(here: NetworkFixture) -> None:
    for n in (1, 2):
        file(here, f"cyd{n}", f"dan{n}", f"Harmless {n}", comment=f"Bad {n}")
    chief = visitor(here, "chief")
    page = chief.open("/moderation")
    ids = [box["value"] for box in page.html.find_all("input", attrs={"name": "ids[]"})]
    done = page.press("Dismiss", ids=ids[:2])
    assert "Report dismissed" in done.text
    assert "Bad 1" not in done.text
    assert "Bad 2" not in done.text


def test_member_suspension_by_moderator_is_confirmed_and_can_be_undone(here: NetworkFixture) -> None:
    eve = member(here, "eve")
    here.run(posts.create(here.writes, eve.id, Draft(text="Here I am")))
    here.settle()
    chief = visitor(here, "chief")
    page = chief.open("/moderation/members?name=eve").follow("eve")
    gone = page.press("Suspend", why="spam")
    assert "@eve is suspended: the profile and 1 posts" in gone.text
    assert visitor(here).open("/@eve").status == 410
    back = gone.press("Unsuspend")
    assert "@eve is no longer suspended" in back.text
    here.settle()
    assert visitor(here).open("/@eve").status == 200


def test_moderation_action_with_report_about_other_member_returns_404(here: NetworkFixture) -> None:
    file(here, "gia", "gus", "Buy this", comment="Not again")
    ida = member(here, "ida")
    chief = visitor(here, "chief")
    report = chief.open("/moderation").follow("gus").path.rpartition("/")[2]
    form = [
        ("form_token", chief.open(f"/moderation/members/{ida.id}").form_token),
        ("do", "silence"),
        ("report", report),
    ]
    assert chief.post(f"/moderation/members/{ida.id}", form).status == 404
    assert "Not again" in chief.open("/moderation").text
    assert not here.run(here.network.store.obj_get((ida.id,)))[ida.id].silenced  # type: ignore[union-attr]


def test_moderation_pages_require_role_and_protect_higher_roles(here: NetworkFixture) -> None:
    fay = member(here, "fay")
    head = member(here, "head")
    here.run(moderation.set_role(here.writes, head.id, Role.ADMIN))
    assert visitor(here, "fay").open("/moderation").status == 403
    assert visitor(here).open("/moderation").path.startswith("/login")
    chief = visitor(here, "chief")
    page = chief.open(f"/moderation/members/{head.id}")
    assert not page.html.find_all("button", string="Suspend")
    form = [("form_token", chief.open(f"/moderation/members/{fay.id}").form_token), ("do", "suspend")]
    assert chief.post(f"/moderation/members/{head.id}", form).status == 403
    assert visitor(here, "fay").post(f"/moderation/members/{head.id}", form).status == 403


def test_moderation_queue_when_empty_shows_message() -> None:
    with network_fixture() as empty:
        boss = member(empty, "boss")
        empty.run(moderation.set_role(empty.writes, boss.id, Role.MODERATOR))
        assert "No open reports" in visitor(empty, "boss").open("/moderation").text
