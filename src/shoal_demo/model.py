"""The values of a demo plan: people, posts, follows, likes and shares.

People and posts are referred to by their index in the plan. Times are Unix milliseconds, UTC.
"""

from __future__ import annotations

import msgspec

from shoal.core.model import Visibility
from shoal.core.places import Place


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The features from which a portrait is drawn. Each word is a key in the tables of `people` and `portraits`."""

    skin: str
    hair: str
    hair_color: str
    beard: str = ""
    glasses: str = ""
    earrings: bool = False
    hat: str = ""
    clothing: str = "crew"
    clothing_color: str = "#3d5a80"
    backdrop: tuple[str, str] = ("#f6d5c0", "#e8a598")
    mouth: str = "smile"
    soft: bool = False
    """Draw lashes, thinner brows and slightly colored lips."""
    freckles: bool = False
    elder: bool = False


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the network. `weight` is the relative fame; the most famous member has 1."""

    name: str
    display_name: str
    bio: str
    interests: tuple[str, ...]
    language: str
    """The native language. Every member also speaks English."""
    home: Place
    weight: float
    look: Look


class PlannedPost(msgspec.Struct, frozen=True, kw_only=True):
    """A post, or a comment on the earlier post with index `parent`."""

    author: int
    moment: int
    text: str
    language: str = "en"
    visibility: Visibility = Visibility.PUBLIC
    photos: tuple[str, ...] = ()
    """Names of photographs (`photos.photos`)."""
    place: Place | None = None
    parent: int | None = None


class PlannedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A direct message. `parent` is the index of the message to which it replies."""

    author: int
    recipient: int
    moment: int
    text: str
    parent: int | None = None


class DemoPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a whole network. Create `people`, `follows` and `posts` in this order."""

    people: tuple[Person, ...]
    follows: tuple[tuple[int, int], ...]
    posts: tuple[PlannedPost, ...]
    likes: tuple[tuple[int, int], ...]
    shares: tuple[tuple[int, int, int], ...]
    """A member, a post and a time each."""
    hero: int
    """The member account that visitors of the demo use."""
    messages: tuple[PlannedMessage, ...] = ()
    """Direct messages between the hero and other members."""
    saved: tuple[int, ...] = ()
    """Posts that the hero has saved."""
    listed: tuple[int, ...] = ()
    """Members on the hero's list, whom the hero follows."""
    followed_tags: tuple[str, ...] = ()

    def header(self, person: int) -> str:
        """Return the photograph for the header of a member's profile: the first that the member posted; empty without one."""
        return next((post.photos[0] for post in self.posts if post.author == person and post.photos), "")
