"""Albums: photos that a member chose from their own posts, in an order of their own."""

from __future__ import annotations

from shoal.core.ids import milliseconds_of
from shoal.core.model import Node


class Album(Node, frozen=True, tag="album"):
    """An album. Who may see a photo in it is decided by the photo's post."""

    owner_id: int
    title: str
    description: str = ""

    @property
    def created_at(self) -> int:
        """When the album was made, in Unix milliseconds."""
        return milliseconds_of(self.id)
