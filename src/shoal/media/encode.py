"""How a decoded picture is stored: as which kind, and with which smaller copy beside it.

A picture that came lossless (PNG, GIF, lossless WebP) stays so when it is no photograph: text and edges suffer from JPEG, and
flat areas are small without loss. A photograph that came as PNG becomes a JPEG of a fifth of the size. Files hold pixels
only: Pillow writes some of `info` (comments, profiles) without being asked, so that is emptied.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

# WebP's plugin is for its effect: else Pillow goes through all of its formats when the first WebP comes.
from PIL import AvifImagePlugin, Image, ImageChops, WebPImagePlugin, features  # noqa: F401 - as said above

from shoal.media.protocol import Made, Picture
from shoal.media.sniff import AVIF, HEAD, JPEG, PNG, WEBP, is_lossless, sniff

AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # The processor-time limit counts threads together.
ORIGINAL_QUALITY: Final = 92
"""JPEG and WebP quality of a picture that is kept in all of its pixels."""
_FLAT: Final = 0.55
_TIMES_JPEG: Final = 4.0
"""No photograph: more than `_FLAT` of the pixels equal their left neighbour, and the preview as PNG has less than `_TIMES_JPEG`
the bytes of one as JPEG. Photographs with as many flat pixels (night skies) have 4.5 times the bytes and more; drawings and
screenshots 0.3 to 3.9."""
_WORTH: Final = 0.9
"""A copy must be smaller than this share of what it stands beside."""
_COPY: Final = (AVIF, ".avif", 60) if features.check("avif") else (WEBP, ".webp", 78)
"""Kind, suffix and quality of copies. The qualities look like JPEG's 82. A copy in AVIF has half the bytes of the JPEG, one in
WebP two thirds, in the same time; some builds of Pillow lack AVIF."""
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    # Speed 9 takes a sixth of the time of speed 6, at the same size.
    AVIF: {"speed": 9},
    JPEG: {"optimize": True, "progressive": True},
    WEBP: {"method": 4},
}
_LOSSLESS: Final[dict[str, dict[str, Any]]] = {
    PNG: {},
    # Of a lossless WebP, `quality` is the effort.
    WEBP: {"lossless": True, "quality": 40, "method": 2},
}


class Style(NamedTuple):
    """How all sizes of one picture are stored."""

    content_type: Made
    lossless: bool


def style_of(data: bytes, feed: Image.Image, preview: Image.Image, *, keep_kind: bool = False) -> Style:
    """How to store what was made of the file `data`: as it came when that was lossless and is no photograph.

    Otherwise as JPEG, or as WebP for a picture with transparency.
    """
    if is_lossless(data) and (keep_kind or not _is_photograph(feed, preview)):
        return Style(WEBP if sniff(data[:HEAD]) == WEBP else PNG, lossless=True)
    return Style(WEBP if feed.mode == "RGBA" else JPEG, lossless=False)


def encoded(image: Image.Image, style: Style, quality: int, *, copy: bool = True) -> Picture:
    """The file, and beside a JPEG its smaller copy where that is worth its place."""
    image.info = {}
    data = _lossless(image, style.content_type) if style.lossless else _saved(image, style.content_type, quality)
    picture = Picture(data=data, width=image.width, height=image.height)
    if not copy or style.content_type != JPEG:
        return picture
    kind, suffix, copy_quality = _COPY
    smaller = _saved(image, kind, copy_quality)
    if len(smaller) > _WORTH * len(data):
        return picture
    return Picture(data, image.width, image.height, copy=smaller, copy_suffix=suffix)


def encoded_animation(frames: Sequence[Image.Image], milliseconds: Sequence[int], loop: int, quality: int) -> Picture:
    """Return the file of an animation, which plays `loop` times; 0: for ever."""
    first, *others = frames
    file = io.BytesIO()
    options: dict[str, Any] = {"quality": quality, "method": 2, "loop": loop, "duration": list(milliseconds)}
    first.save(file, "WEBP", save_all=True, append_images=others, **options)
    return Picture(data=file.getvalue(), width=first.width, height=first.height)


def _is_photograph(feed: Image.Image, preview: Image.Image) -> bool:
    times = len(_lossless(preview, PNG)) / len(_saved(_opaque(preview), JPEG, 82))
    return times > 1 and (times >= _TIMES_JPEG or _flatness(_opaque(feed)) < _FLAT)


def _flatness(image: Image.Image) -> float:
    """The share of pixels that equal their left neighbour."""
    width, height = image.size
    if width == 1:
        return 1.0
    change, *others = ImageChops.difference(
        image.crop((1, 0, width, height)), image.crop((0, 0, width - 1, height))
    ).split()
    for other in others:
        change = ImageChops.lighter(change, other)
    return change.histogram()[0] / (change.width * change.height)


def _opaque(image: Image.Image) -> Image.Image:
    """Put a transparent picture on white; return any other as it is."""
    if image.mode != "RGBA":
        return image
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


def _lossless(image: Image.Image, kind: str) -> bytes:
    return _written(_with_palette(image) if kind == PNG else image, kind, _LOSSLESS[kind])


def _with_palette(image: Image.Image) -> Image.Image:
    """With a byte for each pixel instead of three, where that loses nothing."""
    if image.mode != "RGB" or image.getcolors(256) is None:
        return image
    palette = image.quantize(256)
    same = ImageChops.difference(palette.convert("RGB"), image).getbbox() is None
    return palette if same else image


def _saved(image: Image.Image, kind: str, quality: int) -> bytes:
    return _written(image, kind, {"quality": quality, **_OPTIONS[kind]})


def _written(image: Image.Image, kind: str, options: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    image.save(file, kind.removeprefix("image/").upper(), **options)
    return file.getvalue()
