"""When a password was changed, what was given to clients before is worth nothing: it is cleared away, page by page."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shoal.core.events import SessionsEnded
from shoal.core.ids import shard_of
from shoal.core.model import Grant, Member, Token
from shoal.fanout.effects import Effects
from shoal.graph.contract import MAX_TIME, Batch, Cursor
from shoal.graph.schema import EXPIRING, LEADING_TO_LOGINS, LOGGED_IN, AssocType

_PAGE = 200


async def clear_tokens(effects: Effects, event: SessionsEnded, mark: int) -> int | None:
    """Tokens from before the newest password go, and what is left of the others is not touched."""
    return await _clear(effects, event, LOGGED_IN, mark) if event.every else None


async def clear_grants(effects: Effects, event: SessionsEnded, mark: int) -> int | None:
    """And codes that nobody will exchange any more."""
    return await _clear(effects, event, EXPIRING, mark) if event.every else None


async def _clear(effects: Effects, event: SessionsEnded, atype: AssocType, mark: int) -> int | None:
    """One page, from the newest on; `mark` is where it begins."""
    owner, graph = event.member_id, effects.graph
    page = await graph.assoc_range(owner, atype, Cursor(before=mark or MAX_TIME, limit=_PAGE))
    found = await graph.obj_get([owner, *(assoc.id2 for assoc in page)])
    member = found.get(owner)
    if not isinstance(member, Member):
        return None
    nodes = [node for assoc in page if isinstance(node := found.get(assoc.id2), Token | Grant)]
    await drop_tokens(effects, owner, [node.id for node in nodes if node.generation < member.generation])
    return page[-1].time if len(page) == _PAGE else None


async def drop_tokens(effects: Effects, owner: int, ids: Sequence[int]) -> None:
    """Delete tokens or codes of a member, with what leads to them."""

    async def drop(id_: int) -> None:
        batch = Batch(shard_of(owner))
        now = effects.new_id(batch.shard)
        batch.obj_del(id_)
        for atype in LEADING_TO_LOGINS:
            batch.assoc_del(owner, atype, id_, now)
        await effects.graph.commit(batch)

    await asyncio.gather(*map(drop, ids))
