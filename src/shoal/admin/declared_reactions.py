"""Operations on declared reactions: list, declare and retire them."""

from __future__ import annotations

from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.report import Progress
from shoal.commands import declared_reactions
from shoal.core.reactions import Reaction
from shoal.graph.access import declared_reactions as stored_reactions


class ListReactions(Operation[list[Reaction]]):
    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[Reaction]:
        return list((await stored_reactions(network.store)).reactions)


class DeclareReactions(Operation[list[Reaction]]):
    """Create reactions, or change them. All are declared, or none."""

    drafts: list[Reaction]

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[Reaction]:
        return await declared_reactions.declare_all(network.writes, self.drafts)


class RetireReaction(Operation[Reaction]):
    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> Reaction:
        return await declared_reactions.retire(network.writes, self.name)
