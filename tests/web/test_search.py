"""The search page, search while typing, and suggestions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import relationships
from shoal.core.errors import Unavailable
from tests.api.in_memory_network import BASE, NetworkFixture, network_fixture
from tests.web.browser import Page, member, visitor
from tests.web.pictures import posted

SCRIPT = {"HX-Request": "true"}


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture(title="Shoal") as made:
        ann, ben = member(made, "ann"), member(made, "ben")
        member(made, "annika")
        for n in range(24):
            member(made, f"sailor{n:02}")
        made.run(relationships.follow(made.writes, ben.id, ann.id))
        posted(made, ann, "Low tide at #dawn", 1)
        posted(made, ben, "High tide at #dusk and #dawn")
        made.settle()
        yield made


def people(page: Page) -> list[str]:
    return [one.get_text(strip=True).removeprefix("@") for one in page.html.select(".people .handle")]


def test_search_page_finds_members_tags_and_posts(here: NetworkFixture) -> None:
    page = visitor(here, "ben").open("/search").press("Search", q="ann")
    assert people(page) == ["ann", "annika"]
    page = page.press("Search", q="tide")
    assert [len(page.photos), len(page.posts), people(page)] == [1, 1, []]
    assert [len(page.follow("Photos").photos), len(page.follow("Posts").posts)] == [1, 2]
    page = page.press("Search", q="daw")
    assert [row.get_text(" ", strip=True) for row in page.html.select("section[aria-labelledby=f-tags] li")] == [
        "#dawn 2 posts"
    ]
    assert not page.follow("Posts").posts
    assert people(page.follow("People")) == []


def test_search_results_of_many_members_are_paginated(here: NetworkFixture) -> None:
    page = visitor(here).open("/search?q=sailor&type=people")
    assert len(people(page)) == 20
    more = page.follow("More people")
    assert len({*people(page), *people(more)}) == 24


def test_search_htmx_response_contains_only_results(here: NetworkFixture) -> None:
    answer = visitor(here, "ben").open("/search?q=ann", **SCRIPT)
    assert "annika" in answer.answer.text
    assert "<html" not in answer.answer.text
    assert '<form class="search-bar' not in answer.answer.text


def test_search_page_explains_operators_and_reports_invalid_values(here: NetworkFixture) -> None:
    browser = visitor(here, "ben")
    page = browser.open("/search")
    assert [one.text for one in page.html.select("#found a")] == ["Photos", "People", "Tags", "Places", "Feeds"]
    for operator in ("from:ann", "before:2026-03-01", "after:", "has:media", "in:library", "near:45.44,12.32"):
        assert operator in page.text
    for extra in ("from:ann", "from:me", "has:media"):
        assert len(browser.open(f"/search?q=tide+{extra}&type=posts").posts) == 1
    for typed, hint in (("before:spring", "enter a date"), ("near:home", "latitude"), ("has:fun", "unknown value")):
        assert hint in browser.open(f"/search?q=tide+{typed}").text


def test_search_for_local_url_or_full_handle_redirects_to_page(here: NetworkFixture) -> None:
    browser = visitor(here, "ben")
    post = browser.open("/@ann?show=posts").one(".at a")["href"]
    assert browser.open("/search").press("Search", q=f"{BASE}/@ann").path == "/@ann"
    assert browser.open("/search").press("Search", q="@ann@shoal.test").path == "/@ann"
    assert browser.open("/search").press("Search", q=f"{BASE}{post}").path == post
    assert browser.open("/search").press("Search", q=f"{BASE}/tags/dawn").path == "/tags/dawn"
    assert "Open this link" in browser.open(f"/search?q={BASE}/@ann", **SCRIPT).answer.text
    page = browser.open("/search").press("Search", q="@ann@elsewhere.example")
    assert "elsewhere.example is another network" in page.text
    for typed in ("https://elsewhere.example/@ann", f"{BASE}/settings", f"{BASE}/@ann/../../etc"):
        assert browser.open("/search").press("Search", q=typed).path.startswith("/search")


def test_search_by_anonymous_visitor_excludes_posts_and_asks_to_log_in(here: NetworkFixture) -> None:
    page = visitor(here).open("/search?q=dawn")
    assert "#dawn" in page.text
    assert not page.posts
    assert not page.photos
    assert "Log in to search posts" in page.text
    assert page.one('p.notice a[href^="/login"]')


def test_search_without_results_shows_help(here: NetworkFixture) -> None:
    assert "No results for zzzzz" in visitor(here, "ben").open("/search?q=zzzzz").text
    assert "Search operators" in visitor(here, "ben").open("/search?q=").text


def test_search_suggestions_offer_members_and_tags(here: NetworkFixture) -> None:
    browser = visitor(here, "ben")
    offered = browser.open("/search/offers?q=da", **SCRIPT)
    assert [link["href"] for link in offered.links()] == ["/tags/dawn", "/search?q=da"]
    offered = browser.open("/search/offers?q=%40ann", **SCRIPT)
    assert [link["href"] for link in offered.links()][:2] == ["/@ann", "/@annika"]
    offered = browser.open("/search/offers?q=tide+from%3Aann", **SCRIPT)
    assert offered.links()[0]["data-typed"] == "tide from:ann "
    assert not browser.open("/search/offers?q=", **SCRIPT).links()


def test_search_with_unavailable_index_shows_message(here: NetworkFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object, **__: object) -> list[int]:
        raise Unavailable("away")

    monkeypatch.setattr(type(here.app_parts.reads.search), "members", away)
    page = visitor(here, "ben").open("/search?q=somebody")
    assert page.status == 200
    assert "Search is temporarily unavailable" in page.text
    assert [
        link.get_text(strip=True) for link in visitor(here, "ben").open("/search/offers?q=x", **SCRIPT).links()
    ] == ["Search for x"]
