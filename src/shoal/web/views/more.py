"""Choices about a member, as their page shows them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.core.model import Member
from shoal.core.visibility import Relation
from shoal.web.views.people import Bond, Face, bond_of, face_of
from shoal.web.visit import Visit

_HOUR = 3_600
_DAY = 24 * _HOUR


class More(msgspec.Struct, frozen=True):
    """A member, how one stands to them, and what can be changed."""

    face: Face
    bond: Bond
    endorsed: bool
    shares: bool
    watching: bool
    muted: str
    """How long they are muted, in words; empty where they are not."""
    spans: tuple[tuple[int, str], ...]
    """Seconds that one may mute for, each in words."""
    lists: tuple[tuple[int, str, bool], ...]
    """Own lists by id and title, and whether the member is on each."""
    path: str
    """The path of the page, below the root."""


def more_of(visit: Visit, member: Member, stand: Relation, lists: Sequence[tuple[int, str, bool]]) -> More:
    """Return what the page about a member shows."""
    _ = visit.words.text
    muted = ""
    if stand.muting:
        until = visit.words.full(stand.muted_until) if stand.muted_until else ""
        muted = _("until %(when)s") % {"when": until} if until else _("until you undo it")
    spans = (
        (0, _("until I undo it")),
        (_HOUR, _("for an hour")),
        (_DAY, _("for a day")),
        (7 * _DAY, _("for a week")),
        (30 * _DAY, _("for a month")),
    )
    return More(
        face_of(visit, member),
        bond_of(visit, member, stand),
        stand.endorsed,
        stand.shares,
        stand.watching,
        muted,
        spans,
        tuple(lists),
        f"/@{member.name}/more",
    )
