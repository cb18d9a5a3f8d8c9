"""Operations on kinds of posts: list and declare them."""

from __future__ import annotations

from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.report import Progress
from shoal.commands import kinds
from shoal.core.kinds import KindDraft, PostKind
from shoal.graph.kinds import all_kinds


class ListKinds(Operation[list[PostKind]]):
    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[PostKind]:
        return await all_kinds(network.store)


class ShowKind(Operation[PostKind]):
    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> PostKind:
        return await kinds.get(network.writes, self.name)


class DeclareKind(Operation[PostKind]):
    """Create a kind, or change it to its next version."""

    draft: KindDraft

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> PostKind:
        return await kinds.declare(network.writes, self.draft)
