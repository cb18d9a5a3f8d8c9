"""The way of a newcomer: interests, people, a profile, a first post."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shoal.core.model import MediaKind
from shoal.queries.hydration import Entry
from shoal.queries.suggestions import Suggestion
from shoal.queries.tags import TagOffer
from shoal.web.views.explore import WallPhoto, wall_of
from shoal.web.views.people import PersonView, suggested
from shoal.web.views.posts import Photo, photo_of
from shoal.web.visit import Visit

STEPS = ("interests", "people", "profile", "first")


class Step(NamedTuple):
    """A step on the way."""

    path: str
    words: str
    here: bool
    done: bool


class OfferedTag(NamedTuple):
    """A tag to pick."""

    name: str
    picked: bool
    photo: Photo | None
    uses: str


class SuggestedPerson(NamedTuple):
    """Somebody to follow, with a few of their photos."""

    person: PersonView
    photos: tuple[WallPhoto, ...]


def steps_of(visit: Visit, here: str) -> list[Step]:
    """Return all steps, and at which one is."""
    _ = visit.words.text
    names = (_("Interests"), _("People"), _("You"), _("Post"))
    at = STEPS.index(here)
    return [
        Step(visit.url(f"/welcome/{key}"), name, n == at, n < at)
        for n, (key, name) in enumerate(zip(STEPS, names, strict=True))
    ]


def offered(visit: Visit, offer: TagOffer) -> OfferedTag:
    """Return a tag with its picture."""
    entry = offer.example
    pictures = [one for one in entry.media if one.kind is MediaKind.IMAGE and one.preview_key] if entry else []
    uses = visit.words.plural("%(n)s post", "%(n)s posts", offer.uses) % {"n": visit.words.number(offer.uses)}
    return OfferedTag(
        offer.name, offer.picked, photo_of(visit, pictures[0]) if pictures else None, uses if offer.uses else ""
    )


def people_of(
    visit: Visit, found: Sequence[Suggestion], photos: Mapping[int, Sequence[Entry]]
) -> list[SuggestedPerson]:
    """Return members to follow, each with some of their photos."""
    return [
        SuggestedPerson(suggested(visit, one), tuple(wall_of(visit, photos.get(one.profile.member.id, ()))))
        for one in found
    ]
