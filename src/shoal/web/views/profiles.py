"""The head of a profile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from markupsafe import Markup

from shoal.core.model import Member
from shoal.core.visibility import Relation
from shoal.queries.hydration import Profile
from shoal.queries.members import Received
from shoal.web.views.people import Bond, Face, bond_of, face_of
from shoal.web.views.posts import tag_path
from shoal.web.visit import Visit

_FACES = 3


class Number(NamedTuple):
    """A number on a profile, its words, and where it leads; nowhere where the path is empty."""

    value: str
    words: str
    path: str = ""


class ProfileFacts(NamedTuple):
    """Everything that is read for the head of a profile besides the profile itself."""

    relation: Relation
    known: Sequence[Profile] = ()
    """Followees of the viewer who follow the member."""
    endorsed: Sequence[Profile] = ()
    tags: Sequence[str] = ()
    received: Received = Received(0, 0)


class ProfileHead(msgspec.Struct, frozen=True):
    """Everything that stands above a member's posts."""

    face: Face
    header: str
    note: Markup
    fields: tuple[tuple[str, Markup], ...]
    numbers: tuple[Number, ...]
    joined: str
    bond: Bond
    marks: tuple[str, ...]
    """Words about the member: automated, follows you."""
    known: tuple[Face, ...]
    """Followees of the viewer who follow this member."""
    known_words: str
    endorsed: tuple[Face, ...]
    tags: tuple[tuple[str, str], ...]
    """Tags that they show, each with its address."""
    private_note: str = ""


def head_of(visit: Visit, profile: Profile, facts: ProfileFacts) -> ProfileHead:
    """Return the head of a profile as the viewer sees it."""
    member, words, at = profile.member, visit.words, visit.front.at
    return ProfileHead(
        face=face_of(visit, member),
        header=at.media(member.header) if member.header else "",
        note=Markup(at.html(member.note, member.mentions)),  # noqa: S704 (escaped when it was made)
        fields=tuple((field.name, Markup(at.html(field.value, member.mentions))) for field in member.fields),  # noqa: S704 (the same)
        numbers=tuple(_numbers(visit, profile, facts.received)),
        joined=words.day(member.created_at),
        bond=bond_of(visit, member, facts.relation),
        marks=tuple(_marks(visit, member, facts.relation)),
        known=tuple(face_of(visit, one.member) for one in facts.known[:_FACES]),
        known_words=_known(visit, facts.known),
        endorsed=tuple(face_of(visit, one.member) for one in facts.endorsed),
        tags=tuple((name, tag_path(visit, name)) for name in facts.tags),
        private_note=facts.relation.note,
    )


def _numbers(visit: Visit, profile: Profile, received: Received) -> Iterator[Number]:
    member, words = profile.member, visit.words
    shows = not member.hides_connections or member.id == visit.viewer_id
    path = visit.url(f"/@{member.name}")

    def number(one: str, many: str, n: int, leads: str = "") -> Number:
        return Number(words.compact(n), words.plural(one, many, n), leads)

    yield number("post", "posts", profile.posts)
    yield number("follower", "followers", profile.followers, f"{path}/followers" if shows else "")
    if shows:
        yield number("followed", "followed", profile.following, f"{path}/following")
    if received.likes:
        yield number("like received", "likes received", received.likes)
    if received.shares:
        yield number("share received", "shares received", received.shares)


def _marks(visit: Visit, member: Member, relation: Relation) -> Iterator[str]:
    _ = visit.words.text
    if member.bot:
        yield _("automated")
    if relation.followed_by:
        yield _("follows you")
    if relation.requested_by:
        yield _("asks to follow you")
    if relation.muting:
        yield _("muted")
    if member.locked:
        yield _("chooses followers")


def _known(visit: Visit, known: Sequence[Profile]) -> str:
    if not known:
        return ""
    names = ", ".join(one.member.shown_name for one in known[:2])
    others = len(known) - 2
    if others > 0:
        text = visit.words.plural(
            "Followed by %(names)s and %(n)s other you know", "Followed by %(names)s and %(n)s others you know", others
        )
        return text % {"names": names, "n": visit.words.number(others)}
    return visit.words.text("Followed by %(names)s, whom you know") % {"names": names}
