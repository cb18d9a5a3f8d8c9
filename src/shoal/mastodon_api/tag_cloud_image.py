"""The tag cloud as an SVG: light and dark, accessible, each word a link, without a script or font to load.

Words are placed by decreasing size, each as close to the center as possible, without overlap. A summed-area table of a
grid (Crow 1984) shows where a word fits, where Feinberg ("Wordle", in: Beautiful Visualization, 2010) walks a spiral.
The image is deterministic.

Lengths are in hundredths of an em. They are estimated without a font, to within a few per cent for sans serifs of the
scripts in the tables. The SVG gives each word its estimated width, so words do not touch in any font.
"""

from __future__ import annotations

import asyncio
import math
import unicodedata
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from shoal.core.text import normalized
from shoal.queries.context import ExpiringCache
from shoal.queries.trends import FOR_YOU
from shoal.tagcloud.cloud import Shown, Word
from shoal.tagcloud.reader import TagCloud

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
"""Characters by width. The widths are between those of the regular and the bold weight of a humanist sans serif."""
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
"""Maximum number of combining marks per letter. A higher stack of marks would overlap other words."""

_TALL = frozenset("bdfhkltijßβδζθλξφψбёйї0123456789")
_DEEP = frozenset("gjpqy_QçβγζημξρςφχψруфцщдДЦЩ")
_HIGH_SCRIPTS = ("LATIN", "GREEK", "CYRILLIC", "DIGIT", "LOW", "MIDDLE")


class Extent(NamedTuple):
    width: int
    above: int
    below: int


def shown(word: str, most: int = 28) -> str:
    """Return a word as the image shows it: at most `most` characters, with at most two combining marks per letter."""
    visible: list[str] = []
    marks = 0
    for character in word:
        marks = marks + 1 if unicodedata.category(character) == "Mn" else 0
        if marks <= _MARKS:
            visible.append(character)
    text = "".join(visible)
    return text if len(text) <= most else text[: most - 1] + "…"


def extent(word: str) -> Extent:
    width, above, below = 0, 56, 3
    for character in normalized("NFC", word):
        character_extent = _extent(character)
        width, above, below = (
            width + character_extent.width,
            max(above, character_extent.above),
            max(below, character_extent.below),
        )
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


_CELL = 5
_COLUMNS, _ROWS = 300, 200
_FLAT = 1.75
"""The width of the cloud divided by its height."""
_INK = 470_000
_SMALLEST, _GREATEST = 13.0, 92.0
_STEPS = 7.0
"""The largest font size divided by the smallest."""
_WIDEST = 760
_GAP_X, _GAP_Y = 7, 4


class PlacedWord(NamedTuple):
    """A word in the image: its index, font size, left edge, baseline and width, in pixels."""

    at: int
    size: float
    x: int
    baseline: float
    width: float
    box: tuple[int, int, int, int]
    """Left, top, right and bottom, including the gaps."""


def place(words: Sequence[tuple[str, int]]) -> list[PlacedWord]:
    """Lay out words with their levels (1 to 9), most important first. Words that do not fit are omitted."""
    extents = [extent(word) for word, _ in words]
    sizes = _sizes(extents, [level for _, level in words])
    order = sorted(range(len(words)), key=lambda index: (-sizes[index], index))
    taken = np.zeros((_ROWS, _COLUMNS), dtype=np.int32)
    found = (_settle(taken, index, extents[index], sizes[index]) for index in order)
    return [placed for placed in found if placed is not None]


def _sizes(extents: Sequence[Extent], levels: Sequence[int]) -> list[float]:
    """Return the font size of each word in pixels. Fewer words get larger sizes, but no word becomes wider than the image."""
    relative = [_STEPS ** ((level - 1) / 8) for level in levels]
    area = sum(
        (space.width + 40) * (space.above + space.below + 20) / 10_000 * size * size
        for space, size in zip(extents, relative, strict=True)
    )
    scale = math.sqrt(_INK / area) if area else 1.0
    scale = min(scale, _GREATEST / max(relative, default=1.0))
    return [
        min(max(_SMALLEST, scale * size), _WIDEST * 100 / space.width)
        for space, size in zip(extents, relative, strict=True)
    ]


