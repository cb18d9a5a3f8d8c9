"""Imports in the background: attempts, full disks, and the process that reads an archive."""

from __future__ import annotations

import asyncio
import gzip
import resource
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest
from msgspec.structs import replace

from shoal import Shoal
from shoal.admin.archives.importer import Space, import_archive
from shoal.admin.archives.reader_process import ArchiveLimitsExceeded, ArchiveProcess, ProcessLimits
from shoal.admin.archives.records import Omission
from shoal.admin.archives.storage import ArchiveState, ArchiveStorage
from shoal.admin.archives.worker import ArchiveWorker
from shoal.core.model import Visibility
from tests.archives import factories
from tests.archives.test_import import of_mastodon, opened
from tests.async_runner import in_loop

MEBIBYTE = 1 << 20


def shelf_with(folder: Path, owner: int, archive: Path, most_bytes: int = 1 << 30) -> ArchiveStorage:
    archive_storage = ArchiveStorage(folder / "shelf", most_bytes)
    data = archive.read_bytes()
    archive_storage.put(owner, archive.name, len(data), lambda target: shutil.copyfileobj(BytesIO(data), target))
    return archive_storage


def state_of(archive_storage: ArchiveStorage) -> ArchiveState:
    (owner,) = archive_storage.members()
    state = archive_storage.state(owner)
    assert state is not None
    return state


def of_zeros(path: Path, mebibytes: int) -> Path:
    """Return a tar.gz with a file of zeros of the given size."""
    header = tarfile.TarInfo("zeros")
    header.size = mebibytes * MEBIBYTE
    path.write_bytes(gzip.compress(header.tobuf()) + gzip.compress(bytes(MEBIBYTE)) * mebibytes)
    return path


async def begun(archive_storage: ArchiveStorage, working: asyncio.Future[None]) -> None:
    """Wait until the worker has recorded a step."""
    while not state_of(archive_storage).step:
        assert not working.done(), state_of(archive_storage)
        await asyncio.sleep(0)


async def ended_by_a_stop(shoal: Shoal, archive_storage: ArchiveStorage, posts: int) -> None:
    """Run the worker until the given number of posts is recorded, then cancel it."""
    working = asyncio.ensure_future(ArchiveWorker(shoal.network, archive_storage, save_every=0.01).once())
    while state_of(archive_storage).step != "posts" or state_of(archive_storage).done < posts:
        assert not working.done()
        await asyncio.sleep(0.01)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working


@in_loop
async def test_archive_worker_attempt_counter_is_reset_by_progress_and_incremented_without_progress(
    tmp_path: Path,
) -> None:
    notes = [factories.note(n, f"<p>Number {n}</p>") for n in range(3_000)]
    async with opened() as shoal:
        ann = await shoal.register("ann")
        archive_storage = shelf_with(
            tmp_path, ann.id, factories.zipped(tmp_path / "a.zip", factories.mastodon_files(notes))
        )
        await ArchiveWorker(shoal.network, archive_storage).once()
        archive_storage.begin(ann.id, state_of(archive_storage).token, Visibility.PUBLIC)
        archive_storage.note(ann.id, replace(state_of(archive_storage), attempts=4))
        await ended_by_a_stop(shoal, archive_storage, 1)
        first = state_of(archive_storage)
        assert first.attempts == 0
        assert first.furthest == first.done > 0
        archive_storage.note(ann.id, replace(first, attempts=3, furthest=3_000, step="", done=0))
        await ended_by_a_stop(shoal, archive_storage, 1)
        assert (state_of(archive_storage).attempts, state_of(archive_storage).furthest) == (4, 3_000)
        await ArchiveWorker(shoal.network, archive_storage).once()
        assert (state_of(archive_storage).phase, state_of(archive_storage).attempts) == ("done", 0)


@in_loop
async def test_archive_worker_fails_import_after_repeated_full_disk(tmp_path: Path) -> None:
    async with opened() as shoal:
        ann = await shoal.register("ann")
        archive_storage = shelf_with(tmp_path, ann.id, of_zeros(tmp_path / "a.tar.gz", 64))
        archive_worker = ArchiveWorker(shoal.network, archive_storage, backoff_seconds=0)
        with files_of_at_most(32 * MEBIBYTE):
            for attempts in range(1, 5):
                await archive_worker.once()
                assert (state_of(archive_storage).phase, state_of(archive_storage).attempts) == ("looking", attempts)
            await archive_worker.once()
        assert (state_of(archive_storage).phase, state_of(archive_storage).error) == (
            "failed",
            "the disk has no room for the archive",
        )


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Limit the file size of this process, to simulate a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@in_loop
async def test_archive_worker_limits_unpacked_size_to_four_times_upload_limit(tmp_path: Path) -> None:
    async with opened() as shoal:
        ann = await shoal.register("ann")
        archive_storage = shelf_with(tmp_path, ann.id, of_zeros(tmp_path / "a.tar.gz", 5), MEBIBYTE)
        await ArchiveWorker(shoal.network, archive_storage).once()
        assert state_of(archive_storage).error == f"file: a tar may contain at most {4 * MEBIBYTE} bytes"


