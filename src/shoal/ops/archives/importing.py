"""The import of one archive into a member's account: looked at, and then, unless that is all, taken in."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from shoal.archives.entries import opened
from shoal.archives.plan import ArchivePlan
from shoal.archives.recognition import reader_of
from shoal.archives.report import ArchiveReport
from shoal.core.ids import shard_of
from shoal.core.model import Visibility
from shoal.graph.access import access_member
from shoal.ops.archives.backdated_slots import Slots
from shoal.ops.archives.followees import follow_all, matched
from shoal.ops.archives.taking import ArchiveTaking
from shoal.ops.checking.report import Progress, nothing
from shoal.ops.network import AnyNetwork


async def import_archive(
    network: AnyNetwork,
    member_id: int,
    path: Path,
    *,
    dry_run: bool,
    widest: Visibility = Visibility.PUBLIC,
    progress: Progress = nothing,
) -> ArchiveReport:
    """Take the archive at `path` into a member's account, and return the report. A dry run changes nothing.

    Posts are for nobody more than `widest`, whatever the archive says. It may be run again at any time: what is there is
    recognised. Raises `InvalidInput` for a file that is no archive, is damaged or too large, `OSError` for one that cannot be
    read, and `Gone` or `NotFound` for a member who is not here.
    """
    await access_member(network.writes.graph, member_id)
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory(prefix="shoal-archive-") as folder:

        def told(count: int) -> None:
            loop.call_soon_threadsafe(progress, "reading", count, 0)

        def read() -> tuple[ArchivePlan, ArchiveReport, Slots]:
            plan = ArchivePlan(Path(folder))
            with opened(path, Path(folder)) as entries:
                report = plan.fill(reader_of(entries, Path(folder)), time.time_ns() // 1_000_000, told)
            return plan, report, Slots(plan, shard_of(member_id), network.writes.limits.media)

        # In a thread, for an archive may be long: a server goes on answering meanwhile.
        plan, report, slots = await asyncio.to_thread(read)
        followees = await matched(network, member_id, plan, report)
        if dry_run:
            return report
        packed = Path(folder) / "packed.zip"
        with opened(packed if packed.exists() else path, Path(folder)) as entries:
            await ArchiveTaking(network, member_id, plan, entries, report, slots, widest=widest).run(progress)
        await follow_all(network, member_id, followees, report)
        report.finished = True
        return report
