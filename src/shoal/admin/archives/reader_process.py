"""Server side of the confined process that reads an archive: start the process, request the plan and photos, kill it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

import msgspec

from shoal.admin.archives.plan import MOST_POSTS
from shoal.admin.archives.reader import (
    Job,
    Message,
    PhotoData,
    PhotoRequest,
    Planned,
    PostsRead,
    Refusal,
)
from shoal.admin.archives.records import ArchiveReport
from shoal.core.errors import InvalidInput, ShoalError, StorageFull, TooLarge, Unavailable
from shoal.multiprocess.child_process import ChildDied, ChildProcess

_BYTES_PER_SECOND: Final = 1 << 20
"""Bytes of an archive for which the process gets an additional processor second. A core reads several times as much."""
_WALL: Final = 5
"""Allowed seconds of real time for each allowed second of processor time."""
_PHOTO_SECONDS: Final = 60.0
_MAX_REPORT: Final = 1 << 20
"""Maximum size of a message without a photo."""
_MESSAGES: Final[msgspec.msgpack.Decoder[Message]] = msgspec.msgpack.Decoder(Message)
_log = logging.getLogger(__name__)


class ArchiveProcessError(Exception):
    """A bug in the code that reads archives. The error contains the traceback from the reader process."""


class ArchiveLimitsExceeded(ShoalError):
    pass


class ProcessLimits(NamedTuple):
    seconds: int = 120
    """Processor seconds for an empty archive. More seconds are added for the size of the archive."""
    memory: int = 1 << 30


DEFAULT_LIMITS: Final = ProcessLimits()


class ArchiveProcess:
    """A process that reads one archive. `started` kills it at the end of its block."""

    def __init__(self, process: ChildProcess, job: Job) -> None:
        self._process = process
        self._job = job
        self._lock = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def started(
        cls, path: Path, folder: Path, most_bytes: int, limits: ProcessLimits = DEFAULT_LIMITS
    ) -> AsyncIterator[Self]:
        """Start a process for an archive of at most `most_bytes` when unpacked. The process writes to `folder`.

        Raises `Unavailable` if the process cannot be started, and `OSError` for a file that cannot be read.
        """
        size = (await asyncio.to_thread(path.stat)).st_size
        seconds = limits.seconds + size // _BYTES_PER_SECOND
        job = Job(os.fsencode(path), os.fsencode(folder), seconds, limits.memory, most_bytes)
        process = await _spawned()
        try:
            yield cls(process, job)
        finally:
            await process.end()

    async def plan(self, progress: Callable[[int], None]) -> ArchiveReport:
        """Read the archive, save its plan, and return the report. `progress` is called with the number of posts read so far.

        Raises `InvalidInput` for a file that is no archive or is damaged, `ArchiveLimitsExceeded` if the process takes
        too much time or memory, and `StorageFull` if the disk is full.
        """
        async with self._limited(_WALL * self._job.seconds):
            await self._process.send(self._job)
            count = 0
            while isinstance(message := await self._process.receive(_MESSAGES, _MAX_REPORT), PostsRead):
                if not count < message.count <= MOST_POSTS:
                    raise ChildDied(f"the post count decreased from {count} to {message.count}")
                count = message.count
                progress(count)
        if isinstance(message, Planned):
            return message.report
        raise self._error_of(message)

    async def read(self, file: str, most_bytes: int) -> bytes:
        """Return the contents of a photo in the archive.

        Raises `InvalidInput` if the photo is damaged or larger than `most_bytes`, and `ArchiveLimitsExceeded` if the reader
        process does not answer within a minute.
        """
        async with self._lock, self._limited(_PHOTO_SECONDS):
            await self._process.send(PhotoRequest(file, most_bytes))
            message = await self._process.receive(_MESSAGES, most_bytes + _MAX_REPORT)
        if isinstance(message, PhotoData):
            return message.data
        raise self._error_of(message)

    @asynccontextmanager
    async def _limited(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except (TimeoutError, ChildDied) as error:
            # Kill the process, because its late answer would be mistaken for the answer to the next request.
            self._process.kill()
            _log.warning("archive reader process exceeded its limits or died: %r", error)
            raise self._past_limits() from error

    def _past_limits(self) -> ArchiveLimitsExceeded:
        return ArchiveLimitsExceeded(
            f"file: this archive could not be read within {self._job.seconds} seconds and {self._job.memory >> 20} MiB of memory"
        )

    def _error_of(self, message: Message) -> Exception:
        match message:
            case Refusal("too_large"):
                return TooLarge(message.message, field="file")
            case Refusal("invalid"):
                return InvalidInput(message.message, field="file")
            case Refusal("full"):
                return StorageFull("the disk has no room for the archive")
            case Refusal("os"):
                return OSError(message.number, message.message, os.fsdecode(self._job.path))
            case Refusal("internal"):
                return ArchiveProcessError(message.message)
            case _:
                return self._past_limits()


async def _spawned() -> ChildProcess:
    try:
        return await ChildProcess.start("shoal.admin.archives.reader", stderr=asyncio.subprocess.DEVNULL)
    except OSError as error:
        _log.exception("cannot start the archive reader process")
        raise Unavailable("archives cannot be read right now") from error
