"""The media library that settings ask for."""

from __future__ import annotations

from contextlib import AsyncExitStack

from shoal.media.clips import Clips
from shoal.media.decoder import Decoder
from shoal.media.library import MediaLibrary
from shoal.media.limits import ClipLimits
from shoal.media.limits import UploadLimits as MediaLimits
from shoal.media.programs import Programs
from shoal.media.store import MediaStore
from shoal.settings import Settings
from shoal.wiring.places import media_url


async def open_media(settings: Settings, stack: AsyncExitStack) -> MediaLibrary:
    """Open the library, with the processes that decode for it. Raises `InvalidInput` for a URL that names no store."""
    limits = _limits(settings)
    decoder = await stack.enter_async_context(Decoder(limits))
    return MediaLibrary(MediaStore.open(media_url(settings)), decoder, limits, _clips(settings))


def _clips(settings: Settings) -> Clips | None:
    """Return the converter of clips; None where its programs are not installed."""
    programs = Programs.found()
    limits = ClipLimits(max_bytes=settings.max_video_bytes, max_duration=settings.max_video_seconds)
    return Clips(programs, limits) if programs else None


def _limits(settings: Settings) -> MediaLimits:
    limits = MediaLimits(
        max_bytes=settings.max_upload_bytes, max_pixels=settings.max_pixels, feed_edge=settings.feed_edge
    )
    return limits.keeping_originals() if settings.keep_originals else limits
