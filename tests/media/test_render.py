"""Image rendering without a child process."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any
from unittest.mock import patch

import pytest
from PIL import Image, ImageCms, ImageDraw, ImageFile, ImageFilter, ImageOps, ImageSequence, PngImagePlugin

from shoal.core.errors import InvalidInput, TooLarge, Unsupported
from shoal.media.limits import UploadLimits
from shoal.media.protocol import Picture
from shoal.media.render import crop, render
from shoal.media.sniff import ALLOWED

LIMITS = UploadLimits()
SMALL = UploadLimits(feed_edge=64, preview_edge=16)
RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def saved(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def shown(picture: Picture) -> Image.Image:
    image = Image.open(io.BytesIO(picture.data))
    assert image.size == (picture.width, picture.height)
    return image


def color(picture: Picture, at: tuple[float, float] = (0.5, 0.5)) -> tuple[int, ...]:
    """Return the color at a point given as fractions of width and height."""
    image = shown(picture)
    pixel = image.convert("RGBA").getpixel((int(at[0] * image.width), int(at[1] * image.height)))
    assert isinstance(pixel, tuple)
    return pixel


def near(left: tuple[int, ...], right: tuple[int, ...], most: int = 12) -> bool:
    return all(abs(a - b) <= most for a, b in zip(left, right, strict=False))


def photo(width: int = 300, height: int = 200) -> Image.Image:
    """Return an image with red on the left, blue on the right and noise between."""
    image = Image.effect_noise((width, height), 20).convert("RGB")
    image.paste(RED, (0, 0, width // 3, height))
    image.paste(BLUE, (2 * width // 3, 0, width, height))
    return image


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "AVIF"])
def test_image_renderer_creates_feed_size_preview_and_blurhash(kind: str) -> None:
    made = render(saved(photo(2600, 1300), kind), LIMITS)
    assert (made.feed.width, made.feed.height) == (2560, 1280)
    assert (made.preview.width, made.preview.height) == (640, 320)
    assert len(made.blurhash) == 28
    assert near(color(made.feed, (0.1, 0.5)), RED, 30)
    assert near(color(made.preview, (0.9, 0.5)), BLUE, 30)


def test_image_renderer_smaller_sizes_have_format_of_compressed_copy() -> None:
    made = render(saved(photo(2600, 1300), "JPEG"), LIMITS)
    sizes = {
        edge: Image.open(io.BytesIO(data)) for each in (made.feed, made.preview) for edge, data in each.sizes.items()
    }
    assert {edge: image.size for edge, image in sizes.items()} == {1280: (1280, 640), 320: (320, 160), 160: (160, 80)}
    assert {image.format for image in sizes.values()} == {made.feed.copy_suffix[1:].upper()}
    lengths = [len(made.feed.copy), *map(len, made.feed.sizes.values()), *map(len, made.preview.sizes.values())]
    assert lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize(("edge", "sizes"), [(1800, [1280]), (1280, []), (420, [])])
def test_image_renderer_omits_sizes_hardly_smaller_than_the_picture(edge: int, sizes: list[int]) -> None:
    made = render(saved(photo(edge, edge // 2), "JPEG"), LIMITS)
    assert [*made.feed.sizes] == sizes
    assert [*made.preview.sizes] == ([160] if edge == 420 else [320, 160])


def test_image_renderer_omits_sizes_with_more_bytes_than_the_picture() -> None:
    # Two colors compress well, and a reduced picture has gray levels between them.
    pattern = Image.frombytes("1", (640, 640), b"\x55" * (640 * 80)).convert("RGB")
    made = render(saved(pattern), LIMITS)
    assert all(len(data) < len(made.preview.data) for data in made.preview.sizes.values())
    assert 320 not in made.preview.sizes or len(made.preview.sizes[320]) < len(made.preview.data)


def test_image_crop_with_additional_small_size_includes_copy_of_that_size() -> None:
    made = crop(saved(photo(900, 600), "JPEG"), LIMITS, (400, 400), 128)
    assert [Image.open(io.BytesIO(data)).size for data in made.picture.sizes.values()] == [(128, 128)]


def test_image_renderer_does_not_enlarge_small_images() -> None:
    made = render(saved(photo(30, 20)), LIMITS)
    assert (made.feed.width, made.feed.height, made.preview.width) == (30, 20, 30)
    assert not made.feed.sizes | made.preview.sizes


@pytest.mark.parametrize("size", [(1, 1), (1, 5000), (5000, 1)])
def test_image_renderer_extreme_aspect_ratio_keeps_at_least_one_pixel(size: tuple[int, int]) -> None:
    made = render(saved(Image.new("RGB", size, RED)), LIMITS)
    assert max(made.feed.width, made.feed.height) == min(2560, max(size))
    assert min(made.preview.width, made.preview.height) == 1


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_image_renderer_applies_exif_orientation(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(photo(300, 200), kind, exif=exif)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    made = render(data, LIMITS)
    assert (made.feed.width, made.feed.height) == expected.size
    for at in ((0.1, 0.1), (0.9, 0.1), (0.1, 0.9), (0.9, 0.9)):
        pixel = expected.convert("RGBA").getpixel((int(at[0] * expected.width), int(at[1] * expected.height)))
        assert isinstance(pixel, tuple)
        assert near(color(made.feed, at), pixel, 40)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF"])
@pytest.mark.parametrize("alpha", [False, True])
def test_image_renderer_strips_metadata(kind: str, alpha: bool) -> None:
    made = render(with_metadata(kind, alpha=alpha and kind != "JPEG"), SMALL)
    for picture in (made.feed, made.preview):
        assert (
            not {"exif", "xmp", "icc_profile", "comment", "photoshop", "XML:com.adobe.xmp"} & shown(picture).info.keys()
        )
        assert not shown(picture).getexif()
        for secret in (b"Exif", b"Secret", b"ns.adobe", b"EXIF", b"XMP "):
            assert secret not in picture.data


def with_metadata(kind: str, *, alpha: bool) -> bytes:
    exif = Image.Exif()
    exif[0x010F] = "SecretCamera"
    exif.get_ifd(0x8825).update({1: "N", 2: (52.0, 31.0, 12.0), 3: "E", 4: (13.0, 24.0, 36.0)})
    xmp = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'>http://ns.adobe.com/ Secret</x:xmpmeta>"
    options: dict[str, Any] = {
        "exif": exif,
        "icc_profile": ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes(),
    }
    if kind == "PNG":
        text = PngImagePlugin.PngInfo()
        text.add_text("Comment", "Secret")
        text.add_itxt("XML:com.adobe.xmp", xmp.decode())
        options["pnginfo"] = text
    elif kind == "JPEG":
        options |= {"comment": b"Secret", "xmp": xmp}
    else:
        options["xmp"] = xmp
    image = photo(90, 60).convert("RGBA")
    image.putalpha(100 if alpha else 255)
    return saved(image if alpha else image.convert("RGB"), kind, **options)


@pytest.mark.filterwarnings("ignore")  # Pillow warns about the damaged EXIF.
def test_image_renderer_ignores_damaged_exif() -> None:
    data = saved(photo(), "JPEG", exif=b"Exif\x00\x00MM\x00*\x00\x00\xff\xff" + b"\xff" * 40)
    assert render(data, LIMITS).feed.width == 300


def test_image_renderer_converts_embedded_profile_to_srgb() -> None:
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    swap_tags(profile, b"rXYZ", b"gXYZ")
    made = render(saved(Image.new("RGB", (40, 40), RED), icc_profile=bytes(profile)), LIMITS)
    assert near(color(made.feed), GREEN)


def test_image_renderer_converts_embedded_profile_with_alpha_to_srgb() -> None:
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    swap_tags(profile, b"rXYZ", b"gXYZ")
    made = render(saved(Image.new("RGBA", (40, 40), (*RED, 128)), icc_profile=bytes(profile)), LIMITS)
    assert near(color(made.feed), (*GREEN, 128))


def swap_tags(profile: bytearray, one: bytes, other: bytes) -> None:
    """Swap the names of two tags in the tag table after the 128 byte header of an ICC profile."""
    first, second = profile.index(one, 128), profile.index(other, 128)
    profile[first : first + 4], profile[second : second + 4] = other, one


@pytest.mark.parametrize("profile", [b"nonsense", b"\x00" * 128])
def test_image_renderer_ignores_damaged_color_profile(profile: bytes) -> None:
    assert near(color(render(saved(photo(), icc_profile=profile), LIMITS).feed, (0.1, 0.5)), RED)


def test_image_renderer_converts_cmyk_to_rgb() -> None:
    made = render(saved(Image.new("CMYK", (400, 400), (0, 255, 255, 0)), "JPEG"), LIMITS)
    assert shown(made.feed).mode == "RGB"
    assert near(color(made.feed), RED)


def test_image_renderer_16_bit_gray_keeps_shades() -> None:
    row = b"\x00" + struct.pack(">H", 10_000) * 100 + struct.pack(">H", 32_768) * 100 + b"\xff\xff" * 100
    feed = render(png(300, 100, row * 100, depth=16, kind=0), LIMITS).feed
    assert [color(feed, (x, 0.5))[0] for x in (0.1, 0.5, 0.9)] == pytest.approx([39, 128, 255], abs=4)


def test_image_renderer_16_bit_color_is_reduced_to_8_bits() -> None:
    row = b"\x00" + struct.pack(">HHH", 65_535, 32_768, 0) * 20
    made = render(png(20, 20, row * 20, depth=16, kind=2), LIMITS)
    assert near(color(made.feed), (255, 128, 0))


def test_image_renderer_16_bit_gray_with_alpha_keeps_transparency() -> None:
    row = b"\x00" + struct.pack(">HH", 65_535, 32_768) * 20
    made = render(png(20, 20, row * 20, depth=16, kind=4), LIMITS)
    assert near(color(made.feed), (255, 255, 255, 128))


def test_image_renderer_palette_image_keeps_transparency() -> None:
    image = Image.new("P", (60, 30), 0)
    image.putpalette([*RED, *BLUE])
    image.paste(1, (30, 0, 60, 30))
    made = render(saved(image, transparency=b"\x00\xff"), LIMITS)
    assert color(made.feed, (0.2, 0.5))[3] == 0
    assert near(color(made.feed, (0.8, 0.5)), (*BLUE, 255))


def test_image_renderer_png_with_opaque_alpha_channel_becomes_jpeg() -> None:
    assert render(saved(noise().convert("RGBA")), LIMITS).content_type == "image/jpeg"


def noise(mode: str = "RGB", size: tuple[int, int] = (300, 200)) -> Image.Image:
    """Return an image without flat areas, like a photograph."""
    image = Image.effect_noise(size, 60).convert(mode)
    if mode == "RGBA":
        image.putalpha(100)
    return image


def drawing(mode: str = "RGB") -> Image.Image:
    """Return an image with few colors and sharp edges, like a screenshot."""
    image = Image.new(mode, (300, 200), (250, 250, 240, 90)[: len(mode)])
    pencil = ImageDraw.Draw(image)
    for row in range(4, 200, 12):
        pencil.text((8, row), "plain text on paper, line by line", fill=(20, 20, 90, 255)[: len(mode)])
    return image


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize(("kind", "becomes"), [("PNG", "image/png"), ("WEBP", "image/webp")])
def test_image_renderer_lossless_drawing_stays_lossless(kind: str, becomes: str, mode: str) -> None:
    image = drawing(mode)
    made = render(saved(image, kind, **({"lossless": True, "exact": True} if kind == "WEBP" else {})), LIMITS)
    assert made.content_type == becomes
    assert shown(made.feed).convert(mode).tobytes() == image.tobytes()
    assert made.feed.copy == b""


def test_image_renderer_detects_lossless_webp_with_profile() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    made = render(saved(drawing(), "WEBP", lossless=True, icc_profile=profile), LIMITS)
    assert made.content_type == "image/webp"
    assert render(saved(drawing(), "WEBP", icc_profile=profile), LIMITS).content_type == "image/jpeg"


@pytest.mark.parametrize(("mode", "becomes"), [("L", "image/jpeg"), ("RGB", "image/jpeg"), ("RGBA", "image/webp")])
def test_image_renderer_png_photograph_becomes_lossy(mode: str, becomes: str) -> None:
    assert render(saved(noise(mode)), LIMITS).content_type == becomes


def test_image_renderer_keeps_lossless_format_when_smaller() -> None:
    ramp = Image.linear_gradient("L").resize((300, 200))
    made = render(saved(ramp), LIMITS)
    assert made.content_type == "image/png"
    assert shown(made.feed).tobytes() == ramp.tobytes()


def test_image_renderer_with_keep_kind_option_preserves_file_format() -> None:
    assert render(saved(noise()), LIMITS, keep_kind=True).content_type == "image/png"
    assert render(saved(noise(), "JPEG"), LIMITS, keep_kind=True).content_type == "image/jpeg"


def test_image_renderer_jpeg_has_smaller_copy_of_equal_dimensions() -> None:
    made = render(saved(photo(900, 600).filter(ImageFilter.GaussianBlur(2)), "JPEG"), SMALL)
    for picture in (made.feed, made.preview):
        if picture.copy:
            assert len(picture.copy) < len(picture.data)
            assert Image.open(io.BytesIO(picture.copy)).size == (picture.width, picture.height)
    larger = render(saved(noise(size=(900, 600)), "JPEG"), LIMITS).feed
    copy = Image.open(io.BytesIO(larger.copy))
    assert (copy.size, f".{copy.format}".lower()) == ((900, 600), larger.copy_suffix)
    assert not {"exif", "xmp", "icc_profile"} & copy.info.keys()


def test_image_renderer_keep_originals_stores_full_size_image() -> None:
    whole = LIMITS.__class__(feed_edge=640, keep_originals=True)
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010F] = "SecretCamera"
    made = render(saved(photo(900, 600), "JPEG", exif=exif), whole)
    assert made.original is not None
    assert (made.original.width, made.original.height) == (600, 900)
    assert (made.feed.width, made.feed.height) == (427, 640)
    assert not shown(made.original).getexif()
    assert b"SecretCamera" not in made.original.data
    assert render(saved(photo(600, 400), "JPEG"), whole).original is None
    assert render(saved(photo(900, 600), "JPEG"), SMALL).original is None


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_image_renderer_accepts_every_png_mode(mode: str) -> None:
    assert render(saved(photo().convert(mode)), LIMITS).feed.width == 300


def animation(kind: str, *, size: tuple[int, int] = (90, 50), durations: tuple[int, ...] = (100, 300, 2_000)) -> bytes:
    """Return an animation with one frame per duration in milliseconds."""
    frames = [Image.new("RGB", size, (RED, GREEN, BLUE)[at % 3]) for at in range(len(durations))]
    return saved(frames[0], kind, save_all=True, append_images=frames[1:], duration=list(durations))


def frames_of(picture: Picture) -> list[tuple[tuple[int, ...], int]]:
    """Return the color and the duration in milliseconds of each frame."""
    found = []
    with Image.open(io.BytesIO(picture.data)) as image:
        for frame in ImageSequence.Iterator(image):
            shade = frame.convert("RGB").getpixel((frame.width // 2, frame.height // 2))
            assert isinstance(shade, tuple)
            found.append((shade, int(frame.info["duration"])))
    return found


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "AVIF"])
def test_image_renderer_animation_keeps_frame_durations(kind: str) -> None:
    made = render(animation(kind), LIMITS)
    assert (made.content_type, made.feed.width, made.feed.height) == ("image/webp", 90, 50)
    found = frames_of(made.feed)
    assert [milliseconds for _, milliseconds in found] == [100, 300, 2_000]
    for (shade, _), expected in zip(found, (RED, GREEN, BLUE), strict=True):
        assert near(shade, expected, 30)
    assert getattr(shown(made.preview), "n_frames", 1) == 1
    assert near(color(made.preview), RED, 30)


def test_image_renderer_png_default_image_outside_animation_is_not_a_frame() -> None:
    frames = [Image.new("RGB", (40, 40), shade) for shade in (RED, GREEN, BLUE)]
    data = saved(frames[0], "PNG", save_all=True, append_images=frames[1:], duration=300, default_image=True)
    found = frames_of(render(data, LIMITS).feed)
    assert [milliseconds for _, milliseconds in found] == [300, 300]
    assert near(found[0][0], GREEN, 30)


def test_image_renderer_png_frame_duration_is_limited_to_webp_maximum() -> None:
    found = frames_of(render(animation("PNG", durations=(20_000_000, 100)), LIMITS).feed)
    assert [milliseconds for _, milliseconds in found] == [(1 << 24) - 1, 100]


@pytest.mark.parametrize(
    ("kind", "loop", "plays"), [("PNG", 0, 0), ("PNG", 3, 3), ("PNG", 70_000, 65_535), ("GIF", 0, 0), ("GIF", 2, 3)]
)
def test_image_renderer_animation_keeps_loop_count(kind: str, loop: int, plays: int) -> None:
    frames = [Image.new("RGB", (40, 40), shade) for shade in (RED, GREEN)]
    data = saved(frames[0], kind, save_all=True, append_images=frames[1:], duration=100, loop=loop)
    assert shown(render(data, LIMITS).feed).info["loop"] == plays


def test_image_renderer_gif_without_loop_extension_plays_once() -> None:
    assert shown(render(animation("GIF"), LIMITS).feed).info["loop"] == 1


def test_image_renderer_animation_keeps_transparency() -> None:
    frames = [Image.new("RGBA", (40, 40), (*each, 128)) for each in (RED, BLUE)]
    data = saved(frames[0], "PNG", save_all=True, append_images=frames[1:], duration=100)
    made = render(data, LIMITS)
    with Image.open(io.BytesIO(made.feed.data)) as image:
        image.seek(1)
        assert image.convert("RGBA").getpixel((20, 20))[3] == pytest.approx(128, abs=4)  # type: ignore[index]


def test_image_renderer_animation_over_pixel_limit_is_scaled_down() -> None:
    limits = UploadLimits(animated_edge=100, animated_pixels=20 * 40 * 3)
    assert render(animation("WEBP", durations=(100, 100, 100)), limits).feed.width <= 40
    assert (
        render(animation("WEBP", size=(300, 20), durations=(100, 100)), UploadLimits(animated_edge=100)).feed.width
        == 100
    )


def test_image_renderer_still_option_uses_first_animation_frame() -> None:
    made = render(animation("PNG"), LIMITS, still=True)
    assert getattr(shown(made.feed), "n_frames", 1) == 1


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "AVIF"])
def test_image_crop_of_animation_keeps_frames_and_adds_still_of_first_frame(kind: str) -> None:
    made = crop(animation(kind), LIMITS, (40, 40))
    assert len(frames_of(made.picture)) == 3
    assert made.still is not None
    assert (made.still.width, made.picture.width, made.content_type) == (40, 40, "image/webp")
    assert near(color(made.still), RED, 30)
    assert crop(saved(photo()), LIMITS, (40, 40)).still is None


def test_image_renderer_multi_picture_jpeg_uses_first_image() -> None:
    data = saved(photo(), "MPO", save_all=True, append_images=[Image.new("RGB", (300, 200), BLUE)])
    with Image.open(io.BytesIO(data)) as image:
        assert image.n_frames == 2  # type: ignore[attr-defined]
    made = render(data, LIMITS)
    assert (made.content_type, getattr(shown(made.feed), "n_frames", 1)) == ("image/jpeg", 1)
    assert crop(data, LIMITS, (40, 40)).still is None


def test_image_renderer_strips_metadata_from_animations() -> None:
    frames = [Image.new("RGB", (40, 40), each) for each in (RED, BLUE)]
    exif = Image.Exif()
    exif[0x010E] = "secret"
    for kind in ("WEBP", "PNG", "AVIF"):
        data = saved(frames[0], kind, save_all=True, append_images=frames[1:], duration=100, exif=exif)
        assert b"secret" in data
        assert b"secret" not in render(data, LIMITS).feed.data


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}, {"quality": 30}])
def test_image_renderer_jpeg_without_end_marker_is_rendered(options: dict[str, Any]) -> None:
    data = saved(photo(), "JPEG", **options)
    assert data.endswith(b"\xff\xd9")
    assert render(data[:-2], LIMITS).feed == render(data, LIMITS).feed
    assert render(data + b"\0" * 100, LIMITS).feed == render(data, LIMITS).feed


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 1}])
@pytest.mark.parametrize("lacking", [12, 100, 1_000])
def test_image_renderer_truncated_jpeg_is_refused(options: dict[str, Any], lacking: int) -> None:
    data = saved(noise(), "JPEG", **options)
    with pytest.raises(InvalidInput, match="incomplete or damaged"):
        render(data[:-lacking], LIMITS)


HEIC = (
    "AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAX1tZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAAACJpbG9jAAAAAERAAAEA"
    "AQAAAAABoQABAAAAAAAAACQAAAAjaWluZgAAAAAAAQAAABVpbmZlAgAAAAABAABodmMxAAAAAA5waXRtAAAAAAABAAAA/WlwcnAAAADdaXBjbwAAAHZodmND"
    "AQNwAAAAkAAAAAAAHvAA/P34+AAADwNgAAEAGEABDAH//wNwAAADAJAAAAMAAAMAHroCQGEAAQAqQgEBA3AAAAMAkAAAAwAAAwAeoCCBBZbq5Ka5uAhoMCAA"
    "AAMDIAAAAwAhYgABAAZEAcFzwIkAAAATY29scm5jbHgAAQANAAaAAAAAFGlzcGUAAAAAAAAAQAAAAEAAAAAoY2xhcAAAAEAAAAABAAAAIAAAAAEAAAAAAAAA"
    "Av///+AAAAACAAAAEHBpeGkAAAAAAwgICAAAABhpcG1hAAAAAAAAAAEAAQWBAgMFhAAAACxtZGF0AAAAICgBrxmA70mlv//ihh/5rWv+v7IXhdIOd7AQf90X"
    "o21v"
)
"""64 x 32 pixels, red on the left and teal on the right."""


@pytest.mark.skipif("image/heic" not in ALLOWED, reason="pillow-heif is not installed")
def test_image_renderer_heic_becomes_jpeg() -> None:
    data = base64.b64decode(HEIC)
    made = render(data, LIMITS)
    assert (made.content_type, made.feed.width, made.feed.height) == ("image/jpeg", 64, 32)
    assert near(color(made.feed, (0.2, 0.5)), (255, 0, 0), 40)
    assert near(color(made.feed, (0.8, 0.5)), (0, 128, 128), 40)
    with pytest.raises(InvalidInput, match="incomplete or damaged"):
        render(data[:-20], LIMITS)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "AVIF"])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_image_renderer_truncated_file_is_refused(kind: str, share: float) -> None:
    data = saved(Image.effect_noise((300, 200), 60).convert("RGB"), kind)
    with pytest.raises(InvalidInput, match="incomplete or damaged"):
        render(data[: max(16, int(len(data) * share))], LIMITS)


def test_image_renderer_empty_and_text_files_are_refused() -> None:
    with pytest.raises(InvalidInput, match="empty"):
        render(b"", LIMITS)
    with pytest.raises(Unsupported):
        render(b"GIF is what this text begins with", LIMITS)


def test_image_renderer_header_with_too_many_pixels_is_refused() -> None:
    with pytest.raises(TooLarge, match="60000 x 60000 pixels is too large: the maximum is 40 million"):
        render(png(60_000, 60_000, b"\x00" * 100), LIMITS)


def test_image_renderer_decompression_bomb_is_refused_before_decoding() -> None:
    data = saved(Image.new("1", (20_000, 20_000)))
    assert len(data) < 100_000
    with (
        patch.object(ImageFile.ImageFile, "load", side_effect=AssertionError("decoded")),
        pytest.raises(TooLarge, match="20000 x 20000"),
    ):
        render(data, LIMITS)


def png(width: int, height: int, rows: bytes, *, depth: int = 8, kind: int = 2) -> bytes:
    """Build a PNG file whose header may contradict its data."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_image_crop_to_another_aspect_ratio_keeps_the_center() -> None:
    made = crop(saved(photo(1500, 600)), LIMITS, (400, 400))
    assert (made.picture.width, made.picture.height) == (400, 400)
    wide = crop(saved(photo(3000, 3000), "JPEG"), LIMITS, (1500, 500))
    assert (wide.picture.width, wide.picture.height) == (1500, 500)
    assert near(color(wide.picture, (0.1, 0.5)), RED)


def test_image_crop_of_small_image_keeps_aspect_ratio_without_enlarging() -> None:
    made = crop(saved(photo(90, 60)), LIMITS, (1500, 500))
    assert (made.picture.width, made.picture.height) == (90, 30)


def test_image_crop_applies_orientation_and_pixel_limit() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    made = crop(saved(photo(300, 200), "JPEG", exif=exif), LIMITS, (100, 200))
    assert (made.picture.width, made.picture.height) == (100, 200)
    assert near(color(made.picture, (0.5, 0.1)), RED)
    with pytest.raises(TooLarge):
        crop(png(60_000, 60_000, b""), LIMITS, (400, 400))