def _settle(taken: NDArray[np.int32], index: int, space: Extent, size: float) -> PlacedWord | None:
    width, above, below = (part * size / 100 for part in space)
    columns, rows = math.ceil((width + 2 * _GAP_X) / _CELL), math.ceil((above + below + 2 * _GAP_Y) / _CELL)
    if columns > _COLUMNS or rows > _ROWS:
        return None
    sums = np.zeros((_ROWS + 1, _COLUMNS + 1), dtype=np.int32)
    np.cumsum(np.cumsum(taken, axis=0, dtype=np.int32), axis=1, out=sums[1:, 1:])
    filled = sums[rows:, columns:] - sums[:-rows, columns:] - sums[rows:, :-columns] + sums[:-rows, :-columns]
    away_x = (np.arange(_COLUMNS - columns + 1) + columns / 2 - _COLUMNS / 2) / _FLAT
    away_y = np.arange(_ROWS - rows + 1) + rows / 2 - _ROWS / 2
    cost = np.where(filled == 0, away_x[None, :] ** 2 + away_y[:, None] ** 2, np.inf)
    row, column = divmod(int(cost.argmin()), cost.shape[1])
    if not math.isfinite(cost[row, column]):
        return None
    taken[row : row + rows, column : column + columns] = 1
    left, top = column * _CELL, row * _CELL
    # Center the word in its cells, which are slightly wider than the word.
    x = left + round((columns * _CELL - width) / 2)
    baseline = round(top + (rows * _CELL - above - below) / 2 + above, 1)
    return PlacedWord(
        index, round(size, 1), x, baseline, round(width, 1), (left, top, left + columns * _CELL, top + rows * _CELL)
    )


_MARGIN = 36
_EMPTY = (720, 240)
_LIGHT = ("#0a6a74", "#1f5f9e", "#4a4f9c", "#b8452c", "#2f7a5b")
_DARK = ("#5fcad6", "#86baf5", "#b0b2f6", "#f79d80", "#82d3ad")
"""Colors of the words on a dark background: sea, sky, dusk, coral, kelp. Each has a contrast of at least 4.5:1."""

_STYLE = (
    ".page{fill:#fbfdfd}.none{fill:#5d7478}text{font-family:'Avenir Next','Segoe UI',Roboto,'Noto Sans',system-ui,sans-serif}"
    "a{text-decoration:none}a:hover text,a:focus text{text-decoration:underline}.s{font-weight:500}.m{font-weight:600}"
    ".b{font-weight:700}"
    + "".join(f".c{number}{{fill:{color}}}" for number, color in enumerate(_LIGHT))
    + "@media(prefers-color-scheme:dark){.page{fill:#0f191b}.none{fill:#93a9ad}"
    + "".join(f".c{number}{{fill:{color}}}" for number, color in enumerate(_DARK))
    + "}"
)


class Pictures:
    """Draws images of tag clouds, one at a time, in a thread.

    An image that is not personalized is cached for 30 seconds.
    """

    def __init__(self) -> None:
        self._rendered: ExpiringCache[tuple[str, int], tuple[list[str], bytes]] = ExpiringCache(most=64, keep_ms=30_000)
        self._drawing = asyncio.Lock()

    async def of(self, tags: TagCloud, cloud: Shown, limit: int, href: Callable[[str], str], title: str) -> bytes:
        """Return the image of a tag cloud.

        A cached image with the same `cloud.order` and `limit` is returned, unless an admin has denied one of its tags since.
        """
        key, everybodys, now = (cloud.order, limit), cloud.order != FOR_YOU, tags.clock()
        async with self._drawing:
            if everybodys and (cached := self._rendered.get(key, now)) is not None:
                names, rendered = cached
                if list((await tags.shown_as(names)).values()) == names:
                    return rendered
            rendered = (await asyncio.to_thread(draw, cloud.words, href, title)).encode()
            if everybodys:
                self._rendered.put(key, ([word.name for word in cloud.words], rendered), now)
            return rendered


class LaidOutWord(NamedTuple):
    """A word of the image with its position and style."""

    place: PlacedWord
    text: str
    color: int
    """Index of the word's color."""
    weight: str
    """Font weight: `s`, `m` or `b`."""


class NamedLevel(NamedTuple):
    name: str
    form: str
    level: int


class Frame(NamedTuple):
    """The visible area of the image, in pixels."""

    left: int
    top: int
    width: int
    height: int


