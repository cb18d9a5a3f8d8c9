"""Sources of candidates for a ranked feed."""

from __future__ import annotations

from enum import IntFlag

EXPLORED_BELOW = 50
"""Likes and shares that all posts of an author have got, below which few have met the author: exploration is for them."""


class Source(IntFlag):
    """A way in which a post can come into a ranked feed. Numbers are stored for an hour: new ones go at the end."""

    FOLLOWEES = 1
    """By somebody whom the viewer follows."""
    FRIENDS_LIKED = 2
    FRIENDS_SHARED = 4
    FRIENDS_COMMENTED = 8
    FRIENDS_OF_FRIENDS = 16
    """By somebody whom followees follow."""
    TAGS_FOLLOWED = 32
    TAGS_LIKED = 64
    """With a tag of posts that the viewer liked, shared or saved."""
    RISING = 128
    """With a tag on the rise."""
    AUTHORS_LIKED = 256
    """By an author whose posts the viewer likes."""
    POPULAR = 512
    NEARBY = 1024
    EXPLORATION = 2048
    """Among the newest public posts, whoever wrote it: alone it means that nothing else leads the viewer there."""

    @property
    def key(self) -> str:
        """Its name as in answers, in lower case."""
        return (self.name or "").lower()
