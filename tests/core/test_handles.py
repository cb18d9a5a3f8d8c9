"""Handles of accounts on other networks: all spellings have one normalized form, and other text is rejected."""

from __future__ import annotations

import pytest

from shoal.core.handles import handles_in, read_handle

SAME = {
    "ann@mastodon.social": (
        "ann@mastodon.social",
        "@Ann@Mastodon.Social",
        " https://mastodon.social/@ann ",
        "https://mastodon.social/users/Ann",
        "https://mastodon.social/@ann?lang=en#top",
        "https://pixelfed.social/@ann@mastodon.social",
        "mastodon.social/@ann",
    ),
    "ann@pixelfed.social": ("https://pixelfed.social/ann", "https://www.pixelfed.social/@ann/"),
    "ann.b@instagram.com": (
        "https://www.instagram.com/ann.b/",
        "https://www.instagram.com/_u/ann.b",
        "instagram.com/Ann.B?igsh=1",
    ),
    "ann@x.com": ("https://twitter.com/Ann", "https://mobile.twitter.com/ann", "https://x.com/@ann", "ann@twitter.com"),
    "ann.bsky.social@bsky.app": ("ann.bsky.social", "@Ann.bsky.social", "https://bsky.app/profile/ann.bsky.social"),
    "ann.example.org@bsky.app": ("https://bsky.app/profile/ann.example.org", "at://ann.example.org"),
    "did:plc:abc234@bsky.app": (
        "did:plc:abc234",
        "https://bsky.app/profile/did:plc:abc234",
        "at://did:plc:abc234/app.bsky.graph.follow/3k",
    ),
    "ann@xn--mnchen-3ya.example": ("ann@münchen.example", "https://MÜNCHEN.example/@ann"),
    "ann": ("ann", "@ann"),
}


@pytest.mark.parametrize("form", SAME)
def test_account_handle_spellings_have_one_normalized_form(form: str) -> None:
    assert {str(read_handle(text)) for text in SAME[form]} == {form}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@",
        "ann b",
        "ann@",
        "ann@localhost",
        "https://mastodon.social/",
        "https://mastodon.social/@ann/123",
        "https://instagram.com/p/xyz",
        "https://instagram.com/explore",
        "https://x.com/i/user/12",
        "https://twitter.com/intent/user?user_id=12",
        "https://bsky.app/ann",
        "https://bsky.app/profile/ann",
        "javascript://mastodon.social/@ann",
        "ann@" + "a." * 200 + "org",
        "a" * 500,
        "ann\x00@mastodon.social",
        "\ud800@mastodon.social",
    ],
)
def test_account_handle_invalid_text_is_rejected(text: str) -> None:
    assert read_handle(text) is None


def test_account_handles_in_profile_text_are_found_in_links_and_full_addresses() -> None:
    text = (
        "Me: https://mastodon.social/@ann, @ann@pixelfed.social (and ann.bsky.social). Mail ann@example.org, ask @ben!"
    )
    assert {str(handle) for handle in handles_in(text)} == {
        "ann@mastodon.social",
        "ann@pixelfed.social",
        "ann.bsky.social@bsky.app",
    }
    assert [str(handle) for handle in handles_in("instagram.com/ann")] == ["ann@instagram.com"]
    assert list(handles_in("she/her")) == list(handles_in("ann")) == list(handles_in("and/or, either/or")) == []


def test_account_handle_user_name_omits_bluesky_domain() -> None:
    names = {text: handle.user_name for text in ("ann.bsky.social", "ann@x.com") if (handle := read_handle(text))}
    assert set(names.values()) == {"ann"}
