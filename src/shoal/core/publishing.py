"""Checks of posts, edits, profile changes and uploads before they are public: their input and their outcome.

Checks run in order: the built-in rules, then the program's own callable or the hook URL. The strictest decision wins, and the first
of equally strict ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec

Kind = Literal["post", "edit", "profile", "media"]
Action = Literal["allow", "hold", "reject"]

_ACTIONS: tuple[Action, ...] = ("allow", "hold", "reject")
"""In order of strictness."""

MAX_REASON = 500
"""Characters of a reason, and of the name of a rule."""


class MediaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A picture, video or sound of a candidate."""

    id: int
    kind: str
    """`image`, `video`, `gifv` or `audio`."""
    sha256: str = ""
    """Hexadecimal digest of the uploaded file; empty where it is not known."""
    phash: int | None = None
    """Perceptual hash of the picture (64 bits); None where it is not known."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """Content that is about to become public. Times are Unix seconds."""

    kind: Kind
    member_id: int
    member_name: str
    member_created_at: float
    member_posts: int
    """Number of the member's posts, without the candidate."""
    text: str
    """All texts of the candidate, separated by line feeds: content warning, text and poll options, or name, note and fields."""
    links: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """Canonical forms (lower-case NFKC) of the tags."""
    mentions: tuple[str, ...] = ()
    """User names of the mentioned members."""
    visibility: str = "public"
    """Visibility of a post; `public` for a profile and for media."""
    media: tuple[MediaFacts, ...] = ()
    recent_posts: int = 0
    """Number of the member's posts in the last ten minutes, without the candidate."""


class Decision(msgspec.Struct, frozen=True):
    """The outcome of a check: whether the candidate becomes public, and why not."""

    action: Action
    reason: str = ""
    """For the author, if the candidate is rejected; for moderators, if it is held."""
    rule: str = ""
    """Name of the rule that decided; empty for the callable and the hook."""


ALLOW = Decision("allow")

Check = Callable[[Candidate], Awaitable[Decision]]


def strictest(decisions: Sequence[Decision]) -> Decision:
    """Return the strictest decision, and the first of equally strict ones; `ALLOW` without decisions."""
    return max(decisions, key=lambda decision: _ACTIONS.index(decision.action), default=ALLOW)
