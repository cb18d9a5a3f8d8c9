"""Lists of named feeds on profiles, on the page of feeds and in the search: access, matches and the number of reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import feeds, relationships
from shoal.core.feeds.declarations import NamedFeed
from shoal.core.model import Member
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import Page, member, visitor

BREAD = {"sources": [{"from": "tag", "tag": "bread"}]}


@pytest.fixture
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


def made_by(here: NetworkFixture, owner: Member, title: str, declaration: object = BREAD) -> NamedFeed:
    return here.run(feeds.create(here.writes, owner.id, title, declaration, shared=True))


def found(page: Page) -> list[str]:
    return [title.get_text() for title in page.html.select("section[aria-labelledby=f-feeds] b")]


@pytest.mark.parametrize("blocking", ["owner", "viewer"])
def test_profile_hides_feeds_between_members_of_whom_one_blocks_the_other(here: NetworkFixture, blocking: str) -> None:
    ann, ben = member(here, "ann"), member(here, "ben")
    made_by(here, ann, "Loaves")
    browser = visitor(here, "ben")
    assert "Loaves" in browser.open("/@ann?show=about").text
    blocker, blocked = (ann, ben) if blocking == "owner" else (ben, ann)
    here.run(relationships.block(here.writes, blocker.id, blocked.id))
    assert "Loaves" not in browser.open("/@ann?show=about").text
    assert "Loaves" in visitor(here).open("/@ann?show=about").text
    assert "Loaves" in visitor(here, "ann").open("/@ann?show=about").text


@pytest.mark.parametrize("path", ["/@ann?show=about", "/feeds", "/search?q=outer&type=feeds"])
def test_list_of_feeds_costs_the_same_reads_for_few_and_many_feeds_and_contained_feeds(
    here: NetworkFixture, path: str
) -> None:
    ann, ben = member(here, "ann"), member(here, "ben")
    inner = [made_by(here, ann, f"Inner {number}") for number in range(12)]
    for number in range(3):
        here.run(feeds.create_for_server(here.writes, f"inner{number}", BREAD))
    browser = visitor(here, "ben")
    costs: list[int] = []
    for size, contained in ((1, 1), (10, 12)):
        for number in range(size):
            sources = [{"from": "feed", "feed": str(each.id)} for each in inner[:contained]]
            sources += [{"from": "feed", "feed": f"inner{each}"} for each in range(min(contained, 3))]
            outer = made_by(here, ann, f"Outer {size} {number}", {"sources": sources})
            here.run(feeds.follow(here.writes, ben.id, str(outer.id)))
        here.graph.reads.clear()
        page = browser.open(path)
        costs.append(len(here.graph.reads))
        assert "The feed “Inner 0”" in page.text
    assert costs[0] == costs[1]


def test_page_of_a_feed_costs_the_same_reads_for_few_and_many_contained_feeds(here: NetworkFixture) -> None:
    ann = member(here, "ann")
    inner = [made_by(here, ann, f"Inner {number}") for number in range(12)]
    costs: list[int] = []
    for size in (1, 12):
        sources = [{"from": "feed", "feed": str(each.id)} for each in inner[:size]]
        outer = made_by(here, ann, f"Outer {size}", {"sources": sources})
        here.graph.reads.clear()
        visitor(here).open(f"/feeds/{outer.id}")
        costs.append(here.graph.reads.count("obj_get"))
    assert costs[0] == costs[1]


def test_search_reads_feeds_of_the_server_own_and_followed_ones_in_two_reads(here: NetworkFixture) -> None:
    member(here, "ann")
    browser = visitor(here, "ann")
    costs: dict[str, int] = {}
    for query in ("zebra", "-zebra"):
        here.graph.reads.clear()
        browser.open(f"/search?q={query}&type=feeds")
        costs[query] = len(here.graph.reads)
    assert costs["zebra"] - costs["-zebra"] == 2


def test_search_for_feeds_is_paginated(here: NetworkFixture) -> None:
    ann = member(here, "ann")
    for number in range(25):
        here.run(feeds.create(here.writes, ann.id, f"Loaf {number}", BREAD))
    browser = visitor(here, "ann")
    page = browser.open("/search?q=loaf&type=feeds")
    first = found(page)
    assert first == [f"Loaf {number}" for number in range(20)]
    assert found(page.follow("More feeds")) == [f"Loaf {number}" for number in range(20, 25)]
    assert len(found(browser.open("/search?q=loaf"))) == 3


@pytest.mark.parametrize("query", ["%CC%81", "%E2%80%8B", "%D9%80", "!", "%22%22", "-bread"])
def test_search_without_a_searchable_character_finds_no_feed(here: NetworkFixture, query: str) -> None:
    here.run(feeds.create_for_server(here.writes, "quokka", BREAD, title="Quokka"))
    assert found(visitor(here).open(f"/search?q={query}&type=feeds")) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("%22quokka%22", ["Quokkas (of week)"]),
        ("quokka!", ["Quokkas (of week)"]),
        ("of", ["Quokkas (of week)"]),
        ("quokka -week", []),
        ("quokka -month", ["Quokkas (of week)"]),
        ("quokka month", []),
    ],
)
def test_search_for_feeds_ignores_punctuation_and_excludes_words(
    here: NetworkFixture, query: str, expected: list[str]
) -> None:
    here.run(feeds.create_for_server(here.writes, "quokka", BREAD, title="Quokkas (of week)"))
    assert found(visitor(here).open(f"/search?q={query}&type=feeds")) == expected
