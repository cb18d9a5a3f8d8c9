"""The operation that takes an archive of another network into a member's account."""

from __future__ import annotations

from pathlib import Path

from shoal.archives.report import ArchiveReport
from shoal.commands import members
from shoal.commands.audit import note_alone
from shoal.core.audit import AuditVerb, member_target
from shoal.core.errors import NotFound
from shoal.core.model import Visibility
from shoal.ops.archives.importing import import_archive
from shoal.ops.checking.report import Progress
from shoal.ops.network import AnyNetwork
from shoal.ops.operation import Operation


class ImportArchive(Operation[ArchiveReport]):
    """Take in an archive, a file of this machine named by its absolute path; or, in a dry run, say what that would do."""

    answer = ArchiveReport
    alone = True
    background = True
    name: str
    path: Path
    dry_run: bool = False
    widest: Visibility = Visibility.PUBLIC

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> ArchiveReport:
        member = await members.find(network.writes, self.name)
        if member is None:
            raise NotFound(f"there is no member {self.name!r}")
        if not self.dry_run:
            await note_alone(network.writes, AuditVerb.ARCHIVE_IMPORTED, member_target(member))
        report = await import_archive(
            network, member.id, self.path, dry_run=self.dry_run, widest=self.widest, progress=progress
        )
        if not self.dry_run:
            await network.settle(_PATIENCE_SECONDS)
        return report


_PATIENCE_SECONDS = 600.0
"""How long what follows from the posts may take."""
