"""A member's own side of ranked feeds: how they are ranked, and what the member has seen."""

from __future__ import annotations

from shoal.core.model import Node
from shoal.core.ranking.recipes import Recipe


class Taste(Node, frozen=True, tag="taste"):
    """A member's choices about ranked feeds."""

    member_id: int
    recipe: Recipe | None = None
    """Their own recipe; None: that of the server."""
    off: bool = False
    """Whether nothing is ranked for them: For you answers the home timeline."""


class SeenPosts(Node, frozen=True, tag="seen_posts"):
    """The posts that a member has seen in lists."""

    member_id: int
    memory: bytes = b""
    """As `core.seen` packs it."""
