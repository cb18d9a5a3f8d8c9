"""The photographs of the demo network, with the credits in `CREDITS.md`."""

from __future__ import annotations

from functools import cache
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageOps

HEADER = (1500, 500)
_HERE = Path(__file__).parent


class Photo(NamedTuple):
    file: str
    title: str
    author: str
    license: str
    source: str
    """The address where the photograph was found."""
    description: str


@cache
def photos() -> dict[str, Photo]:
    rows = (line.strip("| ").split(" | ") for line in (_HERE / "CREDITS.md").read_text("utf-8").splitlines())
    return {row[0].removesuffix(".webp"): Photo(*row) for row in rows if row[0].endswith(".webp")}


def read(name: str) -> bytes:
    return (_HERE / photos()[name].file).read_bytes()


def header(name: str) -> bytes:
    """Return the middle of the photograph with this name as a header picture: a JPEG of 1500 by 500 pixels."""
    with Image.open(BytesIO(read(name))) as picture:
        out = BytesIO()
        ImageOps.fit(picture, HEADER).save(out, "JPEG", quality=85)
        return out.getvalue()
