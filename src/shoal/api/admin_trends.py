"""Tags on the rise, as moderators see them: they say which are not to be shown."""

from __future__ import annotations

import logging
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import tag_entities
from shoal.api.calls import Context
from shoal.api.convert import Limit
from shoal.api.front import Front
from shoal.api.listing import actor
from shoal.api.pages import page_size
from shoal.api.tag_entities import Tag
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.text import check_tag
from shoal.feeds import trends
from shoal.graph.schema import tag_id
from shoal.tagcloud.increment import DAY_MS
from shoal.tagcloud.words import Counted

_log = logging.getLogger("shoal.moderation")


class AdminTag(Tag, kw_only=True):
    """A tag, and whether it is shown."""

    trendable: bool
    usable: bool = True
    requires_review: bool = False


class Trending(msgspec.Struct, frozen=True):
    """How many."""

    limit: Limit = Limit(0)


class Which(msgspec.Struct, frozen=True):
    """A tag of the list by its id, or any by its name."""

    id: Annotated[str, Meta(max_length=400)]


async def tags(context: Context, params: Trending) -> list[AdminTag]:
    """Tags on the rise, and those that are denied."""
    front: Front = context.deps
    words = await trends.trending(front.reads, page_size(params.limit, 10, 20), 0)
    shown = [_tag(front, word.name, word, trendable=True) for word in words]
    return shown + [_tag(front, name, None, trendable=False) for name in await _denied(front)]


async def approve(context: Context, params: Which) -> AdminTag:
    """The tag may be shown."""
    front: Front = context.deps
    name = await _named(front, params.id)
    await front.reads.tags.allow(name)
    _log.info("%s: allow #%s", actor(context), name)
    return _tag(front, name, await front.reads.tags.tag(name), trendable=True)


async def reject(context: Context, params: Which) -> AdminTag:
    """The tag is shown in no trend, cloud or list of tags."""
    front: Front = context.deps
    name = await _named(front, params.id)
    await front.reads.tags.deny(name)
    _log.info("%s: deny #%s", actor(context), name)
    return _tag(front, name, None, trendable=False)


async def _denied(front: Front) -> list[str]:
    return [rule.name for rule in await front.reads.tags.rules() if rule.denied]


async def _named(front: Front, text: str) -> str:
    """The tag that is meant. Ids are made of names and do not lead back to them: they are looked for among those listed."""
    if not text.isdecimal():
        try:
            return check_tag(text)
        except InvalidInput:
            raise NotFound("Record not found") from None
    words = [word for order in ("rising", "all") for word in (await front.reads.tags.cloud(order)).words]
    for name in (*await _denied(front), *(word.name for word in words)):
        if str(-tag_id(name)) == text:
            return name
    raise NotFound("Record not found")


def _tag(front: Front, name: str, counted: Counted | None, *, trendable: bool) -> AdminTag:
    today = front.reads.tags.clock() // DAY_MS
    tag = tag_entities.tag(name, front.at, counted, today, following=None)
    return AdminTag(id=tag.id, name=tag.name, url=tag.url, history=tag.history, trendable=trendable)
