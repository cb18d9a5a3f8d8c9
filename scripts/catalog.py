"""Update the translation catalogs of the web app: `python -m scripts.catalog`.

Messages are extracted from templates and modules. New ones are added without a translation, unused ones are removed. The number
of untranslated messages per language is printed; `tests/web/test_translations.py` requires 0.
"""

from __future__ import annotations

import io
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir, extract_from_file
from babel.messages.pofile import read_po, write_po

from shoal.core.ranking.terms import TERMS, TITLES
from shoal.http.authentication import KNOWN, in_words
from shoal.push import messages
from shoal.web import notifications, operations, pending_actions, ranking, tags
from shoal.web.form_errors import COMPLAINTS

WEB = Path(__file__).parents[1] / "src/shoal/web"
LOCALES = WEB.parent / "locales"
_METHODS = [("**.html", "jinja2"), ("**.py", "python")]
_OPTIONS = {"**.html": {"trimmed": "true", "silent": "false"}}
_KEYWORDS = {
    "_": None,
    "text": None,
    "ReasonWords": None,
    "ngettext": (1, 2),
    "plural": (1, 2),
    "counted": (1, 2),
    "number": (1, 2),
    "button": (3, 4),
}
"""Translation functions, with the argument positions of singular and plural if there are two."""
_FOLDERS = (WEB, WEB.parent / "mail", WEB.parent / "core/ranking")
_TABLES = (
    operations._NAMES,
    messages._TITLES,
    messages._OF_ONE,
    notifications._ONE,
    pending_actions._AFTER_LOGIN,
    pending_actions._AFTER_SIGN_UP,
    notifications._ONE_OR_MORE,
    ranking._SOURCE_WORDS,
    ranking._OUT_WORDS,
    ranking._STAGES,
    {rule: words for rule, (_, words) in ranking._WAYS.items()},
    {trend: words for trend, (_, words) in tags._TRENDS.items()},
    TITLES,
    {term.name: term.unit for term in TERMS},
    {scope: in_words([scope])[0] for scope in KNOWN},
)
"""Tables of messages by subject."""


_EMPTY = tuple(
    f'"{name}: '
    for name in (
        "Project-Id-Version",
        "Report-Msgid-Bugs-To",
        "POT-Creation-Date",
        "PO-Revision-Date",
        "Last-Translator",
        "Language-Team",
        "Generated-By",
    )
)
"""Header fields that are empty or change at every run."""


def template() -> Catalog:
    """Return all messages with the places where they are used."""
    found = Catalog(project="Shoal", charset="utf-8")
    for folder in _FOLDERS:
        parts = extract_from_dir(str(folder), method_map=_METHODS, options_map=_OPTIONS, keywords=_KEYWORDS)
        for file, _line, message, _comments, context in parts:
            if message and message != ("", ""):
                found.add(message, locations=[(file, 0)], context=context)
    for _line, message, _comments, context in extract_from_file(
        "python", str(WEB.parent / "i18n.py"), keywords=_KEYWORDS
    ):
        found.add(message, context=context)
    for message in COMPLAINTS:
        found.add(message)
    for table in _TABLES:
        for words in table.values():
            found.add(words)
    return found


def path_of(language: str) -> Path:
    return LOCALES / language / "LC_MESSAGES" / "shoal.po"


def catalog(language: str) -> Catalog:
    path = path_of(language)
    return read_po(io.BytesIO(path.read_bytes()), locale=language) if path.exists() else Catalog(locale=language)


def updated(language: str) -> Catalog:
    """Return the catalog of a language with the current messages."""
    held = catalog(language)
    held.update(template(), no_fuzzy_matching=True)
    held.obsolete.clear()
    return held


def main() -> None:
    for folder in sorted(LOCALES.iterdir()):
        fresh = updated(folder.name)
        fresh.fuzzy, fresh.header_comment = False, f"# Words of Shoal's web app: {folder.name}."
        written = io.BytesIO()
        write_po(written, fresh, sort_output=True, no_location=True, omit_header=False, width=0)
        text = written.getvalue().decode()
        kept = [line for line in text.splitlines() if not line.startswith(_EMPTY)]
        path_of(folder.name).write_text("\n".join(kept) + "\n", "utf-8")
        missing = sum(
            message.fuzzy or not message.string or message.string == ("", "") for message in fresh if message.id
        )
        print(f"{folder.name}: {len(fresh)} messages, {missing} without a translation")


if __name__ == "__main__":
    main()
