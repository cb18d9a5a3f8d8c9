"""The values of a plan: people, what they look like, what they post, and who follows, likes and shares.

People and posts are named by their index in the plan. Moments are Unix milliseconds, UTC.
"""

from __future__ import annotations

import msgspec

from shoal.core.model import Visibility
from shoal.core.places import Place


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The properties that a portrait is drawn from; each word is a row of a table in `portraits`, `hair` or `looks`."""

    skin: str
    hair: str
    hair_colour: str
    beard: str = ""
    glasses: str = ""
    earrings: bool = False
    hat: str = ""
    clothing: str = "crew"
    clothing_colour: str = "#3d5a80"
    backdrop: tuple[str, str] = ("#f6d5c0", "#e8a598")
    mouth: str = "smile"
    soft: bool = False
    """Lashes, thinner brows and a little more colour on the lips."""
    freckles: bool = False
    elder: bool = False


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """A photo that does not exist yet: `photographs.photograph` develops it."""

    kind: str
    mood: str
    seed: int
    width: int = 1280
    height: int = 853
    alt: str = ""
    """Description of the photo for people who cannot see it."""


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody of the network. `weight` is how widely known they are: the most known has 1."""

    name: str
    display_name: str
    bio: str
    interests: tuple[str, ...]
    language: str
    """Code of the language they are at home in, beside English."""
    home: Place
    weight: float
    look: Look
    header: Scene


class PlannedPost(msgspec.Struct, frozen=True, kw_only=True):
    """A post, or a comment on the earlier post of index `parent`."""

    author: int
    moment: int
    text: str
    language: str = "en"
    visibility: Visibility = Visibility.PUBLIC
    scenes: tuple[Scene, ...] = ()
    place: Place | None = None
    parent: int | None = None


class DemoPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The whole network. Whoever carries it out takes `people`, then `follows`, then `posts` in their order."""

    people: tuple[Person, ...]
    follows: tuple[tuple[int, int], ...]
    """(follower, followed)."""
    posts: tuple[PlannedPost, ...]
    likes: tuple[tuple[int, int], ...]
    """(member, post)."""
    shares: tuple[tuple[int, int, int], ...]
    """(member, post, moment)."""
