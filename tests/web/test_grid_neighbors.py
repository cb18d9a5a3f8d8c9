"""Links from a post to the previous and next one of the photo grid or feed that the visitor came from, without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import httpx
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
    ["/explore?order=popular", "/explore?order=new", "/tags/sea", "/@ann", "/"],
)
def test_post_page_links_follow_order_of_photo_grid(here: NetworkFixture, path: str) -> None:
    shown, passed = walked(visitor(here), path)
    assert len(shown) >= NUMBER
    assert passed == shown


@pytest.mark.parametrize("path", ["/search?q=tide&type=photos", "/explore/nearby?at=45.44,12.33"])
def test_post_links_on_search_and_nearby_pages_contain_no_search_words_or_coordinates(
    here: NetworkFixture, path: str
) -> None:
    browser = visitor(here, "ann")
    links = [str(photo["href"]) for photo in browser.open(path).photos]
    assert len(links) == NUMBER
    assert not any("?" in link for link in links)
    page = browser.open(f"{links[1]}?{urlencode({'grid': path})}")
    assert (page.status, following(page, "prev"), following(page, "next")) == (200, "", "")


@pytest.mark.parametrize("query", ["", "?show=photos"])
def test_photo_and_post_page_links_lead_through_posts_with_photos_of_home(here: NetworkFixture, query: str) -> None:
    dan, eli = member(here, f"dan{len(query)}"), member(here, f"eli{len(query)}")
    here.run(relationships.follow(here.writes, dan.id, eli.id))
    with_photos = [posted(here, eli, f"Ebb {number}", 2) for number in range(3)]
    posted(here, eli, "only text")
    here.settle()
    browser = visitor(here, dan.name)
    home = browser.open(f"/{query}")
    newest, middle, oldest = (f"/@{eli.name}/{post.id}" for post in reversed(with_photos))
    assert [str(link["href"]).partition("?")[0] for link in home.html.select(".feed a.photo")] == [
        f"{path}/photos/{number}" for path in (newest, middle, oldest) for number in (1, 2)
    ]
    first = browser.open(str(home.html.select(".feed a.photo")[0]["href"]))
    assert (following(first, "prev"), following(first, "next")) == ("", "")
    second = browser.open(str(first.one("figcaption a[rel=next]")["href"]))
    assert following(second, "prev") == ""
    post = browser.open(following(second, "next"))
    assert post.path.partition("?")[0] == middle
    assert following(post, "prev").partition("?")[0] == newest
    assert following(post, "next").partition("?")[0] == oldest
    assert str(post.one(".masthead a[aria-label=Back]")["href"]).startswith(f"/{query}#p")
    back = browser.open(str(second.one(".masthead a[aria-label=Back]")["href"]))
    assert following(back, "next").partition("?")[0] == middle


def test_post_page_links_lead_through_posts_of_a_profile(here: NetworkFixture) -> None:
    browser = visitor(here)
    links = [str(link["href"]) for link in browser.open("/@ann?show=posts").html.select(".feed a.photo")]
    page = browser.open(links[0])
    passed = [page.path]
    while following(page, "next"):
        page = browser.open(following(page, "next"))
        passed.append(page.path)
    numbers = [path.partition("?")[0].removesuffix("/photos/1") for path in (*links, *passed)]
    assert numbers[NUMBER:] == numbers[:NUMBER]


def test_post_page_with_previous_and_next_links_counts_twice_against_page_rate_limit() -> None:
    with network_fixture(rate_limits=True, limits={"pages": "6/24h"}) as busy:
        fay = member(busy, "fay")
        made = [posted(busy, fay, f"Day {number}", 1) for number in range(3)]
        busy.settle()
        browser = visitor(busy)
        with_links = [browser.open(f"/@fay/{post.id}?grid=/@fay") for post in made]
        assert [bool(following(page, "prev") or following(page, "next")) for page in with_links] == [True, True, True]
        assert browser.open("/about").status == 429


def test_post_page_beyond_page_rate_limit_has_no_previous_and_next_links_and_is_not_cached() -> None:
    with network_fixture(rate_limits=True, limits={"pages": "2/24h"}) as busy:
        fay = member(busy, "fay")
        made = [posted(busy, fay, f"Day {number}", 1) for number in range(2)]
        busy.settle()
        path = f"/@fay/{made[0].id}?grid=/@fay"
        first, other = visitor(busy), visitor(busy)
        other._client._transport = httpx.ASGITransport(busy.app, client=("198.51.100.7", 1))
        first.open("/about")
        page = first.open(path)
        assert (page.status, following(page, "prev")) == (200, "")
        assert following(other.open(path), "prev").startswith(f"/@fay/{made[1].id}?")


def test_post_page_links_lead_through_album(here: NetworkFixture) -> None:
    browser = visitor(here, "ann")
    cal = member(here, "cal")
    tides = here.run(albums.create(here.writes, cal.id, "Tides"))
    for number in range(3):
        post = posted(here, cal, f"Ebb {number}", 1)
        here.run(albums.put_in(here.writes, cal.id, tides.id, post.id, post.media))
    shown, passed = walked(browser, f"/@cal/albums/{tides.id}")
    assert (len(shown), passed) == (3, shown)


def test_post_page_opened_from_tag_grid_links_to_previous_post_and_back_to_grid(here: NetworkFixture) -> None:
    browser = visitor(here)
    shown = [str(photo["href"]) for photo in browser.open("/tags/sea").photos]
    second = browser.open(following(browser.open(shown[0]), "next"))
    assert following(second, "prev") == shown[0]
    number = shown[1].partition("?")[0].rpartition("/")[2]
    assert second.one(".masthead a[aria-label=Back]")["href"] == f"/tags/sea#p{number}"
    assert browser.open("/tags/sea").one(f"#p{number}")


def test_post_page_of_last_photo_on_grid_page_links_to_first_photo_of_next_page(here: NetworkFixture) -> None:
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
def test_post_page_with_unknown_grid_parameter_has_no_previous_and_next_links(here: NetworkFixture, grid: str) -> None:
    browser = visitor(here)
    shown = str(browser.open("/tags/sea").photos[0]["href"]).partition("?")[0]
    page = browser.open(f"{shown}?grid={grid}")
    assert page.status == 200
    assert (following(page, "prev"), following(page, "next")) == ("", "")
    assert page.one(".masthead a[aria-label=Back]")["href"] == "/"


def test_post_page_previous_and_next_links_skip_posts_hidden_from_the_viewer(here: NetworkFixture) -> None:
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
