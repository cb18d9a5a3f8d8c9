"""No search index: nothing is kept, and nothing is found. For a network whose store has none and whose settings name none."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from shoal.core.tokenizer import Clause
from shoal.discovery.contract import FORM, Ask, FillState, IndexChange, Making, MemberRow, Order, PostRow, TagUses
from shoal.graph.contract import MAX_TIME


class NoIndex:
    """See `contract.SearchIndex`."""

    keeps = False

    async def write(self, change: IndexChange | Making) -> None:
        """Nothing is kept."""

    async def posts(self, ask: Ask, limit: int) -> list[int]:  # noqa: ARG002  # the contract's
        return []

    async def members(
        self,
        clauses: Sequence[Clause],  # noqa: ARG002  # the contract's
        name: str,  # noqa: ARG002
        limit: int,  # noqa: ARG002
        *,
        among: Collection[int] | None = None,  # noqa: ARG002
    ) -> list[int]:
        return []

    async def tags(self, prefix: str, limit: int) -> list[TagUses]:  # noqa: ARG002  # the contract's
        return []

    async def directory(self, order: Order, limit: int, offset: int = 0) -> list[int]:  # noqa: ARG002  # the contract's
        return []

    async def rows(self, ids: Collection[int]) -> dict[int, PostRow | MemberRow]:  # noqa: ARG002  # the contract's
        return {}

    async def ids(self, after: int, limit: int) -> list[int]:  # noqa: ARG002  # the contract's
        return []

    async def state(self) -> FillState:
        return FillState(FORM, MAX_TIME)

    async def keep_state(self, state: FillState) -> None:
        """Nothing is kept."""

    async def clear(self) -> None:
        """There is nothing."""

    async def close(self) -> None:
        """Nothing is held."""
