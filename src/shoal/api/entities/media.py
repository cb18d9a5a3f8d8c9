"""Pictures, videos and sounds as they stand on the wire of the Mastodon API."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType


class Size(msgspec.Struct):
    """Pixels; `size` is `WxH`, `aspect` is width through height."""

    width: int
    height: int
    size: str
    aspect: float


class Original(msgspec.Struct, kw_only=True):
    """Properties of the file at `url`: the size of a picture; for video and sound also how it plays."""

    width: int | UnsetType = UNSET
    height: int | UnsetType = UNSET
    size: str | UnsetType = UNSET
    aspect: float | UnsetType = UNSET
    frame_rate: str | UnsetType = UNSET
    """Frames a second, as a fraction: `30/1`."""
    duration: float | UnsetType = UNSET
    """Seconds."""
    bitrate: int | UnsetType = UNSET
    """Bits a second."""
    audio_encode: str | UnsetType = UNSET
    audio_bitrate: str | UnsetType = UNSET


class Point(msgspec.Struct):
    """x and y in -1..1, y upwards."""

    x: float
    y: float


class Meta(msgspec.Struct, kw_only=True):
    """Measured properties of a file; only the focus while it is being processed."""

    original: Original | UnsetType = UNSET
    small: Size | UnsetType = UNSET
    focus: Point
    length: str | UnsetType = UNSET
    """How long it plays, as `0:01:28.65`."""
    duration: float | UnsetType = UNSET
    fps: int | UnsetType = UNSET
    size: str | UnsetType = UNSET
    width: int | UnsetType = UNSET
    height: int | UnsetType = UNSET
    aspect: float | UnsetType = UNSET
    audio_encode: str | UnsetType = UNSET
    audio_bitrate: str | UnsetType = UNSET
    audio_channels: str | UnsetType = UNSET


class MediaExtras(msgspec.Struct):
    """Facts about a file that Mastodon does not tell."""

    original_url: str
    """A picture in all of the pixels that were uploaded, where the server keeps these."""


class MediaAttachment(msgspec.Struct, kw_only=True):
    """An uploaded picture, video (`gifv` is one without sound) or sound."""

    id: str
    type: str
    url: str | None
    """Null while it is processed."""
    preview_url: str | None
    """A small picture; null where there is none."""
    meta: Meta
    description: str | None
    blurhash: str | None
    remote_url: None = None
    preview_remote_url: None = None
    text_url: None = None
    shoal: MediaExtras | UnsetType = UNSET
    """Only where there is more to say."""
