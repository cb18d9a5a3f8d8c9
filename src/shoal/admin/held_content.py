"""Operations on content that waits for approval: list it, and approve or reject it."""

from __future__ import annotations

from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.report import Progress
from shoal.commands import held_content
from shoal.core.publishing import HeldContent
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.queries.moderation import held_page

_MOST = 1_000


class ListHeld(Operation[list[HeldContent]]):
    """List the newest 1,000 items that wait for approval, older than `before`, newest first."""

    before: int = MAX_TIME

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[HeldContent]:
        return (await held_page(network.writes.graph, Cursor(before=self.before, limit=_MOST))).items


class ApproveHeld(Operation[int]):
    """Publish held content. Return the id of the post, or of the changed post, member or media."""

    id: int

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> int:
        return await held_content.approve(network.writes, self.id)


class RejectHeld(Operation[None]):
    id: int
    reason: str = ""

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await held_content.reject(network.writes, self.id, self.reason)
