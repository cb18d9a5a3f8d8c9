"""A reaction is exactly one Unicode emoji, in a normalized form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.emoji import checked_emoji
from shoal.core.errors import InvalidInput

WHOLE = [
    "👍",
    "👍🏿",
    "❤️",
    "☺️",
    "🇳🇱",
    "🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    "1️⃣",
    "#️⃣",
    "👨‍👩‍👧‍👦",
    "👩🏽‍🚀",
    "🏳️‍🌈",
    "❤️‍🔥",
    "🧑🏻‍🤝‍🧑🏿",
]


@pytest.mark.parametrize("text", WHOLE)
def test_emoji_reaction_is_normalized_with_and_without_variation_selectors(text: str) -> None:
    assert checked_emoji(text) == text
    assert checked_emoji(text.replace("\ufe0f", "")) == text
    assert checked_emoji(checked_emoji(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a",
        "1",
        "#",
        "ok",
        "👍👍",
        "👍 ",
        " 👍",
        "👍a",
        ":thumbsup:",
        "blobcat",
        "🏽",
        "\ufe0f",
        "\u200d",
        "\u20e3",
        "🇳",
        "🇳🇱🇳🇱",
        "🇽🇽",
        "👍‍👍",
        "❤️❤️",
        "<b>",
        "\x00",
        "👍" * 1_000,
    ],
)
def test_emoji_reaction_with_text_or_several_emoji_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="single emoji") as refused:
        checked_emoji(text)
    assert refused.value.field == "emoji"


@given(st.lists(st.sampled_from([*WHOLE, "a", "1", "\ufe0f", "\u200d", "🏽", "🇳"]), max_size=4).map("".join))
def test_emoji_reaction_normalization_is_idempotent_and_changes_only_variation_selectors(text: str) -> None:
    try:
        found = checked_emoji(text)
    except InvalidInput:
        return
    assert found.replace("\ufe0f", "") == text.replace("\ufe0f", "")
    assert checked_emoji(found) == found
