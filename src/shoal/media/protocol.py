"""The messages between the server and its decoding children (`multiprocess/frames.py`).

A child first sends `Ready`; then each `RenderJob` gets exactly one answer. This module does not import Pillow, so both sides may
import it.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from shoal.core.errors import InvalidInput, TooLarge, Unsupported
from shoal.core.photo_details import PhotoDetails

MAX_ANSWER = 64 * 1024 * 1024
"""Maximum bytes of an answer. A child that announces more is considered compromised, and is killed."""


Made = Literal["image/jpeg", "image/webp", "image/png"]
"""Content types that every client shows: JPEG for photographs, WebP or PNG for other pictures."""


class Picture(msgspec.Struct, frozen=True):
    data: bytes
    width: int
    height: int
    copy: bytes = b""
    """A smaller copy in another format, for clients that support the format; may be empty."""
    copy_suffix: str = ""
    """The format of the copy, as the suffix of its key: `.avif` or `.webp`."""
    sizes: dict[int, bytes] = {}
    """Smaller sizes by the pixels of their longer edge, in the format of the copy or, without a copy, of the picture."""


class Rendering(msgspec.Struct, frozen=True, tag="rendering"):
    """The pictures produced from a posted picture. All of them have `content_type`, are upright, in sRGB and without metadata."""

    feed: Picture
    preview: Picture
    content_type: Made
    blurhash: str
    original: Picture | None = None
    """The picture in full resolution; None unless it must be stored and is larger than `feed`."""
    details: PhotoDetails | None = None
    """The details that the camera stored. The server has not checked them yet."""


class Crop(msgspec.Struct, frozen=True, tag="crop"):
    """A picture that is cropped to a given shape and encoded as `content_type`."""

    picture: Picture
    content_type: Made
    blurhash: str
    still: Picture | None = None
    """The first frame, encoded like `picture`, if `picture` is an animation."""


class Failure(msgspec.Struct, frozen=True, tag="failure"):
    kind: str
    message: str


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    pass


class RenderJob(msgspec.Struct, frozen=True):
    """A file to render in all sizes. With `crop`, it is only cropped to this width and height in pixels.

    `small` is the longer edge of an additional smaller copy of the crop; 0 for none. With `keep_kind`, a lossless file stays
    lossless even if it is a photograph. With `still`, only the first frame of an animation is used.
    """

    data: bytes
    crop: tuple[int, int] | None = None
    small: int = 0
    keep_kind: bool = False
    still: bool = False


Answer = Rendering | Crop | Failure | Ready

OUT_OF_MEMORY: Final = "out of memory"
"""The kind of failure after which a child exits, because its memory may be fragmented."""
_ERRORS: dict[str, type[InvalidInput]] = {"too large": TooLarge, "unsupported": Unsupported}


def failure_of(error: InvalidInput) -> Failure:
    kinds = (kind for kind, made in _ERRORS.items() if isinstance(error, made))
    return Failure(kind=next(kinds, "invalid"), message=str(error))


def error_of(failure: Failure) -> InvalidInput:
    return _ERRORS.get(failure.kind, InvalidInput)(failure.message)
