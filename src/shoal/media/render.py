"""Rendering of an uploaded picture into the sizes that are shown, with its BlurHash.

In this package, only this module imports Pillow, and only `worker` imports this module.

The files are upright, in sRGB, and contain no metadata: no EXIF, GPS, XMP, IPTC, profile, comment or text. The camera's
details (`core.photo_details`) are returned separately. An animation stays an animation, as WebP; its preview is the
first frame. Whatever the input, the only errors are `InvalidInput` (and its subclasses) and `MemoryError`.

A lossless picture (PNG, GIF, lossless WebP) stays lossless unless it is a photograph: a photograph in a PNG becomes a
JPEG of a fifth of the size. Pillow writes parts of `info` (comments, profiles) into files, so `info` is cleared.

BlurHash follows https://github.com/woltapp/blurhash/blob/master/Algorithm.md. Plain Python takes 1 ms for a picture of
32 x 32; NumPy would double the memory and the start-up time of every child.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from itertools import islice
from math import ceil, copysign, cos, floor, isfinite, pi, sqrt
from typing import Any, Final, NamedTuple

from PIL import (
    AvifImagePlugin,
    ExifTags,
    Image,
    ImageChops,
    ImageCms,
    ImageOps,
    ImageSequence,
    features,
)

from shoal.core.blurhash import DIGITS
from shoal.core.errors import InvalidInput, ShoalError
from shoal.core.photo_details import PhotoDetails, camera_name, cleaned
from shoal.media.limits import UploadLimits
from shoal.media.protocol import Crop, Made, Picture, Rendering
from shoal.media.sniff import AVIF, HEAD, HEIC, JPEG, PNG, WEBP, is_lossless, sniff

_LINEAR = [v / 255 / 12.92 if v / 255 <= 0.04045 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in range(256)]

Color = tuple[float, float, float]


def encode(rgb: bytes, width: int, height: int, across: int = 4, down: int = 3) -> str:
    """Return the blurhash of an sRGB picture, given as bytes by rows. It has `across` x `down` components (1 to 9 each)."""
    channels = [_transform(rgb[start::3], width, height, across, down) for start in range(3)]
    first, *rest = zip(*channels, strict=True)
    loudest = max((abs(value) for color in rest for value in color), default=0.0)
    step = max(0, min(82, floor(loudest * 166 - 0.5))) if rest else 0
    scale = (step + 1) / 166
    parts = [_base83(across - 1 + (down - 1) * 9, 1), _base83(step, 1), _base83(_average(first), 4)]
    return "".join(parts + [_base83(_detail(color, scale), 2) for color in rest])


def _transform(values: bytes, width: int, height: int, across: int, down: int) -> list[float]:
    """Return the cosine coefficients of a channel, by rows. The transform is separable: first along rows, then along columns."""
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


def _average(color: Color) -> int:
    red, green, blue = (_to_srgb(value) for value in color)
    return (red << 16) + (green << 8) + blue


def _detail(color: Color, scale: float) -> int:
    """Return one number for the three channels of a coefficient, each quantized to 0..18 around 9.

    The square root makes the steps between small values finer.
    """
    red, green, blue = (max(0, min(18, floor(_signed_root(value / scale) * 9 + 9.5))) for value in color)
    return (red * 19 + green) * 19 + blue


def _signed_root(value: float) -> float:
    return copysign(sqrt(abs(value)), value)


def _to_srgb(value: float) -> int:
    value = max(0.0, min(1.0, value))
    gamma = value * 12.92 if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
    return int(gamma * 255 + 0.5)


def _base83(value: int, length: int) -> str:
    return "".join(DIGITS[value // 83**power % 83] for power in reversed(range(length)))


AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # The processor-time limit counts all threads together.
ORIGINAL_QUALITY: Final = 92
_FLAT: Final = 0.55
_TIMES_JPEG: Final = 4.0
"""A picture is a photograph unless more than `_FLAT` of its pixels equal their left neighbor, and its preview as PNG
has less than `_TIMES_JPEG` times the bytes of a JPEG. Photographs with so many flat pixels (night skies) have 4.5
times the bytes or more; drawings and screenshots have 0.3 to 3.9 times.
"""
_WORTH: Final = 0.9
"""Maximum bytes of a copy, as a fraction of its original."""
_SMALLER: Final = 0.75
"""Maximum edge of a smaller size, as a fraction of the edge of its picture."""
_COPY: Final = (AVIF, ".avif", 60) if features.check("avif") else (WEBP, ".webp", 78)
"""Type, suffix and quality of copies.

