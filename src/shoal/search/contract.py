"""The contract of search indexes, the rule that decides whether a row matches a query, and the null index.

An index is derived data: after it is dropped, it is filled again from the graph. A row describes the current state of one object
and replaces the previous row. Words are those of `core/tokenizer.py`, so every index returns the same results. Marks are words that
begin with a colon, which no text contains. A result is a list of ids; the caller checks visibility.

`fits` is the reference for matching in plain Python. `NoIndex` stores nothing and finds nothing; it serves networks whose store
has no index and whose settings name none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from shoal.core.tokenizer import Clause
from shoal.graph.contract import MAX_TIME

FORM = 4
"""Version of the rows. An index with another version is filled again."""

PUBLIC = ":public"
"""The mark of a post that everybody may see."""

Order = Literal["active", "new"]


def by(member_id: int) -> str:
    """Return the mark of posts by this member."""
    return f":by:{member_id}"


def within(cell: str) -> str:
    """Return the mark of posts from within this cell."""
    return f":cell:{cell}"


def to(member_id: int) -> str:
    """Return the mark of posts that mention this member."""
    return f":to:{member_id}"


class PostRow(msgspec.Struct, frozen=True, array_like=True):
    """The row of a post."""

    id: int
    author_id: int
    written: int
    """Unix milliseconds."""
    marks: tuple[str, ...]
    words: tuple[str, ...]
    tags: tuple[str, ...] = ()
    """Canonical names of the tags with which it counts."""

    @property
    def public(self) -> bool:
        """Whether everybody may see it."""
        return PUBLIC in self.marks


class MemberRow(msgspec.Struct, frozen=True, array_like=True):
    """The row of a member."""

    id: int
    name: str
    joined: int
    """Unix milliseconds."""
    words: tuple[str, ...]
    """Words of the name and the display name."""
    note: tuple[str, ...] = ()
    listed: bool = True
    """Whether the directory and searches may show them."""
    shy: bool = False
    """Whether their public posts must not be found by the words in them."""
    suspended: bool = False


class IndexChange(NamedTuple):
    """Rows to put, replacing those with their ids, and ids whose rows are to be deleted."""

    posts: Sequence[PostRow] = ()
    members: Sequence[MemberRow] = ()
    gone: Collection[int] = ()


Making = Callable[[], IndexChange]
"""A function that makes a change. For a thousand long posts it takes a tenth of a second."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A query for posts. All of `every` must match and none of `none`; a clause of one word may be a mark.

    Of each of the groups of marks in `some` a post must have one at least.
    """

    every: tuple[Clause, ...] = ()
    none: tuple[Clause, ...] = ()
    some: tuple[tuple[str, ...], ...] = ()
    before: int = MAX_TIME
    """Ids below this one."""
    after: int = -1
    """Ids above this one."""
    since: int = 0
    """Written at this moment (Unix ms) or later."""
    until: int = MAX_TIME
    """Written before this moment."""
    viewer: int | None = None
    """The member who also finds their own posts and those that mention them."""
    public: bool = True
    """Whether posts for everybody match too, except those of shy authors."""


class TagUses(NamedTuple):
    """A tag by its canonical name, and the number of posts that count with it."""

    name: str
    uses: int


class FillState(NamedTuple):
    """Progress of filling an index from the graph: all ids up to `filled_to`; `MAX_TIME` when it is complete."""

    form: int = 0
    filled_to: int = -1

    @property
    def complete(self) -> bool:
        """Whether everything that existed when it was filled is in it."""
        return self.form == FORM and self.filled_to == MAX_TIME


class SearchIndex(Protocol):
    """An index. Answers may lag behind the graph. Raises `Unavailable` when it cannot be reached."""

    keeps: bool
    """Whether anything is stored here; if not, nothing need be written."""

    async def write(self, change: IndexChange | Making) -> None:
        """Apply a change, all of it together. May be repeated. Where a thread writes, a `Making` is called there."""
        ...

    async def posts(self, ask: Ask, limit: int) -> list[int]:
        """Return the newest posts that match, newest first."""
        ...

    async def members(
        self, clauses: Sequence[Clause], name: str, limit: int, *, among: Collection[int] | None = None
    ) -> list[int]:
        """Return members whose names, or else whose notes, match all of these clauses, of which there is at least one.

        First come members whose user name begins with `name`, then other matches by name, then matches by note; within
        each group, the latest posters come first. Only listed members; with `among`, all of those but the suspended
        ones. Where hundreds match, an index may rank the newest of them and the latest posters alone.
        """
        ...

    async def tags(self, prefix: str, limit: int) -> list[TagUses]:
        """Return tags in use that begin with `prefix`: the most used first, then by name."""
        ...

    async def directory(self, order: Order, limit: int, offset: int = 0) -> list[int]:
        """Return listed members: those who posted publicly last, or who joined last, come first."""
        ...

    async def rows(self, ids: Collection[int]) -> dict[int, PostRow | MemberRow]:
        """Return the stored rows of these ids."""
        ...

    async def ids(self, after: int, limit: int) -> list[int]:
        """Return stored ids above `after`, in ascending order."""
        ...

    async def state(self) -> FillState:
        """Return how far the index was filled."""
        ...

    async def keep_state(self, state: FillState) -> None:
        """Store how far the index was filled."""
        ...

    async def clear(self) -> None:
        """Delete everything."""
        ...

    async def close(self) -> None:
        """Release every resource."""
        ...


def fits(ask: Ask, row: PostRow, *, shy: bool) -> bool:
    """Whether this post is one that is looked for; `shy` says it of its author."""
    if not (ask.after < row.id < ask.before and ask.since <= row.written < ask.until):
        return False
    return (
        _is_theirs(ask, row, shy=shy)
        and all(_has(row, clause) for clause in ask.every)
        and all(any(mark in row.marks for mark in group) for group in ask.some)
        and not any(_has(row, clause) for clause in ask.none)
    )


def _is_theirs(ask: Ask, row: PostRow, *, shy: bool) -> bool:
    if ask.public and row.public and not shy:
        return True
    return ask.viewer is not None and (by(ask.viewer) in row.marks or to(ask.viewer) in row.marks)


def _has(row: PostRow, clause: Clause) -> bool:
    if len(clause.words) == 1 and clause.words[0] in row.marks:
        return True
    return says(row.words, clause)


def says(words: Sequence[str], clause: Clause) -> bool:
    """Whether these words stand in the text behind each other."""
    wanted, count = clause.words, len(clause.words)
    head, last = wanted[:-1], wanted[-1]
    for at in range(len(words) - count + 1):
        word = words[at + count - 1]
        if (word == last or (clause.open and word.startswith(last))) and tuple(words[at : at + count - 1]) == head:
            return True
    return False


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
