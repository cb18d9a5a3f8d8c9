"""Results of a search, as its page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from shoal.web.views.people import PersonView
from shoal.web.views.posts import PostView, tag_path
from shoal.web.visit import Visit


class FoundTag(NamedTuple):
    """A tag that was found."""

    form: str
    path: str
    uses: str


class SearchOffer(NamedTuple):
    """Something that a search box offers while one types: a member or a tag."""

    shown: str
    detail: str
    path: str
    avatar: str = ""
    typed: str = ""
    """Text that comes into the box instead of a page being opened; empty where one is."""


class SearchResults(msgspec.Struct, frozen=True):
    """Everything that a search found."""

    text: str
    kind: str
    member: bool
    """Whether somebody is logged in: posts are for members to search."""
    people: Sequence[PersonView] = ()
    tags: Sequence[FoundTag] = ()
    posts: Sequence[PostView] = ()
    next: str = ""
    misread: tuple[str, ...] = ()
    """Sentences about operators with a value that they do not take."""
    elsewhere: str = ""
    """The domain of another network that was asked for."""
    away: bool = False
    """Whether the index cannot be asked now."""

    @property
    def anything(self) -> bool:
        """Return whether something was found."""
        return bool(self.people or self.tags or self.posts)

    @property
    def more_part(self) -> str:
        """Return the part that goes on with the results."""
        return {"people": "people", "tags": "found_tags"}.get(self.kind, "posts")

    def views(self) -> dict[str, Any]:
        """Return the values that the parts of lists take by their own names."""
        return {"people": self.people, "posts": self.posts, "next": self.next, "end": ""}


async def tag_rows(visit: Visit, names: Sequence[str]) -> list[FoundTag]:
    """Return tags with how much each is used; one read."""
    counted = await visit.front.reads.tags.counted(names) if names else {}
    rows = []
    for name in names:
        held, words = counted.get(name), visit.words
        uses = words.plural("%(n)s post", "%(n)s posts", held.uses) % {"n": words.number(held.uses)} if held else ""
        rows.append(FoundTag(held.form if held else name, tag_path(visit, name), uses))
    return rows


def misread_words(visit: Visit, parts: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence for each part of a query that has an operator with a value that it does not take."""
    return tuple(_hint(visit, part) % {"part": part} for part in parts)


def _hint(visit: Visit, part: str) -> str:
    _ = visit.words.text
    match part.removeprefix("-").partition(":")[0].lower():
        case "before" | "after" | "during":
            return _("%(part)s: write a day as in 2026-03-01.")
        case "near":
            return _("%(part)s: write latitude and longitude, as in near:45.44,12.32.")
    return _("%(part)s: this operator has no such value; those that there are stand below.")
