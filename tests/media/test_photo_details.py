"""Camera details read from uploaded photos."""

from __future__ import annotations

import struct

import pytest
from PIL import ExifTags
from PIL.TiffImagePlugin import IFDRational

from shoal.core.photo_details import PhotoDetails
from shoal.media.limits import UploadLimits
from shoal.media.render import render
from tests.media.photos import SECRETS, taken

WHOLE = PhotoDetails(
    camera="FUJIFILM X100V",
    lens="23mm f/2",
    exposure=0.004,
    aperture=2.0,
    iso=400,
    focal_length=23.0,
    taken="2026-11-24T18:30:00",
)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF"])
def test_image_renderer_reads_camera_details_and_no_other_exif(kind: str) -> None:
    made = render(taken(kind), UploadLimits())
    assert made.details == WHOLE
    for secret in SECRETS:
        assert secret not in repr(made.details)
        assert secret.encode() not in made.feed.data + made.preview.data + made.feed.copy + made.preview.copy
    assert b"X100V" not in made.feed.data + made.preview.data


@pytest.mark.parametrize(
    ("camera", "details"),
    [
        ({ExifTags.Base.FNumber: IFDRational(4_294_967_295, 1)}, None),
        ({ExifTags.Base.ExposureTime: "a second"}, None),
        ({ExifTags.Base.ISOSpeedRatings: (200, 200)}, PhotoDetails(iso=200)),
        ({ExifTags.Base.LensModel: "L" * 60_000}, PhotoDetails(lens="L" * 100)),
        ({ExifTags.Base.LensModel: "a\x01\x1b[31mb"}, PhotoDetails(lens="a [31mb")),
        ({ExifTags.Base.DateTimeOriginal: "0000:00:00 00:00:00"}, None),
        ({ExifTags.Base.DateTimeOriginal: "    :  :     :  :  "}, None),
    ],
    ids=["huge", "text", "several", "long", "controls", "no-date", "blank-date"],
)
def test_image_renderer_hostile_exif_is_bounded(camera: dict[int, object], details: PhotoDetails | None) -> None:
    assert render(taken(make="", model="", camera=camera), UploadLimits()).details == details


@pytest.mark.parametrize("fraction", [(1, 0), (0, 0), (0, 1)])
def test_image_renderer_exif_value_with_impossible_fraction_is_ignored(fraction: tuple[int, int]) -> None:
    marked = (1_234_567, 7_654_321)
    whole = taken(make="", model="", camera={ExifTags.Base.ExposureTime: IFDRational(*marked)})
    assert whole.count(struct.pack(">2L", *marked)) == 1
    hostile = whole.replace(struct.pack(">2L", *marked), struct.pack(">2L", *fraction))
    assert render(hostile, UploadLimits()).details is None


def test_image_renderer_reads_utf_8_and_latin_1_lens_names() -> None:
    for name in ("Fotoğraf".encode(), "Élan".encode("latin-1")):
        camera = {ExifTags.Base.LensModel: name}
        made = render(taken(make="", model="", camera=camera), UploadLimits())
        assert made.details is not None
        assert made.details.lens in {"Fotoğraf", "Élan"}


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_image_renderer_damaged_exif_keeps_picture() -> None:
    whole = taken()
    at = whole.index(b"Exif\0\0")
    damaged = whole[: at + 10] + b"\xff" * 60 + whole[at + 70 :]
    made = render(damaged, UploadLimits())
    assert (made.feed.width, made.feed.height) == (90, 60)
    assert made.details is None


def test_image_renderer_reads_camera_details_of_original_and_reduced_photo() -> None:
    small = UploadLimits(feed_edge=40, preview_edge=20)
    assert render(taken(), small).details == WHOLE
    assert render(taken(), small.keeping_originals()).details == WHOLE


def test_image_renderer_without_exif_has_no_details() -> None:
    assert render(taken(make="", model="", camera={}), UploadLimits()).details is None
