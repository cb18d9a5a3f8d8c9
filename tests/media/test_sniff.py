"""File type detection by content, independent of the file name."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from shoal.core.errors import InvalidInput, Unsupported
from shoal.media.sniff import ALLOWED, HEAD, HEIC, sniff


@pytest.mark.parametrize("content_type", [one for one in ALLOWED if one != HEIC])
def test_file_type_detection_recognizes_each_accepted_type(content_type: str) -> None:
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
def test_file_type_detection_refuses_other_files_with_accepted_types(data: bytes) -> None:
    with pytest.raises(Unsupported, match="use JPEG, PNG, GIF, WebP, AVIF"):
        sniff(data)


@pytest.mark.skipif(HEIC not in ALLOWED, reason="pillow-heif is not installed")
@pytest.mark.parametrize("brand", [b"heic", b"heix", b"heim", b"heis"])
def test_file_type_detection_recognizes_heic_by_any_brand(brand: bytes) -> None:
    assert sniff(b"\x00\x00\x00\x18ftyp" + brand + b"\x00\x00\x00\x00mif1miaf") == HEIC
    assert sniff(b"\x00\x00\x00\x18ftypmif1\x00\x00\x00\x00miaf" + brand) == HEIC


@pytest.mark.parametrize("brand", [b"miaf", b"jxl ", b"crx ", b"mif1"])
def test_file_type_detection_refuses_other_iso_image_brands(brand: bytes) -> None:
    with pytest.raises(Unsupported):
        sniff(b"\x00\x00\x00\x18ftyp" + brand + b"\x00\x00\x00\x00isommp42")


def test_file_type_detection_reports_empty_file() -> None:
    with pytest.raises(InvalidInput, match="empty"):
        sniff(b"")


def test_file_type_detection_recognizes_avif_in_compatible_brands() -> None:
    assert sniff(b"\x00\x00\x00\x1cftypmif1\x00\x00\x00\x00mif1miafavif") == "image/avif"


def test_file_type_detection_ignores_brand_after_end_of_box() -> None:
    with pytest.raises(Unsupported):
        sniff(b"\x00\x00\x00\x14ftypmif1\x00\x00\x00\x00mif1avif")
