"""A media file as the Mastodon API shows it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from msgspec import UNSET

from shoal.api.entities.addresses import Addresses
from shoal.api.entities.media import MediaAttachment, MediaExtras, Meta, Original, Point, Size
from shoal.core.model import Media, MediaKind, MediaState

_CHANNELS = {1: "mono", 2: "stereo"}


def attachment(media: Media, at: Addresses) -> MediaAttachment:
    """A picture, video or sound, ready or not."""
    return MediaAttachment(
        id=str(media.id),
        type=media.kind.value,
        url=at.media(media.key) if media.state is MediaState.READY else None,
        preview_url=at.media(media.preview_key) if media.preview_key else None,
        meta=_meta(media),
        description=media.description or None,
        blurhash=media.blurhash or None,
        shoal=MediaExtras(at.media(media.original_key)) if _keeps_original(media) else UNSET,
    )


def _keeps_original(media: Media) -> bool:
    """A video or sound has an original too, which nobody is shown, and only until it was worked on."""
    return bool(media.original_key) and media.kind is MediaKind.IMAGE


def _meta(media: Media) -> Meta:
    focus = Point(*media.focus)
    small = _size(media.preview_width, media.preview_height) if media.preview_key else UNSET
    if media.state is not MediaState.READY:
        return Meta(small=small, focus=focus)
    if media.kind is MediaKind.IMAGE:
        return Meta(original=Original(**_pixels(media)), small=small, focus=focus)
    sound = _sound(media)
    plays: dict[str, Any] = {"duration": media.duration, "bitrate": media.bitrate}
    if media.kind is MediaKind.AUDIO:
        said = {name: text for name, text in sound.items() if name != "audio_channels"}
        original = Original(**plays, **said)
        return Meta(
            original=original, small=small, focus=focus, length=_length(media), duration=media.duration, **sound
        )
    return Meta(
        original=Original(width=media.width, height=media.height, frame_rate=media.frame_rate, **plays),
        small=small,
        focus=focus,
        length=_length(media),
        duration=media.duration,
        fps=round(Fraction(media.frame_rate)),
        **_pixels(media),
        **sound,
    )


def _pixels(media: Media) -> dict[str, Any]:
    width, height = media.width, media.height
    aspect = width / height if height else 0.0
    return {"width": width, "height": height, "size": f"{width}x{height}", "aspect": aspect}


def _size(width: int, height: int) -> Size:
    return Size(width, height, f"{width}x{height}", width / height if height else 0.0)


def _sound(media: Media) -> dict[str, Any]:
    if media.sound is None:
        return {}
    channels = media.sound.channels
    return {
        "audio_encode": media.sound.codec,
        "audio_bitrate": f"{media.sound.rate} Hz",
        "audio_channels": _CHANNELS.get(channels, f"{channels} channels"),
    }


def _length(media: Media) -> str:
    minutes, seconds = divmod(media.duration, 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02d}:{seconds:05.2f}"
