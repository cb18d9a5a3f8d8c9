"""Links from a post to the previous and next one of the photo grid that the visitor came from, without scripts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import albums, reactions, relationships
from shoal.core.model import Visibility
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import Page, Visitor, member, visitor
from tests.web.pictures import posted

NUMBER = 5


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        ann = member(made, "ann")
        for number in range(NUMBER):
            made_post = posted(made, ann, f"Tide {number} #sea", 1, place=(45.44, 12.33))
            made.run(reactions.like(made.writes, ann.id, made_post.id))
        made.settle()
        yield made


def walked(browser: Visitor, path: str) -> tuple[list[str], list[str]]:
    """Return the paths of the posts of a grid, and those reached by following *Next* from the first one."""
    grid = browser.open(path)
    shown = [str(photo["href"]) for photo in grid.photos]
    page = browser.open(shown[0])
    passed = [page.path]
    while following(page, "next") and len(passed) < 2 * len(shown):
        page = browser.open(following(page, "next"))
        passed.append(page.path)
    return shown, passed


def following(page: Page, rel: str) -> str:
    link = page.html.select_one(f".masthead a[rel={rel}]")
    return str(link["href"]) if link else ""


@pytest.mark.parametrize(
    "path",
    ["/explore?order=popular", "/explore?order=new", "/tags/sea", "/explore/nearby?at=45.44,12.33", "/@ann", "/"],
)
def test_post_page_links_lead_through_grid_in_its_order(here: NetworkFixture, path: str) -> None:
    shown, passed = walked(visitor(here), path)
    assert len(shown) >= NUMBER
    assert passed == shown


def test_post_page_links_lead_through_search_results_and_album(here: NetworkFixture) -> None:
    browser = visitor(here, "ann")
    shown, passed = walked(browser, "/search?q=tide&type=photos")
    assert (len(shown), passed) == (NUMBER, shown)
    cal = member(here, "cal")
    tides = here.run(albums.create(here.writes, cal.id, "Tides"))
    for number in range(3):
        post = posted(here, cal, f"Ebb {number}", 1)
        here.run(albums.put_in(here.writes, cal.id, tides.id, post.id, post.media))
    shown, passed = walked(browser, f"/@cal/albums/{tides.id}")
    assert (len(shown), passed) == (3, shown)


def test_post_page_previous_and_back_links_return_to_grid(here: NetworkFixture) -> None:
    browser = visitor(here)
    shown = [str(photo["href"]) for photo in browser.open("/tags/sea").photos]
    second = browser.open(following(browser.open(shown[0]), "next"))
    assert following(second, "prev") == shown[0]
    number = shown[1].partition("?")[0].rpartition("/")[2]
    assert second.one(".masthead a[aria-label=Back]")["href"] == f"/tags/sea#p{number}"
    assert browser.open("/tags/sea").one(f"#p{number}")


def test_post_page_next_link_continues_on_next_page_of_grid(here: NetworkFixture) -> None:
    many = member(here, "many")
    for number in range(26):
        posted(here, many, f"Day {number}", 1)
    here.settle()
    browser = visitor(here)
    shown = [str(photo["href"]) for photo in browser.open("/@many").photos]
    last = browser.open(shown[-1])
    assert len(shown) == 24
    assert following(last, "next").startswith("/@many/")
    assert "before%3D" in following(last, "next")
    assert following(browser.open(following(last, "next")), "next")


@pytest.mark.parametrize(
    "grid", ["", "/about", "//elsewhere.example/", "//[", "/@nobody", "/@ann?show=x", "/lists/1", "/notifications"]
)
def test_post_page_with_unknown_grid_has_no_neighbors(here: NetworkFixture, grid: str) -> None:
    browser = visitor(here)
    shown = str(browser.open("/tags/sea").photos[0]["href"]).partition("?")[0]
    page = browser.open(f"{shown}?grid={grid}")
    assert page.status == 200
    assert (following(page, "prev"), following(page, "next")) == ("", "")
    assert page.one(".masthead a[aria-label=Back]")["href"] == "/"


def test_post_page_grid_of_other_viewer_shows_no_hidden_post(here: NetworkFixture) -> None:
    eve, fay = member(here, "eve"), member(here, "fay")
    first = posted(here, eve, "open one", 1)
    hidden = posted(here, eve, "for followers", 1, visibility=Visibility.FOLLOWERS)
    posted(here, eve, "open two", 1)
    here.settle()
    page = visitor(here, "fay").open(f"/@eve/{first.id}?grid=/@eve")
    assert str(hidden.id) not in following(page, "prev") + following(page, "next")
    here.run(relationships.follow(here.writes, fay.id, eve.id))
    here.settle()
    page = visitor(here, "fay").open(f"/@eve/{first.id}?grid=/@eve")
    assert str(hidden.id) in following(page, "prev")
