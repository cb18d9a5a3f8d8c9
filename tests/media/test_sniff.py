"""Detection of a file's type, whatever its name says."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from shoal.core.errors import InvalidInput, Unsupported
from shoal.media.sniff import ALLOWED, HEAD, HEIC, sniff


@pytest.mark.parametrize("content_type", [one for one in ALLOWED if one != HEIC])
def test_each_kind_that_is_taken_is_known_by_its_first_bytes(content_type: str) -> None:
    file = io.BytesIO()
    Image.new("RGB", (16, 16), "teal").save(file, content_type.removeprefix("image/"))
    assert sniff(file.getvalue()[:HEAD]) == content_type


@pytest.mark.parametrize(
    "data",
    [
        b"this is a text that was named holiday.jpg",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"<html><script>alert(1)</script>",
        b"%PDF-1.7",
        b"BM\x00\x00",
        b"RIFF\x00\x00\x00\x00WAVE",
        b"\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isomiso2",
        b"\xff\xd8",
        b"\x00",
    ],
)
def test_any_other_file_is_refused_with_the_kinds_that_are_taken(data: bytes) -> None:
    with pytest.raises(Unsupported, match="use JPEG, PNG, GIF, WebP, AVIF"):
        sniff(data)


@pytest.mark.skipif(HEIC not in ALLOWED, reason="pillow-heif is not installed")
@pytest.mark.parametrize("brand", [b"heic", b"heix", b"heim", b"heis"])
def test_a_heic_picture_is_known_by_any_of_its_brands(brand: bytes) -> None:
    assert sniff(b"\x00\x00\x00\x18ftyp" + brand + b"\x00\x00\x00\x00mif1miaf") == HEIC
    assert sniff(b"\x00\x00\x00\x18ftypmif1\x00\x00\x00\x00miaf" + brand) == HEIC


@pytest.mark.parametrize("brand", [b"miaf", b"jxl ", b"crx ", b"mif1"])
def test_other_pictures_in_an_iso_file_are_refused(brand: bytes) -> None:
    with pytest.raises(Unsupported):
        sniff(b"\x00\x00\x00\x18ftyp" + brand + b"\x00\x00\x00\x00isommp42")


def test_an_empty_file_is_said_to_be_empty() -> None:
    with pytest.raises(InvalidInput, match="empty"):
        sniff(b"")


def test_avif_may_be_named_among_the_compatible_brands() -> None:
    assert sniff(b"\x00\x00\x00\x1cftypmif1\x00\x00\x00\x00mif1miafavif") == "image/avif"


def test_a_brand_after_the_end_of_its_box_does_not_count() -> None:
    with pytest.raises(Unsupported):
        sniff(b"\x00\x00\x00\x14ftypmif1\x00\x00\x00\x00mif1avif")
