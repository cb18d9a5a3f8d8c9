"""The editor of feeds with unavailable sources or origins, and with declarations that are too long to survive a login."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import feeds, sessions
from shoal.graph.feed_lookup import feeds_of
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import PASSWORD, member, visitor

BREAD = {"sources": [{"from": "tag", "tag": "bread"}]}


@pytest.fixture
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


def test_owner_stops_sharing_a_feed_that_contains_an_unshared_one(here: NetworkFixture) -> None:
    ann, ben = member(here, "ann"), member(here, "ben")
    inner = here.run(feeds.create(here.writes, ben.id, "Inner", BREAD, shared=True))
    declared = {
        "sources": [{"from": "feed", "feed": str(inner.id)}],
        "order": {"by": "expression", "expression": "likes * $weight"},
        "parameters": {"weight": {"type": "number", "default": 0.5, "minimum": -10, "maximum": 10}},
    }
    outer = here.run(feeds.create(here.writes, ann.id, "Outer", declared, shared=True))
    here.run(feeds.update(here.writes, ben.id, str(inner.id), shared=False))
    page = visitor(here, "ann").open(f"/feeds/{outer.id}/edit").press("Save", title="Renamed", shared=False)
    assert (page.status, page.path) == (200, f"/feeds/{outer.id}")
    (stored,) = here.run(feeds_of(here.network.store, ann.id))
    assert (stored.title, stored.shared, stored.declaration) == ("Renamed", False, outer.declaration)


def test_feed_of_the_server_with_a_future_author_is_previewed_and_copied(here: NetworkFixture) -> None:
    ann = member(here, "ann")
    declared = {"sources": [{"from": "author", "author": "zoe"}]}
    origin = here.run(feeds.create_for_server(here.writes, "future", declared))
    page = visitor(here, "ann").open("/feeds/future").follow("Make a copy").press("Preview")
    assert page.status == 200
    assert page.press("Create feed").status == 200
    (stored,) = here.run(feeds_of(here.network.store, ann.id))
    assert (stored.origin_id, stored.declaration) == (origin.id, origin.declaration)


def test_copy_is_saved_without_its_origin_if_sharing_ended_while_it_was_edited(here: NetworkFixture) -> None:
    ann, ben = member(here, "ann"), member(here, "ben")
    origin = here.run(feeds.create(here.writes, ben.id, "Bread", BREAD, shared=True))
    page = visitor(here, "ann").open(f"/feeds/{origin.id}").follow("Make a copy")
    here.run(feeds.update(here.writes, ben.id, str(origin.id), shared=False))
    page = page.press("Preview")
    assert page.status == 200
    assert page.press("Create feed", title="Mine").status == 200
    (stored,) = here.run(feeds_of(here.network.store, ann.id))
    assert (stored.title, stored.origin_id) == ("Mine", 0)


def test_deleted_feed_is_unfollowed_in_two_tabs(here: NetworkFixture) -> None:
    member(here, "ann")
    ben = member(here, "ben")
    made = here.run(feeds.create(here.writes, ben.id, "Bread", BREAD, shared=True))
    browser = visitor(here, "ann")
    browser.open(f"/feeds/{made.id}").press("Follow")
    here.run(feeds.delete(here.writes, ben.id, str(made.id)))
    tabs = [browser.open("/feeds"), browser.open("/feeds")]
    assert [(page.status, page.path) for page in (tab.press("Unfollow") for tab in tabs)] == [(200, "/feeds")] * 2


def test_editor_shows_the_stored_feed_after_a_login_that_could_not_keep_the_declaration(here: NetworkFixture) -> None:
    ann = member(here, "ann")
    made = here.run(feeds.create(here.writes, ann.id, "Stored", BREAD))
    browser = visitor(here, "ann")
    path = f"/feeds/{made.id}/edit"
    page = browser.open(path)
    here.run(sessions.leave(here.writes, browser.cookie("shoal_login")))
    page = page.press("Preview", title="Typed", declaration=" " * 5_000)
    assert "Log in to continue with your feed. Without JavaScript, its declaration is too long to be kept" in page.text
    page = page.press("Log in", username="ann", password=PASSWORD)
    assert (page.path, page.one("#title")["value"]) == (path, "Stored")
    assert "bread" in page.one("#declaration").get_text()
    assert not page.html.select("[data-typed]")
