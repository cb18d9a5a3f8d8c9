"""Rendering of an uploaded picture into the sizes that are shown.

Only this module and `encode.py` import Pillow; only `worker.py` imports them.

The result is upright, in sRGB, and carries no metadata: no EXIF, GPS, XMP, IPTC, profile, comment or text. An animation stays
one, as WebP; its preview is the first frame. Whatever the input, the only errors are `InvalidInput` (and its kinds) and
`MemoryError`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib import import_module
from itertools import islice
from math import ceil, sqrt
from typing import Final

from PIL import ExifTags, Image, ImageCms, ImageOps, ImageSequence

from shoal.core.errors import InvalidInput, ShoalError
from shoal.media import blurhash
from shoal.media.encode import ORIGINAL_QUALITY, Style, encoded, encoded_animation, style_of
from shoal.media.limits import UploadLimits
from shoal.media.protocol import Crop, Rendering
from shoal.media.sniff import HEAD, HEIC, JPEG, WEBP, sniff

Image.MAX_IMAGE_PIXELS = None  # `Limits.max_pixels` is the one limit, with our words.
BLURHASH_EDGE: Final = 32
"""Pixels of the longer edge. A blurhash has 4 x 3 components: more pixels make no visible difference."""
_TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""EXIF orientation (CIPA DC-008, 4.6.5) to the transposition that makes the picture upright."""
_ANIMATED: Final = Style(WEBP, lossless=False)
_SLOWEST_MS, _LONGEST_MS, _MOST_LOOPS = (1 << 24) - 1, (1 << 31) - 1, (1 << 16) - 1
"""Maximum of a frame and of all frames in libwebp, and of repetitions in a WebP."""
_FASTEST_MS, _USUAL_MS = 10, 100
"""Browsers show a frame of 10 ms or less for 100 ms."""
_END_OF_JPEG: Final = b"\xff\xd9"
_FILLER: Final = b"\x5a\xc3\x96\x69" * 64
_SRGB: Final = ImageCms.createProfile("sRGB")


def render(data: bytes, limits: UploadLimits, *, keep_kind: bool = False, still: bool = False) -> Rendering:
    """Make the feed size, the preview size and the blurhash of an uploaded file. Arguments: see `protocol.RenderJob`."""
    with _damage_named():
        image = _opened(data, limits)
        if not still and _is_animated(image):
            return _rendered_animation(image, limits)
        whole = max(image.size) if limits.keep_originals else 0
        # Read once: a file that has been decoded smaller cannot be decoded whole any more.
        original = _fitted(image, whole) if whole > limits.feed_edge else None
        feed = _fitted(image, limits.feed_edge) if original is None else _scaled(original, limits.feed_edge)
        preview = _scaled(feed, limits.preview_edge)
        style = style_of(data, feed, preview, keep_kind=keep_kind)
        return Rendering(
            feed=encoded(feed, style, limits.quality),
            preview=encoded(preview, style, limits.quality),
            content_type=style.content_type,
            blurhash=_blurhash(preview),
            original=None if original is None else encoded(original, style, ORIGINAL_QUALITY, copy=False),
        )


def crop(data: bytes, limits: UploadLimits, size: tuple[int, int]) -> Crop:
    """Cut the middle out of an uploaded file in the shape of `size` (width, height), in pixels.

    A small one is not enlarged.
    """
    with _damage_named():
        image = _opened(data, limits)
        if _is_animated(image):
            return _cropped_animation(image, limits, size)
        # Square, because EXIF may yet turn it.
        image.draft(None, (max(size), max(size)))
        cut = _cut(_upright(_plain(image)), size)
        style = style_of(data, cut, cut)
        return Crop(picture=encoded(cut, style, limits.quality), content_type=style.content_type)


def _cut(upright: Image.Image, size: tuple[int, int]) -> Image.Image:
    scale = min(1.0, upright.width / size[0], upright.height / size[1])
    target = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
    return _in_srgb(ImageOps.fit(upright, target, Image.Resampling.LANCZOS))


