"""The average colour of a picture, for its place on a page before it has come."""

from __future__ import annotations

from functools import lru_cache

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz#$%*+,-.:;=?@[]^_{|}~"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_NO_TINT = "#808080"


@lru_cache(50_000)
def tint_of(blurhash: str) -> str:
    """Return the average colour of a blurhash as `#rrggbb`: its characters 2 to 5 are just that, in base 83.

    Format: https://github.com/woltapp/blurhash/blob/master/Algorithm.md
    """
    value = 0
    for digit in blurhash[2:6]:
        value = value * 83 + _VALUES.get(digit, 0)
    return f"#{value & 0xFFFFFF:06x}" if len(blurhash) >= 6 else _NO_TINT
