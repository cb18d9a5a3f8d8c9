"""A member's own data: what they wrote and uploaded, what they reacted to, whom they follow, what they set up for themselves.

Posts of others are quoted only as far as the member may see them now. Secrets are not part of it.
"""

from __future__ import annotations

from pathlib import Path

from shoal.commands import members
from shoal.core.errors import NotFound
from shoal.ops.checking.report import Progress, nothing
from shoal.ops.network import AnyNetwork
from shoal.ops.transfer import exported_links, exported_periods, exported_posts, exported_settings
from shoal.ops.transfer.export_target import export_target
from shoal.ops.transfer.exporting import Export


async def export(network: AnyNetwork, name: str, to: Path, progress: Progress = nothing) -> int:
    """Write everything of the member of this name to a directory, or to a `.zip` file; nothing is there if it fails.

    How many of their pictures, videos and sounds could not be found is what comes back.

    Raises `NotFound` for a name that nobody has, `InvalidInput` where something is in the way.
    """
    member = await members.find(network.writes, name)
    if member is None:
        raise NotFound(f"there is no member {name!r}")
    with export_target(to) as opened:
        writing = Export(network.store, network.reads, network.media, member, opened, progress)
        await write_all(writing)
    return writing.lost


async def write_all(writing: Export) -> None:
    """Write every part of an export."""
    await exported_settings.write(writing)
    await exported_posts.write(writing)
    await exported_links.write(writing)
    await exported_periods.write(writing)