These qualities look like a JPEG of quality 82. An AVIF copy has half the bytes of the JPEG, a WebP copy two thirds, in
equal time. Some builds of Pillow lack AVIF.
"""
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    # Speed 9 takes a sixth of the time of speed 6, at equal size.
    AVIF: {"speed": 9},
    JPEG: {"optimize": True, "progressive": True},
    WEBP: {"method": 4},
}
_LOSSLESS: Final[dict[str, dict[str, Any]]] = {
    PNG: {},
    # In a lossless WebP, `quality` is the effort of compression.
    WEBP: {"lossless": True, "quality": 40, "method": 2},
}


class Style(NamedTuple):
    content_type: Made
    lossless: bool


def style_of(data: bytes, feed: Image.Image, preview: Image.Image, *, keep_kind: bool = False) -> Style:
    """Return the format of all sizes made from the file `data`. It is lossless if the file is lossless and no photograph.

    `feed` and `preview` are the picture in these two sizes, from which the function detects a photograph. With `keep_kind`,
    a lossless photograph stays lossless too. Any other picture becomes a JPEG, or a WebP if it has transparency.
    """
    if is_lossless(data) and (keep_kind or not _is_photograph(feed, preview)):
        return Style(WEBP if sniff(data[:HEAD]) == WEBP else PNG, lossless=True)
    return Style(WEBP if feed.mode == "RGBA" else JPEG, lossless=False)


def encoded(image: Image.Image, style: Style, quality: int, *, copy: bool = True, edges: Sequence[int] = ()) -> Picture:
    """Encode a picture, also in smaller sizes with these longer edges. A JPEG gets a copy in another format.

    Copies and sizes that do not save enough are left out.
    """
    image.info = {}
    data = _in_style(image, style, quality)
    kind, suffix, copy_quality = _COPY
    smaller = _saved(image, kind, copy_quality) if copy and style.content_type == JPEG else b""
    if len(smaller) > _WORTH * len(data):
        smaller = b""
    sizes = {}
    for edge in edges:
        if edge <= _SMALLER * max(image.size):
            size = _scaled(image, edge)
            file = _saved(size, kind, copy_quality) if smaller else _in_style(size, style, quality)
            if len(file) < len(smaller or data):
                sizes[edge] = file
    return Picture(data, image.width, image.height, smaller, suffix if smaller else "", sizes)


def _in_style(image: Image.Image, style: Style, quality: int) -> bytes:
    return _lossless(image, style.content_type) if style.lossless else _saved(image, style.content_type, quality)


def encoded_animation(frames: Sequence[Image.Image], milliseconds: Sequence[int], loop: int, quality: int) -> Picture:
    """Encode an animation that plays `loop` times; 0 means without end."""
    first, *others = frames
    file = io.BytesIO()
    options: dict[str, Any] = {"quality": quality, "method": 2, "loop": loop, "duration": list(milliseconds)}
    first.save(file, "WEBP", save_all=True, append_images=others, **options)
    return Picture(data=file.getvalue(), width=first.width, height=first.height)


def _is_photograph(feed: Image.Image, preview: Image.Image) -> bool:
    times = len(_lossless(preview, PNG)) / len(_saved(_opaque(preview), JPEG, 82))
    return times > 1 and (times >= _TIMES_JPEG or _flatness(_opaque(feed)) < _FLAT)


def _flatness(image: Image.Image) -> float:
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
    """Put a transparent picture on a white background. Any other picture is returned unchanged."""
    if image.mode != "RGBA":
        return image
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


def _lossless(image: Image.Image, kind: str) -> bytes:
    return _written(_with_palette(image) if kind == PNG else image, kind, _LOSSLESS[kind])


def _with_palette(image: Image.Image) -> Image.Image:
    """Return the picture with a palette, which takes one byte per pixel instead of three, if that is lossless."""
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


Image.MAX_IMAGE_PIXELS = None  # `Limits.max_pixels` is the only limit, with our message.
BLURHASH_EDGE: Final = 32
"""Pixels of the longer edge of the picture from which a blurhash is computed.

