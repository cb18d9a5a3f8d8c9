"""The result of a check: numbers, examples as plain sentences, and the repair of each finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

EXAMPLES = 10
"""Maximum number of findings per invariant that are described; others are only counted."""

Progress = Callable[[str, int, int], None]
"""Called with a phase, the amount done, and the total (0: unknown)."""

Triple = tuple[int, int, int]


class Finding(NamedTuple):
    """A violated invariant. Two passes over the same data yield equal findings, whatever else changes in between.

    `words` has placeholders `{0}`, `{1}` ... for the names of the objects in `about`. At most one of the fields from `agree` on
    is set; it selects the repair.
    """

    words: str
    about: tuple[int, ...]
    seen: tuple[int, ...] = ()
    """Stored times, which make a finding different from an earlier one if the data changed between the two passes."""
    agree: Triple | None = None
    """Make an association equal its inverse; the later one wins."""
    begin: tuple[Triple, int, bytes] | None = None
    """Make an association live, with this time and data."""
    end: Triple | None = None
    """Delete an association and its inverse."""
    recount: tuple[int, int] | None = None
    """Recount this count."""
    divide: tuple[int, int] | None = None
    """Rebuild the rank index of this list (object and association type)."""
    drop: int = 0
    """Drop the materialized timeline of this member."""
    key: tuple[str, str, int, int, int] | None = None
    """Make a key (space, name, shard) refer to the first of two objects instead of the second (0: none)."""
    tag: str = ""
    """Recount this tag."""
    look: int = 0
    """Index this object again."""
    media: int = 0
    """Correct a media object or a profile according to its files and posts."""
    bytes_of: int = 0
    """Recount the media bytes of this member."""
    file: str = ""
    """Delete this file."""
    remember: Triple | None = None
    """Merge the histories that the two members have of this follow."""
    app: int = 0
    """Schedule this app for deletion after a day without use."""
    plan: int = 0
    """Create a new ticket in the schedule for this object."""
    fold: bool = False
    """Store all tags in canonical form."""


class Invariant(msgspec.Struct, kw_only=True):
    name: str
    promise: str
    checked: int = 0
    found: int = 0
    examples: list[str] = msgspec.field(default_factory=list)


class CheckReport(msgspec.Struct, kw_only=True):
    """The result of a check. After a repair, `found` still has the numbers from before."""

    invariants: list[Invariant]
    repaired: int = 0
    seconds: float = 0.0
    notes: list[str] = msgspec.field(default_factory=list)

    @property
    def clean(self) -> bool:
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
"""All lines of a report, in order."""


def nothing(_phase: str, _done: int, _total: int) -> None:
    """Ignore progress, for callers that do not show it."""
