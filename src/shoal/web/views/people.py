"""Members as pages show them: a face and a name, or all of a profile."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from markupsafe import Markup

from shoal.core.media_files import still_of
from shoal.core.model import Member
from shoal.core.visibility import STRANGER, Relation
from shoal.graph.access import full_relations
from shoal.queries.hydration import Profile
from shoal.queries.suggestions import Suggestion
from shoal.web.visit import Visit


class Face(msgspec.Struct, frozen=True):
    """A member in a line."""

    id: int
    name: str
    shown: str
    """The name that they gave themselves, or else the user name."""
    path: str
    avatar: str
    bot: bool = False


class Bond(msgspec.Struct, frozen=True):
    """How the viewer and a member stand to each other, as buttons say it."""

    self: bool = False
    following: bool = False
    requested: bool = False
    followed_by: bool = False
    muting: bool = False
    blocking: bool = False
    locked: bool = False


class PersonView(msgspec.Struct, frozen=True):
    """A member with a line about them."""

    face: Face
    note: Markup
    followers: str
    posts: str
    bond: Bond
    reason: str = ""
    """Why they are shown here."""


def face_of(visit: Visit, member: Member) -> Face:
    """Return a member in a line."""
    at = visit.front.at
    return Face(
        member.id,
        member.name,
        member.shown_name,
        visit.url(f"/@{member.name}"),
        at.avatar(still_of(member.avatar)),
        member.bot,
    )


def bond_of(visit: Visit, member: Member, relation: Relation) -> Bond:
    """Return how the viewer stands to a member."""
    return Bond(
        self=member.id == visit.viewer_id,
        following=relation.following,
        requested=relation.requested,
        followed_by=relation.followed_by,
        muting=relation.muting,
        blocking=relation.blocking,
        locked=member.locked,
    )


async def people_of(visit: Visit, profiles: Sequence[Profile]) -> list[PersonView]:
    """Return members of a list with how the viewer stands to each; two reads for somebody who is logged in."""
    stands: dict[int, Relation] = {}
    if visit.viewer_id is not None and profiles:
        stands = await full_relations(visit.front.graph, visit.viewer_id, [one.member.id for one in profiles])
    return [person_of(visit, one, stands.get(one.member.id, STRANGER)) for one in profiles]


def suggested(visit: Visit, found: Suggestion) -> PersonView:
    """Return somebody who may be worth following, with the strongest reason."""
    reason = found.reasons[0].words if found.reasons else ""
    return person_of(visit, found.profile, STRANGER, reason)


def person_of(visit: Visit, profile: Profile, relation: Relation, reason: str = "") -> PersonView:
    """Return a member with a line about them."""
    member, words = profile.member, visit.words
    return PersonView(
        face_of(visit, member),
        Markup(visit.front.at.html(member.note, member.mentions)),  # noqa: S704 (escaped when it was made)
        words.compact(profile.followers),
        words.compact(profile.posts),
        bond_of(visit, member, relation),
        reason,
    )
