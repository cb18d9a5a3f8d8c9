"""Pictures as they stand on the wire of the Mastodon API."""

from __future__ import annotations

import msgspec


class Size(msgspec.Struct):
    """Pixels; `size` is `WxH`, `aspect` is width through height."""

    width: int
    height: int
    size: str
    aspect: float


class Point(msgspec.Struct):
    """x and y in -1..1, y upwards."""

    x: float
    y: float


class Meta(msgspec.Struct):
    """What is known of a picture."""

    original: Size
    small: Size
    focus: Point


class MediaAttachment(msgspec.Struct, kw_only=True):
    """An uploaded picture."""

    id: str
    type: str
    url: str
    preview_url: str
    meta: Meta
    description: str | None
    blurhash: str | None
    remote_url: None = None
    preview_remote_url: None = None
    text_url: None = None
