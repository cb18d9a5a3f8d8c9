"""The contract of search indexes, for every backend.

An index is derived: when dropped, it is filled again from the graph.

A row describes one object as it is now, and replaces the row before it. Words are those of `core/words.py`, so every
index gives the same answers; marks are words that begin with a colon, which no text has. An answer is ids: the reader
asks who may see what.
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