A blurhash has 4 x 3 components, so more pixels make no visible difference.
"""
_ANIMATED: Final = Style(WEBP, lossless=False)
_SLOWEST_MS, _LONGEST_MS, _MOST_LOOPS = (1 << 24) - 1, (1 << 31) - 1, (1 << 16) - 1
"""Maximum duration of a frame and of all frames in libwebp, and maximum number of repetitions in a WebP."""
_FASTEST_MS, _USUAL_MS = 10, 100
"""Browsers show a frame of at most `_FASTEST_MS` for `_USUAL_MS`."""
_END_OF_JPEG: Final = b"\xff\xd9"
_FILLER: Final = b"\x5a\xc3\x96\x69" * 64
_SRGB: Final = ImageCms.createProfile("sRGB")


def render(data: bytes, limits: UploadLimits, *, keep_kind: bool = False, still: bool = False) -> Rendering:
    """Create the feed size, the preview size and the blurhash of an uploaded file. For the arguments, see `protocol.RenderJob`."""
    with _damage_named():
        image = _opened(data, limits)
        if not still and _is_animated(image):
            return _rendered_animation(image, limits)
        whole = max(image.size) if limits.keep_originals else 0
        # If the original is stored, decode it in full and scale it to the feed size, because a picture is decoded only once.
        original = _fitted(image, whole) if whole > limits.feed_edge else None
        feed = _fitted(image, limits.feed_edge) if original is None else _scaled(original, limits.feed_edge)
        preview = _scaled(feed, limits.preview_edge)
        style = style_of(data, feed, preview, keep_kind=keep_kind)
        return Rendering(
            feed=encoded(feed, style, limits.quality, edges=limits.feed_sizes),
            preview=encoded(preview, style, limits.quality, edges=limits.preview_sizes),
            content_type=style.content_type,
            blurhash=_blurhash(preview),
            original=None if original is None else encoded(original, style, ORIGINAL_QUALITY, copy=False),
            details=cleaned(_details(image)),
        )


def crop(data: bytes, limits: UploadLimits, size: tuple[int, int], small: int = 0) -> Crop:
    """Crop the middle of an uploaded file to the shape of `size` (width, height), in pixels. A small picture is not enlarged.

    `small` is the longer edge of an additional smaller copy; 0 for none.
    """
    edges = (small,) if small else ()
    with _damage_named():
        image = _opened(data, limits)
        if _is_animated(image):
            return _cropped_animation(image, limits, size, edges)
        # Request a square, because EXIF may rotate the picture later.
        image.draft(None, (max(size), max(size)))
        cut = _cut(_upright(_plain(image)), size)
        style = style_of(data, cut, cut)
        return Crop(
            picture=encoded(cut, style, limits.quality, edges=edges),
            content_type=style.content_type,
            blurhash=_blurhash(cut),
        )


def _cut(upright: Image.Image, size: tuple[int, int]) -> Image.Image:
    scale = min(1.0, upright.width / size[0], upright.height / size[1])
    target = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
    return _in_srgb(ImageOps.fit(upright, target, Image.Resampling.LANCZOS))


def _is_animated(image: Image.Image) -> bool:
    # Several pictures in a JPEG or HEIC are views, gain maps or bursts, not an animation.
    return image.format in {"GIF", "PNG", "WEBP", "AVIF"} and bool(getattr(image, "is_animated", False))


def _rendered_animation(image: Image.Image, limits: UploadLimits) -> Rendering:
    edge = _animated_edge(image, limits)
    frames, milliseconds = _frames(image, lambda frame: _scaled(_in_srgb(frame), edge))
    preview = _scaled(frames[0], limits.preview_edge)
    return Rendering(
        feed=encoded_animation(frames, milliseconds, _loop(image), limits.quality),
        preview=encoded(preview, _ANIMATED, limits.quality, edges=limits.preview_sizes),
        content_type=_ANIMATED.content_type,
        blurhash=_blurhash(preview),
    )


def _cropped_animation(image: Image.Image, limits: UploadLimits, size: tuple[int, int], edges: Sequence[int]) -> Crop:
    scale = min(1.0, _animated_edge(image, limits) / max(size))
    small = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
    frames, milliseconds = _frames(image, lambda frame: _cut(frame, small))
    return Crop(
        picture=encoded_animation(frames, milliseconds, _loop(image), limits.quality),
        content_type=_ANIMATED.content_type,
        blurhash=_blurhash(frames[0]),
        still=encoded(frames[0], _ANIMATED, limits.quality, edges=edges),
    )


def _animated_edge(image: Image.Image, limits: UploadLimits) -> int:
    """Return the longer edge at which all frames of an animation together are within the pixel limit."""
    pixels = image.width * image.height * image.n_frames  # type: ignore[attr-defined]  # animations have it
    shrink = sqrt(min(1.0, limits.animated_pixels / pixels))
    return max(1, int(min(limits.animated_edge, max(image.size) * shrink)))


def _frames(image: Image.Image, fitted: Callable[[Image.Image], Image.Image]) -> tuple[list[Image.Image], list[int]]:
    frames, milliseconds = [], []
    # Skip the default picture of a PNG, which may be meant for viewers that do not support animations.
    first = 1 if image.info.get("default_image") else 0
    longest = min(_SLOWEST_MS, _LONGEST_MS // image.n_frames)  # type: ignore[attr-defined]  # animations have it
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
    """Return how many times an animation plays; 0 means without end."""
    stated = image.info.get("loop")
    if image.format == "GIF" and stated != 0:
        # A GIF states how many times the animation is repeated after it was played once.
        stated = (stated or 0) + 1
    return min(int(stated or 0), _MOST_LOOPS)


@contextmanager
def _damage_named() -> Iterator[None]:
    """Convert any exception of a codec in the block to `InvalidInput`.

    Codecs raise dozens of types of exceptions, few of which are documented.
    """
    try:
        yield
    except (ShoalError, MemoryError):
        raise
    except Exception as error:
        if "out of memory" in str(error):
            raise MemoryError from error
        raise InvalidInput("this picture is incomplete or damaged and cannot be decoded") from error


def _opened(data: bytes, limits: UploadLimits) -> Image.Image:
    """Open a picture by reading only its header, so that a decompression bomb costs nothing."""
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
    """Return a JPEG with its missing end marker added. Raises `InvalidInput` if pixels are missing too.

    The picture is decoded with and without filler bytes before the marker. If no pixel is missing, the decoder skips
    the filler, and both results are equal. Otherwise, it decodes the filler as pixels.
    """
    seen = set()
    for filler in (b"", _FILLER):
        image = Image.open(io.BytesIO(data + filler + _END_OF_JPEG), formats=["JPEG"])
        if not image.info.get("progressive"):
            # Decode at an eighth of the size, which takes no longer than reading the file. This would not detect that a
            # progressive JPEG lacks its last scan, which adds only detail.
            image.draft(None, (image.width // 8, image.height // 8))
        seen.add(sha256(image.tobytes()).digest())
    if len(seen) > 1:
        raise InvalidInput("this picture is incomplete or damaged and cannot be decoded")
    return data + _END_OF_JPEG


@cache
def _register_heic() -> None:
    # Import libheif only here, so that a child loads it only for a HEIC picture.
    import_module("pillow_heif").register_heif_opener(thumbnails=False)


def _fitted(image: Image.Image, edge: int) -> Image.Image:
    scale = min(1.0, edge / max(image.size))
    # Decode a JPEG at 1/2, 1/4 or 1/8 if that is large enough: it is several times faster and takes a fraction of the
    # memory.
    image.draft(None, (ceil(image.width * scale), ceil(image.height * scale)))
    plain = _plain(image)
    plain.thumbnail((edge, edge), Image.Resampling.LANCZOS, reducing_gap=2.0)
    return _in_srgb(_upright(plain))


def _scaled(image: Image.Image, edge: int) -> Image.Image:
    """Return the picture with edges of at most `edge` pixels. If `image` is small enough, it is returned."""
    scale = edge / max(image.size)
    if scale >= 1:
        return image
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)


def _plain(image: Image.Image) -> Image.Image:
    """Return a decoded picture or frame as L, RGB or CMYK, or as RGBA if any pixel is transparent."""
    image.load()
    if image.mode.startswith("I"):
        # Scale 16 bits per pixel to 8, because Pillow's own conversion cuts values at 255.
        return image.point(lambda value: value * (1 / 256)).convert("L")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return image.convert("RGB") if image.getchannel("A").getextrema() == (255, 255) else image
    return image.copy() if image.mode in {"L", "RGB", "CMYK"} else image.convert("RGB")


def _upright(image: Image.Image) -> Image.Image:
    # Damaged EXIF may raise any error. The picture is still usable; it is not rotated.
    with suppress(Exception):
        ImageOps.exif_transpose(image, in_place=True)
    return image


def _details(image: Image.Image) -> PhotoDetails | None:
    """Return the camera, exposure and time from a picture's EXIF data, unchecked. The GPS position is never read."""
    with suppress(Exception):
        exif = image.getexif()
        photo = exif.get_ifd(ExifTags.IFD.Exif)
        return PhotoDetails(
            camera=camera_name(_exif_text(exif.get(ExifTags.Base.Make)), _exif_text(exif.get(ExifTags.Base.Model))),
            lens=_exif_text(photo.get(ExifTags.Base.LensModel)),
            exposure=_exif_number(photo.get(ExifTags.Base.ExposureTime)),
            aperture=_exif_number(photo.get(ExifTags.Base.FNumber)),
            iso=int(_exif_number(photo.get(ExifTags.Base.ISOSpeedRatings))),
            focal_length=_exif_number(photo.get(ExifTags.Base.FocalLength)),
            # EXIF writes times as `2026:11:24 18:30:00`.
            taken=_exif_text(photo.get(ExifTags.Base.DateTimeOriginal)).replace(":", "-", 2).replace(" ", "T", 1),
        )
    return None


