"""Trending tags and statuses for moderators, and their approval."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.admin import tags as tag_rules
from shoal.commands import moderation
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.model import Role
from shoal.core.text import check_tag
from shoal.graph.schema import tag_id
from shoal.http.pagination import LISTED_DATA, page_size
from shoal.http.params import Limit
from shoal.http.responses import raw
from shoal.mastodon_api.context import AppContext, Context, One, Router, actor
from shoal.mastodon_api.entities import tags as tag_entities
from shoal.mastodon_api.entities.statuses import Status
from shoal.mastodon_api.entities.tags import Tag
from shoal.mastodon_api.suggestions import Position, no_links
from shoal.queries import trends
from shoal.queries.hydration import Entry, hydrate
from shoal.tagcloud.cloud import Counted

router = Router(role=Role.MODERATOR)

_log = logging.getLogger("shoal.moderation")


class AdminTag(Tag, kw_only=True):
    """A tag, and whether moderators allow it to trend."""

    trendable: bool
    usable: bool = True
    requires_review: bool = False


class AdminStatus(Status, kw_only=True):
    """A status, and whether it may trend. It needs no review for this, but a moderator may reject it."""

    trendable: bool
    requires_review: bool = False


class AdminTrendsQuery(msgspec.Struct, frozen=True):
    limit: Limit = Limit(0)


class TagParams(msgspec.Struct, frozen=True):
    """A tag. `id` is the name of the tag, or the id of a tag that `GET /api/v1/admin/trends/tags` lists."""

    id: Annotated[str, Meta(max_length=400)]


@router.get("/api/v1/admin/trends/tags", scope="admin:read", answer=list[AdminTag])
async def list_tags(context: Context, params: AdminTrendsQuery) -> list[AdminTag]:
    """List trending and denied tags."""
    words = await trends.trending(context.app.reads, page_size(params.limit, 10, 20), 0)
    shown = [_tag(context.app, word.name, word, trendable=True) for word in words]
    return shown + [_tag(context.app, name, None, trendable=False) for name in await _denied(context.app)]


@router.post("/api/v1/admin/trends/tags/{id}/approve", scope="admin:write", answer=AdminTag)
async def approve_tag(context: Context, params: TagParams) -> AdminTag:
    """Allow a tag to trend."""
    return await _review_tag(context, params.id, trendable=True)


@router.post("/api/v1/admin/trends/tags/{id}/reject", scope="admin:write", answer=AdminTag)
async def reject_tag(context: Context, params: TagParams) -> AdminTag:
    """Deny a tag, which excludes it from trends, the cloud and lists of tags."""
    return await _review_tag(context, params.id, trendable=False)


async def _review_tag(context: Context, text: str, *, trendable: bool) -> AdminTag:
    name = await _named(context.app, text)
    rule = tag_rules.allowing(name) if trendable else tag_rules.denying(name)
    await tag_rules.lay_down(context.app.writes, context.app.reads.tags, rule)
    _log.info("moderator %s: %s the tag #%s in trends", actor(context), "allow" if trendable else "deny", name)
    counted = await context.app.reads.tags.tag(name) if trendable else None
    return _tag(context.app, name, counted, trendable=trendable)


@router.get("/api/v1/admin/trends/statuses", scope="admin:read", answer=list[AdminStatus])
async def list_statuses(context: Context, params: Position) -> list[object]:
    """List trending statuses, including rejected ones."""
    limit, offset = page_size(params.limit), max(0, params.offset)
    found = await trends.reviewed(context.app.reads, limit, offset)
    return [await _status(context.app, entry, trendable=not entry.post.untrendable) for entry in found]


@router.post("/api/v1/admin/trends/statuses/{id}/approve", scope="admin:write", answer=AdminStatus)
async def approve_status(context: Context, params: One) -> object:
    """Allow a status to trend."""
    return await _review_status(context, params.id, trendable=True)


@router.post("/api/v1/admin/trends/statuses/{id}/reject", scope="admin:write", answer=AdminStatus)
async def reject_status(context: Context, params: One) -> object:
    """Exclude a status from trends."""
    return await _review_status(context, params.id, trendable=False)


async def _review_status(context: Context, id_: int, *, trendable: bool) -> object:
    """Set whether a status may trend. Raises `NotFound` for a status that is not public."""
    found = await hydrate(context.app.graph, None, (id_,))
    if not found or found[0].share is not None:
        raise NotFound("Record not found")
    await (moderation.let_trend if trendable else moderation.keep_from_trends)(context.app.writes, id_)
    _log.info("moderator %s: %s the status %s in trends", actor(context), "allow" if trendable else "deny", id_)
    return await _status(context.app, found[0], trendable=trendable)


async def _status(app_context: AppContext, entry: Entry, *, trendable: bool) -> object:
    """Return a status as an anonymous caller sees it, with the fields of `AdminStatus`."""
    review = msgspec.json.encode({"trendable": trendable, "requires_review": False})
    return raw((await app_context.present.status(None, entry, LISTED_DATA))[:-1] + b"," + review[1:])


async def _denied(app_context: AppContext) -> list[str]:
    return [rule.name for rule in await app_context.reads.tags.rules() if rule.denied]


async def _named(app_context: AppContext, text: str) -> str:
    """Return the tag with this name or id. An id is a hash, so it is only found among tags that are denied or in the cloud."""
    if not text.isdecimal():
        try:
            return check_tag(text)
        except InvalidInput:
            raise NotFound("Record not found") from None
    words = [word for order in ("rising", "all") for word in (await app_context.reads.tags.cloud(order)).words]
    for name in (*await _denied(app_context), *(word.name for word in words)):
        if str(-tag_id(name)) == text:
            return name
    raise NotFound("Record not found")


def _tag(app_context: AppContext, name: str, counted: Counted | None, *, trendable: bool) -> AdminTag:
    today = app_context.reads.tags.today()
    tag = tag_entities.tag(name, app_context.at, counted, today, following=None)
    return AdminTag(id=tag.id, name=tag.name, url=tag.url, history=tag.history, trendable=trendable)


router.get("/api/v1/admin/trends/links", scope="admin:read", answer=list[dict[str, Any]], stub=True)(no_links)
