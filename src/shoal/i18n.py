"""Messages, numbers and times in the language of the reader.

Messages are English; `locales/<language>/LC_MESSAGES/shoal.po` translates them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from babel import Locale
from babel.dates import format_date, format_skeleton, format_time
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.numbers import format_compact_decimal, format_decimal, format_percent, get_decimal_symbol, get_group_symbol
from babel.support import NullTranslations, Translations

from shoal.core.errors import InvalidInput

LANGUAGES = {"en": "English", "de": "Deutsch", "es": "Español", "fr": "Français", "ar": "العربية"}
_TAG = re.compile(
    r"([a-z]{2,3})(?:[-_]([a-z]{3}))?(?:[-_]([a-z]{4}))?(?:[-_]([a-z]{2}|[0-9]{3}))?", re.IGNORECASE | re.ASCII
)
"""Matches a language tag: language, extended language, script and region (RFC 5646, section 2.1)."""
_UNKNOWN_TO_CLDR = frozenset({"cnr", "kmr", "ldn", "zba"})
"""ISO 639-3 languages that Mastodon supports and CLDR does not contain."""
_MOST_ACCEPTED = 1_000
"""Number of characters of an `Accept-Language` header that are parsed."""
_RIGHT_TO_LEFT = "rtl"
_ORDINALS = {"en": {"one": "st", "two": "nd", "few": "rd", "other": "th"}}
"""Suffixes of ordinal numbers by plural category (CLDR). Languages without an entry write ranks as plain numbers."""
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_WEEK = 7 * _DAY


class When(NamedTuple):
    iso: str
    short: str
    full: str


class Translated:
    def __init__(self, code: str) -> None:
        self.code = code
        self.locale = Locale.parse(code)
        self._messages = _catalog(code)
        self._signs = str.maketrans(
            {",": get_group_symbol(self.locale), ".": get_decimal_symbol(self.locale), "-": "\N{MINUS SIGN}"}
        )
        self.plural = self._messages.ungettext

    def text(self, message: str) -> str:
        """Return the translation of a message; "" for "", under which a catalog has its metadata."""
        return self._messages.ugettext(message) if message else ""

    def counted(self, one: str, many: str, n: int, /, **values: object) -> str:
        """Return the message for `n` things in singular or plural, with `n` and the other values filled in."""
        return self.plural(one, many, n) % {"n": self.number(n), **values}

    @property
    def direction(self) -> str:
        return self.locale.text_direction

    @property
    def is_right_to_left(self) -> bool:
        return self.direction == _RIGHT_TO_LEFT

    def number(self, n: int) -> str:
        return _whole(self.code, n)

    def ordinal(self, n: int) -> str:
        """Return a rank as text, such as "137th"."""
        return self.number(n) + _ORDINALS.get(self.code, {}).get(self.locale.ordinal_form(n), "")

    def decimal(self, n: float, spec: str = ",g") -> str:
        """Return a number in a Python format specification, with the separators of this language."""
        return format(n, spec).translate(self._signs)

    def about(self, n: float) -> str:
        """Return a rounded number as text. It is a whole number from 10 on; below, it has one decimal."""
        return format_decimal(round(n, 1), format="#,##0" if n >= 10 else "#,##0.#", locale=self.locale)

    def percent(self, n: int) -> str:
        return format_percent(n / 100, locale=self.locale)

    def compact(self, n: int) -> str:
        """Return a number in compact form, such as "12K"."""
        return _compact(self.code, n) if n >= 10_000 else _whole(self.code, n)

    def when(self, ms: int, now_ms: int) -> When:
        at = datetime.fromtimestamp(ms / 1000, UTC)
        return When(f"{at:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z", self._short(at, (now_ms - ms) // 1000), self.full(ms))

    @staticmethod
    def changes_at(ms: int, now_ms: int) -> int:
        """Return when the short text for the time `ms`, such as "5 min", changes next. All times are in Unix milliseconds."""
        age = (now_ms - ms) // 1000
        if age < _WEEK:
            step = next((unit for unit in (_DAY, _HOUR, _MINUTE) if age >= unit), _MINUTE)
            return ms + (max(age, 0) // step + 1) * step * 1000
        year = datetime.fromtimestamp(now_ms / 1000, UTC).year
        return int(datetime(year + 1, 1, 1, tzinfo=UTC).timestamp() * 1000)

    def full(self, ms: int) -> str:
        return _full(self.code, ms // 60_000)

    def day(self, ms: int) -> str:
        return _date(self.code, ms // (_DAY * 1000), "yMMMMd")

    def _short(self, at: datetime, age: int) -> str:
        if age < _MINUTE:
            return self.text("now")
        if age < _HOUR:
            return self.plural("%(n)d min", "%(n)d min", age // _MINUTE) % {"n": age // _MINUTE}
        if age < _DAY:
            return self.plural("%(n)d h", "%(n)d h", age // _HOUR) % {"n": age // _HOUR}
        if age < _WEEK:
            return self.plural("%(n)d d", "%(n)d d", age // _DAY) % {"n": age // _DAY}
        recent = datetime.now(UTC).year == at.year
        return _date(self.code, int(at.timestamp()) // _DAY, "MMMd" if recent else "yMMMd")


@cache
def words_in(code: str) -> Translated:
    if code not in LANGUAGES:
        raise KeyError(code)
    return Translated(code)


def language_tag(text: str) -> str:
    """Return the canonical form of a language tag (BCP 47), such as `pt-BR`; "" if neither CLDR nor Mastodon knows the language.

    An underscore counts as a hyphen. An extended language (`zh-yue`) counts as the language itself (`yue`).
    """
    match = _TAG.fullmatch(text)
    return _canonical(*match.groups("")) if match else ""


# Cache by the parts of the tag, which are short; the text that a client sends may be long.
@lru_cache(1_000)
def _canonical(language: str, extended: str, script: str, region: str) -> str:
    language, script, region = (extended or language).lower(), script.title(), region.upper()
    english = Locale("en")
    if language not in english.languages and language not in _UNKNOWN_TO_CLDR:
        return ""
    if script not in ("", *english.scripts) or region not in ("", *english.territories):
        return ""
    return "-".join(filter(None, (language, script, region)))


def check_language(text: str, *, field: str) -> str:
    """Return the canonical form of a language tag; "" for "". Raises `InvalidInput` for an unknown language."""
    tag = language_tag(text)
    if text and not tag:
        raise InvalidInput(f"{field}: must be a language code such as en or pt-BR", field=field)
    return tag


def language_for(accepted: str, chosen: str = "") -> str:
    """Return the `chosen` language if it has a catalog, otherwise the best one for the `Accept-Language` header `accepted`."""
    return chosen if chosen in LANGUAGES else _accepted(accepted[:_MOST_ACCEPTED])


@lru_cache(1_000)
def _accepted(header: str) -> str:
    return next((code for code in _preferred(header) if code in LANGUAGES), "en")


def _preferred(accepted: str) -> Sequence[str]:
    found = []
    for n, part in enumerate(accepted.split(",")[:20]):
        code, _, quality = part.partition(";")
        try:
            weight = float(quality.partition("=")[2]) if quality else 1.0
        except ValueError:
            continue
        if weight > 0:
            found.append((-weight, n, code.strip().partition("-")[0].lower()))
    return [code for _, _, code in sorted(found)]


@cache
def _catalog(code: str) -> NullTranslations:
    source = files("shoal") / "locales" / code / "LC_MESSAGES" / "shoal.po"
    if not source.is_file():
        return NullTranslations()
    compiled = io.BytesIO()
    write_mo(compiled, read_po(io.BytesIO(source.read_bytes()), locale=code))
    compiled.seek(0)
    return Translations(compiled)


@lru_cache(10_000)
def _whole(code: str, n: int) -> str:
    return format_decimal(n, locale=code)


@lru_cache(10_000)
def _compact(code: str, n: int) -> str:
    return format_compact_decimal(n, format_type="short", locale=code, fraction_digits=1)


@lru_cache(10_000)
def _full(code: str, minute: int) -> str:
    at, locale = datetime.fromtimestamp(minute * 60, UTC), Locale(code)
    # The pattern of a time with its zone, without the seconds.
    time = format_time(at, locale.time_formats["long"].pattern.replace(":ss", ""), locale=locale)
    text: str = locale.datetime_formats["long"].format(time, format_date(at, "long", locale))
    return text.replace("\u202f", " ")


@lru_cache(10_000)
def _date(code: str, day: int, skeleton: str) -> str:
    return format_skeleton(skeleton, datetime.fromtimestamp(day * _DAY, UTC), locale=code)
