"""The review of a reported post, which says whether the post stays in public lists."""

from __future__ import annotations

from enum import StrEnum


class Review(StrEnum):
    """A post's place in the review that reports of it bring about."""

    NONE = ""
    WAITING = "waiting"
    """Many members reported it, and no moderator has closed a report of it."""
    CLEARED = "cleared"
    """Moderators dismissed a report of it: further reports do not take it out of public lists."""
    UPHELD = "upheld"
    """Moderators found a report of it right."""


HELD = (Review.WAITING, Review.UPHELD)
"""Reviews of posts that are kept out of public lists."""