@in_loop
async def test_archive_import_cancelled_while_reading_kills_reader_process(tmp_path: Path) -> None:
    path = of_zeros(tmp_path / "a.tar.gz", 2_048)
    space = tmp_path / "space"
    space.mkdir()
    async with opened() as shoal:
        ann = await shoal.register("ann")
        job = asyncio.ensure_future(import_archive(shoal.network, ann.id, path, dry_run=True, space=Space(space)))
        while not list(space.glob("*/packed.zip")):  # written by another process
            assert not job.done()
            await asyncio.sleep(0.01)
        assert len(_reading_processes()) == 1
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        assert _reading_processes() == []
        assert list(space.iterdir()) == []
        assert (await import_archive(shoal.network, ann.id, of_mastodon(tmp_path), dry_run=True)).found.posts == 3


def _reading_processes() -> list[int]:
    """Return the ids of this process's children that read archives."""
    children = " ".join(file.read_text() for file in Path("/proc/self/task").glob("*/children"))
    return [
        int(pid)
        for pid in children.split()
        if b"shoal.admin.archives.reader" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


@in_loop
async def test_archive_with_megabytes_of_unclosed_tags_is_read(tmp_path: Path) -> None:
    path = factories.zipped(
        tmp_path / "a.zip",
        factories.mastodon_files([factories.note(1, "<a " * 1_000_000, contentMap={}), factories.note(2, "Tide")]),
    )
    async with opened() as shoal:
        ann = await shoal.register("ann")
        report = await import_archive(shoal.network, ann.id, path, dry_run=True)
        assert (report.found.posts, [(one.reason, one.count) for one in report.omitted]) == (1, [(Omission.EMPTY, 1)])


@in_loop
async def test_archive_is_refused_if_reader_process_exceeds_cpu_time_limit(tmp_path: Path) -> None:
    path = of_zeros(tmp_path / "a.tar.gz", 4_096)
    async with ArchiveProcess.started(path, tmp_path, 8 << 30, ProcessLimits(seconds=1)) as process:
        with pytest.raises(ArchiveLimitsExceeded, match=r"within \d seconds and 1024 MiB"):
            await process.plan(lambda _: None)
    assert _reading_processes() == []


@in_loop
async def test_archive_reader_process_exceeding_memory_limit_is_refused(tmp_path: Path) -> None:
    path = factories.zipped(tmp_path / "a.zip", {f"{n:060000}": b"" for n in range(250)})
    async with ArchiveProcess.started(path, tmp_path, 1 << 30, ProcessLimits(memory=1 << 20)) as process:
        with pytest.raises(ArchiveLimitsExceeded):
            await process.plan(lambda _: None)


@in_loop
async def test_archive_import_interrupted_by_server_kill_is_marked_failed(tmp_path: Path) -> None:
    async with opened() as shoal:
        ann = await shoal.register("ann")
        archive_storage = shelf_with(tmp_path, ann.id, of_zeros(tmp_path / "a.tar.gz", 2_048))
        working = asyncio.ensure_future(ArchiveWorker(shoal.network, archive_storage).once())
        await begun(archive_storage, working)
        killed = state_of(archive_storage)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        archive_storage.note(ann.id, killed)
        await ArchiveWorker(shoal.network, archive_storage).once()
        assert (state_of(archive_storage).phase, state_of(archive_storage).attempts) == ("failed", 1)
        assert "the server was stopped" in state_of(archive_storage).error
        assert not archive_storage.archive(ann.id, killed.token).exists()


@in_loop
async def test_archive_worker_resumes_import_interrupted_by_server_stop(tmp_path: Path) -> None:
    async with opened() as shoal:
        ann = await shoal.register("ann")
        notes = [factories.note(n, f"<p>Number {n}</p>") for n in range(3_000)]
        archive_storage = shelf_with(
            tmp_path, ann.id, factories.zipped(tmp_path / "a.zip", factories.mastodon_files(notes))
        )
        for _ in range(7):
            working = asyncio.ensure_future(ArchiveWorker(shoal.network, archive_storage).once())
            await begun(archive_storage, working)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            assert (state_of(archive_storage).phase, state_of(archive_storage).attempts) == ("looking", 0)
        await ArchiveWorker(shoal.network, archive_storage).once()
        assert state_of(archive_storage).phase == "looked"
