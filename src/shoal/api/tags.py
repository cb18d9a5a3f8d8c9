"""Tags: look at, follow, unfollow."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import present
from shoal.api.calls import Context
from shoal.api.front import Front
from shoal.api.listing import actor
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.text import check_tag
from shoal.graph.schema import FOLLOWS_TAG, tag_id
from shoal.services import relationships


class ByName(msgspec.Struct, frozen=True):
    """A tag, with or without its `#`."""

    name: Annotated[str, Meta(max_length=400)]


async def one(context: Context, params: ByName) -> object:
    """A tag, used or not."""
    front: Front = context.deps
    try:
        name = check_tag(params.name)
    except InvalidInput:
        raise NotFound("Record not found") from None
    viewer = context.caller.member_id
    if viewer is None:
        return present.tag(name, front.at, following=None)
    followed = await front.graph.assoc_get(viewer, (FOLLOWS_TAG,), (tag_id(name),))
    return present.tag(name, front.at, following=bool(followed[FOLLOWS_TAG]))


async def follow(context: Context, params: ByName) -> object:
    """Public statuses under the tag come to the caller's home."""
    front: Front = context.deps
    name = await relationships.follow_tag(front.writes, actor(context), params.name)
    return present.tag(name, front.at, following=True)


async def unfollow(context: Context, params: ByName) -> object:
    """They come no longer."""
    front: Front = context.deps
    name = await relationships.unfollow_tag(front.writes, actor(context), params.name)
    return present.tag(name, front.at, following=False)
