"""Rows of photos that fill the width of the page: where they break, and how wide each photo is.

A row scales its photos to one height. Where rows break depends on the width, which only the browser knows, so the server computes
the breaks for five ranges of widths, and the style sheet activates the breaks of one range (`styles/photos.css`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

LEAST_RATIO, MOST_RATIO, _STEP = 0.5, 2.5, 0.05
"""Aspect ratios of photos, with a CSS class for each step; wider and taller photos are cropped at their focal point."""


class WidthRange(NamedTuple):
    """A range of widths of the page."""

    css_class: str
    begin: int
    """Its smallest width in pixels."""
    target: float
    """The sum of aspect ratios that a row should have."""


WIDTHS = (
    WidthRange("in-xs", 0, 2.5),
    WidthRange("in-s", 460, 3.2),
    WidthRange("in-m", 700, 4.2),
    WidthRange("in-l", 920, 5.2),
    WidthRange("in-xl", 1_140, 6.0),
)
"""The ranges of widths, narrowest first."""
_TARGETS = {width.css_class: width.target for width in WIDTHS}
_PAGE = 1_000
"""About the width in pixels of a page of rows on a desktop. On narrower screens, rows are about as high, with fewer photos."""
_POST = 680
"""The maximum width in pixels of a post."""
_PHONE = 390
_SHARPNESS = 0.74
"""Pixels of a file per pixel of a phone's screen, at least. Browsers choose the next larger file, and phones have two or three
pixels per CSS pixel, of which the eye does not need all: a photo as wide as the screen is then a file a third as large."""
_BASIS = 190
"""Height in pixels at which a post of a few photos breaks its rows (`styles/photos.css`)."""
_GAP = 3
MANY = 5
"""Photos of a post from which they are arranged in rows that the server computes."""


def cropped(ratio: float) -> float:
    """Return the aspect ratio at which a photo is shown."""
    return min(max(ratio, LEAST_RATIO), MOST_RATIO)


def ratio_class(ratio: float) -> str:
    """Return the CSS class for photos of an aspect ratio, such as `r150` for 1.5."""
    near = round(cropped(ratio) / _STEP) * _STEP
    return f"r{round(near * 100):03}"


def ratio_of(css_class: str) -> float:
    """Return the aspect ratio for a CSS class, such as 1.5 for `r150`."""
    return int(css_class[1:]) / 100


def row_breaks(ratios: Sequence[float], scale: float = 1.0) -> list[str]:
    """Return, for each photo, the CSS classes of the widths at which a row ends after it.

    For `scale`, see `in_rows`.
    """
    ends = {width.css_class: row_ends(tuple(ratios), scale * width.target) for width in WIDTHS}
    return [" ".join(name for name, found in ends.items() if n in found) for n in range(len(ratios))]


@lru_cache(1_000)
def grid_sizes(ratios: tuple[float, ...], scale: float = 1.0, few: float = 1.0) -> list[str]:
    """Return, for each photo of a grid, the attribute `sizes`, by which browsers choose a file. For arguments see `in_rows`."""
    phone, desktop = (
        _shares(ratios, row_ends(ratios, scale * _TARGETS[name]), few * _TARGETS[name]) for name in ("in-xs", "in-l")
    )
    return [_sizes(narrow, _PAGE * wide) for narrow, wide in zip(phone, desktop, strict=True)]


@lru_cache(1_000)
def post_sizes(ratios: tuple[float, ...]) -> list[str]:
    """Return, for each photo of a post, the attribute `sizes`, by which browsers choose a file."""
    if len(ratios) < MANY:
        rows = (_few_ends(ratios, _PHONE), _few_ends(ratios, _POST))
    else:
        rows = (row_ends(ratios, _TARGETS["in-xs"]), row_ends(ratios, _TARGETS["in-s"]))
    phone, desktop = (_shares(ratios, ends) for ends in rows)
    return [_sizes(narrow, _POST * wide) for narrow, wide in zip(phone, desktop, strict=True)]


def _sizes(share: float, pixels: float) -> str:
    return f"(min-width: {WIDTHS[1].begin}px) {pixels:.0f}px, {100 * share * _SHARPNESS:.0f}vw"


def _few_ends(ratios: tuple[float, ...], width: int) -> frozenset[int]:
    """Return the positions of the photos after which a flex box of this width (in pixels) breaks the row."""
    ends, row = set[int](), 0.0
    for n, ratio in enumerate(ratios):
        basis = _BASIS * ratio + _GAP
        if row and row + basis > width + _GAP:
            ends.add(n - 1)
            row = 0.0
        row += basis
    return frozenset(ends)


def _shares(ratios: tuple[float, ...], ends: frozenset[int], least: float = 0.0) -> list[float]:
    """Return the fraction of the row's width that each photo fills.

    The photos do not fill the row if the sum of all aspect ratios is less than `least`.
    """
    shares: list[float] = []
    least = least if sum(ratios) < least else 0.0
    for end in sorted({*ends, len(ratios) - 1}) if ratios else ():
        row = ratios[len(shares) : end + 1]
        shares += [ratio / max(sum(row), least) for ratio in row]
    return shares


def rows_height(ratios: Sequence[float], width: float, gap: float) -> float:
    """Return the height of the rows of these photos, each with a gap below it, at a width; all in pixels."""
    target = next(found.target for found in reversed(WIDTHS) if width >= found.begin)
    height, row = 0.0, 0.0
    ends = row_ends(tuple(ratios), target) | {len(ratios) - 1}
    for n, ratio in enumerate(ratios):
        row += ratio
        if n in ends:
            height, row = height + width / row + gap, 0.0
    return height


@lru_cache(1_000)
def row_ends(ratios: tuple[float, ...], target: float) -> frozenset[int]:
    """Return the positions of the photos that end a row, except for the last row.

    The rows minimize the sum of squared logarithms of their heights, relative to a row whose aspect ratios add up to `target`.
    The last row counts like the others. The algorithm is that of Knuth and Plass, "Breaking Paragraphs into Lines" (1981).
    """
    best = [(0.0, 0)]
    for end in range(1, len(ratios) + 1):
        total, options = 0.0, []
        for start in range(end - 1, -1, -1):
            total += ratios[start]
            options.append((best[start][0] + math.log(total / target) ** 2, start))
            if total > 2 * target:
                break
        best.append(min(options))
    ends, at = set[int](), len(ratios)
    while at:
        at = best[at][1]
        ends.add(at - 1)
    return frozenset(ends - {-1})
