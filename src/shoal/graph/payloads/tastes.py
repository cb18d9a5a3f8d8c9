"""A member's side of ranked feeds, as the store keeps it."""

from __future__ import annotations

from typing import NamedTuple

from shoal.core.ranking.taste import SeenPosts, Taste
from shoal.core.ranking.wishes import NO_WISHES, Wishes
from shoal.graph.contract import Reader
from shoal.graph.schema import seen_key, taste_key


class Tastes(NamedTuple):
    """A member's choices and memory; None where they have none yet."""

    taste: Taste | None
    seen: SeenPosts | None

    @property
    def wishes(self) -> Wishes:
        """Wishes of the member about their ranked feed."""
        return NO_WISHES if self.taste is None else self.taste.wishes


async def tastes_of(graph: Reader, member_id: int) -> Tastes:
    """Return what a member has chosen and seen; two reads, one for a member who has done neither."""
    keys = (taste_key(member_id), seen_key(member_id))
    owners = await graph.key_get(keys)
    nodes = await graph.obj_get(list(owners.values())) if owners else {}
    taste, seen = (nodes.get(owners.get(key, 0)) for key in keys)
    return Tastes(taste if isinstance(taste, Taste) else None, seen if isinstance(seen, SeenPosts) else None)
