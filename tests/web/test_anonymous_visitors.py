"""Anonymous visitors can sign up, follow and react from all pages, and the login returns to the previous page."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from shoal.commands import members, posts
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.model import Visibility
from tests.api.in_memory_network import BASE, NetworkFixture, network_fixture
from tests.web.browser import PASSWORD, Page, member, visitor


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        for name in ("ann", "ben"):
            member(made, name)
        ann = made.run(members.find(made.writes, "ann"))
        assert ann is not None
        made.run(posts.create(made.writes, ann.id, Draft(text="Low tide at the #küste")))
        made.run(posts.create(made.writes, ann.id, Draft(text="Which #tide?")))
        made.settle()
        yield made


def logged_in(page: Page) -> Page:
    assert urlsplit(page.url).path == "/login"
    return page.press("Log in", username="ben", password=PASSWORD)


@pytest.mark.parametrize("button", ["Like", "Share", "Save"])
@pytest.mark.parametrize("path", ["/@ann?show=posts", "/tags/tide"])
def test_login_from_post_button_returns_to_post(here: NetworkFixture, path: str, button: str) -> None:
    page = visitor(here).open(path)
    post = page.post("Which")
    back = logged_in(page.press(button, post))
    assert (back.path, urlsplit(back.url).fragment) == (path, str(post["id"]))
    assert back.one("#navigation form[action='/logout']")


@pytest.mark.parametrize("path", ["/@ann", "/tags/tide", "/tags/k%C3%BCste", "/search?q=ann&type=people"])
def test_login_from_follow_button_returns_to_page_and_follows(here: NetworkFixture, path: str) -> None:
    back = logged_in(visitor(here).open(path).press("Follow"))
    assert (back.path, back.status, "Following" in back.text) == (path, 200, True)
    back.press("Following")


def test_post_button_on_page_of_non_ascii_tag_returns_to_page(here: NetworkFixture) -> None:
    page = visitor(here, "ben").open("/tags/k%C3%BCste")
    assert page.press("Like", page.post("Low tide")).path == "/tags/k%C3%BCste"


@pytest.mark.parametrize(
    ("referrer", "to"),
    [(f"{BASE}/tags/tide?before=7", "/tags/tide?before=7"), ("https://example.org/tags/tide", None), ("", None)],
)
def test_login_redirect_for_htmx_request_returns_to_referring_page(
    here: NetworkFixture, referrer: str, to: str | None
) -> None:
    headers = {"HX-Request": "true", "Referer": referrer}
    answer = visitor(here).post("/posts/1/act", [("do", "like")], headers=headers)
    goal = answer.answer.headers["HX-Redirect"]
    assert urlsplit(goal).path == "/login"
    assert parse_qs(urlsplit(goal).query).get("to") == ([to] if to else None)


def test_profile_of_locked_member_shows_request_button_to_anonymous_visitors(here: NetworkFixture) -> None:
    locked = member(here, "cyd")
    here.run(members.update_profile(here.writes, locked.id, ProfileChange(locked=True)))
    assert "Request to follow" in visitor(here).open("/@cyd").one(".profile .follow").text
    assert visitor(here, "cyd").open("/@cyd").html.select(".profile .follow") == []


@pytest.mark.parametrize(("registrations", "expected"), [(True, ["/signup"]), (False, [])])
def test_signup_link_is_on_anonymous_pages_with_open_registrations(registrations: bool, expected: list[str]) -> None:
    with network_fixture(registrations=registrations) as closed:
        ann = member(closed, "ann")
        post = closed.run(posts.create(closed.writes, ann.id, Draft(text="Low #tide", visibility=Visibility.PUBLIC)))
        for path in ("/", "/explore", "/about", "/login", "/@ann", f"/@ann/{post.id}", "/tags/tide", "/nothing/here"):
            page = visitor(closed).open(path)
            links = [link for link in page.links("Sign up") if link.find_parent("nav", class_="navigation")]
            joins = [str(link["href"]).partition("?")[0] for link in links]
            assert joins == expected, path
        assert visitor(closed, "ann").open("/explore").links("Sign up") == []
