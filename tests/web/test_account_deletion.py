"""Account deletion in the browser: the confirmation, the receipt, and cancellation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import account_deletions, members, moderation, posts, reports
from shoal.commands.posts import Draft
from shoal.commands.reports import Complaint
from shoal.core.model import Member, Role
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import PASSWORD, member, visitor


@pytest.fixture
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        member(made, "ann")
        yield made


def test_account_deletion_requires_password_and_can_be_cancelled(here: NetworkFixture) -> None:
    ann, other = visitor(here, "ann"), visitor(here, "ann")
    page = ann.open("/settings/account")
    assert "after 30 days" in page.text
    assert page.press("Delete account", password=PASSWORD).status == 422
    wrong = page.press("Delete account", password="not it", sure="on")
    assert (wrong.status, "Incorrect password." in wrong.text) == (422, True)
    gone = page.press("Delete account", password=PASSWORD, sure="on")
    assert (gone.status, gone.path.startswith("/goodbye/")) == (200, True)
    assert "The account ann is hidden" in gone.text
    assert other.open("/settings").path.startswith("/login")
    assert visitor(here).open("/@ann").status in (404, 410)
    # A login offers to cancel the deletion.
    asked = visitor(here).open("/login").press("Log in", username="ann", password=PASSWORD)
    assert (asked.status, "This account is scheduled for deletion" in asked.text) == (403, True)
    assert asked.press("Keep my account", username="ann", password="not it").status == 422
    back = asked.press("Keep my account", username="ann", password=PASSWORD)
    assert (back.status, back.path) == (200, "/")
    assert visitor(here).open("/@ann").status == 200
    assert asked.press("Keep my account", username="ann", password=PASSWORD).status == 403


def test_account_deletion_is_shown_to_moderators_who_can_disable_login(here: NetworkFixture) -> None:
    member(here, "moe")
    mod = here.run(members.find(here.writes, "moe"))
    ann = here.run(members.find(here.writes, "ann"))
    assert mod is not None
    assert ann is not None
    here.run(moderation.set_role(here.writes, mod.id, Role.MODERATOR))
    here.run(account_deletions.dismiss(here.writes, ann.id, 30))
    page = visitor(here, "moe").open(f"/moderation/members/{ann.id}")
    assert "deletion requested" in page.text
    assert "Unsuspend" not in page.text
    assert "login disabled" in page.press("Disable login").text
    late = visitor(here).open("/comeback").press("Keep my account", username="ann", password=PASSWORD)
    assert late.status == 403


def test_account_deletion_receipt_confirms_deletion_and_requires_secret_link(here: NetworkFixture) -> None:
    ann = visitor(here, "ann")
    gone = ann.open("/settings/account").press("Delete account", password=PASSWORD, sure="on")
    text = gone.path.removeprefix("/goodbye/")
    deletion = here.run(account_deletions.receipt(here.writes, text))
    here.run(account_deletions.carry_out(here.writes, deletion))
    done = visitor(here).open(gone.path)
    assert "All data of ann was deleted" in done.text
    assert done.answer.headers["X-Robots-Tag"] == "noindex"
    assert visitor(here).open(f"/goodbye/{text.swapcase()}").status == 404
    late = visitor(here).open("/comeback").press("Keep my account", username="ann", password=PASSWORD)
    assert late.status == 422


@pytest.mark.parametrize("gone", ["ann", "ben"])
def test_report_remains_after_deletion_of_reporter_or_reported_member(here: NetworkFixture, gone: str) -> None:
    found = {"ann": found_member(here, "ann")}
    for name in ("ben", "moe"):
        member(here, name)
        found[name] = found_member(here, name)
    here.run(moderation.set_role(here.writes, found["moe"].id, Role.MODERATOR))
    rude = here.run(posts.create(here.writes, found["ben"].id, Draft(text="rude")))
    complaint = Complaint(post_ids=(rude.id,), comment="This is rude.")
    report = here.run(reports.file(here.writes, found["ann"].id, found["ben"].id, complaint))
    told = here.run(account_deletions.dismiss(here.writes, found[gone].id, 0))
    here.run(account_deletions.carry_out(here.writes, told.deletion))
    here.settle()
    assert here.run(account_deletions.receipt(here.writes, told.receipt)).done_at
    queue = visitor(here, "moe").open("/moderation")
    assert (queue.status, "This is rude." in queue.text) == (200, True)
    page = visitor(here, "moe").open(f"/moderation/reports/{report.id}")
    assert (page.status, "This is rude." in page.text) == (200, True)


def found_member(here: NetworkFixture, name: str) -> Member:
    """Return a member by name."""
    found = here.run(members.find(here.writes, name))
    assert found is not None
    return found
