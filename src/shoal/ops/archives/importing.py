"""The import of one archive into a member's account: read by a confined process, and then, unless it is a dry run, imported."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import NamedTuple

from shoal.archives.entries import MAX_UNPACKED
from shoal.archives.plan import ArchivePlan
from shoal.archives.report import ArchiveReport
from shoal.core.ids import shard_of
from shoal.core.model import Visibility
from shoal.graph.access import access_member
from shoal.ops.archives.backdated_slots import Slots
from shoal.ops.archives.followees import follow_all, matched
from shoal.ops.archives.process import ArchiveProcess
from shoal.ops.archives.shelf import WORK_PREFIX
from shoal.ops.archives.taking import ArchiveTaking
from shoal.ops.checking.report import Progress, nothing
from shoal.ops.network import AnyNetwork


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
    with tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=space.folder) as name:
        folder = Path(name)
        async with ArchiveProcess.started(path, folder, space.most_bytes) as process:
            report = await process.plan(lambda count: progress("reading", count, 0))
            plan = await asyncio.to_thread(ArchivePlan.load, folder)
            followees = await matched(network, member_id, plan, report)
            if dry_run:
                return report
            progress("posts", 0, len(plan.order))
            slots = await asyncio.to_thread(Slots, plan, shard_of(member_id), network.writes.limits.media)
            await ArchiveTaking(network, member_id, plan, process, report, slots, widest=widest).run(progress)
        await follow_all(network, member_id, followees, report)
        report.finished = True
        return report