def arranged(words: Sequence[NamedLevel]) -> tuple[Frame, list[LaidOutWord]]:
    """Return the positions and styles of the words, in the order of the words, and the area that they cover."""
    texts = [shown(word.form) for word in words]
    placed = place([(text, word.level) for text, word in zip(texts, words, strict=True)])
    left, top, right, bottom = _frame(placed)
    colors = _colors(placed, words)
    # Sort by importance, because keyboard navigation and screen readers follow the order in the file.
    rendered = [
        LaidOutWord(word_place, texts[word_place.at], colors[word_place.at], _weight(words[word_place.at].level))
        for word_place in sorted(placed, key=lambda word_place: word_place.at)
    ]
    return Frame(left, top, right - left, bottom - top), rendered


def draw(words: Sequence[Word], href: Callable[[str], str], title: str) -> str:
    """Return an SVG image of the words. `href` returns the URL of a tag. The image is determined by the arguments."""
    frame, rendered = arranged([NamedLevel(word.name, word.form, word.level) for word in words])
    body = "".join(_word(rendered_word, words[rendered_word.place.at], href) for rendered_word in rendered)
    if not rendered:
        x, y = frame.left + frame.width // 2, frame.top + frame.height // 2 + 8
        body = f'<text class="none s" x="{x}" y="{y}" font-size="22" text-anchor="middle">No tags yet</text>'
    size = (
        f'viewBox="{frame.left} {frame.top} {frame.width} {frame.height}" width="{frame.width}" height="{frame.height}"'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="group" aria-labelledby="title desc">'
        f'<title id="title">{escape(title)}</title>'
        f'<desc id="desc">A tag cloud of {len(rendered)} tags; the more a tag counts, the greater it is.</desc>'
        f"<style>{_STYLE}</style>"
        f'<rect class="page" x="{frame.left}" y="{frame.top}" width="{frame.width}" height="{frame.height}" rx="22"/>'
        f"{body}</svg>\n"
    )


def _frame(placed: Sequence[PlacedWord]) -> tuple[int, int, int, int]:
    if not placed:
        return 0, 0, *_EMPTY
    boxes = [word.box for word in placed]
    left, top = min(box[0] for box in boxes), min(box[1] for box in boxes)
    right, bottom = max(box[2] for box in boxes), max(box[3] for box in boxes)
    return left - _MARGIN, top - _MARGIN, right + _MARGIN, bottom + _MARGIN


def _colors(placed: Sequence[PlacedWord], words: Sequence[NamedLevel]) -> dict[int, int]:
    chosen: dict[int, int] = {}
    middles: list[list[tuple[float, float]]] = [[] for _ in _LIGHT]
    for word in placed:
        x, y = word.x + word.width / 2, word.baseline
        first = crc32(words[word.at].name.encode())
        turned = [(first + step) % len(_LIGHT) for step in range(len(_LIGHT))]
        away = {color: min((_away(x - u, y - v) for u, v in middles[color]), default=math.inf) for color in turned}
        color = max(turned, key=lambda color: away[color])
        middles[color].append((x, y))
        chosen[word.at] = color
    return chosen


def _away(x: float, y: float) -> float:
    """Return the squared distance of two words, for choosing their colors. `x` counts less than `y`, because words are wide."""
    return x * x / 6 + y * y


def _weight(level: int) -> str:
    return "b" if level >= 6 else "m" if level >= 3 else "s"


def _word(rendered: LaidOutWord, word: Word, href: Callable[[str], str]) -> str:
    box = rendered.place
    uses = f"#{word.form}: {word.uses:,} {'use' if word.uses == 1 else 'uses'}"
    tooltip = f"{uses}; {word.why}" if word.why else uses
    # `textLength` makes every browser draw the word at its estimated width, in whatever font.
    return (
        f'<a href="{escape(href(word.name))}"><title>{escape(tooltip)}</title>'
        f'<text class="c{rendered.color} {rendered.weight}" x="{box.x + box.width / 2:g}" y="{box.baseline:g}"'
        f' font-size="{box.size:g}"'
        f' text-anchor="middle" textLength="{box.width:g}" lengthAdjust="spacingAndGlyphs">{escape(rendered.text)}</text></a>'
    )
