"""A member's own side of ranked feeds: how they are ranked, and what the member has seen."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from shoal.core.model import Node
from shoal.core.ranking.recipes import Recipe
from shoal.core.ranking.wishes import NO_WISHES, Wishes


class Taste(Node, frozen=True, tag="taste"):
    """A member's choices about ranked feeds."""

    member_id: int
    document: bytes = b""
    """Their own recipe as JSON; empty: that of the server holds. Stored like this, it never keeps an object from being read."""
    off: bool = False
    """Whether nothing is ranked for them: For you answers the home timeline."""
    said: bytes = b""
    """Their wishes, likewise as JSON; empty for none."""

    @property
    def recipe(self) -> Recipe | None:
        """Their own recipe; None for none, and for one that this version of Shoal does not take any more."""
        return _decoded(self.document) if self.document else None

    @property
    def wishes(self) -> Wishes:
        """Their wishes; none where this version of Shoal cannot read them any more."""
        return _wishes(self.said) if self.said else NO_WISHES


class SeenPosts(Node, frozen=True, tag="seen_posts"):
    """The posts that a member has seen in lists."""

    member_id: int
    memory: bytes = b""
    """As `seen` packs it."""


@lru_cache(maxsize=1_024)
def _decoded(document: bytes) -> Recipe | None:
    try:
        return msgspec.json.decode(document, type=Recipe)
    except msgspec.MsgspecError:
        return None


@lru_cache(maxsize=1_024)
def _wishes(document: bytes) -> Wishes:
    try:
        return msgspec.json.decode(document, type=Wishes)
    except msgspec.MsgspecError:
        return NO_WISHES
