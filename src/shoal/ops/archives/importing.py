"""The import of one archive into a member's account: looked at, and then, unless that is all, taken in."""

from __future__ import annotations

import asyncio
import errno
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from shoal.archives.entries import MAX_UNPACKED, opened
from shoal.archives.plan import ArchivePlan
from shoal.archives.recognition import reader_of
from shoal.archives.report import ArchiveReport
from shoal.core.errors import StorageFull
from shoal.core.ids import shard_of
from shoal.core.model import Visibility
from shoal.graph.access import access_member
from shoal.ops.archives.backdated_slots import Slots
from shoal.ops.archives.followees import follow_all, matched
from shoal.ops.archives.shelf import WORK_PREFIX
from shoal.ops.archives.taking import ArchiveTaking
from shoal.ops.checking.report import Progress, nothing
from shoal.ops.network import AnyNetwork

T = TypeVar("T")

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Space(NamedTuple):
    """Room on the disk for what is unpacked."""

    folder: Path | None = None
    """None: where the system has its temporary files."""
    most_bytes: int = MAX_UNPACKED


SYSTEM = Space()


async def import_archive(
    network: AnyNetwork,
    member_id: int,
    path: Path,
    *,
    dry_run: bool,
    widest: Visibility = Visibility.PUBLIC,
    progress: Progress = nothing,
    space: Space = SYSTEM,
) -> ArchiveReport:
    """Take the archive at `path` into a member's account, and return the report. A dry run changes nothing.

    Posts are for nobody more than `widest`, whatever the archive says. It may be run again at any time: what is there is
    recognised. Raises `InvalidInput` for a file that is no archive, is damaged or too large, `OSError` for one that cannot be
    read, `StorageFull` where it has no room to be unpacked, and `Gone` or `NotFound` for a member who is not here.
    """
    await access_member(network.writes.graph, member_id)
    loop = asyncio.get_running_loop()
    stopped = threading.Event()
    with tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=space.folder) as folder:

        def going_on() -> None:
            if stopped.is_set():
                raise _StoppedError

        def told(count: int) -> None:
            going_on()
            loop.call_soon_threadsafe(progress, "reading", count, 0)

        def read() -> tuple[ArchivePlan, ArchiveReport, Slots]:
            plan = ArchivePlan(Path(folder))
            with _disk(), opened(path, Path(folder), space.most_bytes, going_on) as entries:
                report = plan.fill(reader_of(entries, Path(folder)), time.time_ns() // 1_000_000, told)
            return plan, report, Slots(plan, shard_of(member_id), network.writes.limits.media)

        plan, report, slots = await _in_thread(read, stopped)
        followees = await matched(network, member_id, plan, report)
        if dry_run:
            return report
        packed = Path(folder) / "packed.zip"
        with opened(packed if packed.exists() else path, Path(folder)) as entries:
            await ArchiveTaking(network, member_id, plan, entries, report, slots, widest=widest).run(progress)
        await follow_all(network, member_id, followees, report)
        report.finished = True
        return report


class _StoppedError(Exception):
    """Nobody waits for the archive any more."""


async def _in_thread(read: Callable[[], T], stopped: threading.Event) -> T:
    """Read in a thread, for an archive may be long: a server goes on answering meanwhile. A cancelled call waits for its thread."""
    reading = asyncio.ensure_future(asyncio.to_thread(read))
    try:
        return await asyncio.shield(reading)
    finally:
        stopped.set()
        await asyncio.wait((reading,))
        if not reading.cancelled():
            # It was raised above, or nobody is there for it.
            reading.exception()


@contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise StorageFull("the disk has no room for the archive") from error
