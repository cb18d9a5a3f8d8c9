"""Tags: look at, follow, unfollow."""

from __future__ import annotations

import contextlib
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import tag_entities
from shoal.api.calls import Context
from shoal.api.front import Front
from shoal.api.listing import actor
from shoal.core.errors import InvalidInput, NotFound, Unavailable
from shoal.core.text import check_tag
from shoal.graph.schema import FOLLOWS_TAG, tag_id
from shoal.services import relationships
from shoal.tagcloud.increment import DAY_MS


class ByName(msgspec.Struct, frozen=True):
    """A tag, with or without its `#`."""

    name: Annotated[str, Meta(max_length=400)]


async def one(context: Context, params: ByName) -> object:
    """A tag, used or not."""
    front: Front = context.deps
    name = tag_named(params.name)
    viewer = context.caller.member_id
    if viewer is None:
        return await _shown(front, name, following=None)
    followed = await front.graph.assoc_get(viewer, (FOLLOWS_TAG,), (tag_id(name),))
    return await _shown(front, name, following=bool(followed[FOLLOWS_TAG]))


async def follow(context: Context, params: ByName) -> object:
    """Public statuses under the tag come to the caller's home."""
    front: Front = context.deps
    name = await relationships.follow_tag(front.writes, actor(context), params.name)
    return await _shown(front, name, following=True)


async def unfollow(context: Context, params: ByName) -> object:
    """They come no longer."""
    front: Front = context.deps
    name = await relationships.unfollow_tag(front.writes, actor(context), params.name)
    return await _shown(front, name, following=False)


def tag_named(name: str) -> str:
    """The canonical form of a tag in a path. Raises `NotFound` for what is none."""
    try:
        return check_tag(name)
    except InvalidInput:
        raise NotFound("Record not found") from None


async def _shown(front: Front, name: str, *, following: bool | None) -> tag_entities.Tag:
    tags = front.reads.tags
    counted = None
    # A follow is done, and must not be answered as if it were not, because numbers beside it cannot be had.
    with contextlib.suppress(Unavailable):
        counted = await tags.tag(name)
    return tag_entities.tag(name, front.at, counted, tags.clock() // DAY_MS, following=following)
