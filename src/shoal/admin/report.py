"""The result of a check: numbers, examples as plain sentences, and the repair of each finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

EXAMPLES = 10
"""Maximum number of findings per invariant that are described. Further findings are only counted."""

Progress = Callable[[str, int, int], None]
"""Called with the name of a phase, the amount done, and the total, which is 0 if unknown."""

Triple = tuple[int, int, int]


class Finding(NamedTuple):
    """A violated invariant. Two passes over unchanged data yield equal findings, whatever else changes in between.

    `words` has placeholders `{0}`, `{1}` ... for the names of the objects in `about`. `agree` and the fields after it
    select the repair: at most one of them is set.
    """

    words: str
    about: tuple[int, ...]
    seen: tuple[int, ...] = ()
    """Stored times. If the data changed between two passes, they differ, and so do the two findings."""
    agree: Triple | None = None
    """Repair: make this association and its inverse equal; the later one takes precedence."""
    begin: tuple[Triple, int, bytes] | None = None
    """Repair: make an association live, with this time and data."""
    end: Triple | None = None
    recount: tuple[int, int] | None = None
    """Repair: recount this list (object and association type)."""
    divide: tuple[int, int] | None = None
    """Repair: rebuild the rank index of this list (object and association type)."""
    drop: int = 0
    """Repair: drop the materialized timeline of this member."""
    key: tuple[str, str, int, int, int] | None = None
    """Repair: let a key (space, name, shard) refer to the first of two objects instead of the second, which may be 0 for none."""
    tag: str = ""
    look: int = 0
    media: int = 0
    """Repair: correct this media object or profile, so that it matches its files and posts."""
    bytes_of: int = 0
    file: str = ""
    remember: Triple | None = None
    """Repair: merge the two stored histories of this follow, one for each of its members, which should be equal."""
    app: int = 0
    """Repair: schedule this app for deletion after a day without use."""
    plan: int = 0
    """Repair: add this object to the schedule with a new ticket."""
    kind_post: int = 0
    """Repair: index this post of a kind again."""
    fold: bool = False
    """Repair: store all tags in canonical form."""


class Invariant(msgspec.Struct, kw_only=True):
    name: str
    promise: str
    checked: int = 0
    found: int = 0
    examples: list[str] = msgspec.field(default_factory=list)


class CheckReport(msgspec.Struct, kw_only=True):
    """The result of a check. After a repair, `found` contains the numbers before the repair."""

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
    "positions": "positions in lists equal the order of the live associations",
    "I3": "associations (I3) have their inverses",
    "histories": "follow histories agree with the follows, for follower and followed member",
    "I4": "lists of posts by tag (I4) contain the live posts with the tag",
    "kinds": "lists of posts by kind contain exactly the posts that match them",
    "spellings": "tags are stored in their canonical form",
    "cloud": "the tag cloud (I4) counts the live uses of every tag",
    "search": "the search index equals the members and posts",
    "files": "every media file (I9) has its object, and every object its files",
    "lists": "lists contain exactly the objects that belong in them",
    "ends": "associations refer to existing objects",
    "keys": "names and other unique keys belong to existing owners",
    "apps": "unused apps are deleted after a day",
    "agenda": "every object with a due time is scheduled once",
    "ids": "poll options and emoji on posts have unique ids",
}
"""The lines of a report, in order."""


def nothing(_phase: str, _done: int, _total: int) -> None:
    """Ignore progress. This is the `Progress` of a caller that does not show it."""
