"""Photos with the EXIF data of a camera."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from PIL import ExifTags, Image
from PIL.TiffImagePlugin import IFDRational

SECRETS = ("SN-4711", "Ann Owner", "Secret comment", "61 deg", "Somewhere")
"""Texts in the EXIF data that no one may see."""
CAMERA: dict[int, Any] = {
    ExifTags.Base.ExposureTime: IFDRational(1, 250),
    ExifTags.Base.FNumber: IFDRational(2, 1),
    ExifTags.Base.ISOSpeedRatings: 400,
    ExifTags.Base.FocalLength: IFDRational(23, 1),
    ExifTags.Base.DateTimeOriginal: "2026:11:24 18:30:00",
    ExifTags.Base.LensModel: "23mm f/2",
    ExifTags.Base.BodySerialNumber: "SN-4711",
    ExifTags.Base.CameraOwnerName: "Ann Owner",
    ExifTags.Base.UserComment: b"ASCII\0\0\0Secret comment",
}
GPS: dict[int, Any] = {
    ExifTags.GPS.GPSLatitudeRef: "N",
    ExifTags.GPS.GPSMapDatum: "61 deg",
    ExifTags.GPS.GPSAreaInformation: b"Somewhere",
}


def taken(
    kind: str = "JPEG",
    size: tuple[int, int] = (90, 60),
    *,
    make: str = "FUJIFILM",
    model: str = "X100V",
    camera: Mapping[Any, Any] = CAMERA,
) -> bytes:
    """Return a photo as a camera writes it, with a position and other private data."""
    exif = Image.Exif()
    exif[ExifTags.Base.Make] = make
    exif[ExifTags.Base.Model] = model
    exif.get_ifd(ExifTags.IFD.Exif).update(camera)
    exif.get_ifd(ExifTags.IFD.GPSInfo).update(GPS)
    file = io.BytesIO()
    Image.effect_noise(size, 40).convert("RGB").save(file, kind, exif=exif)
    return file.getvalue()
