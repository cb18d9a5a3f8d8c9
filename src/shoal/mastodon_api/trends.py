"""Trends and the tag cloud, as JSON and as an image, for all members or personalized."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from shoal.core.errors import Unauthenticated
from shoal.http.errors import NeedsMember
from shoal.http.pagination import page_size
from shoal.http.params import Limit
from shoal.http.routes import Body
from shoal.mastodon_api.context import Context, Router, offset_page
from shoal.mastodon_api.entities import tags as tag_entities
from shoal.mastodon_api.entities.tags import AlikeTag, Cloud, Tag
from shoal.mastodon_api.tags import counted_tags, tag_named
from shoal.queries import tags as tag_queries
from shoal.queries import trends
from shoal.tagcloud.cloud import MAX_WORDS, Shown

router = Router()

_MOST_TRENDS = 1_000
_PICTURE_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


class RisingQuery(msgspec.Struct, frozen=True):
    limit: Limit = Limit(0)
    offset: Limit = Limit(0)


class CloudQuery(msgspec.Struct, frozen=True):
    order: Literal["all", "hour", "day", "week", "rising", "for_you"] | UnsetType = UNSET
    limit: Limit = Limit(0)


class RelatedQuery(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(max_length=400)]
    limit: Limit = Limit(0)


@router.get("/api/v1/trends/tags", auth="optional", scope="read:follows", answer=list[Tag], cached=True, by_owner=True)
@router.get("/api/v1/trends", auth="optional", scope="read:follows", answer=list[Tag], cached=True, by_owner=True)
async def tags(context: Context, params: RisingQuery) -> object:
    """List trending tags. If there are too few, the list continues with the top tags of the day, of the week, and of all time."""
    limit, offset = page_size(params.limit, 10, 20), min(params.offset, _MOST_TRENDS)
    words = await trends.rising(context.app.reads, limit, offset)
    body = await counted_tags(context, [word.name for word in words], {word.name: word for word in words})
    return offset_page(context, body, offset, limit, more=len(words) == limit)


@router.get("/api/shoal/v1/tags/cloud", auth="optional", scope="read:follows", answer=Cloud, cached=True, by_owner=True)
async def cloud(context: Context, params: CloudQuery) -> object:
    """Return the tag cloud, with the reasons for each tag."""
    return tag_entities.cloud(await _cloud(context, params), context.app.at)


@router.get("/api/shoal/v1/tags/cloud.svg", auth="optional", scope="read:follows", answer=Body("image/svg+xml"))
async def cloud_image(context: Context, params: CloudQuery) -> object:
    """Return the tag cloud as an SVG whose words are links."""
    shown = await _cloud(context, params)
    title = f"Tags of {context.app.settings.title}"
    image = await context.app.pictures.of(context.app.reads.tags, shown, _limit(params), context.app.at.tag, title)
    cache_control = "private, no-store" if shown.order == trends.FOR_YOU else "public, max-age=30"
    return Response(image, media_type="image/svg+xml", headers={**_PICTURE_HEADERS, "Cache-Control": cache_control})


@router.get("/api/shoal/v1/tags/{name}/related", auth="public", answer=list[AlikeTag], cached=True, by_owner=True)
async def related_tags(context: Context, params: RelatedQuery) -> object:
    """List tags that often occur together with a tag."""
    found = await tag_queries.related(
        context.app.reads, tag_named(params.name), page_size(params.limit, 20, tag_queries.MOST)
    )
    return [tag_entities.alike(each, context.app.at) for each in found]


async def _cloud(context: Context, params: CloudQuery) -> Shown:
    limit, order = _limit(params), params.order or "all"
    if order != trends.FOR_YOU:
        return await context.app.reads.tags.cloud(order, limit)
    if context.caller.member_id is None:
        raise NeedsMember if context.caller.token_id else Unauthenticated
    return await trends.for_you(context.app.reads, context.caller.member_id, limit)


def _limit(params: CloudQuery) -> int:
    return page_size(params.limit, 100, MAX_WORDS)
