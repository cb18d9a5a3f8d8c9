"""The share target: what another app shares opens the compose form, and nothing is published."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import pytest
from PIL import Image

from shoal.commands import media, posts
from shoal.commands.posts import Draft
from shoal.core.model import Visibility
from shoal.graph.contract import Cursor
from shoal.graph.schema import OWNS, POSTED
from tests.api.in_memory_network import NetworkFixture, network_fixture, picture
from tests.web.browser import Page, Visitor, member, visitor

BY_BROWSER = {"Sec-Fetch-Site": "none"}
"""What Chromium sends with a share, which no page caused."""


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


def files(*names: str, data: bytes = b"") -> list[tuple[str, object]]:
    return [("files[]", (name, data or picture(), "image/png")) for name in names]


def shared(
    who: Visitor,
    sent: Sequence[tuple[str, object]] = (),
    headers: dict[str, str] = BY_BROWSER,
    *,
    title: str = "",
    text: str = "",
    url: str = "",
) -> Page:
    fields = [(name, value) for name, value in (("title", title), ("text", text), ("url", url)) if value]
    return who.post("/share", fields, list(sent) or None, multipart=True, headers=headers)


def stored(here: NetworkFixture, member_id: int) -> tuple[int, int]:
    """Return the numbers of a member's files and posts."""
    owned, posted = (
        here.run(here.network.store.assoc_range(member_id, kind, Cursor(limit=50))) for kind in (OWNS, POSTED)
    )
    return len(owned), len(posted)


def test_share_to_app_of_long_text_and_many_files_opens_compose_form(here: NetworkFixture) -> None:
    member(here, "ulf")
    page = shared(visitor(here, "ulf"), files(*(f"{n}.png" for n in range(120)), data=b"no picture"), text="a" * 30_000)
    assert page.field("Text").text == "a" * 20_000
    assert "A post can have up to 10 photos." in page.text


def test_compose_link_attaches_only_files_that_no_post_has(here: NetworkFixture) -> None:
    vera, _ = member(here, "vera"), member(here, "wim")
    browser = visitor(here, "vera")
    sent, free = (here.run(media.upload(here.writes, vera.id, picture())) for _ in range(2))
    message = Draft(text="@wim for you", media=[sent.id], visibility=Visibility.DIRECT)
    here.run(posts.create(here.writes, vera.id, message))
    page = browser.open(f"/compose?files[]={sent.id}&files[]={free.id}&files[]={free.id}")
    found = page.html.find_all("li", class_="picture")
    assert [str(one["data-picture"]) for one in found if one.find("img")] == [str(free.id)]


def test_share_to_app_of_photos_opens_compose_form_that_can_be_loaded_again(here: NetworkFixture) -> None:
    ann = member(here, "ann")
    browser = visitor(here, "ann")
    page = shared(browser, files("one.png", "two.png"), text="Low tide", url="https://example.org/sea")
    assert page.path.startswith("/compose?text=Low+tide")
    assert page.field("Text").text == "Low tide\nhttps://example.org/sea"
    assert len(page.html.find_all("li", class_="picture")) == 2
    assert stored(here, ann.id) == (2, 0)
    again = browser.open(page.path)
    assert len(again.html.find_all("li", class_="picture")) == 2
    again.press("Post").press("Post without descriptions")
    assert stored(here, ann.id) == (2, 1)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (("Sea", "Sea https://a.example", "https://a.example"), "Sea https://a.example"),
        (("Sea", "Sea", ""), "Sea"),
        (("Sea", " ", "https://a.example"), "Sea\nhttps://a.example"),
    ],
)
def test_share_to_app_of_title_text_and_link_keeps_repeated_parts_once(
    here: NetworkFixture, fields: tuple[str, str, str], text: str
) -> None:
    title, told, url = fields
    name = f"bea_{len(told)}"
    member(here, name)
    assert shared(visitor(here, name), title=title, text=told, url=url).field("Text").text == text


