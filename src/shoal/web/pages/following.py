"""Following several members at once."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.commands import relationships
from shoal.core.errors import NotAllowed, NotFound
from shoal.web.visit import Visit


async def follow_all(visit: Visit, ids: Iterable[int]) -> int:
    """Follow these members, and return how many.

    Those are left out who have gone, who block the member or are blocked. Raises `InvalidInput` where the member follows as many
    as one may; those before are followed then.
    """
    followed = 0
    for id_ in dict.fromkeys(ids):
        try:
            await relationships.follow(visit.front.writes, visit.member.id, id_)
        except (NotAllowed, NotFound):
            continue
        followed += 1
    return followed
