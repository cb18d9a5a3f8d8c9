"""Uploaded pictures on their way in and stored pictures on their way out.

A picture is placed whole or not at all, under its member's own path (`core/placement.py`). A key carries a hash of what is
stored, so the file behind a key never changes and may be cached for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Final

import msgspec

from shoal.core.errors import ShoalError
from shoal.core.placement import media_path
from shoal.media.decoder import Decoder
from shoal.media.limits import Limits
from shoal.media.sniff import HEAD, sniff
from shoal.media.store import SUFFIXES, MediaStore

AVATAR: Final = (400, 400)
"""Width and height of an avatar in pixels, at most."""
HEADER: Final = (1500, 500)
"""Width and height of a profile's header in pixels, at most."""


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """A picture in the store; the names are those of `core.model.Media`."""

    content_type: str
    key: str
    preview_key: str
    width: int
    height: int
    preview_width: int
    preview_height: int
    size: int
    """Bytes of the feed size."""
    blurhash: str


class MediaLibrary:
    """Takes uploads in, hands files out. Errors are those of `Decoder.render` and of `MediaStore`."""

    def __init__(self, store: MediaStore, decoder: Decoder, limits: Limits | None = None) -> None:
        self._store = store
        self._decoder = decoder
        self.limits = limits or decoder.limits

    def with_decoder(self, decoder: Decoder) -> MediaLibrary:
        """The same files through another decoder: an import has one of its own."""
        return MediaLibrary(self._store, decoder, self.limits)

    async def place(self, user_name: str, media_id: int, data: bytes) -> Placed:
        """Make the sizes of a posted picture and store them as `<media path>/<media_id>-<hash>.jpg` and `...-small.jpg`.

        After an error nothing is stored. The same upload again gives the same keys.
        """
        self._check(data)
        made = await self._decoder.render(data)
        stem = f"{media_path(user_name)}/{media_id}-{_hash(made.feed.data)}"
        key, preview_key = stem + SUFFIXES[made.content_type], f"{stem}-small{SUFFIXES[made.content_type]}"
        await self._store.put(key, made.feed.data, made.content_type)
        try:
            await self._store.put(preview_key, made.preview.data, made.content_type)
        except BaseException:
            # Also when cancelled: nobody would ever know the first one's key.
            with suppress(ShoalError):
                await self._store.delete([key])
            raise
        return Placed(
            content_type=made.content_type,
            key=key,
            preview_key=preview_key,
            width=made.feed.width,
            height=made.feed.height,
            preview_width=made.preview.width,
            preview_height=made.preview.height,
            size=len(made.feed.data),
            blurhash=made.blurhash,
        )

    async def place_avatar(self, user_name: str, data: bytes) -> str:
        """Cut a square out of the middle and store it; the key for `Member.avatar`. The one before is the caller's to remove."""
        return await self._place_crop(user_name, "avatar", data, AVATAR)

    async def place_header(self, user_name: str, data: bytes) -> str:
        """Cut three to one out of the middle and store it; the key for `Member.header`."""
        return await self._place_crop(user_name, "header", data, HEADER)

    async def read(self, key: str) -> tuple[bytes, str]:
        """A stored file and its content type, or `NotFound`."""
        return await self._store.get(key)

    async def remove(self, keys: Iterable[str]) -> None:
        """Delete stored files; empty keys and those that are gone already are passed over."""
        await self._store.delete(filter(None, keys))

    async def _place_crop(self, user_name: str, noun: str, data: bytes, size: tuple[int, int]) -> str:
        self._check(data)
        made = await self._decoder.crop(data, *size)
        key = f"{media_path(user_name)}/{noun}-{_hash(made.picture.data)}{SUFFIXES[made.content_type]}"
        await self._store.put(key, made.picture.data, made.content_type)
        return key

    def _check(self, data: bytes) -> None:
        """Refuse here what needs no child to refuse."""
        self.limits.check_size(len(data))
        sniff(data[:HEAD])


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()[:8]
