"""The contract of the three media stores, and specifics of directories and S3 URLs."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from shoal.core.errors import InvalidInput, NotFound, Unavailable
from shoal.media.store import MediaStore

JPEG = "image/jpeg"
MIB = 1 << 20


@pytest.fixture(params=["directory", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> MediaStore:
    if request.param == "directory":
        return MediaStore.open(f"file://{tmp_path}/media")
    return MediaStore.open("memory://" if request.param == "memory" else request.getfixturevalue("s3_url"))


async def listed(store: MediaStore, prefix: str) -> list[str]:
    return sorted([file.key async for page in store.files(prefix) for file in page])


def test_media_store_get_returns_stored_data_and_type(store: MediaStore) -> None:
    async def story() -> None:
        await store.put("1/2/3/ann/7-ab.webp", b"picture" * 100_000, "image/webp")
        assert await store.get("1/2/3/ann/7-ab.webp") == (b"picture" * 100_000, "image/webp")

    asyncio.run(story())


def test_media_store_put_replaces_existing_file(store: MediaStore) -> None:
    async def story() -> None:
        await store.put("1/bea/a.jpg", b"one", JPEG)
        await store.put("1/bea/a.jpg", b"two", JPEG)
        assert await store.get("1/bea/a.jpg") == (b"two", JPEG)
        assert await listed(store, "1/bea") == ["1/bea/a.jpg"]

    asyncio.run(story())


def test_media_store_get_of_missing_key_raises_not_found(store: MediaStore) -> None:
    async def story() -> None:
        await store.put("1/cy/a.jpg", b"one", JPEG)
        for key in ("1/cy/b.jpg", "1/cy", "9/nobody/x.jpg"):
            with pytest.raises(NotFound):
                await store.get(key)

    asyncio.run(story())


def test_media_store_delete_is_idempotent(store: MediaStore) -> None:
    async def story() -> None:
        keys = [f"1/dan/{number}.jpg" for number in range(20)]
        for key in keys:
            await store.put(key, b"x", JPEG)
        await store.delete([*keys[1:], "1/dan/never-was.jpg"])
        await store.delete(key for key in keys[1:])
        await store.delete([])
        assert await listed(store, "1/dan") == keys[:1]

    asyncio.run(story())


def test_media_store_listing_contains_size_and_modification_time(store: MediaStore) -> None:
    async def story() -> None:
        put = {f"7/{at}/3/fay/{at}-ab.jpg": at + 1 for at in range(30)}
        for key, size in put.items():
            await store.put(key, b"x" * size, JPEG)
        files = [file async for page in store.files() for file in page if "/fay/" in file.key]
        assert {file.key: file.size for file in files} == put
        assert all(abs(time.time() - file.modified) < 300 for file in files)
        assert [await store.size(key) for key in ("7/4/3/fay/4-ab.jpg", "7/4/3/fay/5-ab.jpg")] == [5, None]

    asyncio.run(story())


def test_media_store_listing_by_prefix_matches_whole_path_segments(store: MediaStore) -> None:
    async def story() -> None:
        for key in ("1/eve/a.jpg", "1/eve/b.jpg", "1/evelyn/c.jpg"):
            await store.put(key, b"x", JPEG)
        assert await listed(store, "1/eve") == ["1/eve/a.jpg", "1/eve/b.jpg"]
        assert await listed(store, "8/nobody") == []

    asyncio.run(story())


def test_media_store_concurrent_puts_leave_one_complete_file(store: MediaStore) -> None:
    async def story() -> None:
        bodies = [bytes([number]) * 200_000 for number in range(8)]
        await asyncio.gather(*(store.put("1/fay/a.jpg", body, JPEG) for body in bodies))
        assert (await store.get("1/fay/a.jpg"))[0] in bodies
        assert await listed(store, "1/fay") == ["1/fay/a.jpg"]

    asyncio.run(story())


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "a/",
        "a/./b",
        ".x",
        "a/.x",
        "a\\b",
        "a\x00b",
        "a#1",
        "é",
        "a\n",
        "a" * 600,
    ],
)
def test_media_store_invalid_key_is_refused(store: MediaStore, key: str) -> None:
    async def story() -> None:
        with pytest.raises(InvalidInput):
            await store.put(key, b"x", JPEG)
        with pytest.raises(InvalidInput):
            await store.get(key)
        with pytest.raises(InvalidInput):
            await store.delete(["fine.jpg", key])
        if key:
            with pytest.raises(InvalidInput):
                await listed(store, key)

    asyncio.run(story())


def test_media_directory_reads_never_see_partial_files(tmp_path: Path) -> None:
    store, file = MediaStore.open(f"file://{tmp_path}"), tmp_path / "a/b.jpg"

    async def story() -> None:
        bodies = [bytes([number]) * 3_000_000 for number in range(10)]
        await store.put("a/b.jpg", bodies[0], JPEG)
        puts = asyncio.gather(*(store.put("a/b.jpg", body, JPEG) for body in bodies))
        while not puts.done():
            assert await asyncio.to_thread(file.read_bytes) in bodies
        await puts

    asyncio.run(story())


def test_media_directory_is_created_and_empty_folders_are_removed(tmp_path: Path) -> None:
    root = tmp_path / "a place/media"

    async def story() -> None:
        store = MediaStore.open(f"file://{quote(str(root))}")
        await store.put("1/2/3/gil/a.jpg", b"x", JPEG)
        assert (root / "1/2/3/gil/a.jpg").read_bytes() == b"x"
        await store.delete(["1/2/3/gil/a.jpg"])
        assert list(root.iterdir()) == []

    asyncio.run(story())


FULL_DISK = """
import asyncio, sys
from pathlib import Path
from shoal.core.errors import StorageFull
from shoal.media.store import MediaStore

