"""A picture as some thirty characters: the blur that is shown until the picture has come.

The formula is https://github.com/woltapp/blurhash/blob/master/Algorithm.md: a discrete cosine transform of the linear colours.
Plain Python on a picture of 32 x 32 takes 1 ms; NumPy would double the memory and the start of every child.
"""

from __future__ import annotations

from math import copysign, cos, floor, pi, sqrt

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz#$%*+,-.:;=?@[]^_{|}~"
_LINEAR = [v / 255 / 12.92 if v / 255 <= 0.04045 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in range(256)]

Colour = tuple[float, float, float]
"""Red, green and blue: linear light, or a cosine's share of it."""


def encode(rgb: bytes, width: int, height: int, across: int = 4, down: int = 3) -> str:
    """The blurhash of `width * height * 3` bytes, sRGB row by row, with `across` x `down` components (1..9 each)."""
    channels = [_transform(rgb[start::3], width, height, across, down) for start in range(3)]
    first, *rest = zip(*channels, strict=True)
    loudest = max((abs(value) for colour in rest for value in colour), default=0.0)
    step = max(0, min(82, floor(loudest * 166 - 0.5))) if rest else 0
    scale = (step + 1) / 166
    parts = [_base83(across - 1 + (down - 1) * 9, 1), _base83(step, 1), _base83(_average(first), 4)]
    return "".join(parts + [_base83(_detail(colour, scale), 2) for colour in rest])


def _transform(values: bytes, width: int, height: int, across: int, down: int) -> list[float]:
    """The cosine shares of one channel, row by row. First along the rows, then along the columns: that is the same sum."""
    horizontal, vertical = _cosines(width, across), _cosines(height, down)
    light = [_LINEAR[value] for value in values]
    rows = [light[start : start + width] for start in range(0, width * height, width)]
    columns = [[_dot(wave, row) for row in rows] for wave in horizontal]
    return [
        _dot(wave, column) * (1 if x == y == 0 else 2) / (width * height)
        for y, wave in enumerate(vertical)
        for x, column in enumerate(columns)
    ]


def _cosines(length: int, count: int) -> list[list[float]]:
    return [[cos(pi * wave * at / length) for at in range(length)] for wave in range(count)]


def _dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _average(colour: Colour) -> int:
    red, green, blue = (_to_srgb(value) for value in colour)
    return (red << 16) + (green << 8) + blue


def _detail(colour: Colour, scale: float) -> int:
    """Three steps of 0..18 around 9; the square root spends more of them on faint detail."""
    red, green, blue = (max(0, min(18, floor(_signed_root(value / scale) * 9 + 9.5))) for value in colour)
    return (red * 19 + green) * 19 + blue


def _signed_root(value: float) -> float:
    return copysign(sqrt(abs(value)), value)


def _to_srgb(value: float) -> int:
    value = max(0.0, min(1.0, value))
    gamma = value * 12.92 if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
    return int(gamma * 255 + 0.5)


def _base83(value: int, length: int) -> str:
    return "".join(_DIGITS[value // 83**power % 83] for power in reversed(range(length)))
