"""What an anonymous visitor begins is done after they log in or sign up, and they return to the page."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from shoal.commands import posts
from shoal.core.model import Post
from shoal.web.pending_actions import PendingAction, decoded
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.moderation.checks import WordCheck
from tests.web.browser import Page, Visitor, member, visitor
from tests.web.pictures import posted

PASSWORD = "low tide at dawn"


@pytest.fixture
def here() -> Iterator[NetworkFixture]:
    with network_fixture(registrations=True, public_pages=True, signup_work=0) as made:
        member(made, "ben")
        yield made


@pytest.fixture
def sea(here: NetworkFixture) -> Post:
    return posted(here, member(here, "ann"), "The sea #coast", 1)


def log_in(page: Page, name: str = "ben") -> Page:
    assert page.path.startswith("/login")
    return page.press("Log in", username=name, password=PASSWORD)


def test_like_by_a_visitor_is_made_after_login_on_the_same_page(here: NetworkFixture, sea: Post) -> None:
    page = visitor(here).open(f"/@ann/{sea.id}")
    page = log_in(page.press("Like", page.post("The sea")))
    assert page.path.startswith(f"/@ann/{sea.id}")
    assert "Like, 1 like" in page.text


def test_follow_by_a_visitor_is_made_after_signup_on_the_same_page(here: NetworkFixture, sea: Post) -> None:
    page = visitor(here).open("/@ann").press("Follow").follow("Create an account")
    page = page.press("Sign up", username="cyd", email="cyd@example.org", password=PASSWORD)
    assert page.path == "/@ann"
    assert "Unfollow ann" in page.text


def test_follow_of_a_tag_by_a_visitor_is_made_after_login(here: NetworkFixture, sea: Post) -> None:
    page = log_in(visitor(here).open("/tags/coast").press("Follow"))
    assert page.path == "/tags/coast"
    assert "Unfollow #coast" in page.text


def test_comment_by_a_visitor_is_published_after_login_and_mentions_the_author(here: NetworkFixture, sea: Post) -> None:
    page = visitor(here).open(f"/@ann/{sea.id}")
    page = log_in(page.press("Comment", text="How cold was it?"))
    assert page.path == f"/@ann/{sea.id}"
    id_ = int(str(page.post("How cold")["data-post"]))
    (stored,) = here.run(here.network.store.obj_get((id_,))).values()
    assert isinstance(stored, Post)
    assert stored.text == "@ann How cold was it?"


def test_pending_comment_that_is_held_leads_to_the_list_of_pending_posts() -> None:
    with network_fixture(moderation=WordCheck(), registrations=True, public_pages=True, signup_work=0) as here:
        member(here, "ben")
        sea = posted(here, member(here, "ann"), "The sea")
        page = log_in(visitor(here).open(f"/@ann/{sea.id}").press("Comment", text="hold this"))
        assert page.path == "/pending"
        assert "hold this" in page.text


def test_pending_action_is_performed_once(here: NetworkFixture, sea: Post) -> None:
    browser = visitor(here)
    page = browser.open(f"/@ann/{sea.id}")
    page = log_in(page.press("Like", page.post("The sea")))
    page = page.press("Like", page.post("The sea"))
    assert "Like, 0 likes" in page.text
    browser.open("/").press("Log out")
    log_in(browser.open("/login"))
    assert "Like, 0 likes" in browser.open(f"/@ann/{sea.id}").text


def test_pending_action_submitted_without_the_form_token_is_not_performed(here: NetworkFixture, sea: Post) -> None:
    browser = visitor(here)
    browser.open(f"/@ann/{sea.id}")
    page = browser.post(f"/posts/{sea.id}/act", [("do", "like"), ("form_token", "guessed")])
    log_in(page)
    assert "Like, 0 likes" in browser.open(f"/@ann/{sea.id}").text


def test_pending_action_on_a_deleted_post_is_dropped(here: NetworkFixture, sea: Post) -> None:
    page = visitor(here).open(f"/@ann/{sea.id}")
    page = page.press("Like", page.post("The sea"))
    here.run(posts.delete(here.writes, sea.author_id, sea.id))
    assert log_in(page).status == 404


@pytest.mark.parametrize("text", ["", "!", "AAAA", "e30=", "eyJkbyI6ImJsb2NrIn0=", "x" * 5_000])
def test_pending_action_cookie_with_an_invalid_value_is_ignored(text: str) -> None:
    assert decoded(text) is None


def test_pending_action_that_exceeds_the_cookie_is_not_stored() -> None:
    action = PendingAction("comment", 1, "a" * 500)
    assert decoded(action.at("/@ann/1")) == replace(action, to="/@ann/1")
    assert PendingAction("comment", 1, "\N{PILE OF POO}" * 2_000).at("/@ann/1") == ""


def test_login_page_opened_from_post_page_by_visitor_returns_to_post(here: NetworkFixture, sea: Post) -> None:
    browser: Visitor = visitor(here)
    page = browser.open(f"/@ann/{sea.id}")
    login = page.html.select_one('nav.navigation a[href^="/login"]')
    assert login is not None
    assert log_in(browser.open(str(login["href"]))).path == f"/@ann/{sea.id}"


def test_login_and_sign_up_pages_state_the_pending_action(here: NetworkFixture, sea: Post) -> None:
    page = visitor(here).open(f"/@ann/{sea.id}")
    assert "Log in to like this post." in page.press("Like", page.post("The sea")).text
    page = page.press("Comment", text="How cold was it?")
    assert "Log in to publish your comment: How cold was it?" in page.text
    assert "Sign up to publish your comment." in page.follow("Create an account").text


@pytest.mark.parametrize("path", ["/login", "/login?to=/notifications", "/notifications"])
def test_login_that_began_on_another_page_discards_the_pending_action(
    here: NetworkFixture, sea: Post, path: str
) -> None:
    browser = visitor(here)
    page = browser.open(f"/@ann/{sea.id}")
    page.press("Comment", text="Ben is a fool")
    log_in(browser.open(path))
    assert "Ben is a fool" not in browser.open(f"/@ann/{sea.id}").text
    browser.open("/").press("Log out")
    log_in(browser.open(f"/login?to=/@ann/{sea.id}"))
    assert "Ben is a fool" not in browser.open(f"/@ann/{sea.id}").text


def test_pending_comment_too_long_to_keep_is_refused_with_its_text(here: NetworkFixture, sea: Post) -> None:
    text = "\u0439" * 4_000
    page = visitor(here).open(f"/@ann/{sea.id}").press("Comment", text=text)
    assert page.status == 422
    assert "Log in first" in page.text
    assert page.one("textarea").text.strip() == text


def test_pending_action_is_discarded_by_later_action_that_cannot_be_stored(here: NetworkFixture, sea: Post) -> None:
    browser = visitor(here)
    page = browser.open(f"/@ann/{sea.id}")
    page.press("Like", page.post("The sea"))
    log_in(browser.open(f"/@ann/{sea.id}").press("Comment", text=""))
    assert "Like, 0 likes" in browser.open(f"/@ann/{sea.id}").text


def test_pending_action_cookie_of_nested_json_is_ignored() -> None:
    nested = '{"do":"like","x":' + "[" * 1_500 + "]" * 1_500 + "}"
    assert decoded(base64.urlsafe_b64encode(nested.encode()).decode()) is None


def test_login_redirect_from_a_path_too_long_to_return_to_omits_it(here: NetworkFixture) -> None:
    page = visitor(here).open(f"/saved?x={'a' * 1_999}")
    assert (page.path, page.status) == ("/login", 200)
