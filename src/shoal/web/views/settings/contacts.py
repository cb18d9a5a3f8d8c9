"""Members who may be meant by the follow list of another network."""

from __future__ import annotations

from typing import NamedTuple

from shoal.queries.members import ContactMatch
from shoal.web.views.people import Face, face_of
from shoal.web.visit import Visit


class ContactView(NamedTuple):
    """Somebody who was found."""

    face: Face
    words: str
    """Why they were found."""
    chosen: bool
    """Whether they are to be followed unless the member says otherwise: a name alone is not enough."""
    known: bool
    """Whether the member follows them, or has asked to."""


def match_of(visit: Visit, found: ContactMatch) -> ContactView:
    """Return somebody who was found."""
    _ = visit.words.text
    known = found.following or found.requested
    if known:
        words = _("You follow them already") if found.following else _("You have asked to follow them")
    elif found.match == "name":
        words = _("Has the name of %(account)s, and may be somebody else")
    else:
        words = _("Says to be %(account)s elsewhere")
    return ContactView(
        face_of(visit, found.profile.member), words % {"account": found.given}, found.match != "name", known
    )
