"""How the caller stands to others: follow, block, mute, and the lists of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import present
from shoal.api.calls import Context, Handler
from shoal.api.convert import Id
from shoal.api.front import Front
from shoal.api.listing import One, actor, cursor_of, people_page
from shoal.api.pages import PageQuery
from shoal.core.errors import NotFound
from shoal.core.visibility import Relation
from shoal.feeds import people
from shoal.graph.access import full_relations, members_by_id
from shoal.graph.schema import BLOCKS, MUTES, AssocType
from shoal.services import relationships
from shoal.services.writes import Writes

Verb = Callable[[Writes, int, int], Awaitable[Relation]]


class Others(msgspec.Struct, frozen=True):
    """Some accounts at once."""

    id: Annotated[tuple[Id, ...], Meta(max_length=400)] = ()


async def several(context: Context, params: Others) -> object:
    """One relationship for each id asked for, in that order."""
    front: Front = context.deps
    ids = tuple(dict.fromkeys(params.id))
    stands = await full_relations(front.graph, actor(context), ids)
    return [present.relationship(id_, stands[id_]) for id_ in ids]


def _handler(verb: Verb) -> Handler:
    async def handler(context: Context, params: One) -> object:
        front: Front = context.deps
        if not await members_by_id(front.graph, (params.id,)):
            raise NotFound("Record not found")
        return present.relationship(params.id, await verb(front.writes, actor(context), params.id))

    handler.__doc__ = verb.__doc__
    return handler


follow = _handler(relationships.follow)
unfollow = _handler(relationships.unfollow)
block = _handler(relationships.block)
unblock = _handler(relationships.unblock)
mute = _handler(relationships.mute)
unmute = _handler(relationships.unmute)


async def blocks(context: Context, params: PageQuery) -> object:
    """Whom the caller blocks, newest first."""
    return await _page(context, params, BLOCKS)


async def mutes(context: Context, params: PageQuery) -> object:
    """Whom the caller mutes, newest first."""
    return await _page(context, params, MUTES)


async def _page(context: Context, params: PageQuery, atype: AssocType) -> object:
    front: Front = context.deps
    cursor, member = cursor_of(params, 40, 80), actor(context)
    return people_page(context, await people.page(front.reads, member, member, atype, cursor, severed=True), cursor)
