"""Form tokens: bound to browser and login, and unique per page."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from shoal.mastodon_api.browser_session import Browser

KEY, OTHER_KEY = "k" * 43, "o" * 43


def browser(key: str = KEY, login: str = "login-of-ann", site: str = "same-origin") -> Browser:
    headers = [(b"cookie", f"shoal_form={key}; shoal_login={login}".encode()), (b"sec-fetch-site", site.encode())]
    return Browser(Request({"type": "http", "headers": headers}), secure=False)


def test_form_token_is_unique_per_page_and_all_tokens_are_valid() -> None:
    tokens = {browser().form_token for _ in range(100)}
    assert len(tokens) == 100
    assert len({token[64:] for token in tokens}) == 100
    assert all(browser().sent(token) for token in tokens)


def test_form_token_is_valid_only_for_its_browser_login_and_site() -> None:
    token = browser().form_token
    assert not browser(key=OTHER_KEY).sent(token)
    assert not browser(login="login-of-ben").sent(token)
    assert not browser(key="short").sent(token)
    for site in ("cross-site", "same-site"):
        assert not browser(site=site).sent(token)
    for site in ("none", ""):
        assert browser(site=site).sent(token)


@given(st.text(max_size=200))
def test_form_token_that_is_random_text_is_invalid(text: str) -> None:
    assert not browser().sent(text)


@given(st.integers(0, 127), st.sampled_from("0123456789abcdef"))
def test_form_token_with_changed_digit_is_invalid(place: int, digit: str) -> None:
    token = browser().form_token
    changed = token[:place] + digit + token[place + 1 :]
    assert browser().sent(changed) == (changed == token)
