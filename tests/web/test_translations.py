"""Translations of pages: they are complete, and keep names and numbers."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message

import shoal
from scripts import catalog as catalogs
from scripts.catalog import catalog
from shoal.i18n import LANGUAGES, words_in
from shoal.web.form_errors import complaint

SOURCES = Path(shoal.__file__).parent
TRANSLATED = [code for code in LANGUAGES if code != "en"]
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%%|\{\w+\}")


def forms(texts: str | tuple[str, ...] | list[str] | None) -> list[set[str]]:
    """Return the placeholders of each form of a message."""
    return [set(PLACEHOLDER.findall(text)) for text in ([texts] if isinstance(texts, str) else texts or [])]


def is_whole(message: Message) -> bool:
    """Return whether all forms are translated. A fuzzy message, such as one that got a plural form, is not shown."""
    return not message.fuzzy and all(message.string or ("",))


@cache
def messages() -> Catalog:
    """Return all messages of the source."""
    return catalogs.template()


@pytest.mark.parametrize("code", TRANSLATED)
def test_translation_catalog_contains_exactly_messages_of_source(code: str) -> None:
    held = {message.id: message for message in catalog(code) if message.id}
    said = {message.id for message in messages() if message.id}
    assert said - held.keys() == set(), "run python -m scripts.catalog to add them"
    assert held.keys() - said == set(), "run python -m scripts.catalog to remove them"
    assert [id_ for id_, message in held.items() if not is_whole(message)] == []


@pytest.mark.parametrize("code", TRANSLATED)
def test_translation_has_placeholders_of_original_message(code: str) -> None:
    for message in catalog(code):
        if message.id:
            allowed = forms(message.id)[-1]
            for found in forms(message.string):
                # The singular form may omit the number: "one post".
                assert found <= allowed, message.id
                assert isinstance(message.id, tuple) or found == allowed, message.id


def test_untranslated_message_falls_back_to_english() -> None:
    german = words_in("de")
    assert german.text("No page says this") == "No page says this"
    assert german.text("") == ""


@pytest.mark.parametrize("code", TRANSLATED)
def test_translation_has_one_text_for_each_plural_form(code: str) -> None:
    words = catalog(code)
    plural = [message for message in words if isinstance(message.id, tuple)]
    assert len(plural) > 50
    assert {len(message.string or "") for message in plural} == {words.num_plurals}


def test_translated_plural_form_follows_rules_of_language() -> None:
    def posts(code: str, n: int) -> str:
        return words_in(code).counted("%(n)s post", "%(n)s posts", n)

    assert [posts("es", n) for n in (0, 1, 2)] == ["0 publicaciones", "1 publicación", "2 publicaciones"]
    assert posts("es", 1_000_000).endswith(" de publicaciones")
    assert [posts("fr", n) for n in (0, 1, 2)] == ["0 publication", "1 publication", "2 publications"]
    # Zero, one, two, 3 to 10, 11 to 99, and 100 have six forms.
    assert len({posts("ar", n).replace(str(n), "") for n in (0, 1, 2, 3, 11, 100)}) == 6
    assert [posts("ar", n).replace(str(n), "") for n in (10, 99, 102)] == [
        posts("ar", n).replace(str(n), "") for n in (3, 11, 100)
    ]


def test_translated_number_format_follows_language() -> None:
    english, german = words_in("en"), words_in("de")
    assert [english.decimal(n) for n in (1234.5, -0.25, 3.0)] == ["1,234.5", "\N{MINUS SIGN}0.25", "3"]
    assert [german.decimal(n) for n in (1234.5, -0.25, 3.0)] == ["1.234,5", "\N{MINUS SIGN}0,25", "3"]
    assert german.decimal(1.0, "+.2f") == "+1,00"


PLACES = ("commands", "core", "media", "queries")
WITHOUT_FORMS = ("commands/feeds.py", "core/feeds/", "queries/named_feeds/")
"""Modules whose errors only programs see, because no page has a form for them."""
REFUSALS = {
    "Conflict",
    "InvalidInput",
    "NotAllowed",
    "NotFound",
    "TooLarge",
    "TooMany",
    "Unauthenticated",
    "Unavailable",
    "Unfit",
    "Unsupported",
}
FOR_PROGRAMS = (
    # Values that no form sends, and texts for which forms have specific messages.
    r"(salt|hashes|ids|days|limit|since|state|duration|languages|attribution_domains|data|Idempotency-Key|focus|thumbnail"
    r"|radius_km|visibility|types): .*",
    r"Canonical email hash .*",
    r"Text can't be blank",
    r"Context None or invalid context supplied",
    r"unknown action .*",
    r"the (recipe is not valid|link to a recipe).*",
    r"tags: at most .*",
    r"Validation failed: .*",
    # Errors of server settings and files.
    r"the media store must be .*|the media store does not exist|invalid name of a stored file",
    r"unknown options of an s3:// media store.*",
    # Errors of ids and cursors sent by programs.
    r"the address was changed concurrently; try again",
    r"this id is already taken|no free id found; try again|.*cursor.*",
    r"a user name must have 1 to .*",
    # Errors of server keys and external ids.
    r".*(server key|external id|ISSUER:ID|linking this member|this JWT|no free user name).*|(grace|name): .*",
    r"X: (this must not|at most X bytes).*|types: X needs the scope X",
    # Errors of events, which only programs read.
    r"The event log .*again later|filter: at most X characters .*|after: (X )?is not the `next` of a page.*",
    # Errors of moderation rules and bulk actions, whose forms offer the values.
    r"(action|likeness|like_removed): .*|there is no moderation rule X|a bulk action has at most .*",
    # Errors of kinds of posts, which only programs declare and use.
    r"(schema|kind|filter|index|pairs): .*|there are X kinds already.*|there is no kind X|X: X|at most X bytes \(got X\)",
    r"a declaration has at most .*|X: (the schema has no property|a path has at most|the property) X.*",
    # Errors of declared reactions: only programs declare them, and pages have buttons for those that apply.
    r"(title|kinds|weight|group|reactions): (must|at most|there|cannot|X).*|(the|there is no) reaction X.*|there are X reactions .*"
    r"|X: must have 1 to 32 .*|the reaction is being added .*",
    # Errors of commands: no page blocks words.
    r"a word must have .*|X is not blocked",
)


def refusals() -> set[str]:
    """Return the error texts of commands, uploads and feeds in the source, with X for each placeholder."""
    found = set()
    for place in PLACES:
        for path in (SOURCES / place).rglob("*.py"):
            if path.relative_to(SOURCES).as_posix().startswith(WITHOUT_FORMS):
                continue
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in REFUSALS:
                    found |= {text for text in map(written, node.args[:1]) if text}
    return found


def written(text: ast.expr) -> str:
    """Return a literal text of the source, or an empty string."""
    if isinstance(text, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in text.values)
    return text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""


def without_field(text: str) -> str:
    """Return a text as shown at a form field, without the field name."""
    return re.sub(r"^X ", "This ", re.sub(r"^\w+: ", "", text))


def test_form_error_messages_are_translated_in_all_languages() -> None:
    texts = refusals()
    assert len(texts) > 80
    for_people = [text for text in texts if not any(re.fullmatch(one, text) for one in FOR_PROGRAMS)]
    for code in TRANSLATED:
        words = words_in(code)
        assert [text for text in for_people if complaint(words, without_field(text)) == without_field(text)] == []


def test_translated_form_error_keeps_numbers() -> None:
    text = "a picture of 31.5 MiB is too large: the maximum is 16 MiB"
    assert complaint(words_in("en"), text) == text
    assert complaint(words_in("de"), text) == "Ein Bild von 31.5 MiB ist zu groß: Das Maximum ist 16 MiB"
    assert complaint(words_in("de"), "nobody says this") == "nobody says this"


def test_full_time_has_minutes_but_no_seconds_in_each_language() -> None:
    for code in LANGUAGES:
        text = words_in(code).full(1_784_000_125_000)
        assert re.search(r"3:35(?!:)", text), text
        assert "2026" in text
