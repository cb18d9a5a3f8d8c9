"""Complete uploads: from bytes to files in the store and back."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image, ImageOps

from shoal.core.errors import InvalidInput, NotFound, StorageFull, TooLarge, Unsupported
from shoal.core.media_files import files_of, sizes_of, still_of, with_copies
from shoal.core.model import Media
from shoal.core.placement import media_path
from shoal.media.decoder import Decoder
from shoal.media.library import MediaLibrary
from shoal.media.store import MediaStore


def picture(mode: str = "RGB", size: tuple[int, int] = (600, 400)) -> bytes:
    file = io.BytesIO()
    Image.new(mode, size, (200, 30, 30, 90)[: len(mode)]).save(file, "PNG")
    return file.getvalue()


def photograph(mode: str = "RGB", kind: str = "JPEG") -> bytes:
    """Return a deterministic image without flat areas."""
    image = Image.frombytes("L", (90, 60), random.Random(7).randbytes(90 * 60)).resize(
        (900, 600), Image.Resampling.BICUBIC
    )
    made = Image.merge("RGB", (image, image.rotate(180), ImageOps.mirror(image)))
    if mode == "RGBA":
        made.putalpha(image)
    file = io.BytesIO()
    made.save(file, kind)
    return file.getvalue()


def run(story: Callable[[MediaLibrary, MediaStore], Awaitable[Any]], store: MediaStore | None = None) -> None:
    async def told() -> None:
        media = store or MediaStore.open("memory://")
        async with Decoder() as decoder:
            await story(MediaLibrary(media, decoder), media)

    asyncio.run(told())


async def listed(store: MediaStore, prefix: str) -> list[str]:
    return [file.key async for page in store.files(prefix) for file in page]


def test_media_library_photo_is_stored_under_member_path_and_readable() -> None:
    async def story(library: MediaLibrary, store: MediaStore) -> None:
        stored = await library.store_picture("Ann", 42, photograph())
        media = Media(id=42, owner_id=1, **msgspec.structs.asdict(stored))
        assert media.key.startswith(f"{media_path('ann')}/42-")
        assert media.key.endswith(".avif.jpg")
        assert media.preview_key == media.key.removesuffix(".avif.jpg") + "-small_320_160.avif.jpg"
        assert (media.width, media.height, media.preview_width, media.preview_height) == (900, 600, 640, 427)
        data, content_type = await library.read(media.key)
        assert (len(data), content_type) == (media.size, "image/jpeg")
        assert Image.open(io.BytesIO((await library.read(media.preview_key))[0])).size == (640, 427)
        copy, content_type = await library.read(media.key.removesuffix(".jpg"))
        assert (Image.open(io.BytesIO(copy)).size, content_type) == ((900, 600), "image/avif")
        assert len(copy) < len(data)
        for edge, key in sizes_of(media.preview_key).items():
            size, content_type = await library.read(key)
            image = Image.open(io.BytesIO(size))
            assert (image.size, content_type) == ((edge, round(edge * 427 / 640)), "image/avif")
        sizes = {file.key: file.size async for page in store.files() for file in page}
        assert stored.preview_bytes == sum(sizes[key] for key in with_copies(stored.preview_key))
        assert await library.store_picture("ann", 42, photograph()) == stored
        assert sorted(await listed(store, media_path("ann"))) == sorted(files_of(media))
        await library.remove([media.key, media.preview_key])
        assert await listed(store, media_path("ann")) == []

    run(story)


def test_media_library_png_has_no_avif_copy() -> None:
    async def story(library: MediaLibrary, store: MediaStore) -> None:
        stored = await library.store_picture("bea", 7, picture())
        assert stored.content_type == "image/png"
        assert sorted(await listed(store, media_path("bea"))) == sorted(with_copies(stored.key, stored.preview_key))
        assert stored.preview_key == stored.key.removesuffix(".png") + "-small_320_160.png"

    run(story)


def test_media_library_photograph_with_alpha_is_stored_as_webp() -> None:
    async def story(library: MediaLibrary, store: MediaStore) -> None:
        stored = await library.store_picture("bea", 7, photograph("RGBA", "PNG"))
        assert stored.content_type == "image/webp"
        assert stored.key.endswith(".webp")
        assert stored.preview_key.endswith("-small_320_160.webp")

    run(story)


def test_media_library_remove_deletes_files_and_is_idempotent() -> None:
    async def story(library: MediaLibrary, store: MediaStore) -> None:
        stored = await library.store_picture("cy", 7, picture())
        for _ in range(2):
            await library.remove([stored.key, stored.preview_key, ""])
        with pytest.raises(NotFound):
            await library.read(stored.key)

    run(story)


def test_media_library_avatar_is_square_and_header_three_to_one() -> None:
    async def story(library: MediaLibrary, store: MediaStore) -> None:
        avatar, _ = await library.store_avatar("dan", picture(size=(900, 500)))
        header, _ = await library.store_header("dan", picture(size=(1600, 1600)))
        assert avatar.startswith(f"{media_path('dan')}/avatar-")
        assert header.startswith(f"{media_path('dan')}/header-")
        assert Image.open(io.BytesIO((await library.read(avatar))[0])).size == (400, 400)
        assert Image.open(io.BytesIO((await library.read(header))[0])).size == (1500, 500)
        for key, size in ((sizes_of(avatar)[128], (128, 128)), (sizes_of(header)[750], (750, 250))):
            assert Image.open(io.BytesIO((await library.read(key))[0])).size == size

    run(story)


def test_media_library_animated_avatar_is_stored_with_still_frame() -> None:
    frames = [Image.new("RGB", (200, 200), each) for each in ("red", "blue")]
    file = io.BytesIO()
    frames[0].save(file, "WEBP", save_all=True, append_images=frames[1:], duration=100)

    async def story(library: MediaLibrary, store: MediaStore) -> None:
        avatar, _ = await library.store_avatar("dan", file.getvalue())
        assert still_of(avatar) != avatar
        assert sorted(await listed(store, media_path("dan"))) == sorted(with_copies(avatar))
        assert with_copies(avatar)[1:] == (still_of(avatar), sizes_of(avatar)[128])
        moving, content_type = await library.read(avatar)
        assert (Image.open(io.BytesIO(moving)).n_frames, content_type) == (2, "image/webp")  # type: ignore[attr-defined]
        still, content_type = await library.read(still_of(avatar))
        assert (getattr(Image.open(io.BytesIO(still)), "n_frames", 1), content_type) == (1, "image/webp")
        await library.remove((avatar,))
        assert await listed(store, media_path("dan")) == []

    run(story)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (bytes(100_000_000), TooLarge),
        (b"a text named holiday.jpg", Unsupported),
        (b"", InvalidInput),
        (picture()[:80], InvalidInput),
    ],
    ids=["100 MB", "text", "nothing", "cut short"],
)
def test_media_library_refused_upload_leaves_no_files(data: bytes, error: type[Exception]) -> None:
    async def story(library: MediaLibrary, store: MediaStore) -> None:
        for attempt in (
            library.store_picture("eve", 1, data),
            library.store_avatar("eve", data),
            library.store_header("eve", data),
        ):
            with pytest.raises(error):
                await attempt
        assert await listed(store, media_path("eve")) == []

    run(story)


@pytest.mark.parametrize("error", [StorageFull("full"), asyncio.CancelledError()], ids=["full", "cancelled"])
def test_media_library_failed_upload_leaves_no_partial_files(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = MediaStore.open(f"file://{tmp_path}")
    put = store.put

    async def failing_put(key: str, data: bytes, content_type: str) -> None:
        if "-small" in key:
            raise error
        await put(key, data, content_type)

    monkeypatch.setattr(store, "put", failing_put)

    async def story(library: MediaLibrary, store: MediaStore) -> None:
        with pytest.raises(type(error)):
            await library.store_picture("fay", 1, picture())
        assert await listed(store, media_path("fay")) == []

    run(story, store)
