"""The search index in memory, for `memory://`: the reference implementation, filled at every start; and the null index."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from shoal.core.tokenizer import Clause
from shoal.graph.contract import MAX_TIME
from shoal.search.contract import (
    FORM,
    Ask,
    FillState,
    IndexChange,
    Making,
    MemberRow,
    Order,
    PostRow,
    TagUses,
    fits,
    says,
    ways,
)


class MemoryIndex:
    keeps = True

    def __init__(self) -> None:
        self._posts: dict[int, PostRow] = {}
        self._members: dict[int, MemberRow] = {}
        # The ids of posts by word or other index term, in ascending order.
        self._ids_by_word: defaultdict[str, list[int]] = defaultdict(list)
        self._public: defaultdict[int, list[int]] = defaultdict(list)
        self._uses: Counter[str] = Counter()
        self._state = FillState()

    async def write(self, change: IndexChange | Making) -> None:
        change = change if isinstance(change, IndexChange) else change()
        for id_ in change.gone:
            self._drop(id_)
        for row in change.posts:
            self._drop(row.id)
            self._put(row)
        for member in change.members:
            self._members[member.id] = member

    async def posts(self, ask: Ask, limit: int) -> list[int]:
        found: set[int] = set()
        for mark in [mark for _, marks in ways(ask) for mark in marks]:
            # Scan the posts of the rarest word, newest first, until the limit is reached.
            certain = [self._ids_by_word.get(clause.words[0], ()) for clause in ask.every if not _is_loose(clause)]
            lead = min((self._ids_by_word.get(mark, ()), *certain, *map(self._having, ask.some)), key=len)
            end = bisect_left(lead, ask.before)
            chosen = (
                id_ for id_ in reversed(lead[:end]) if fits(ask, self._posts[id_], shy=self._is_shy(self._posts[id_]))
            )
            found.update(id_ for _, id_ in zip(range(limit), chosen, strict=False))
        return sorted(found, reverse=True)[:limit]

    async def members(
        self, clauses: Sequence[Clause], name: str, limit: int, *, among: Collection[int] | None = None
    ) -> list[int]:
        chosen = set(among) if among is not None else None
        ranked: list[tuple[int, int, int]] = []
        for row in self._members.values():
            there = row.listed if chosen is None else row.id in chosen and not row.suspended
            if there and (rank := _rank(row, clauses, name)) is not None:
                ranked.append((rank, -self._active(row.id), -row.id))
        return [-id_ for _, _, id_ in sorted(ranked)[:limit]]

    async def tags(self, prefix: str, limit: int) -> list[TagUses]:
        found = [TagUses(name, n) for name, n in self._uses.items() if n and name.startswith(prefix)]
        return sorted(found, key=lambda tag: (-tag.uses, tag.name))[:limit]

    async def directory(self, order: Order, limit: int, offset: int = 0) -> list[int]:
        listed = [row for row in self._members.values() if row.listed]
        if order == "active":
            listed.sort(key=lambda row: (-self._active(row.id), -row.id))
        else:
            listed.sort(key=lambda row: (-row.joined, -row.id))
        return [row.id for row in listed[offset : offset + limit]]

    async def rows(self, ids: Collection[int]) -> dict[int, PostRow | MemberRow]:
        return {id_: row for id_ in ids if (row := self._posts.get(id_) or self._members.get(id_)) is not None}

    async def ids(self, after: int, limit: int) -> list[int]:
        return sorted(id_ for id_ in (*self._posts, *self._members) if id_ > after)[:limit]

    async def state(self) -> FillState:
        return self._state

    async def keep_state(self, state: FillState) -> None:
        self._state = state

    async def clear(self) -> None:
        for rows in (self._posts, self._members, self._ids_by_word, self._public, self._uses):
            rows.clear()
        self._state = FillState()

    async def close(self) -> None:
        """Do nothing: memory is freed with the object."""

    def _put(self, row: PostRow) -> None:
        self._posts[row.id] = row
        for word in {*row.marks, *row.words}:
            insort(self._ids_by_word[word], row.id)
        if row.public:
            insort(self._public[row.author_id], row.id)
        self._uses.update(row.tags)

    def _drop(self, id_: int) -> None:
        self._members.pop(id_, None)
        row = self._posts.pop(id_, None)
        if row is None:
            return
        for word in {*row.marks, *row.words}:
            _remove(self._ids_by_word[word], id_)
            if not self._ids_by_word[word]:
                del self._ids_by_word[word]
        if row.public:
            _remove(self._public[row.author_id], id_)
        self._uses.subtract(row.tags)

    def _having(self, group: Sequence[str]) -> list[int]:
        return sorted({id_ for mark in group for id_ in self._ids_by_word.get(mark, ())})

    def _is_shy(self, row: PostRow) -> bool:
        author = self._members.get(row.author_id)
        return author is not None and author.shy

    def _active(self, member_id: int) -> int:
        posts = self._public.get(member_id)
        return posts[-1] if posts else 0


class NoIndex(MemoryIndex):
    """An index that stores nothing and finds nothing, for servers without search."""

    keeps = False

    async def write(self, change: IndexChange | Making) -> None:
        """Discard the change, because this index stores nothing."""

    async def state(self) -> FillState:
        return FillState(FORM, MAX_TIME)


def _is_loose(clause: Clause) -> bool:
    return clause.open and len(clause.words) == 1


def _rank(row: MemberRow, clauses: Sequence[Clause], name: str) -> int | None:
    if all(says(row.words, clause) for clause in clauses):
        return 0 if name and row.name.startswith(name) else 1
    return 2 if all(says(row.note, clause._replace(open=False)) for clause in clauses) else None


def _remove(ids: list[int], id_: int) -> None:
    del ids[bisect_left(ids, id_)]
