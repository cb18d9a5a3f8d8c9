"""The protocol between the server and its decoding children: length-prefixed MessagePack over stdin and stdout.

A child first sends `Ready`; then each `RenderJob` gets exactly one answer. Nothing here imports Pillow: both sides may import
it.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from shoal.core.errors import InvalidInput, TooLarge, Unsupported

PREFIX = 4
"""Bytes of a frame's length, big-endian."""
MAX_ANSWER = 64 * 1024 * 1024
"""Maximum bytes. A child that announces more has been compromised, and is killed."""


Made = Literal["image/jpeg", "image/webp", "image/png"]
"""Content types that every client shows: JPEG for photographs, WebP or PNG for the rest."""


class Picture(msgspec.Struct, frozen=True):
    """One encoded size."""

    data: bytes
    width: int
    height: int
    copy: bytes = b""
    """A copy of the picture in fewer bytes, for clients that can show it; empty: there is none."""
    copy_suffix: str = ""
    """The format of the copy, as the suffix of its key: `.avif` or `.webp`."""


class Rendering(msgspec.Struct, frozen=True, tag="rendering"):
    """Everything made of a posted picture. The sizes are of `content_type`, upright, sRGB and without metadata."""

    feed: Picture
    preview: Picture
    content_type: Made
    blurhash: str
    original: Picture | None = None
    """The picture in full resolution, where that is kept and larger than `feed`."""


class Crop(msgspec.Struct, frozen=True, tag="crop"):
    """A picture cut to a given shape, of `content_type`."""

    picture: Picture
    content_type: Made
    still: Picture | None = None
    """The first frame, of the same content type, where `picture` is an animation."""


class Failure(msgspec.Struct, frozen=True, tag="failure"):
    """The picture was refused, for a reason that is safe to show."""

    kind: str
    message: str


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The child is up and its limits are set."""


class RenderJob(msgspec.Struct, frozen=True):
    """A file to render, or to cut to `crop`, (width, height) in pixels.

    With `keep_kind` a lossless file stays lossless even if it is a photograph. With `still` only the first frame of an
    animation is used.
    """

    data: bytes
    crop: tuple[int, int] | None = None
    keep_kind: bool = False
    still: bool = False


Answer = Rendering | Crop | Failure | Ready

OUT_OF_MEMORY: Final = "out of memory"
"""The kind of failure after which a child ends itself: its memory may be fragmented."""
_ENCODER = msgspec.msgpack.Encoder()
_ERRORS: dict[str, type[InvalidInput]] = {"too large": TooLarge, "unsupported": Unsupported}


def failure_of(error: InvalidInput) -> Failure:
    """Encode an error as a failure."""
    kinds = (kind for kind, made in _ERRORS.items() if isinstance(error, made))
    return Failure(kind=next(kinds, "invalid"), message=str(error))


def error_of(failure: Failure) -> InvalidInput:
    """Decode a failure into its error."""
    return _ERRORS.get(failure.kind, InvalidInput)(failure.message)


def frame(value: RenderJob | Answer) -> bytearray:
    """Encode a value for the pipe; an upload is copied once only."""
    buffer = bytearray(PREFIX)
    _ENCODER.encode_into(value, buffer, PREFIX)
    buffer[:PREFIX] = (len(buffer) - PREFIX).to_bytes(PREFIX, "big")
    return buffer
