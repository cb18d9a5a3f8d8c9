"""BlurHashes as descriptors of pictures: their cosine components, and the distance of two pictures.

A BlurHash of 4 x 3 components has the lowest frequencies of a picture, as perceptual hashes by cosine transform do. It survives
another size, quality and file type. It does not survive crops, mirroring and frames.

Format: https://github.com/woltapp/blurhash/blob/master/Algorithm.md
"""

from __future__ import annotations

import math
from functools import lru_cache

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz#$%*+,-.:;=?@[]^_{|}~"
BASE83 = {digit: value for value, digit in enumerate(DIGITS)}

_DETAIL = slice(4, None)


@lru_cache(10_000)
def components(blurhash: str) -> tuple[float, ...]:
    """Return the layout, the average color and the cosine components of a blurhash; empty if it is invalid.

    The color and the components are about 0 to 1 each.
    """
    values = [BASE83.get(digit, -1) for digit in blurhash]
    if len(values) < 6 or min(values) < 0:
        return ()
    average = 0
    for value in values[2:6]:
        average = average * 83 + value
    found = [(average >> shift & 255) / 255 for shift in (16, 8, 0)]
    largest = (values[1] + 1) / 166
    for high, low in zip(values[6::2], values[7::2], strict=False):
        packed = high * 83 + low
        levels = ((part - 9) / 9 for part in (packed // 361, packed // 19 % 19, packed % 19))
        found += [math.copysign(level * level, level) * largest for level in levels]
    return (float(values[0]), *found)


def distance(one: str, other: str) -> float:
    """Return the distance of two blurhashes, 0 for equal ones; infinite if one is invalid or they have different layouts."""
    first, second = components(one), components(other)
    if not first or first[:1] != second[:1] or len(first) != len(second):
        return math.inf
    return math.dist(first, second)


def detail(blurhash: str) -> float:
    """Return the amount of detail in a picture: the length of its cosine components; 0 for a plain surface."""
    return math.hypot(*components(blurhash)[_DETAIL])
