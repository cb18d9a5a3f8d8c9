"""Lists of members as pages show them."""

from __future__ import annotations

import msgspec

from shoal.core.model import MemberList
from shoal.web.visit import Visit


class ListView(msgspec.Struct, frozen=True):
    """A list."""

    id: int
    title: str
    path: str
    members: str
    """How many are on it, in words."""
    exclusive: bool


def list_view(visit: Visit, shown: MemberList, members: int = 0) -> ListView:
    """Return a list as a page shows it."""
    words = visit.words
    number = words.plural("%(n)s person", "%(n)s people", members) % {"n": words.number(members)}
    return ListView(shown.id, shown.title, visit.url(f"/lists/{shown.id}"), number, shown.exclusive)
