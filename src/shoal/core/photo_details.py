"""The details that a camera stores in a photo.

Only the values of `PhotoDetails` are read from an upload. Positions, serial numbers, names and comments never are.
"""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import datetime
from unicodedata import category

import msgspec

_READ = 1_000
"""Characters of a text that are examined; the rest is ignored."""
_KEPT = 100
"""Maximum characters of a text that are stored."""
_MOST_ISO = 10_000_000
_FIRST_YEAR = 1826  # the year of the oldest photograph


class PhotoDetails(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Camera, lens, exposure and date of a photo; empty or 0 if unknown. Check untrusted values with `cleaned`."""

    camera: str = ""
    lens: str = ""
    exposure: float = 0.0  # seconds
    aperture: float = 0.0  # f-number
    iso: int = 0
    focal_length: float = 0.0  # millimeters
    taken: str = ""
    """When the photo was taken, by the clock of the camera: `2026-11-24T18:30:00`."""


def cleaned(details: PhotoDetails | None) -> PhotoDetails | None:
    """Return the details with untrusted values checked: texts cut and made printable, impossible values dropped.

    The result is None if nothing is left.
    """
    if details is None:
        return None
    found = PhotoDetails(
        camera=_text(details.camera),
        lens=_text(details.lens),
        exposure=_within(details.exposure, 1e-6, 86_400),
        aperture=_within(details.aperture, 0.5, 256),
        iso=details.iso if 0 < details.iso <= _MOST_ISO else 0,
        focal_length=_within(details.focal_length, 0.5, 20_000),
        taken=_moment(details.taken),
    )
    return None if found == PhotoDetails() else found


def camera_name(make: str, model: str) -> str:
    """Return the maker and model of a camera, without the maker if the model repeats it: `NIKON D750`, `Apple iPhone 13`."""
    maker = make.strip()
    brand = maker.partition(" ")[0].casefold()
    return model if not brand or model.strip().casefold().startswith(brand) else f"{maker} {model}"


def _text(text: str) -> str:
    shown = (sign for sign in text[:_READ] if not category(sign).startswith("M"))
    printable = "".join(sign if sign.isprintable() else " " for sign in shown)
    return " ".join(printable.split())[:_KEPT].strip()


def _within(value: float, least: float, most: float) -> float:
    return float(f"{value:.4g}") if math.isfinite(value) and least <= value <= most else 0.0


def _moment(text: str) -> str:
    with suppress(ValueError):
        taken = datetime.fromisoformat(text[:_KEPT].strip())
        if taken.year >= _FIRST_YEAR:
            return taken.replace(microsecond=0, tzinfo=None).isoformat()
    return ""
