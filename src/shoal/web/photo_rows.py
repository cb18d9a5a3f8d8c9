"""Rows of photos that fill the width of the page: where they break.

All photos of a row are scaled to one height. The best breaks depend on the width of the page, which only the browser
knows. The server therefore computes the breaks for five ranges of widths, and the style sheet uses those of the current
range (`styles/photos.css`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

WIDTHS = {"in-xs": 2.5, "in-s": 3.2, "in-m": 4.2, "in-l": 5.2, "in-xl": 6.0}
"""Ranges of widths, narrowest first: the CSS class of each, and the sum of the aspect ratios that a row should have."""
_PIXELS = (460, 700, 920, 1_140)
"""Widths in pixels at which the second to the fifth range begin."""


def row_breaks(ratios: Sequence[float], scale: float = 1.0) -> list[str]:
    """Return, for each photo, the CSS classes of the widths at which a row ends after it.

    `scale` is the number of photos in a row as a fraction of the usual number.
    """
    ends = {name: row_ends(tuple(ratios), scale * target) for name, target in WIDTHS.items()}
    return [" ".join(name for name, found in ends.items() if n in found) for n in range(len(ratios))]


def rows_height(ratios: Sequence[float], width: float, gap: float) -> float:
    """Return the height of all rows of these photos at a width, with the gap below each row. All lengths are in pixels."""
    target = tuple(WIDTHS.values())[sum(width >= edge for edge in _PIXELS)]
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

    The rows minimize the sum of squared logarithms of their heights, relative to a row whose aspect ratios add up to `target`: as
    in Knuth and Plass, "Breaking Paragraphs into Lines" (1981), the last row is as full as the others.
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
