"""The contract of search indexes, and the rule that decides whether a row matches a query.

An index is derived data: after it is dropped, it is filled again from the graph. A row describes the current state of an object
and replaces the previous row. Words come from `core/tokenizer.py`, so all indexes return equal results. Properties of a post, such
as its author, are indexed as *marks*: words that begin with a colon, which words of a text never do. A result is a list of ids;
the caller checks visibility.

`fits` is the reference for matching in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from shoal.core.tokenizer import Clause
from shoal.graph.contract import MAX_TIME

FORM = 4
"""Version of the rows. An index with another version is filled again."""

PUBLIC = ":public"
"""The index term that marks public posts."""

Order = Literal["active", "new"]


def by(member_id: int) -> str:
    return f":by:{member_id}"


def within(cell: str) -> str:
    return f":cell:{cell}"


def to(member_id: int) -> str:
    return f":to:{member_id}"


class PostRow(msgspec.Struct, frozen=True, array_like=True):
    id: int
    author_id: int
    written: int
    """Unix milliseconds."""
    marks: tuple[str, ...]
    words: tuple[str, ...]
    tags: tuple[str, ...] = ()
    """Canonical names of the tags that the post counts for."""

    @property
    def public(self) -> bool:
        return PUBLIC in self.marks


class MemberRow(msgspec.Struct, frozen=True, array_like=True):
    id: int
    name: str
    joined: int
    """Unix milliseconds."""
    words: tuple[str, ...]
    """Words of the user name and the display name."""
    note: tuple[str, ...] = ()
    """Words of the profile text."""
    listed: bool = True
    """Whether the directory and searches may show the member."""
    shy: bool = False
    """Whether searches by words must not find the member's public posts."""
    suspended: bool = False


class IndexChange(NamedTuple):
    """Rows to insert or replace, and ids whose rows are to be deleted."""

    posts: Sequence[PostRow] = ()
    members: Sequence[MemberRow] = ()
    gone: Collection[int] = ()


Making = Callable[[], IndexChange]
"""A function that builds a change, which takes 0.1 s for a thousand long posts."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A query for posts. All clauses in `every` must match, and none in `none`.

    A clause may consist of an index term from `by`, `to` or `within` instead of words. A post must have at least one index term
    of each group in `some`.
    """

    every: tuple[Clause, ...] = ()
    none: tuple[Clause, ...] = ()
    some: tuple[tuple[str, ...], ...] = ()
    before: int = MAX_TIME
    """Ids below this one."""
    after: int = -1
    """Ids above this one."""
    since: int = 0
    """Written at this time (Unix ms) or later."""
    until: int = MAX_TIME
    """Written before this time (Unix ms)."""
    viewer: int | None = None
    """The member who also finds their own posts and posts that mention them."""
    public: bool = True
    """Whether public posts match too, except those of shy authors (see `MemberRow.shy`)."""


class TagUses(NamedTuple):
    """A tag by its canonical name, and the number of indexed posts with the tag."""

    name: str
    uses: int


class FillState(NamedTuple):
    """Progress of filling an index from the graph: objects up to the id `filled_to` are indexed; `MAX_TIME` means all."""

    form: int = 0
    filled_to: int = -1

    @property
    def complete(self) -> bool:
        """Whether the index contains everything that existed when it was filled."""
        return self.form == FORM and self.filled_to == MAX_TIME


class SearchIndex(Protocol):
    """A search index. Results may lag behind the graph. Methods raise `Unavailable` if it cannot be reached."""

    keeps: bool
    """Whether the index stores anything; if not, writes can be skipped."""

    async def write(self, change: IndexChange | Making) -> None:
        """Apply a change atomically. Idempotent. If it is a function (`Making`), the writing thread calls it to get the change."""
        ...

    async def posts(self, ask: Ask, limit: int) -> list[int]:
        """Return the newest posts that match, newest first."""
        ...

    async def members(
        self, clauses: Sequence[Clause], name: str, limit: int, *, among: Collection[int] | None = None
    ) -> list[int]:
        """Return members whose names, or else whose notes (profile texts), match all clauses.

        Args:
            clauses: at least one.
            name: user name prefix. Its matches come first, then other matches by name, then by note; in each group, the latest
                posters first.
            limit: maximum number of ids.
            among: search these members, whether listed or not, except suspended ones. By default, all listed members.

        If hundreds match, an index may rank only the newest of them and the latest posters.
        """
        ...

    async def tags(self, prefix: str, limit: int) -> list[TagUses]:
        """Return tags in use that begin with `prefix`: the most used first, then by name."""
        ...

    async def directory(self, order: Order, limit: int, offset: int = 0) -> list[int]:
        """Return listed members, by latest public post or by latest registration."""
        ...

    async def rows(self, ids: Collection[int]) -> dict[int, PostRow | MemberRow]: ...

    async def ids(self, after: int, limit: int) -> list[int]:
        """Return stored ids above `after`, in ascending order."""
        ...

    async def state(self) -> FillState: ...

    async def keep_state(self, state: FillState) -> None: ...

    async def clear(self) -> None: ...

    async def close(self) -> None: ...


def ways(ask: Ask) -> Iterator[tuple[bool, Sequence[str]]]:
    """Yield the one or two searches of a query: each with whether it includes authors who opted out, and with index terms.

    A post is found if it has at least one of these terms.
    """
    if ask.public:
        yield False, (PUBLIC,)
    if ask.viewer is not None:
        yield True, (by(ask.viewer), to(ask.viewer))


def fits(ask: Ask, row: PostRow, *, shy: bool) -> bool:
    """Return whether a post's row matches a query. `shy` means that the author is not indexable (see `MemberRow.shy`)."""
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
    """Return whether a text, given as its words, contains the words of the clause consecutively."""
    phrase, count = clause.words, len(clause.words)
    head, last = phrase[:-1], phrase[-1]
    for at in range(len(words) - count + 1):
        word = words[at + count - 1]
        if (word == last or (clause.open and word.startswith(last))) and tuple(words[at : at + count - 1]) == head:
            return True
    return False