async def main():
    store = MediaStore.open("file://" + sys.argv[1])
    await store.put("a/small.jpg", b"x" * 1000, "image/jpeg")
    for large in (b"x" * 1_000_000, Path(sys.argv[2])):
        try:
            await store.put("a/large.jpg", large, "image/jpeg")
        except StorageFull as error:
            print(error)
    print([file.key async for page in store.files("a") for file in page], (await store.get("a/small.jpg"))[0] == b"x" * 1000)

asyncio.run(main())
"""


def test_media_directory_on_full_disk_reports_it_and_leaves_no_partial_files(tmp_path: Path) -> None:
    full, large = tmp_path / "full", tmp_path / "large"
    full.mkdir()
    large.write_bytes(bytes(12 * MIB))
    mount = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        'mount -t tmpfs -o size=64k none "$1" && shift && exec "$@"',
        "sh",
        str(full),
    ]
    if shutil.which("unshare") is None or subprocess.run([*mount, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here")
    command = [*mount, sys.executable, "-c", FULL_DISK, str(full), str(large)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [*["the media store is full"] * 2, "['a/small.jpg'] True"]


@pytest.mark.parametrize("size", [0, 1, 12 * MIB + 1])
def test_media_store_file_upload_and_download_are_identical(store: MediaStore, tmp_path: Path, size: int) -> None:
    async def story() -> None:
        given, got = tmp_path / "given", tmp_path / "got"
        given.write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
        await store.put("1/kim/film.mp4", given, "video/mp4")
        assert await listed(store, "1/kim") == ["1/kim/film.mp4"]
        await store.fetch("1/kim/film.mp4", got)
        assert got.read_bytes() == given.read_bytes()
        with pytest.raises(NotFound):
            await store.fetch("1/kim/other.mp4", got)

    asyncio.run(story())


LARGE_FILE = """
import asyncio, resource, sys
from pathlib import Path
from shoal.media.store import MediaStore

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

async def main():
    store, large, copy = MediaStore.open("file://" + sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    await store.put("a/small.mp4", b"x", "video/mp4")
    before = peak()
    await store.put("a/large.mp4", large, "video/mp4")
    await store.fetch("a/large.mp4", copy)
    print(peak() - before)

asyncio.run(main())
"""


def test_media_store_large_file_is_streamed_without_loading_into_memory(tmp_path: Path) -> None:
    large, copy = tmp_path / "large", tmp_path / "copy"
    large.write_bytes(bytes(100 * MIB))
    command = [sys.executable, "-c", LARGE_FILE, str(tmp_path / "media"), str(large), str(copy)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert copy.stat().st_size == 100 * MIB
    assert int(done.stdout) < 40


@pytest.mark.parametrize(
    "url",
    ["", "media", "/var/media", "file://", "file://host/dir", "s3://", "http://x/y", "s3://bucket?endpoin=http://x"],
)
def test_media_store_url_of_unsupported_kind_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="media store"):
        MediaStore.open(url)


def test_s3_media_store_keeps_content_type_without_file_extension(s3_url: str) -> None:
    async def story() -> None:
        store = MediaStore.open(s3_url)
        await store.put("1/hal/export", b"{}", "application/json")
        assert await store.get("1/hal/export") == (b"{}", "application/json")

    asyncio.run(story())


@pytest.mark.parametrize("change", [("secret-at-all", "wrong-secret-at-all"), ("s3://pictures", "s3://no-such-bucket")])
def test_s3_media_store_with_wrong_secret_or_bucket_is_unavailable(s3_url: str, change: tuple[str, str]) -> None:
    assert change[0] in s3_url

    async def story() -> None:
        with pytest.raises(Unavailable):
            await MediaStore.open(s3_url.replace(*change)).put("1/ida/a.jpg", b"x", JPEG)

    asyncio.run(story())


def test_s3_media_store_reads_credentials_from_environment(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, _, credentials = s3_url.partition("&access_key_id=")
    key, _, secret = credentials.partition("&secret_access_key=")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)

    async def story() -> None:
        store = MediaStore.open(plain)
        await store.put("1/jo/a.jpg", b"x", JPEG)
        assert await store.get("1/jo/a.jpg") == (b"x", JPEG)

    asyncio.run(story())


def test_s3_media_store_unreachable_endpoint_is_unavailable_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {
        "endpoint": "http://127.0.0.1:9",
        "region": "x",
        "access_key_id": "x",
        "secret_access_key": "x",
    }
    store = MediaStore.open("s3://pictures?" + "&".join(f"{name}={value}" for name, value in options.items()))
    with pytest.raises(Unavailable):
        asyncio.run(asyncio.wait_for(store.put("1/kim/a.jpg", b"x", JPEG), 60))


def test_media_store_range_read_follows_http_byte_ranges(store: MediaStore) -> None:
    async def story() -> None:
        data = bytes(range(256)) * 2_000
        await store.put("1/bea/a.mp4", data, "video/mp4")
        end = len(data) - 1
        for asked, first, last in (
            ((0, None), 0, end),
            ((5, 9), 5, 9),
            ((5, end + 100), 5, end),
            ((None, 10), end - 9, end),
            ((None, end * 2), 0, end),
        ):
            part = await store.part("1/bea/a.mp4", *asked)
            assert (part.content_type, part.size, part.first, part.last) == ("video/mp4", len(data), first, last)
            assert b"".join([piece async for piece in part.pieces]) == data[first : last + 1]
        behind = await store.part("1/bea/a.mp4", len(data))
        assert behind.first > behind.last
        assert [piece async for piece in behind.pieces] == []
        with pytest.raises(NotFound):
            await store.part("1/bea/b.mp4", 0)

    asyncio.run(story())
