"""Names of new members and texts of albums are checked before they are public."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal import Shoal
from shoal.commands import invitations, members
from shoal.core.audit import AuditVerb
from shoal.core.errors import NotFound, Rejected
from shoal.core.publishing import Candidate, Decision
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.async_runner import in_loop
from tests.moderation.checks import WordCheck, network
from tests.web.browser import PASSWORD, Page, member, visitor


@pytest.fixture
def checks() -> WordCheck:
    return WordCheck()


@pytest.fixture
def here(checks: WordCheck) -> Iterator[NetworkFixture]:
    with network_fixture(moderation=checks, invitations="members") as made:
        yield made


def join(here: NetworkFixture, name: str, path: str = "/signup") -> Page:
    fields: dict[str, Any] = {
        "username": name,
        "email": f"{name}@example.org",
        "password": PASSWORD,
        "agreement": "true",
    }
    return visitor(here).open(path).press("Sign up", **fields)


def test_allowed_name_of_a_new_member_is_checked_once(here: NetworkFixture, checks: WordCheck) -> None:
    assert join(here, "Ann").path == "/welcome/interests"
    (seen,) = checks.seen
    assert (seen.kind, seen.member_id, seen.member_name, seen.text, seen.member_posts) == (
        "profile",
        0,
        "ann",
        "ann",
        0,
    )


def test_rejected_name_of_a_new_member_is_shown_at_its_field_and_creates_no_member(here: NetworkFixture) -> None:
    page = join(here, "reject_me")
    assert page.status == 422
    field = page.html.find(id="username")
    assert field is not None
    assert field["aria-invalid"] == "true"
    assert "No such words here." in page.text
    assert here.run(members.find(here.writes, "reject_me")) is None


@pytest.mark.parametrize("invited", [False, True])
def test_held_name_of_a_new_member_waits_for_approval(here: NetworkFixture, invited: bool) -> None:
    path = "/signup"
    if invited:
        path = f"/invite/{here.run(invitations.create(here.writes, member(here, 'ben').id)).code}"
    assert join(here, "hold_me", path).path == "/signup/waiting"
    made = here.run(members.find(here.writes, "hold_me"))
    assert made is not None
    assert made.pending
    assert here.ask("GET", "/api/v1/accounts/lookup", params={"acct": "hold_me"}).status_code == 404


def test_name_of_a_member_that_an_operator_creates_is_not_checked(here: NetworkFixture, checks: WordCheck) -> None:
    member(here, "hold_me")
    assert not checks.seen


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("word", ["hold", "reject"])
@in_loop
async def test_album_with_held_or_rejected_texts_is_refused(store: str, word: str, tmp_path: Path) -> None:
    check = WordCheck()
    async with network(store, tmp_path, check) as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        with pytest.raises(Rejected):
            await ann.albums.create(f"{word} this")
        with pytest.raises(Rejected):
            await ann.albums.create("Boats", f"{word} this")
        assert not (await shoal.visitor.albums_of(ann)).covers
        album = await ann.albums.create("Boats", "Red and blue")
        assert (check.seen[-1].kind, check.seen[-1].id, check.seen[-1].text) == ("album", 0, "Boats\nRed and blue")
        for change in ({"title": f"{word} this"}, {"description": f"{word} this"}):
            with pytest.raises(Rejected):
                await ann.albums.update(album, **change)
        seen = len(check.seen)
        with pytest.raises(NotFound):
            await ben.albums.update(album, title=f"{word} this")
        assert len(check.seen) == seen
        assert (await ann.albums.update(album, title="Ships")).title == "Ships"
        assert not (await shoal.moderation.held()).items


async def _failing(_candidate: Candidate) -> Decision:
    raise ValueError


def test_names_and_albums_that_are_public_without_a_check_are_in_the_audit_log() -> None:
    with network_fixture(moderation=_failing) as here:
        assert join(here, "ann").path == "/welcome/interests"
        shoal = Shoal(here.network)

        async def change() -> list[tuple[str, object]]:
            ann = await shoal.member("ann")
            await ann.albums.update(await ann.albums.create("Boats"), title="Ships")
            found = (await shoal.moderation.audit_log(verbs=[AuditVerb.CONTENT_UNCHECKED])).entries
            return [(one.entry.target_name, one.entry.details["content"]) for one in found]

        assert here.run(change()) == [("ann", "album"), ("ann", "album"), ("ann", "profile")]
