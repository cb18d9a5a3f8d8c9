"""Where the words of a tag cloud go: each as near to the middle as there is room, the greatest first. No two touch.

What others do by walking a spiral (Feinberg, "Wordle", in: Beautiful Visualization, 2010) is done on a grid at once: where a word
fits is read off a table of sums (Crow 1984), and of all those places the one nearest to the middle is taken. The same words
give the same picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.api.cloud.word_sizes import Extent, extent

_CELL = 5
_COLUMNS, _ROWS = 300, 200
_FLAT = 1.75
"""How much wider than high the cloud is."""
_INK = 470_000
"""The area that the boxes of all words cover together, approximately; a box is scaled to reach it."""
_SMALLEST, _GREATEST = 13.0, 92.0
_STEPS = 7.0
"""How many times greater the first level is drawn than the last."""
_WIDEST = 760
_GAP_X, _GAP_Y = 7, 4


class PlacedWord(NamedTuple):
    """A word in the picture: which one, its size, where its line begins and how wide it is set, in pixels."""

    at: int
    size: float
    x: int
    baseline: float
    width: float
    box: tuple[int, int, int, int]
    """Left, top, right, bottom, with the gaps around it."""


def place(words: Sequence[tuple[str, int]]) -> list[PlacedWord]:
    """Words with their levels (1 to 9), the first first. One for which there is no room is left out."""
    rooms = [extent(word) for word, _ in words]
    sizes = _sizes(rooms, [level for _, level in words])
    order = sorted(range(len(words)), key=lambda index: (-sizes[index], index))
    taken = np.zeros((_ROWS, _COLUMNS), dtype=np.int32)
    found = (_settle(taken, index, rooms[index], sizes[index]) for index in order)
    return [placed for placed in found if placed is not None]


def _sizes(rooms: Sequence[Extent], levels: Sequence[int]) -> list[float]:
    """Font sizes in pixels: few words are drawn greater than many, and none is wider than the picture bears."""
    wanted = [_STEPS ** ((level - 1) / 8) for level in levels]
    area = sum(
        (room.width + 40) * (room.above + room.below + 20) / 10_000 * size * size
        for room, size in zip(rooms, wanted, strict=True)
    )
    scale = math.sqrt(_INK / area) if area else 1.0
    scale = min(scale, _GREATEST / max(wanted, default=1.0))
    return [
        min(max(_SMALLEST, scale * size), _WIDEST * 100 / room.width) for room, size in zip(rooms, wanted, strict=True)
    ]


def _settle(taken: NDArray[np.int32], index: int, room: Extent, size: float) -> PlacedWord | None:
    width, above, below = (part * size / 100 for part in room)
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
    # In the middle of its cells, which are a little more than it needs.
    x = left + round((columns * _CELL - width) / 2)
    baseline = round(top + (rows * _CELL - above - below) / 2 + above, 1)
    return PlacedWord(
        index, round(size, 1), x, baseline, round(width, 1), (left, top, left + columns * _CELL, top + rows * _CELL)
    )
