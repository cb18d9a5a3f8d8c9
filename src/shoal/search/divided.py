"""A search index divided among several, by the shard of members: a member's row and posts are in one of them.

Queries ask all of them and merge the results. Members by latest post, and tags by use, are in the order of each part, merged
position by position: shards are hashes of names, so the parts are alike.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import chain
from typing import TypeVar

from shoal.core.ids import shard_of
from shoal.core.tokenizer import Clause
from shoal.graph.bulk import grouped
from shoal.search.contract import (
    Ask,
    FillState,
    IndexChange,
    Making,
    MemberRow,
    Order,
    PostRow,
    SearchIndex,
    TagUses,
    says,
)

T = TypeVar("T")


class DividedIndex:
    keeps = True

    def __init__(self, parts: Sequence[SearchIndex], owners: Sequence[int]) -> None:
        """`owners[shard]` is the position in `parts` of the index of a logical shard."""
        self._parts = parts
        self._owners = owners

    def _at(self, id_: int) -> int:
        return self._owners[shard_of(id_)]

    async def _all(self, ask: Callable[[SearchIndex], Awaitable[T]]) -> list[T]:
        return await asyncio.gather(*(ask(part) for part in self._parts))

    async def write(self, change: IndexChange | Making) -> None:
        """Apply a change: atomically within each of the indexes, but not across them."""
        made = change if isinstance(change, IndexChange) else await asyncio.to_thread(change)
        posts = grouped(made.posts, lambda row: self._at(row.id))
        members = grouped(made.members, lambda row: self._at(row.id))
        gone = grouped(made.gone, self._at)
        await asyncio.gather(
            *(
                self._parts[at].write(IndexChange(posts.get(at, ()), members.get(at, ()), gone.get(at, ())))
                for at in {*posts, *members, *gone}
            )
        )

    async def posts(self, ask: Ask, limit: int) -> list[int]:
        return sorted(chain(*await self._all(lambda part: part.posts(ask, limit))), reverse=True)[:limit]

    async def members(
        self, clauses: Sequence[Clause], name: str, limit: int, *, among: Collection[int] | None = None
    ) -> list[int]:
        found = _by_position(await self._all(lambda part: part.members(clauses, name, limit, among=among)))
        rows = await self.rows(found)

        def group(id_: int) -> int:
            row = rows.get(id_)
            if not isinstance(row, MemberRow) or not all(says(row.words, clause) for clause in clauses):
                return 2
            return 0 if row.name.startswith(name) else 1

        return sorted(found, key=group)[:limit]

    async def tags(self, prefix: str, limit: int) -> list[TagUses]:
        uses: Counter[str] = Counter()
        for tag in chain(*await self._all(lambda part: part.tags(prefix, limit))):
            uses[tag.name] += tag.uses
        return [TagUses(*used) for used in sorted(uses.items(), key=lambda used: (-used[1], used[0]))[:limit]]

    async def directory(self, order: Order, limit: int, offset: int = 0) -> list[int]:
        found = _by_position(await self._all(lambda part: part.directory(order, offset + limit)))
        if order == "new":
            rows = await self.rows(found)
            joined = {id_: row.joined for id_, row in rows.items() if isinstance(row, MemberRow)}
            found.sort(key=lambda id_: (joined.get(id_, 0), id_), reverse=True)
        return found[offset : offset + limit]

    async def rows(self, ids: Collection[int]) -> dict[int, PostRow | MemberRow]:
        asked = grouped(ids, self._at).items()
        answers = await asyncio.gather(*(self._parts[at].rows(mine) for at, mine in asked))
        return {id_: row for answer in answers for id_, row in answer.items()}

    async def ids(self, after: int, limit: int) -> list[int]:
        return sorted(chain(*await self._all(lambda part: part.ids(after, limit))))[:limit]

    async def state(self) -> FillState:
        states = await self._all(lambda part: part.state())
        return min(states, key=lambda state: (state.form, state.filled_to))

    async def keep_state(self, state: FillState) -> None:
        await self._all(lambda part: part.keep_state(state))

    async def clear(self) -> None:
        await self._all(lambda part: part.clear())

    async def close(self) -> None:
        await self._all(lambda part: part.close())


def _by_position(lists: Sequence[Sequence[int]]) -> list[int]:
    """Merge lists: the first of each, then the second of each, and so on."""
    placed = [(position, at, id_) for at, ids in enumerate(lists) for position, id_ in enumerate(ids)]
    return [id_ for _, _, id_ in sorted(placed)]
