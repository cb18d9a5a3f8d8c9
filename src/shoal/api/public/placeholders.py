"""The two pictures of members who have none of their own, and the icon of the site: drawn once, in a few hundred bytes each."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import cache

_SEA = ((222, 231, 237), (143, 168, 184))
"""Ground and figure, as red, green and blue."""


@cache
def avatar() -> bytes:
    """A PNG of 400 x 400: head and shoulders."""
    return _png(400, 400, lambda x, y: _in_circle(x, y, 200, 155, 78) or _in_circle(x, y, 200, 410, 160))


@cache
def header() -> bytes:
    """A PNG of 1500 x 500: two waves."""
    return _png(1500, 500, lambda x, y: _in_circle(x, y, 420, 1150, 800) or _in_circle(x, y, 1180, 1400, 1010))


@cache
def icon() -> bytes:
    """A PNG of 64 x 64 for the tabs of browsers: a round spot."""
    return _png(64, 64, lambda x, y: _in_circle(x, y, 32, 32, 26))


def _in_circle(x: int, y: int, centre_x: int, centre_y: int, radius: int) -> bool:
    return (x - centre_x) ** 2 + (y - centre_y) ** 2 < radius**2


def _png(width: int, height: int, is_figure: Callable[[int, int], bool]) -> bytes:
    """Two colours, one bit a pixel; drawn in blocks of eight pixels by two, which is fine enough for a placeholder."""
    rows = []
    for y in range(0, height, 2):
        row = bytes(0xFF if is_figure(x + 4, y) else 0 for x in range(0, width, 8))
        rows += [b"\0" + row] * 2
    palette = bytes(value for colour in _SEA for value in colour)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 3, 0, 0, 0)),
            _chunk(b"PLTE", palette),
            _chunk(b"IDAT", zlib.compress(b"".join(rows), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
