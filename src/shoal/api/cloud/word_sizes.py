"""How much room a word takes, estimated without a font: within a few per cent for sans serifs of the scripts in the tables.

Lengths are in hundredths of an em. Where a reader's own font is wider or narrower than this, a drawing sets each word to the
width estimated here, so words never touch.
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from shoal.core.text import normalized

_BY_WIDTH = {
    27: "ijlłıії·",
    30: "J",
    36: "IfΙ",
    39: "tι",
    42: "_r",
    45: "г",
    48: "szζξςґ",
    51: "cετзстэє",
    54: "FLSvxyγΓГухŁ",
    57: "0123456789ETZaekκλνχΕΖΞΣΤЕТаекяå",
    60: "YoδθορΥбвлоьøð",
    63: "CKPRVXbdghnpquαημσυΔΚΛΡΧБЗРСУХЬдпрчđþŋ",
    66: "ABβΑΒАВКЭЯнцß",
    69: "πиъ",
    72: "DGДЛЧЪ",
    75: "HUφΗΠНПЦ",
    78: "NOQΘΝΟΩОмфØ",
    81: "wψωИжы",
    84: "ΦΨФ",
    87: "Ыю",
    90: "Жæ",
    93: "MΜМшÆ",
    96: "WmщœŒ",
    105: "ШЮ",
    108: "Щ",
}
"""Between the regular and the bold of a humanist sans serif."""
_WIDTHS = {character: width for width, characters in _BY_WIDTH.items() for character in characters}
_BY_SCRIPT = {
    "ARABIC": 52,
    "ARMENIAN": 63,
    "BENGALI": 54,
    "DEVANAGARI": 47,
    "GEORGIAN": 64,
    "HANGUL": 92,
    "HEBREW": 57,
    "TAMIL": 85,
    "THAI": 52,
}
_WIDE = 100
_UNKNOWN = 76
_MARKS = 2
"""Marks on one letter that are shown: a tower of them would reach into other words."""

_TALL = frozenset("bdfhkltijßβδζθλξφψбёйї0123456789")
_DEEP = frozenset("gjpqy_QçβγζημξρςφχψруфцщдДЦЩ")
_HIGH_SCRIPTS = ("LATIN", "GREEK", "CYRILLIC", "DIGIT", "LOW", "MIDDLE")


class Extent(NamedTuple):
    """Hundredths of an em: to the right, above the line, and below it."""

    width: int
    above: int
    below: int


def shown(word: str, most: int = 28) -> str:
    """As it is drawn: cut, with an ellipsis, and without towers of marks."""
    kept: list[str] = []
    marks = 0
    for character in word:
        marks = marks + 1 if unicodedata.category(character) == "Mn" else 0
        if marks <= _MARKS:
            kept.append(character)
    text = "".join(kept)
    return text if len(text) <= most else text[: most - 1] + "…"


def extent(word: str) -> Extent:
    """The room of a word."""
    width, above, below = 0, 56, 3
    for character in normalized("NFC", word):
        one = _extent(character)
        width, above, below = width + one.width, max(above, one.above), max(below, one.below)
    return Extent(max(width, 30), above, below)


def _extent(character: str) -> Extent:
    if character == "…":
        return Extent(90, 20, 3)
    if unicodedata.east_asian_width(character) in "WF":
        return Extent(92 if _script(character) == "HANGUL" else _WIDE, 88, 14)
    if unicodedata.category(character) in ("Mn", "Cf"):
        return Extent(0, 98, 28)
    parts = normalized("NFD", character)
    plain, marks = parts[0], parts[1:]
    script = _script(plain)
    if script in _HIGH_SCRIPTS:
        width = _WIDTHS.get(character) or _WIDTHS.get(plain, _UNKNOWN)
        tall = 74 if plain in _TALL or plain.isupper() else 56
        return Extent(width, tall + (22 if marks else 0), 24 if character in _DEEP or plain in _DEEP else 3)
    return Extent(_BY_SCRIPT.get(script, _UNKNOWN), 92, 34)


def _script(character: str) -> str:
    return unicodedata.name(character, "").partition(" ")[0]
