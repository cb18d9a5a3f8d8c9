"""What ends by itself: authorization codes and the logins of browsers. Whoever adds one clears away those that ended before.

So a member never has more of them than were made within one life of them, but for those that nobody has cleared away yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Grant, Token
from shoal.graph.contract import Batch, Cursor
from shoal.graph.schema import LAPSES, LOGGED_IN
from shoal.services.writes import Writes

BROWSER_MS = 14 * 86_400_000
"""How long a browser stays logged in."""

_AT_ONCE = 20


async def lapsed(writes: Writes, member_id: int) -> list[int]:
    """The oldest things of the member that have ended, a few at a time: more than are added meanwhile."""
    oldest = await writes.graph.assoc_range(member_id, LAPSES, Cursor(limit=_AT_ONCE, oldest_first=True))
    if not oldest:
        return []
    now = milliseconds_of(writes.new_id(shard_of(member_id)))
    found = await writes.graph.obj_get([assoc.id2 for assoc in oldest])
    return [assoc.id2 for assoc in oldest if has_lapsed(found.get(assoc.id2), now)]


def has_lapsed(node: object, now: int) -> bool:
    """Whether it has ended by this moment, in Unix milliseconds; what is not there has."""
    if isinstance(node, Grant):
        return now >= node.expires_at
    return not isinstance(node, Token) or now >= milliseconds_of(node.id) + BROWSER_MS


def drop_lapsed(batch: Batch, member_id: int, ids: Sequence[int], now: int) -> None:
    """They go with the batch."""
    for id_ in ids:
        batch.obj_del(id_)
        batch.assoc_del(member_id, LAPSES, id_, now)
        batch.assoc_del(member_id, LOGGED_IN, id_, now)
