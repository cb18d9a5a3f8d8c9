"""Uploaded pictures and clips, from the upload to the stored file, and the background tasks that convert them.

A picture is stored completely or not at all, under its member's own path (`core/placement.py`). A key contains a hash of the
contents, so the file of a key never changes and may be cached forever.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import file_digest, sha256
from pathlib import Path
from secrets import token_hex
from typing import Final, NamedTuple

import msgspec

from shoal.core.errors import InvalidInput, NotFound, NotYet, ShoalError, Unavailable, Unsupported
from shoal.core.media_files import ANIMATED, copy_of, sizes_of, with_copies
from shoal.core.model import MediaKind
from shoal.core.photo_details import PhotoDetails, cleaned
from shoal.core.placement import media_path
from shoal.media.clips import Clips, Facts, MadeClip
from shoal.media.decoder import Decoder
from shoal.media.limits import UploadLimits
from shoal.media.protocol import Made, Picture, Rendering
from shoal.media.sniff import (
    ALLOWED,
    CLIPS,
    CLIPS_IN_WORDS,
    HEAD,
    PICTURES_IN_WORDS,
    is_animated_gif,
    sniff,
    sniff_clip,
)
from shoal.media.store import RAW, SUFFIXES, FilePart, MediaStore, StoredFile, type_of
from shoal.tasks import cancel

AVATAR: Final = (400, 400)
"""Maximum width and height of an avatar in pixels."""
SMALL_AVATAR: Final = 128
"""Width of the small size of an avatar: enough for a face next to a post on any screen."""
HEADER: Final = (1500, 500)
"""Maximum width and height of a profile header in pixels."""
SMALL_HEADER: Final = 750
"""Width of the small size of a profile header, for phones."""


class StoredPicture(msgspec.Struct, frozen=True, kw_only=True):
    """A stored picture. The fields have the names of `core.model.Media`."""

    content_type: str
    key: str
    preview_key: str
    width: int
    height: int
    preview_width: int
    preview_height: int
    size: int
    blurhash: str
    file_bytes: int
    preview_bytes: int
    original_key: str = ""
    details: PhotoDetails | None = None


class Poster(msgspec.Struct, frozen=True, kw_only=True):
    """The preview picture of a video or sound. The fields have the names of `core.model.Media`."""

    preview_key: str = ""
    preview_width: int = 0
    preview_height: int = 0
    preview_bytes: int = 0
    blurhash: str = ""


class StoredClip(msgspec.Struct, frozen=True, kw_only=True):
    kind: MediaKind
    content_type: str
    key: str
    size: int
    facts: Facts
    poster: Poster


class MediaLibrary:
    """Stores uploads and serves files. It raises the errors of `Decoder.render`, of `Clips.made` and of `MediaStore`."""

    def __init__(
        self, store: MediaStore, decoder: Decoder, limits: UploadLimits | None = None, clips: Clips | None = None
    ) -> None:
        self._store = store
        self.decoder = decoder
        self.limits = limits or decoder.limits
        self.clips = clips
        """Converts videos and sounds; None if the server does not accept them."""

    @property
    def accepted_types(self) -> tuple[str, ...]:
        return (*ALLOWED, *(CLIPS if self.clips else ()))

    def with_decoder(self, decoder: Decoder) -> MediaLibrary:
        return MediaLibrary(self._store, decoder, self.limits, self.clips)

    async def store_picture(self, user_name: str, media_id: int, data: bytes) -> StoredPicture:
        """Create and store the sizes of a posted picture.

        Their keys are `<media path>/<media_id>-<hash>.jpg` and `...-small.jpg`; an original in full resolution
        is `...-original.jpg`. For copies and smaller sizes see `core.media_files`. After an error nothing is stored. Storing an
        upload twice gives equal keys.
        """
        self._check(data)
        made = await self.decoder.render(data, member=media_path(user_name))
        stem = f"{media_path(user_name)}/{media_id}-{_hash(made.feed.data)}"
        key, key_files = _files(stem, made.feed, made.content_type)
        preview_key, preview_files = _files(f"{stem}-small", made.preview, made.content_type)
        original_key, original_files = (
            _files(f"{stem}-original", made.original, made.content_type) if made.original else ("", {})
        )
        await self._put_all({**key_files, **preview_files, **original_files})
        return StoredPicture(
            content_type=made.content_type,
            key=key,
            preview_key=preview_key,
            original_key=original_key,
            width=made.feed.width,
            height=made.feed.height,
            preview_width=made.preview.width,
            preview_height=made.preview.height,
            size=len(made.feed.data),
            blurhash=made.blurhash,
            file_bytes=_bytes(key_files) + _bytes(original_files),
            preview_bytes=_bytes(preview_files),
            # Check the details, because the file may have taken control of the child.
            details=cleaned(made.details),
        )

    async def store_avatar(self, user_name: str, data: bytes) -> tuple[str, str]:
        """Crop the middle of a picture to a square and store it. Return the key for `Member.avatar`, and the blurhash.

        The caller removes the previous avatar.
        """
        return await self._store_crop(user_name, "avatar", data, AVATAR, SMALL_AVATAR)

    async def store_header(self, user_name: str, data: bytes) -> tuple[str, str]:
        """Crop the middle of a picture to 3:1, store it, and return the key for `Member.header`, and the blurhash."""
        return await self._store_crop(user_name, "header", data, HEADER, SMALL_HEADER)

    async def read(self, key: str) -> tuple[bytes, str]:
        _check_shown(key)
        return await self._store.get(key)

    async def part(self, key: str, first: int | None = None, last: int | None = None) -> FilePart:
        """Return a stored file, or a range of it, in pieces. For `first` and `last` see `MediaStore.part`."""
        _check_shown(key)
        return await self._store.part(key, first, last)

    def is_clip(self, data: bytes) -> bool:
        """Return whether an upload begins like a video or sound, or is an animated GIF that can be converted to a video.

        Raises `Unsupported` for a video or sound if this server does not accept them, and `TooLarge` for a file above
        the size limit.
        """
        if self.clips is None:
            if sniff_clip(data[:HEAD]) is not None:
                raise Unsupported(f"this server accepts no video or audio: use {PICTURES_IN_WORDS}")
            return False
        if self.clips.kind_of(data) is None:
            _check_known(data)
            return False
        # A GIF has the size limit of pictures, even if it will be converted to a video.
        (self.limits if is_animated_gif(data) else self.clips.limits).check_size(len(data))
        return True

    async def keep(self, user_name: str, media_id: int, data: bytes) -> str:
        """Store a clip before its conversion, and return its key. The file is never served."""
        key = f"{media_path(user_name)}/{media_id}-{_hash(data)}{SUFFIXES[RAW]}"
        await self._store.put(key, data, RAW)
        return key

    async def store_poster(self, user_name: str, media_id: int, data: bytes) -> Poster:
        """Store an uploaded picture as the poster of a video or sound. Each call uses a new key.

        A lossless picture stays lossless, because a poster is small.
        """
        self._check(data)
        return await self._poster(f"{media_path(user_name)}/{media_id}-{token_hex(4)}", data, keep_kind=True)

    async def store_clip(self, original_key: str) -> StoredClip:
        """Convert a stored upload, and store the result. If it is converted twice, the keys are equal."""
        if self.clips is None:
            raise Unavailable("this server cannot process video or audio")
        stem = original_key.removesuffix(SUFFIXES[RAW]).rpartition("-")[0]
        async with self.clips.made(partial(self._store.fetch, original_key)) as made:
            poster = await self._poster_of(stem, made)
            key = f"{stem}-{await asyncio.to_thread(_hash_of_file, made.file)}{SUFFIXES[made.content_type]}"
            await self._store.put(key, made.file, made.content_type)
            return StoredClip(
                kind=made.kind,
                content_type=made.content_type,
                key=key,
                size=made.file.stat().st_size,
                facts=made.facts,
                poster=poster,
            )

    async def _poster_of(self, stem: str, made: MadeClip) -> Poster:
        if not made.poster:
            return Poster()
        try:
            return await self._poster(stem, made.poster)
        except InvalidInput:
            # The cover is damaged, but the sound can be played.
            return Poster()

    async def _poster(self, stem: str, data: bytes, *, keep_kind: bool = False) -> Poster:
        made: Rendering = await self.decoder.render(
            data, member=stem.rpartition("/")[0], keep_kind=keep_kind, still=True
        )
        key, files = _files(f"{stem}-{_hash(made.preview.data)}-small", made.preview, made.content_type)
        await self._put_all(files)
        return Poster(
            preview_key=key,
            preview_width=made.preview.width,
            preview_height=made.preview.height,
            preview_bytes=_bytes(files),
            blurhash=made.blurhash,
        )

    async def _put_all(self, files: Mapping[str, tuple[bytes, str]]) -> None:
        try:
            for key, (data, content_type) in files.items():
                await self._store.put(key, data, content_type)
        except BaseException:
            # Delete the files even after a cancellation, because no caller knows their keys.
            with suppress(ShoalError):
                await self._store.delete(files)
            raise

    async def remove(self, keys: Iterable[str]) -> None:
        """Delete stored files with their copies and smaller sizes. Empty keys and missing files are ignored."""
        await self._store.delete(with_copies(*keys))

    def files(self) -> AsyncIterator[Sequence[StoredFile]]:
        return self._store.files()

    async def sizes(self, keys: Iterable[str]) -> dict[str, int]:
        """Return the sizes of files in bytes by key. Missing files are left out."""
        return {key: size for key in keys if (size := await self._store.size(key)) is not None}

    async def _store_crop(
        self, user_name: str, noun: str, data: bytes, size: tuple[int, int], small: int
    ) -> tuple[str, str]:
        self._check(data)
        made = await self.decoder.crop(data, *size, small, member=media_path(user_name))
        # The random part gives each upload of a picture its own key, so that removing one upload never removes another.
        stem = f"{media_path(user_name)}/{noun}-{_hash(made.picture.data)}{token_hex(4)}"
        key, files = _files(stem, made.still or made.picture, made.content_type)
        if made.still is not None:
            key = f"{key.removesuffix(SUFFIXES[made.content_type])}{ANIMATED}"
            files[key] = (made.picture.data, made.content_type)
        await self._put_all(files)
        return key, made.blurhash

    def _check(self, data: bytes) -> None:
        """Raise an error for an upload that is visibly invalid, before a child process decodes it."""
        self.limits.check_size(len(data))
        sniff(data[:HEAD])


def _check_known(data: bytes) -> None:
    """Raise `Unsupported` for a file that is neither a picture nor a clip."""
    try:
        sniff(data[:HEAD])
    except Unsupported:
        use = PICTURES_IN_WORDS.replace(" or ", ", ")
        raise Unsupported(f"the type of this file is not supported: use {use}, {CLIPS_IN_WORDS}") from None


def _check_shown(key: str) -> None:
    """Raise `NotFound` for the key of an uploaded original, which is never served because of its metadata."""
    if key.endswith(SUFFIXES[RAW]):
        raise NotFound("there is no such file")


def _files(stem: str, picture: Picture, content_type: Made) -> tuple[str, dict[str, tuple[bytes, str]]]:
    """Return the key of a picture, and the files to store (the picture, its copy and its sizes) with their content types, by key.

    The picture is stored last, so that a reader who finds it also finds its copy and its sizes.
    """
    edges = "".join(f"_{edge}" for edge in picture.sizes)
    key = f"{stem}{edges}{picture.copy_suffix}{SUFFIXES[content_type]}"
    smaller = {copy_of(key): picture.copy} if picture.copy else {}
    # The file may have compromised the child, which may then return invalid sizes: they need not match the key.
    smaller |= dict(zip(sizes_of(key).values(), picture.sizes.values(), strict=False))
    return key, {**{each: (data, type_of(each)) for each, data in smaller.items()}, key: (picture.data, content_type)}


def _bytes(files: Mapping[str, tuple[bytes, str]]) -> int:
    return sum(len(data) for data, _ in files.values())


def _hash(data: bytes) -> str:
    return _short(sha256(data).hexdigest())


def _hash_of_file(file: Path) -> str:
    with file.open("rb") as opened:
        return _short(file_digest(opened, "sha256").hexdigest())


def _short(digest: str) -> str:
    return digest[:8]


_AT_ONCE: Final = 1
_MOST_WAITING: Final = 1_000
"""Maximum number of waiting tasks. It is also the maximum number of members whose turn is remembered."""
_FORGOTTEN_SECONDS: Final = 5.0
"""Seconds after which a waiting task is dropped. A task that still exists is retried within a second."""


class _Wait(NamedTuple):
    member: int
    at: float


class Workshop:
    """Runs background tasks of a `MediaLibrary`, such as conversions. A task has a number and never runs twice concurrently.

    Waiting tasks are scheduled fairly: the member served longest ago is next.
    """

    def __init__(self, library: MediaLibrary, at_once: int = _AT_ONCE) -> None:
        self.library = library
        self._at_once = at_once
        self._works: dict[int, asyncio.Task[None]] = {}
        self._waiting: dict[int, _Wait] = {}
        # The first member was served longest ago.
        self._served: dict[int, None] = {}
        self._closed = False

    @property
    def at_work(self) -> int:
        return len(self._works)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def begin(self, number: int, member: int, work: Callable[[], Coroutine[None, None, None]]) -> asyncio.Future[None]:
        """Start a task, or join it if it is running. Return a future that is done when the task is.

        Raises `NotYet` if no slot is free or it is another member's turn, and `Unavailable` after `close`.
        """
        if self._closed:
            raise Unavailable("the server is stopping")
        task = self._works.get(number)
        if task is None:
            first = self._next(number, member)
            if len(self._works) >= self._at_once or first != member:
                raise NotYet("other media are ahead in the queue")
            self._waiting.pop(number, None)
            self._note_served(member)
            task = self._works[number] = asyncio.create_task(self._guarded(number, work), name=f"shoal-media-{number}")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task.add_done_callback(lambda ended: _pass_on(ended, done))
        return done

    def _next(self, number: int, member: int) -> int:
        """Record an attempt to run a task of this member. Return the member whose turn it is."""
        now = time.monotonic()
        self._waiting.pop(number, None)
        self._waiting[number] = _Wait(member, now)
        # `_waiting` has the oldest attempt first. Drop tasks without a recent attempt: another process has completed them,
        # or their job no longer exists.
        for old, wait in [*self._waiting.items()]:
            if wait.at > now - _FORGOTTEN_SECONDS and len(self._waiting) <= _MOST_WAITING:
                break
            del self._waiting[old]
        members = {wait.member: None for wait in self._waiting.values()}
        never = [each for each in members if each not in self._served]
        return never[0] if never else next(each for each in self._served if each in members)

    def _note_served(self, member: int) -> None:
        self._served.pop(member, None)
        self._served[member] = None
        if len(self._served) > _MOST_WAITING:
            del self._served[next(iter(self._served))]

    async def close(self) -> None:
        """Cancel all tasks. Their jobs remain in the outbox and run again later."""
        self._closed = True
        await cancel(*self._works.values())

    async def _guarded(self, number: int, work: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            await work()
        finally:
            del self._works[number]


def _pass_on(ended: asyncio.Task[None], done: asyncio.Future[None]) -> None:
    if done.done():
        return
    error = Unavailable("the server is stopping") if ended.cancelled() else ended.exception()
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
