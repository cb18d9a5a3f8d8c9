"""Saved and liked posts, lists, and the tabs of home."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import reactions, relationships
from shoal.graph.schema import BOOKMARK
from shoal.web.routes import MASTODON_PATHS
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import Page, found_in, member, visitor
from tests.web.pictures import posted


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


def said(page: Page) -> list[str]:
    return [" ".join(found_in(post, "div.prose").get_text(" ").split()) for post in page.posts]


def tabs(page: Page) -> list[str]:
    return [" ".join(tab.get_text(" ").split()) for tab in page.html.select("nav.tabs a")]


def test_saved_posts_and_liked_posts_pages_show_most_recent_first(here: NetworkFixture) -> None:
    ann, ben = member(here, "ann"), member(here, "ben")
    first, second = posted(here, ben, "first"), posted(here, ben, "second")
    browser = visitor(here, "ann")
    assert "Nothing saved yet" in browser.open("/saved").text
    assert "No likes yet" in browser.open("/saved").follow("Liked").text
    for post in (second, first):
        here.run(reactions.mark(here.writes, ann.id, post.id, BOOKMARK))
        here.run(reactions.like(here.writes, ann.id, post.id))
    page = browser.open("/saved")
    assert said(page) == ["first", "second"]
    assert said(browser.open("/liked")) == ["first", "second"]
    assert said(page.press("Save", page.post("first"))) == ["second"]


def test_saved_posts_page_links_to_older_posts(here: NetworkFixture) -> None:
    cyd, dee = member(here, "cyd"), member(here, "dee")
    for n in range(23):
        here.run(reactions.mark(here.writes, cyd.id, posted(here, dee, f"post {n}").id, BOOKMARK))
    page = visitor(here, "cyd").open("/saved")
    assert len(page.posts) == 20
    assert said(page.follow("Older posts")) == ["post 2", "post 1", "post 0"]


def test_member_list_pages_create_fill_show_change_and_delete_a_list(here: NetworkFixture) -> None:
    eve, fay, gil = (member(here, name) for name in ("eve", "fay", "gil"))
    for other in (fay, gil):
        here.run(relationships.follow(here.writes, eve.id, other.id))
    posted(here, fay, "from fay")
    posted(here, gil, "from gil")
    here.settle()
    browser = visitor(here, "eve")
    page = browser.open("/lists")
    assert "No lists yet" in page.text
    page = page.press("Create list", title="Sailors", exclusive="true")
    assert "Edit Sailors" in page.title
    page = page.press("Add fay")
    assert [
        row.get_text(" ", strip=True).split()[0] for row in page.html.select("#main section[aria-labelledby=on] li")
    ] == ["fay"]
    assert [row.get_text(" ", strip=True).split()[0] for row in page.html.select("#offers li")] == ["gil"]
    here.settle()
    feed = browser.open("/lists").follow("Sailors")
    assert said(feed) == ["from fay"]
    assert tabs(feed)[:4] == ["Latest", "For you", "Catch up", "Sailors"]
    assert said(browser.open("/")) == ["from gil"]
    edit = feed.follow("People and settings of this list")
    assert edit.field("Hide these people").has_attr("checked")
    changed = edit.press("Save", title="Seamen", replies="none")
    assert tabs(changed)[3] == "Seamen"
    emptied = changed.follow("People and settings of this list").press("Remove fay")
    assert "This list is empty" in emptied.text
    gone = emptied.press("Delete")
    assert "No lists yet" in gone.text


def test_list_member_search_finds_only_followees(here: NetworkFixture) -> None:
    hal, ida, kit = (member(here, name) for name in ("hal", "idalia", "kit"))
    member(here, "idared")
    for other in (ida, kit):
        here.run(relationships.follow(here.writes, hal.id, other.id))
    here.settle()
    browser = visitor(here, "hal")
    page = browser.open("/lists").press("Create list", title="Friends")
    found = page.press("Search", q="ida")
    assert [row.get_text(" ", strip=True).split()[0] for row in found.html.select("#offers li")] == ["idalia"]
    asked = browser.open(f"{found.path.split('?')[0]}?q=ki", **{"HX-Request": "true"})
    assert "kit" in asked.answer.text
    assert "<html" not in asked.answer.text
    assert "No one you follow matches" in page.press("Search", q="zzz").text


def test_list_form_with_blank_title_is_refused_and_keeps_choices(here: NetworkFixture) -> None:
    member(here, "jon")
    page = visitor(here, "jon").open("/lists").press("Create list", title="   ", replies="none")
    assert page.status == 422
    assert "blank" in page.text
    assert page.one("option[selected]")["value"] == "none"
    assert page.one("#title")["aria-invalid"] == "true"


def test_member_list_form_error_is_shown_in_page_language(here: NetworkFixture) -> None:
    member(here, "kai")
    page = visitor(here, "kai", language="de").open("/lists").press("Liste erstellen", title="   ")
    assert (page.status, "Der Titel darf nicht leer sein." in page.text) == (422, True)


def test_list_of_other_member_returns_404(here: NetworkFixture) -> None:
    member(here, "lea")
    member(here, "max")
    page = visitor(here, "lea").open("/lists").press("Create list", title="Mine")
    path = page.path.removesuffix("/edit")
    other = visitor(here, "max")
    assert (other.open(path).status, other.open(f"{path}/edit").status) == (404, 404)
    token = str(other.open("/lists").one("input[name=form_token]")["value"])
    assert other.post(path, [("form_token", token), ("title", "x"), ("do", "delete")]).status == 404


def test_home_tabs_show_five_lists_and_followed_tags(here: NetworkFixture) -> None:
    ned = member(here, "ned")
    browser = visitor(here, "ned")
    for n in range(6):
        browser.open("/lists").press("Create list", title=f"list {n}")
    for tag in ("dawn", "tide"):
        here.run(relationships.follow_tag(here.writes, ned.id, tag))
    expected = [
        "Latest",
        "For you",
        "Catch up",
        *(f"list {n}" for n in range(5)),
        "#tide",
        "#dawn",
        "Lists, feeds and tags",
    ]
    for path in ("/", "/for-you", "/catch-up"):
        assert tabs(browser.open(path)) == expected
    assert "list 5" in tabs(browser.open("/lists").follow("list 5"))
    page = browser.open("/lists")
    assert "#dawn" in page.text
    assert "#dawn" not in page.press("Unfollow #dawn").text


def test_page_paths_of_mastodon_open_corresponding_pages(here: NetworkFixture) -> None:
    member(here, "mia")
    browser = visitor(here)
    browser.come_in("mia")
    for path, expected in MASTODON_PATHS.items():
        page = browser.open(path)
        assert (page.status, page.path) == (200, expected), path
