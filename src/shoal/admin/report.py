"""The result of a check: numbers, examples as plain sentences, and how each finding is put right."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

EXAMPLES = 10
"""Findings of one invariant that are told as sentences; the others are only counted."""

Progress = Callable[[str, int, int], None]
"""Called with a phase, how much of it is done, and how much there is in all (0: not known)."""

Triple = tuple[int, int, int]


class Finding(NamedTuple):
    """Something that does not hold. Two looks at the same store give equal findings, whatever else changes meanwhile.

    `words` has `{0}`, `{1}` ... where the things of `about` are named. One of those from `agree` on says the remedy.
    """

    words: str
    about: tuple[int, ...]
    seen: tuple[int, ...] = ()
    """Times that were stored: what changed between two looks is not the same finding."""
    agree: Triple | None = None
    """An association and its inverse are to say the same: the later one is right."""
    begin: tuple[Triple, int, bytes] | None = None
    """An association is to be alive, with this time and data."""
    end: Triple | None = None
    """An association, and its inverse, is to be dead."""
    recount: tuple[int, int] | None = None
    """A count is to be counted again."""
    divide: tuple[int, int] | None = None
    """The blocks of a list are to be made anew."""
    drop: int = 0
    """A timeline is to be forgotten."""
    key: tuple[str, str, int, int, int] | None = None
    """A key (space, name, shard) is to belong to an object, and not to another one."""
    tag: str = ""
    """A tag is to be counted again."""
    look: int = 0
    """An object is to be looked at again by the search index."""
    media: int = 0
    """A media object, or a profile, is to be made to say what its files and posts are."""
    bytes_of: int = 0
    """The bytes of a member's media are to be counted again."""
    file: str = ""
    """A file is to be deleted."""
    remember: Triple | None = None
    """Both ends of a follow are to remember what either does."""
    app: int = 0
    """An app is to go after a day, unless it is used."""
    plan: int = 0
    """An object needs a new ticket for the moment at which it is due."""
    fold: bool = False
    """All tags are to be stored in canonical form."""


class Invariant(msgspec.Struct, kw_only=True):
    """One line of a report."""

    name: str
    promise: str
    checked: int = 0
    found: int = 0
    examples: list[str] = msgspec.field(default_factory=list)


class CheckReport(msgspec.Struct, kw_only=True):
    """All of it. After a repair, `found` still says what there was before."""

    invariants: list[Invariant]
    repaired: int = 0
    seconds: float = 0.0
    notes: list[str] = msgspec.field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether everything holds."""
        return not any(invariant.found for invariant in self.invariants)

    def __getitem__(self, name: str) -> Invariant:
        return next(invariant for invariant in self.invariants if invariant.name == name)


PROMISES = {
    "I1": "home timelines (I1) equal their definition",
    "I2": "counts (I2) equal the live associations",
    "positions": "positions in lists are counted from the live associations",
    "I3": "associations (I3) have their inverses",
    "histories": "histories of follows end where the follows do, and both ends tell the same",
    "I4": "tags (I4) lead to the live posts that have them",
    "spellings": "tags are stored in their canonical form",
    "cloud": "the tag cloud (I4) counts the live uses of every tag",
    "search": "the search index has every member and post as they are",
    "files": "files (I9) belong to the objects that have them, and all of these have theirs",
    "lists": "lists lead to the objects that belong in them, and to nothing else",
    "ends": "associations lead to objects that exist",
    "keys": "names lead to their owners",
    "apps": "apps are used, or go after a day",
    "agenda": "objects that become due have tickets of their own",
    "ids": "options of polls and emoji on posts have ids of their own",
}
"""Every line of a report in its order."""


def nothing(_phase: str, _done: int, _total: int) -> None:
    """Progress that nobody watches."""