def _exif_text(value: object) -> str:
    """Return a text up to its first zero byte. It is UTF-8, as phones write it, or otherwise Latin-1, as Pillow reads it."""
    data = value.encode("latin-1", "replace") if isinstance(value, str) else value if isinstance(value, bytes) else b""
    data = data.partition(b"\0")[0].strip()
    with suppress(UnicodeDecodeError):
        return data.decode()
    return data.decode("latin-1")


def _exif_number(value: object) -> float:
    """Return a number, or the first of several numbers; 0 if there is none, or for a fraction with the denominator 0."""
    with suppress(TypeError, ValueError, OverflowError, ZeroDivisionError, IndexError):
        number = float(value[0] if isinstance(value, tuple) else value)  # type: ignore[arg-type]  # anything may be in a file
        return number if isfinite(number) else 0.0
    return 0.0


def _in_srgb(image: Image.Image) -> Image.Image:
    """Convert a picture to L, RGB or RGBA in the sRGB space. A damaged or unsuitable color profile is ignored."""
    profile, mode = image.info.get("icc_profile"), image.mode
    if profile:
        alpha = image.getchannel("A") if mode == "RGBA" else None
        colors = image.convert("RGB") if alpha else image
        try:
            image = _converted(colors, profile)
        except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
            image = colors
        if alpha:
            image.putalpha(alpha)
    return image.convert("RGB") if image.mode == "CMYK" else image


def _converted(image: Image.Image, profile: bytes) -> Image.Image:
    source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    converted = ImageCms.profileToProfile(image, source, _SRGB, outputMode="RGB")
    return image if converted is None else converted


def _blurhash(image: Image.Image) -> str:
    small = image.resize((BLURHASH_EDGE, BLURHASH_EDGE), Image.Resampling.BOX)
    return encode(_opaque(small).convert("RGB").tobytes(), *small.size)
