"""An uploaded picture made into the sizes that are shown. The only module that imports Pillow; only `worker.py` imports it.

What comes out is upright, in sRGB, the first frame of an animation, and carries no metadata: no EXIF, GPS, XMP, IPTC, profile,
comment or text. Whatever goes in, the only errors are `InvalidInput` (and its kinds) and `MemoryError`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from typing import Final

# WebP's plugin is for its effect: else Pillow goes through all of its formats when the first WebP comes.
from PIL import AvifImagePlugin, ExifTags, Image, ImageCms, ImageOps, WebPImagePlugin  # noqa: F401 - as said above

from shoal.core.errors import InvalidInput, ShoalError
from shoal.media import blurhash
from shoal.media.limits import Limits
from shoal.media.protocol import Crop, Made, Picture, Rendering
from shoal.media.sniff import HEAD, JPEG, WEBP, sniff

Image.MAX_IMAGE_PIXELS = None  # `Limits.max_pixels` is the one limit, with our words.
AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # The processor-time limit counts threads together.
BLURHASH_EDGE: Final = 32
"""Pixels. A blurhash has 4 x 3 components: more pixels change nothing that is seen."""
_TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""EXIF orientation (CIPA DC-008, 4.6.5) to what makes the picture upright."""
_SRGB: Final = ImageCms.createProfile("sRGB")


def render(data: bytes, limits: Limits) -> Rendering:
    """The feed size, the preview size and the blurhash of an uploaded file."""
    with _damage_named():
        image = _opened(data, limits)
        feed = _fitted(image, limits.feed_edge)
        preview = feed.copy()
        preview.thumbnail((limits.preview_edge, limits.preview_edge), Image.Resampling.LANCZOS, reducing_gap=2.0)
        return Rendering(
            feed=_encoded(feed, limits.quality),
            preview=_encoded(preview, limits.quality),
            content_type=_content_type(feed),
            blurhash=_blurhash(preview),
        )


def crop(data: bytes, limits: Limits, size: tuple[int, int]) -> Crop:
    """The middle of an uploaded file in the shape of `size`, (width, height) in pixels; a small picture is not enlarged."""
    with _damage_named():
        image = _opened(data, limits)
        # Square, because EXIF may yet turn it.
        image.draft(None, (max(size), max(size)))
        upright = _upright(_plain(image))
        scale = min(1.0, upright.width / size[0], upright.height / size[1])
        target = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
        cut = _in_srgb(ImageOps.fit(upright, target, Image.Resampling.LANCZOS))
        return Crop(picture=_encoded(cut, limits.quality), content_type=_content_type(cut))


@contextmanager
def _damage_named() -> Iterator[None]:
    """Say in one sentence whatever a codec may raise: dozens of kinds, few of them documented."""
    try:
        yield
    except (ShoalError, MemoryError):
        raise
    except Exception as error:
        if "out of memory" in str(error):
            raise MemoryError from error
        raise InvalidInput("this picture is cut short or damaged: it cannot be decoded") from error


def _opened(data: bytes, limits: Limits) -> Image.Image:
    """The picture with its header read and its pixels not yet: so far a bomb has cost nothing."""
    content_type = sniff(data[:HEAD])
    image = Image.open(io.BytesIO(data), formats=[content_type.removeprefix("image/").upper()])
    limits.check_pixels(image.width, image.height)
    return image


def _fitted(image: Image.Image, edge: int) -> Image.Image:
    scale = min(1.0, edge / max(image.size))
    # A JPEG is decoded at 1/2, 1/4 or 1/8 where that is still enough: several times faster, for a fraction of the memory.
    image.draft(None, (ceil(image.width * scale), ceil(image.height * scale)))
    plain = _plain(image)
    plain.thumbnail((edge, edge), Image.Resampling.LANCZOS, reducing_gap=2.0)
    return _in_srgb(_upright(plain))


def _plain(image: Image.Image) -> Image.Image:
    """The first frame, decoded, as L, RGB, CMYK, or RGBA where something really shines through."""
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
    """The same colours in L, RGB or RGBA of the sRGB space. A profile that is damaged or of another kind is ignored."""
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


def _content_type(image: Image.Image) -> Made:
    return WEBP if image.mode == "RGBA" else JPEG


def _encoded(image: Image.Image, quality: int) -> Picture:
    """The file, with nothing in it but pixels: Pillow writes some of `info` (comments, profiles) without being asked."""
    image.info = {}
    file = io.BytesIO()
    if _content_type(image) == WEBP:
        image.save(file, "WEBP", quality=quality, method=4)
    else:
        image.save(file, "JPEG", quality=quality, optimize=True, progressive=True)
    return Picture(data=file.getvalue(), width=image.width, height=image.height)


def _blurhash(image: Image.Image) -> str:
    small = image.resize((BLURHASH_EDGE, BLURHASH_EDGE), Image.Resampling.BOX)
    if small.mode == "RGBA":
        white = Image.new("RGBA", small.size, "white")
        small = Image.alpha_composite(white, small)
    return blurhash.encode(small.convert("RGB").tobytes(), *small.size)