def _is_animated(image: Image.Image) -> bool:
    # The pictures of a JPEG or HEIC are no frames: they are views, gain maps and bursts.
    return image.format in {"GIF", "PNG", "WEBP", "AVIF"} and bool(getattr(image, "is_animated", False))


def _rendered_animation(image: Image.Image, limits: UploadLimits) -> Rendering:
    edge = _animated_edge(image, limits)
    frames, milliseconds = _frames(image, lambda frame: _scaled(_in_srgb(frame), edge))
    preview = _scaled(frames[0], limits.preview_edge)
    return Rendering(
        feed=encoded_animation(frames, milliseconds, _loop(image), limits.quality),
        preview=encoded(preview, _ANIMATED, limits.quality),
        content_type=_ANIMATED.content_type,
        blurhash=_blurhash(preview),
    )


def _cropped_animation(image: Image.Image, limits: UploadLimits, size: tuple[int, int]) -> Crop:
    scale = min(1.0, _animated_edge(image, limits) / max(size))
    small = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
    frames, milliseconds = _frames(image, lambda frame: _cut(frame, small))
    return Crop(
        picture=encoded_animation(frames, milliseconds, _loop(image), limits.quality),
        content_type=_ANIMATED.content_type,
        still=encoded(frames[0], _ANIMATED, limits.quality),
    )


def _animated_edge(image: Image.Image, limits: UploadLimits) -> int:
    """Return the longer edge at which all frames together have no more pixels than the limits allow."""
    pixels = image.width * image.height * image.n_frames  # type: ignore[attr-defined]  # an animation has it
    shrink = sqrt(min(1.0, limits.animated_pixels / pixels))
    return max(1, int(min(limits.animated_edge, max(image.size) * shrink)))