def test_share_to_app_of_more_than_ten_photos_keeps_ten_and_names_the_others(here: NetworkFixture) -> None:
    member(here, "cyd")
    page = shared(visitor(here, "cyd"), files(*(f"{n}.png" for n in range(12))))
    assert page.status == 422
    assert len(page.html.find_all("li", class_="picture")) == 10
    assert page.texts("error") == [f"{n}.png : A post can have up to 10 photos." for n in (10, 11)]


def test_share_to_app_of_damaged_photo_shows_reason_and_keeps_the_rest(here: NetworkFixture) -> None:
    member(here, "dee")
    sent = [*files("whole.png"), *files("torn.png", data=picture()[:40])]
    page = shared(visitor(here, "dee"), sent, text="Low tide")
    assert page.status == 422
    assert len(page.html.find_all("li", class_="picture")) == 1
    (reason,) = page.texts("error")
    assert reason.startswith("torn.png : ")
    assert page.field("Text").text == "Low tide"


def test_share_to_app_of_long_text_opens_compose_form_with_all_of_it(here: NetworkFixture) -> None:
    member(here, "eli")
    page = shared(visitor(here, "eli"), text="é" * 4_000)
    assert (page.status, page.path) == (200, "/share")
    assert page.field("Text").text == "é" * 4_000


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", ""])
def test_share_to_app_request_of_a_web_page_is_refused_before_files_are_stored(here: NetworkFixture, site: str) -> None:
    name = f"fay{site.replace('-', '')}"
    fay = member(here, name)
    page = shared(visitor(here, name), files("one.png"), {"Sec-Fetch-Site": site})
    assert page.status == 403
    assert stored(here, fay.id) == (0, 0)


def test_share_to_app_by_visitor_keeps_text_until_after_the_login(here: NetworkFixture) -> None:
    member(here, "gil")
    browser = visitor(here)
    page = shared(browser, text="High tide")
    assert "Log in to post what you shared." in page.text
    done = page.press("Log in", username="gil", password="low tide at dawn")
    assert done.path == "/compose?text=High+tide"
    assert done.field("Text").text == "High tide"
    assert not browser.cookie("shoal_pending")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("High tide", "Its text is kept; share the photos again after logging in."),
        ("High tide " * 400, "Log in, then share again: what you shared was not kept."),
    ],
)
def test_share_to_app_by_visitor_says_that_photos_or_long_texts_are_not_kept_until_login(
    here: NetworkFixture, text: str, told: str
) -> None:
    assert told in shared(visitor(here), files("one.png"), text=text).text


def test_share_to_app_by_visitor_of_large_photo_is_answered_before_it_is_read(here: NetworkFixture) -> None:
    page = shared(visitor(here), files("one.png", data=b"x" * 200_000))
    assert page.status == 401
    assert "Log in, then send the files again: they were not stored" in page.text
    assert page.follow("Log in").path == "/login"


def test_share_to_app_target_in_manifest_accepts_what_the_compose_form_accepts(here: NetworkFixture) -> None:
    member(here, "hal")
    manifest = here.ask("GET", "/manifest.webmanifest").json()
    target = manifest["share_target"]
    assert (target["action"], target["method"], target["enctype"]) == ("/share", "POST", "multipart/form-data")
    (taken,) = target["params"]["files"]
    accepted = visitor(here, "hal").open("/compose").one("#files")["accept"]
    assert ",".join(taken["accept"]) == accepted
    assert taken["name"] == "files[]"


def test_web_manifest_lists_shortcuts_and_screenshots_of_the_stated_sizes(here: NetworkFixture) -> None:
    manifest = here.ask("GET", "/manifest.webmanifest").json()
    assert {one["form_factor"] for one in manifest["screenshots"]} == {"narrow", "wide"}
    assert {one["purpose"] for one in manifest["icons"]} == {"any", "maskable"}
    assert [one["url"] for one in manifest["shortcuts"]] == ["/compose", "/notifications"]
    assert (manifest["id"], manifest["start_url"], manifest["scope"]) == ("/", "/", "/")
    for one in manifest["screenshots"]:
        answer = here.ask("GET", one["src"])
        assert answer.headers["content-type"] == one["type"]
        assert size_of(answer.content) == one["sizes"]


def size_of(data: bytes) -> str:
    with Image.open(io.BytesIO(data)) as found:
        return f"{found.width}x{found.height}"
