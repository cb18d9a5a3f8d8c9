"""Tags: show, follow, and feature on a profile."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.commands import relationships, tags
from shoal.core.errors import InvalidInput, NotFound, Unavailable
from shoal.core.text import check_tag
from shoal.graph.access import access_member
from shoal.graph.contract import Assoc
from shoal.graph.schema import FEATURES_TAG, FOLLOWS_TAG, AssocType, tag_id
from shoal.http.pagination import PageQuery
from shoal.mastodon_api.context import Context, One, Router, actor, cursor_of, paged
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities import tags as entities
from shoal.mastodon_api.entities.serializers import FeaturedTag
from shoal.mastodon_api.entities.tags import Tag
from shoal.queries import tags as tag_queries
from shoal.tagcloud.cloud import DailyUses

router = Router()
account_router = Router()


class ByName(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(max_length=400)]
    """A tag, with or without its `#`."""


class NewTag(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(max_length=400)] = ""
    """A tag, with or without its `#`."""


@router.get("/api/v1/tags/{name}", auth="optional", scope="read:follows", answer=Tag, cached=True, by_owner=True)
async def get_tag(context: Context, params: ByName) -> object:
    """Show a tag. It need not be used by any status."""
    return await _shown(context, tag_named(params.name))


@router.post("/api/v1/tags/{name}/follow", scope="write:follows", answer=Tag)
async def follow(context: Context, params: ByName) -> object:
    """Follow a tag: public statuses with it appear in the caller's home timeline."""
    return await _shown(context, await relationships.follow_tag(context.app.writes, actor(context), params.name))


@router.post("/api/v1/tags/{name}/unfollow", scope="write:follows", answer=Tag)
async def unfollow(context: Context, params: ByName) -> object:
    """Stop following a tag."""
    return await _shown(context, await relationships.unfollow_tag(context.app.writes, actor(context), params.name))


@router.post("/api/v1/tags/{name}/feature", scope="write:accounts", answer=Tag)
async def feature(context: Context, params: ByName) -> object:
    """Feature a tag on the caller's profile."""
    name = tag_named(params.name)
    await tags.feature(context.app.writes, actor(context), name)
    return await _shown(context, name)


@router.post("/api/v1/tags/{name}/unfeature", scope="write:accounts", answer=Tag)
async def unfeature(context: Context, params: ByName) -> object:
    """Stop featuring a tag on the caller's profile."""
    name = tag_named(params.name)
    await tags.unfeature(context.app.writes, actor(context), name)
    return await _shown(context, name)


@router.get("/api/v1/followed_tags", scope="read:follows", answer=list[Tag])
async def list_followed(context: Context, params: PageQuery) -> object:
    """List the tags that the caller follows, most recently followed first."""
    cursor = cursor_of(params, 100, 200)
    found = await tag_queries.followed(context.app.reads, actor(context), cursor)
    shown = await shown_tags(context, [tag.data.decode() for tag in found.tags])
    return paged(context, shown, [tag.time for tag in found.tags], found.next, cursor)


def tag_named(name: str) -> str:
    """Return the canonical form of a tag in a path. Raises `NotFound` if it is not a valid tag."""
    try:
        return check_tag(name)
    except InvalidInput:
        raise NotFound("Record not found") from None


async def _shown(context: Context, name: str) -> Tag:
    return (await shown_tags(context, (name,)))[0]


async def shown_tags(context: Context, names: Sequence[str]) -> list[Tag]:
    """Return tags by canonical name. Costs three reads."""
    counted: dict[str, DailyUses] = {}
    # The follow has been committed. Report it as such, even if the numbers of uses are unavailable.
    with contextlib.suppress(Unavailable):
        counted = await context.app.reads.tags.uses(names)
    return await counted_tags(context, names, counted)


async def counted_tags(context: Context, names: Sequence[str], counted: Mapping[str, DailyUses]) -> list[Tag]:
    """Return tags by canonical name, with their numbers of uses, and whether the caller follows and features them.

    Costs one read.
    """
    app_context, viewer = context.app, context.caller.member_id
    bonds: dict[AssocType, dict[int, Assoc]] = {FOLLOWS_TAG: {}, FEATURES_TAG: {}}
    if viewer is not None and names:
        bonds = await app_context.graph.assoc_get(viewer, (FOLLOWS_TAG, FEATURES_TAG), [tag_id(name) for name in names])
    today = app_context.reads.tags.today()
    return [
        entities.tag(
            name,
            app_context.at,
            counted.get(name),
            today,
            following=None if viewer is None else tag_id(name) in bonds[FOLLOWS_TAG],
            featuring=tag_id(name) in bonds[FEATURES_TAG],
        )
        for name in names
    ]


@router.get("/api/v1/featured_tags", scope="read:accounts", answer=list[FeaturedTag])
async def list_featured(context: Context, _params: None) -> object:
    """List the tags that the caller features."""
    return await _featured(context, actor(context))


@account_router.get(
    "/api/v1/accounts/{id}/featured_tags", auth="optional", scope="read:accounts", answer=list[FeaturedTag]
)
async def list_featured_by(context: Context, params: One) -> object:
    """List the tags that an account features, each with the number of its statuses that have the tag."""
    await access_member(context.app.graph, params.id)
    return await _featured(context, params.id)


@router.post("/api/v1/featured_tags", scope="write:accounts", answer=FeaturedTag)
async def add_featured(context: Context, params: NewTag) -> object:
    """Feature a tag on the caller's profile; at most ten."""
    app_context, member = context.app, actor(context)
    featured = await tags.feature(app_context.writes, member, params.name)
    return serializers.featured_tag(
        (await tag_queries.counted(app_context.graph, member, (featured,)))[0], app_context.at
    )


@router.delete("/api/v1/featured_tags/{id}", scope="write:accounts", answer=dict)
async def remove_featured(context: Context, params: One) -> None:
    """Stop featuring a tag."""
    await tags.unfeature_at(context.app.writes, actor(context), params.id)


@router.get("/api/v1/featured_tags/suggestions", scope="read:accounts", answer=list[Tag])
async def suggestions(context: Context, _params: None) -> object:
    """List the tags that the caller used most recently, except featured tags."""
    return await shown_tags(context, await tag_queries.suggested(context.app.reads, actor(context)))


async def _featured(context: Context, member_id: int) -> list[FeaturedTag]:
    return [
        serializers.featured_tag(tag, context.app.at)
        for tag in await tag_queries.featured(context.app.graph, member_id)
    ]
