"""Photo details from untrusted files."""

from __future__ import annotations

import pytest

from shoal.core.photo_details import PhotoDetails, camera_name, cleaned

WHOLE = PhotoDetails(
    camera="FUJIFILM X100V",
    lens="23mm f/2",
    exposure=0.004,
    aperture=2.0,
    iso=400,
    focal_length=23.0,
    taken="2026-11-24T18:30:00",
)


def test_photo_details_written_by_camera_are_unchanged_by_cleaning() -> None:
    assert cleaned(WHOLE) == WHOLE
    assert cleaned(None) is None
    assert cleaned(PhotoDetails()) is None


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("x" * 100_000, "x" * 100),
        ("Leica\0\r\n\tM11\x1b[31m", "Leica M11 [31m"),
        ("\u202eLeica\u2066 M11\u200f", "Leica M11"),
        ("a\ud800b", "a b"),
        ("Z" + "\u0301" * 5_000 + "eiss", "Z"),
        (" \u2028 ", ""),
    ],
    ids=["long", "controls", "direction", "surrogate", "marks", "blank"],
)
def test_photo_details_cleaning_makes_text_short_and_printable(text: str, kept: str) -> None:
    assert cleaned(PhotoDetails(camera=text, lens=text, iso=1)) == PhotoDetails(camera=kept, lens=kept, iso=1)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0, 0.0, 1e-300, 1e300])
def test_photo_details_cleaning_drops_impossible_numbers(number: float) -> None:
    assert cleaned(PhotoDetails(exposure=number, aperture=number, focal_length=number)) is None


@pytest.mark.parametrize("iso", [-1, 0, 1 << 70])
def test_photo_details_cleaning_drops_impossible_iso_sensitivity(iso: int) -> None:
    assert cleaned(PhotoDetails(iso=iso)) is None


@pytest.mark.parametrize(
    "taken", ["0000-00-00T00:00:00", "1700-01-01T00:00:00", "2026-13-01T00:00:00", "soon", "9" * 5_000]
)
def test_photo_details_cleaning_drops_impossible_date(taken: str) -> None:
    assert cleaned(PhotoDetails(taken=taken)) is None


def test_photo_details_cleaning_drops_time_zone_and_fraction_of_date() -> None:
    assert cleaned(PhotoDetails(taken="2026-11-24T18:30:00.25+02:00")) == PhotoDetails(taken="2026-11-24T18:30:00")


@pytest.mark.parametrize(
    ("make", "model", "name"),
    [
        ("NIKON CORPORATION", "NIKON D750", "NIKON D750"),
        ("Apple", "iPhone 13", "Apple iPhone 13"),
        ("", "Holga", "Holga"),
        ("Canon ", "Canon EOS R5", "Canon EOS R5"),
    ],
)
def test_photo_details_camera_name_contains_maker_once(make: str, model: str, name: str) -> None:
    assert camera_name(make, model) == name
