"""Blurhashes compared with the reference implementation (the package `blurhash` 1.1.5)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.media.render import encode

DIGITS = set("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz#$%*+,-.:;=?@[]^_{|}~")


def test_blurhash_of_gradient_equals_the_reference() -> None:
    pixels = bytes(value for y in range(24) for x in range(32) for value in (x * 8, y * 10, 255 - x * 8))
    assert encode(pixels, 32, 24) == "L.H27=77w%XAmHWYjuf8gJfjfQfj"


def test_blurhash_of_chequered_image_equals_the_reference() -> None:
    red, blue = (255, 0, 0), (0, 40, 255)
    pixels = bytes(v for y in range(16) for x in range(16) for v in (red if (x < 8) != (y < 8) else blue))
    assert encode(pixels, 16, 16) == "L+Lkcbw~fQw~w~2gOG#%fQOGWrn~"


def test_blurhash_of_black_image_equals_the_reference() -> None:
    assert encode(bytes(48), 4, 4) == "L00000fQfQfQfQfQfQfQfQfQfQfQ"


@given(st.binary(min_size=3 * 6 * 4, max_size=3 * 6 * 4))
def test_blurhash_of_any_image_has_28_allowed_characters(pixels: bytes) -> None:
    made = encode(pixels, 6, 4)
    assert len(made) == 28
    assert set(made) <= DIGITS


def test_blurhash_with_one_component_is_the_average_color() -> None:
    assert len(encode(bytes([200, 100, 50]) * 4, 2, 2, 1, 1)) == 6
