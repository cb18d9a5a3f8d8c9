"""Reactions that an application declares."""

from __future__ import annotations

from shoal.app.network import Network
from shoal.commands import declared_reactions
from shoal.core.reactions import Reaction
from shoal.graph.access import declared_reactions as stored_reactions


class DeclaredReactions:
    """The declared reactions of a network. Roles are not checked: the application decides who may declare them."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def all(self) -> list[Reaction]:
        """Return all declared reactions, with the retired ones, in the order of their declaration."""
        return list((await stored_reactions(self._network.store)).reactions)

    async def declare(self, reaction: Reaction) -> Reaction:
        """Create a reaction, change the title, kinds or weight of one, or restore a retired one.

        Raises `InvalidInput` for an invalid value and an unknown kind, and `Unfit` for a change of the group, and
        for more than 32 reactions that are not retired.
        """
        return await declared_reactions.declare(self._network.writes, reaction)

    async def retire(self, name: str) -> Reaction:
        """Stop members from adding a reaction. Existing reactions stay. Raises `NotFound`."""
        return await declared_reactions.retire(self._network.writes, name)
