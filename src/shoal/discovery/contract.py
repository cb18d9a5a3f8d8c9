"""What a search index promises, whatever keeps it. It is derived: dropped at any time, it is filled again from the graph.

A row says what one object is now, and replaces the row before it. Words are those of `core/words.py`, so every index gives
the same answers; marks are words that begin with a colon, which no text has. An answer is ids: who may see what is for the
reader to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from shoal.core.words import Clause
from shoal.graph.contract import MAX_TIME

FORM = 2
"""Of what rows say. An index of another form is filled again."""

PUBLIC = ":public"
"""The mark of a post that is for everybody."""

Order = Literal["active", "new"]


def by(member_id: int) -> str:
    """The mark of what this member wrote."""
    return f":by:{member_id}"


def to(member_id: int) -> str:
    """The mark of what mentions this member."""
    return f":to:{member_id}"


class PostRow(msgspec.Struct, frozen=True, array_like=True):
    """What an index keeps of a post."""

    id: int
    author_id: int
    written: int
    """Unix milliseconds."""
    marks: tuple[str, ...]
    words: tuple[str, ...]
    tags: tuple[str, ...] = ()
    """Canonical: those with which it counts."""

    @property
    def public(self) -> bool:
        """Whether it is for everybody."""
        return PUBLIC in self.marks


class MemberRow(msgspec.Struct, frozen=True, array_like=True):
    """What an index keeps of a member."""

    id: int
    name: str
    joined: int
    """Unix milliseconds."""
    words: tuple[str, ...]
    """Of the name and the display name."""
    note: tuple[str, ...] = ()
    listed: bool = True
    """Whether whoever looks around may find them."""
    shy: bool = False
    """Whether their public posts are not to be found by the words in them."""
    suspended: bool = False


class Change(NamedTuple):
    """Rows that are put, whether there were others of their ids or not, and ids of which there are to be none."""

    posts: Sequence[PostRow] = ()
    members: Sequence[MemberRow] = ()
    gone: Collection[int] = ()


Making = Callable[[], Change]
"""Makes a change. A tenth of a second of work, where it is of a thousand long posts."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Which posts are looked for. All of `every` must be there and none of `none`; a clause of one word may be a mark."""

    every: tuple[Clause, ...] = ()
    none: tuple[Clause, ...] = ()
    before: int = MAX_TIME
    """Ids below this one."""
    after: int = -1
    """Ids above this one."""
    since: int = 0
    """Written at this moment (Unix ms) or later."""
    until: int = MAX_TIME
    """Written before this moment."""
    viewer: int | None = None
    """Finds what they wrote, and what mentions them."""
    public: bool = True
    """Whether posts for everybody are looked at, but for those of shy authors."""


class TagUses(NamedTuple):
    """A tag by its canonical name, and how many posts count with it."""

    name: str
    uses: int


class State(NamedTuple):
    """How far an index was filled from the graph: all ids up to `filled_to`; `MAX_TIME` when it is complete."""

    form: int = 0
    filled_to: int = -1

    @property
    def complete(self) -> bool:
        """Whether it knows all that there was when it was filled."""
        return self.form == FORM and self.filled_to == MAX_TIME


class SearchIndex(Protocol):
    """Answers may be behind the graph by what is not written yet. Raises `Unavailable` when it cannot be reached."""

    keeps: bool
    """Whether anything is kept here; where not, nothing need be written."""

    async def write(self, change: Change | Making) -> None:
        """Make the rows so, all together. May be repeated. Where a thread writes, a `Making` is called there."""
        ...

    async def posts(self, ask: Ask, limit: int) -> list[int]:
        """The newest posts that fit, newest first."""
        ...

    async def members(
        self, clauses: Sequence[Clause], name: str, limit: int, *, among: Collection[int] | None = None
    ) -> list[int]:
        """Members whose names, or else whose notes, have all of these clauses, of which there is one at the least.

        First come those whose user name begins with `name`, then those who are called so, then those whose note says it; in
        each part who posted last comes first. Only listed ones; of `among`, if it is given, all but those who are suspended.
        """
        ...

    async def tags(self, prefix: str, limit: int) -> list[TagUses]:
        """Tags in use that begin so: the most used first, then by name."""
        ...

    async def directory(self, order: Order, limit: int, offset: int = 0) -> list[int]:
        """Listed members: who posted publicly last, or who joined last, first."""
        ...

    async def rows(self, ids: Collection[int]) -> dict[int, PostRow | MemberRow]:
        """What is kept of these."""
        ...

    async def ids(self, after: int, limit: int) -> list[int]:
        """Of what is there something kept, in their order: those above this one."""
        ...

    async def state(self) -> State:
        """How far it was filled."""
        ...

    async def keep_state(self, state: State) -> None:
        """Remember how far it was filled."""
        ...

    async def clear(self) -> None:
        """Forget everything."""
        ...

    async def close(self) -> None:
        """Let go of every resource."""
        ...
