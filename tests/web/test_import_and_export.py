"""Import of follow lists from other networks, and the download of an archive."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import Iterator

import pytest

from shoal.commands import media, members, posts
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.graph.schema import FOLLOWS
from tests.api.in_memory_network import NetworkFixture, network_fixture, picture
from tests.web.browser import Visitor, member, visitor


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    """Ann; Ben, whose profile links to an account elsewhere; and Cyd, whose name is also used on another network."""
    with network_fixture() as made:
        member(made, "ann")
        ben = member(made, "ben")
        link = ("Photos", "https://pixelfed.example/@benphotos")
        made.run(members.update_profile(made.writes, ben.id, ProfileChange(fields=(link,))))
        member(made, "cyd")
        made.settle()
        yield made


@pytest.fixture(scope="module")
def ann(here: NetworkFixture) -> Visitor:
    return visitor(here, "ann")


def test_follow_list_import_finds_and_follows_members(here: NetworkFixture, ann: Visitor) -> None:
    listed = "Account address,Show boosts\nbenphotos@pixelfed.example,true\ncyd@other.example,true\nnobody@other.example,true\n"
    page = ann.open("/settings/contacts").press("Search", files={"file": ("following_accounts.csv", listed.encode())})
    assert "Searched for 3 accounts." in page.text
    assert sorted(one.has_attr("checked") for one in page.html.select("main li input")) == [False, True]
    assert "This person says that they are benphotos@pixelfed.example on another network" in page.text
    assert "possibly someone else" in page.text
    page = page.press("Follow selected")
    assert "Saved." in page.text
    me, ben = (here.run(members.find(here.writes, name)) for name in ("ann", "ben"))
    assert me is not None
    assert ben is not None
    followees = here.run(here.graph.assoc_get(me.id, (FOLLOWS,), (ben.id,)))[FOLLOWS]
    assert list(followees) == [ben.id]
    page = ann.open("/settings/contacts").press(
        "Search", handles="benphotos@pixelfed.example\nhttps://nowhere.example/@x"
    )
    assert "Already following" in page.text
    assert not page.html.select("main li input")


def test_follow_list_import_without_matches_or_with_invalid_file_shows_message(ann: Visitor) -> None:
    page = ann.open("/settings/contacts")
    none = page.press("Search", handles="nobody@other.example")
    assert "No matches" in none.text
    empty = page.press("Search")
    assert (empty.status, "Choose a file" in str(empty.html.find(id="file-wrong"))) == (422, True)
    wrong = page.press("Search", files={"file": ("x.bin", bytes(range(256)))})
    assert (wrong.status, "nknown follow list format" in wrong.text) == (422, True)


def test_archive_download_contains_posts_and_media_of_member(here: NetworkFixture, ann: Visitor) -> None:
    me = here.run(members.find(here.writes, "ann"))
    assert me is not None
    photo = here.run(media.upload(here.writes, me.id, picture()))
    here.run(posts.create(here.writes, me.id, Draft(text="Take me along", media=(photo.id,))))
    here.settle()
    page = ann.open("/settings").follow("Your data")
    assert "1 post" in page.text
    sent = page.press("Download").answer
    assert sent.headers["content-type"] == "application/zip"
    assert sent.headers["content-disposition"].startswith('attachment; filename="ann-')
    assert sent.headers["cache-control"] == "private, no-store"
    with zipfile.ZipFile(io.BytesIO(sent.content)) as archive:
        assert archive.testzip() is None
        assert [post["text"] for post in json.loads(archive.read("posts.json"))] == ["Take me along"]
        assert len([name for name in archive.namelist() if name.startswith("media/")]) == 1
    assert page.press("Download").status == 200


def test_archive_download_requires_login_and_form_token(here: NetworkFixture, ann: Visitor) -> None:
    assert visitor(here).open("/settings/archive").path == "/login?to=%2Fsettings%2Farchive"
    assert ann.post("/settings/archive", []).status == 403


def test_archive_download_during_another_download_returns_503(
    here: NetworkFixture, ann: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = here.run(members.find(here.writes, "ann"))
    assert me is not None
    monkeypatch.setattr("shoal.web.archives._in_flight", {me.id})
    page = ann.open("/settings/archive").press("Download")
    assert (page.status, page.answer.headers["retry-after"]) == (503, "60")
    assert "already being uploaded" in page.text


def test_archive_downloads_requested_concurrently_run_one_after_another(here: NetworkFixture) -> None:
    member(here, "dee")
    browser = visitor(here, "dee")
    token = browser.open("/settings/archive").form_token

    async def both() -> list[int]:
        asked = [browser._client.post("/settings/archive", data={"form_token": token}) for _ in range(2)]
        return [answer.status_code for answer in await asyncio.gather(*asked)]

    assert sorted(here.run(both())) == [200, 503]
    assert browser.open("/settings/archive").press("Download").status == 200
