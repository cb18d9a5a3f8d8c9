"""Kinds of posts, which an application declares."""

from __future__ import annotations

from shoal.app.network import Network
from shoal.commands import kinds
from shoal.core.kinds import KindDraft, PostKind
from shoal.graph.kinds import all_kinds


class Kinds:
    """The kinds of posts of a network. Roles are not checked: the application decides who may declare them."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def all(self) -> list[PostKind]:
        """Return all kinds, by name."""
        return await all_kinds(self._network.store)

    async def get(self, name: str) -> PostKind:
        """Return a kind. Raises `NotFound`."""
        return await kinds.get(self._network.store, name)

    async def declare(self, declaration: KindDraft) -> PostKind:
        """Create a kind, or change it to its next version. A declaration equal to the current version changes nothing.

        Raises `InvalidInput` for an invalid declaration, and `Unfit` for a change after which stored data may be invalid, and for
        more than 100 kinds.
        """
        return await kinds.declare(self._network.writes, declaration)

    async def reindex(self, name: str) -> None:
        """Index all posts of a kind again (see `settle`); needed only if a declaration's job was lost. Raises `NotFound`."""
        await kinds.reindex(self._network.writes, name)
