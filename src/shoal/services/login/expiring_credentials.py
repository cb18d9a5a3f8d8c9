"""Credentials that expire: authorization codes and browser sessions. Adding one removes some that have expired.

So a member never has more of them than are made within one lifetime, except those that nothing has removed yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import HALFWAY, Grant, Token
from shoal.graph.contract import Batch, Cursor
from shoal.graph.schema import EXPIRING, LEADING_TO_LOGINS
from shoal.services.writes import Writes

BROWSER_MS = 14 * 86_400_000
"""Milliseconds that a browser stays logged in."""
HALFWAY_MS = 10 * 60_000
"""Milliseconds between a right password and the code of the second factor."""

_LOOKED_AT = 20
_DROPPED_AT_ONCE = 8
"""They go with the commit that adds one: a transaction of DynamoDB changes 100 items, about six for each of them."""


async def expired(writes: Writes, member_id: int) -> list[int]:
    """Return some of the member's expired credentials: more than are added meanwhile.

    The oldest are looked at, and the newest, since what is halfway expires long before the sessions that it stands behind.
    """
    graph = writes.graph
    oldest = await graph.assoc_range(member_id, EXPIRING, Cursor(limit=_LOOKED_AT, oldest_first=True))
    if not oldest:
        return []
    newest = await graph.assoc_range(member_id, EXPIRING, Cursor(limit=_LOOKED_AT)) if len(oldest) == _LOOKED_AT else []
    ids = list(dict.fromkeys([assoc.id2 for assoc in (*oldest, *newest)]))
    now = milliseconds_of(writes.new_id(shard_of(member_id)))
    found = await graph.obj_get(ids)
    return [id_ for id_ in ids if has_expired(found.get(id_), now)][:_DROPPED_AT_ONCE]


def has_expired(node: object, now: int) -> bool:
    """Return whether a credential has expired by `now`, in Unix milliseconds. A missing one has."""
    if isinstance(node, Grant):
        return now >= node.expires_at
    return not isinstance(node, Token) or now >= milliseconds_of(node.id) + (
        HALFWAY_MS if HALFWAY in node.scopes else BROWSER_MS
    )


def drop_expired(batch: Batch, member_id: int, ids: Sequence[int], now: int) -> None:
    """Delete expired credentials with the batch."""
    for id_ in ids:
        batch.obj_del(id_)
        for atype in LEADING_TO_LOGINS:
            batch.assoc_del(member_id, atype, id_, now)
