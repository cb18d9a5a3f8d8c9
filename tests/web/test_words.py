"""Words of pages in other languages: all are there, and say the same names and numbers."""

from __future__ import annotations

import re

import pytest
from babel.messages.catalog import Message
from scripts.catalogue import catalogue, template

from shoal.web.words import LANGUAGES, words_in

TRANSLATED = [code for code in LANGUAGES if code != "en"]
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%%|\{\w+\}")


def forms(texts: str | tuple[str, ...] | list[str] | None) -> list[set[str]]:
    """Return the placeholders of each form of a message."""
    return [set(PLACEHOLDER.findall(text)) for text in ([texts] if isinstance(texts, str) else texts or [])]


def is_whole(message: Message) -> bool:
    return all(message.string) if isinstance(message.string, tuple) else bool(message.string)


@pytest.mark.parametrize("code", TRANSLATED)
def test_every_word_of_every_page_is_translated_and_nothing_else(code: str) -> None:
    held = {message.id: message for message in catalogue(code) if message.id}
    said = {message.id for message in template() if message.id}
    assert said - held.keys() == set(), "python -m scripts.catalogue adds them"
    assert held.keys() - said == set(), "python -m scripts.catalogue takes them away"
    assert [id_ for id_, message in held.items() if not is_whole(message)] == []


@pytest.mark.parametrize("code", TRANSLATED)
def test_a_translation_has_the_placeholders_of_its_message(code: str) -> None:
    for message in catalogue(code):
        if message.id:
            allowed = forms(message.id)[-1]
            for found in forms(message.string):
                # One thing need not be counted: "one post".
                assert found <= allowed, message.id
                assert isinstance(message.id, tuple) or found == allowed, message.id


def test_a_message_that_nobody_has_translated_stays_in_english_and_none_stays_empty() -> None:
    german = words_in("de")
    assert german.text("No page says this") == "No page says this"
    assert german.text("") == ""
