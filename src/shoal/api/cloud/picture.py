"""The tag cloud as an SVG: light and dark, readable aloud, every word a link, without a script or a font to load."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple
from zlib import crc32

from shoal.api.cloud.layout import PlacedWord, place
from shoal.api.cloud.word_sizes import shown
from shoal.queries.context import Remembered
from shoal.queries.trends import FOR_YOU
from shoal.tagcloud.cloud import Shown, Word
from shoal.tagcloud.reader import TagCloud

_MARGIN = 36
_EMPTY = (720, 240)
_LIGHT = ("#0a6a74", "#1f5f9e", "#4a4f9c", "#b8452c", "#2f7a5b")
_DARK = ("#5fcad6", "#86baf5", "#b0b2f6", "#f79d80", "#82d3ad")
"""Sea, sky, dusk, coral, kelp: each at least 4.5 to 1 on its page."""

_STYLE = (
    ".page{fill:#fbfdfd}.none{fill:#5d7478}text{font-family:'Avenir Next','Segoe UI',Roboto,'Noto Sans',system-ui,sans-serif}"
    "a{text-decoration:none}a:hover text,a:focus text{text-decoration:underline}.s{font-weight:500}.m{font-weight:600}"
    ".b{font-weight:700}"
    + "".join(f".c{number}{{fill:{colour}}}" for number, colour in enumerate(_LIGHT))
    + "@media(prefers-color-scheme:dark){.page{fill:#0f191b}.none{fill:#93a9ad}"
    + "".join(f".c{number}{{fill:{colour}}}" for number, colour in enumerate(_DARK))
    + "}"
)


class Pictures:
    """Drawn one at a time, outside the loop; those that are the same for everybody are remembered for half a minute."""

    def __init__(self) -> None:
        self._drawn: Remembered[tuple[str, int], tuple[list[str], bytes]] = Remembered(most=64, keep_ms=30_000)
        self._drawing = asyncio.Lock()

    async def of(self, tags: TagCloud, cloud: Shown, limit: int, href: Callable[[str], str], title: str) -> bytes:
        """The picture of a cloud that was asked for with this limit. What an admin denied a moment ago is not in it."""
        key, everybodys, now = (cloud.order, limit), cloud.order != FOR_YOU, tags.clock()
        async with self._drawing:
            if everybodys and (held := self._drawn.get(key, now)) is not None:
                names, drawn = held
                if list((await tags.shown_as(names)).values()) == names:
                    return drawn
            drawn = (await asyncio.to_thread(draw, cloud.words, href, title)).encode()
            if everybodys:
                self._drawn.put(key, ([word.name for word in cloud.words], drawn), now)
            return drawn


class DrawnWord(NamedTuple):
    """A word of the picture: where it stands, and how it looks."""

    place: PlacedWord
    text: str
    colour: int
    """The number of one of the colours, from 0."""
    weight: str
    """`s`, `m` or `b`: how bold it is."""


class NamedLevel(NamedTuple):
    """A tag as far as the picture depends on it: its canonical name, the form that is shown, and its level (1 to 9)."""

    name: str
    form: str
    level: int


class Frame(NamedTuple):
    """The part of the plane that a picture shows, in pixels."""

    left: int
    top: int
    width: int
    height: int


def arranged(words: Sequence[NamedLevel]) -> tuple[Frame, list[DrawnWord]]:
    """Return where each word stands and how it looks, the first word first, and the frame around all of them."""
    texts = [shown(word.form) for word in words]
    placed = place([(text, word.level) for text, word in zip(texts, words, strict=True)])
    left, top, right, bottom = _frame(placed)
    colours = _colours(placed, words)
    # Whoever goes from link to link, or listens, meets the first tags first.
    drawn = [
        DrawnWord(one, texts[one.at], colours[one.at], _weight(words[one.at].level))
        for one in sorted(placed, key=lambda one: one.at)
    ]
    return Frame(left, top, right - left, bottom - top), drawn


def draw(words: Sequence[Word], href: Callable[[str], str], title: str) -> str:
    """An SVG document; `href` is asked for the address of each tag. The same words give the same document."""
    frame, drawn = arranged([NamedLevel(word.name, word.form, word.level) for word in words])
    body = "".join(_word(one, words[one.place.at], href) for one in drawn)
    if not drawn:
        x, y = frame.left + frame.width // 2, frame.top + frame.height // 2 + 8
        body = f'<text class="none s" x="{x}" y="{y}" font-size="22" text-anchor="middle">No tags yet</text>'
    size = (
        f'viewBox="{frame.left} {frame.top} {frame.width} {frame.height}" width="{frame.width}" height="{frame.height}"'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="group" aria-labelledby="title desc">'
        f'<title id="title">{escape(title)}</title>'
        f'<desc id="desc">A tag cloud of {len(drawn)} tags; the more a tag counts, the greater it is.</desc>'
        f"<style>{_STYLE}</style>"
        f'<rect class="page" x="{frame.left}" y="{frame.top}" width="{frame.width}" height="{frame.height}" rx="22"/>'
        f"{body}</svg>\n"
    )


def _frame(placed: Sequence[PlacedWord]) -> tuple[int, int, int, int]:
    if not placed:
        return 0, 0, *_EMPTY
    boxes = [one.box for one in placed]
    left, top = min(box[0] for box in boxes), min(box[1] for box in boxes)
    right, bottom = max(box[2] for box in boxes), max(box[3] for box in boxes)
    return left - _MARGIN, top - _MARGIN, right + _MARGIN, bottom + _MARGIN


def _colours(placed: Sequence[PlacedWord], words: Sequence[NamedLevel]) -> dict[int, int]:
    """By the index of a word: the colour whose nearest other word is the farthest away, so that none makes a heap."""
    chosen: dict[int, int] = {}
    middles: list[list[tuple[float, float]]] = [[] for _ in _LIGHT]
    for one in placed:
        x, y = one.x + one.width / 2, one.baseline
        first = crc32(words[one.at].name.encode())
        turned = [(first + step) % len(_LIGHT) for step in range(len(_LIGHT))]
        away = {colour: min((_away(x - u, y - v) for u, v in middles[colour]), default=math.inf) for colour in turned}
        colour = max(turned, key=lambda colour: away[colour])
        middles[colour].append((x, y))
        chosen[one.at] = colour
    return chosen


def _away(x: float, y: float) -> float:
    """Words are wide: beside each other they are nearer than the same distance above each other."""
    return x * x / 6 + y * y


def _weight(level: int) -> str:
    return "b" if level >= 6 else "m" if level >= 3 else "s"


def _word(drawn: DrawnWord, word: Word, href: Callable[[str], str]) -> str:
    one = drawn.place
    uses = f"#{word.form}: {word.uses:,} {'use' if word.uses == 1 else 'uses'}"
    told = f"{uses}; {word.why}" if word.why else uses
    # Set to the width that was reckoned with, whatever font there is.
    return (
        f'<a href="{escape(href(word.name))}"><title>{escape(told)}</title>'
        f'<text class="c{drawn.colour} {drawn.weight}" x="{one.x + one.width / 2:g}" y="{one.baseline:g}" font-size="{one.size:g}"'
        f' text-anchor="middle" textLength="{one.width:g}" lengthAdjust="spacingAndGlyphs">{escape(drawn.text)}</text></a>'
    )