def _frames(image: Image.Image, fitted: Callable[[Image.Image], Image.Image]) -> tuple[list[Image.Image], list[int]]:
    """Return all frames of an animation, each made to fit, and for how many milliseconds each is shown."""
    frames, milliseconds = [], []
    # The default picture of a PNG may be one that only viewers without animation show.
    first = 1 if image.info.get("default_image") else 0
    longest = min(_SLOWEST_MS, _LONGEST_MS // image.n_frames)  # type: ignore[attr-defined]  # an animation has it
    for frame in islice(ImageSequence.Iterator(image), first, None):
        shown = _fitting_mode(_upright(_plain(frame)), fitted)
        frames.append(shown)
        shown_for = round(float(frame.info.get("duration") or 0))
        milliseconds.append(min(shown_for, longest) if shown_for > _FASTEST_MS else _USUAL_MS)
    return frames, milliseconds


def _fitting_mode(frame: Image.Image, fitted: Callable[[Image.Image], Image.Image]) -> Image.Image:
    shown = fitted(frame)
    shown.info = {}
    return shown if shown.mode in {"RGB", "RGBA"} else shown.convert("RGB")


def _loop(image: Image.Image) -> int:
    """Return how many times an animation plays; 0: for ever."""
    stated = image.info.get("loop")
    if image.format == "GIF" and stated != 0:
        # A GIF states how many times it is repeated.
        stated = (stated or 0) + 1
    return min(int(stated or 0), _MOST_LOOPS)


@contextmanager
def _damage_named() -> Iterator[None]:
    """Turn any error of a codec into one sentence: there are dozens of kinds, few of them documented."""
    try:
        yield
    except (ShoalError, MemoryError):
        raise
    except Exception as error:
        if "out of memory" in str(error):
            raise MemoryError from error
        raise InvalidInput("this picture is cut short or damaged: it cannot be decoded") from error


def _opened(data: bytes, limits: UploadLimits) -> Image.Image:
    """Open a picture: the header is read and the pixels are not, so a decompression bomb has cost nothing yet."""
    content_type = sniff(data[:HEAD])
    if content_type == HEIC:
        _register_heic()
    formats = ["HEIF" if content_type == HEIC else content_type.removeprefix("image/").upper()]
    image = Image.open(io.BytesIO(data), formats=formats)
    limits.check_pixels(image.width, image.height)
    if content_type == JPEG and not data.endswith(_END_OF_JPEG):
        image = Image.open(io.BytesIO(_ended(data)), formats=formats)
    return image


def _ended(data: bytes) -> bytes:
    """Return a JPEG with the end marker that it lacks. Raises `InvalidInput` where pixels are missing as well.

    After the last pixel a decoder skips to the marker, so that what precedes the marker makes no difference. Before the
    last pixel, it decodes what it finds there.
    """
    seen = set()
    for filler in (b"", _FILLER):
        image = Image.open(io.BytesIO(data + filler + _END_OF_JPEG), formats=["JPEG"])
        if not image.info.get("progressive"):
            # An eighth of the size is decoded as fast as the file can be read. The last scan of a progressive one is detail.
            image.draft(None, (image.width // 8, image.height // 8))
        seen.add(sha256(image.tobytes()).digest())
    if len(seen) > 1:
        raise InvalidInput("this picture is cut short or damaged: it cannot be decoded")
    return data + _END_OF_JPEG


@cache
def _register_heic() -> None:
    # Not at the top: only children that decode such a picture load libheif.
    import_module("pi_heif").register_heif_opener(thumbnails=False)


def _fitted(image: Image.Image, edge: int) -> Image.Image:
    scale = min(1.0, edge / max(image.size))
    # A JPEG is decoded at 1/2, 1/4 or 1/8 where that is still enough: several times faster, for a fraction of the memory.
    image.draft(None, (ceil(image.width * scale), ceil(image.height * scale)))
    plain = _plain(image)
    plain.thumbnail((edge, edge), Image.Resampling.LANCZOS, reducing_gap=2.0)
    return _in_srgb(_upright(plain))


def _scaled(image: Image.Image, edge: int) -> Image.Image:
    """Return the picture no larger than `edge`; a copy only where it must be smaller."""
    scale = edge / max(image.size)
    if scale >= 1:
        return image
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)


def _plain(image: Image.Image) -> Image.Image:
    """Return the first frame, decoded, as L, RGB, CMYK, or RGBA where something is really transparent."""
    image.load()
    if image.mode.startswith("I"):
        # 16 bits a pixel. Pillow's own conversion would cut off at 255.
        return image.point(lambda value: value * (1 / 256)).convert("L")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return image.convert("RGB") if image.getchannel("A").getextrema() == (255, 255) else image
    return image.copy() if image.mode in {"L", "RGB", "CMYK"} else image.convert("RGB")


def _upright(image: Image.Image) -> Image.Image:
    try:
        turn = _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # noqa: BLE001 - Damaged EXIF raises anything; the picture is good and is shown as it lies.
        turn = None
    return image if turn is None else image.transpose(turn)


def _in_srgb(image: Image.Image) -> Image.Image:
    """Convert a picture to L, RGB or RGBA in the sRGB space. A damaged profile, or one of another kind, is ignored."""
    profile, mode = image.info.get("icc_profile"), image.mode
    if profile:
        alpha = image.getchannel("A") if mode == "RGBA" else None
        colours = image.convert("RGB") if alpha else image
        try:
            image = _converted(colours, profile)
        except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
            image = colours
        if alpha:
            image.putalpha(alpha)
    return image.convert("RGB") if image.mode == "CMYK" else image


def _converted(image: Image.Image, profile: bytes) -> Image.Image:
    source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    converted = ImageCms.profileToProfile(image, source, _SRGB, outputMode="RGB")
    return image if converted is None else converted


def _blurhash(image: Image.Image) -> str:
    small = image.resize((BLURHASH_EDGE, BLURHASH_EDGE), Image.Resampling.BOX)
    if small.mode == "RGBA":
        white = Image.new("RGBA", small.size, "white")
        small = Image.alpha_composite(white, small)
    return blurhash.encode(small.convert("RGB").tobytes(), *small.size)
