"""Tags: show, follow, and feature on a profile."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.commands import relationships, tags
from shoal.commands import tags as tag_commands
from shoal.core.errors import InvalidInput, NotFound, Unavailable
from shoal.core.text import check_tag
from shoal.graph.access import access_member
from shoal.graph.contract import Assoc
from shoal.graph.schema import FEATURES_TAG, FOLLOWS_TAG, AssocType, tag_id
from shoal.http.pagination import PageQuery
from shoal.http.routes import Route
from shoal.mastodon_api import context as endpoints
from shoal.mastodon_api.context import Context, Handler, One, actor, cursor_of, paged
from shoal.mastodon_api.entities import serializers as people_entities
from shoal.mastodon_api.entities import tags as tag_entities
from shoal.mastodon_api.entities.serializers import FeaturedTag
from shoal.mastodon_api.entities.tags import Tag
from shoal.queries import tags as tag_queries
from shoal.tagcloud.cloud import DailyUses


class ByName(msgspec.Struct, frozen=True):
    """A tag, with or without its `#`."""

    name: Annotated[str, Meta(max_length=400)]


async def one(context: Context, params: ByName) -> object:
    """A tag, used or not."""
    return await _shown(context, tag_named(params.name))


async def follow(context: Context, params: ByName) -> object:
    """Public statuses under the tag come to the caller's home."""
    front = context.deps
    return await _shown(context, await relationships.follow_tag(front.writes, actor(context), params.name))


async def unfollow(context: Context, params: ByName) -> object:
    """They come no longer."""
    front = context.deps
    return await _shown(context, await relationships.unfollow_tag(front.writes, actor(context), params.name))


async def feature(context: Context, params: ByName) -> object:
    """Show a tag on the caller's profile."""
    front = context.deps
    name = tag_named(params.name)
    await tag_commands.feature(front.writes, actor(context), name)
    return await _shown(context, name)


async def unfeature(context: Context, params: ByName) -> object:
    """Show it there no longer."""
    front = context.deps
    name = tag_named(params.name)
    await tag_commands.unfeature(front.writes, actor(context), name)
    return await _shown(context, name)


async def followed(context: Context, params: PageQuery) -> object:
    """The tags that the caller follows, newest follow first."""
    front = context.deps
    cursor = cursor_of(params, 100, 200)
    found = await tag_queries.followed(front.reads, actor(context), cursor)
    shown = await shown_tags(context, [tag.data.decode() for tag in found.tags])
    return paged(context, msgspec.json.encode(shown), [tag.time for tag in found.tags], found.next, cursor)


def tag_named(name: str) -> str:
    """The canonical form of a tag in a path. Raises `NotFound` for what is none."""
    try:
        return check_tag(name)
    except InvalidInput:
        raise NotFound("Record not found") from None


async def _shown(context: Context, name: str) -> tag_entities.Tag:
    return (await shown_tags(context, (name,)))[0]


async def shown_tags(context: Context, names: Sequence[str]) -> list[tag_entities.Tag]:
    """Tags by canonical name, with how the caller stands to them; three reads."""
    front = context.deps
    tags, viewer = front.reads.tags, context.caller.member_id
    counted: dict[str, DailyUses] = {}
    # A follow is done, and must not be answered as if it were not, because numbers beside it cannot be had.
    with contextlib.suppress(Unavailable):
        counted = await tags.uses(names)
    held: dict[AssocType, dict[int, Assoc]] = {FOLLOWS_TAG: {}, FEATURES_TAG: {}}
    if viewer is not None:
        held = await front.graph.assoc_get(viewer, (FOLLOWS_TAG, FEATURES_TAG), [tag_id(name) for name in names])
    return [
        tag_entities.tag(
            name,
            front.at,
            counted.get(name),
            tags.today(),
            following=None if viewer is None else tag_id(name) in held[FOLLOWS_TAG],
            featuring=tag_id(name) in held[FEATURES_TAG],
        )
        for name in names
    ]


def _verb(name: str, handler: Handler[ByName], scope: str) -> Route:
    return endpoints.route("POST", f"/api/v1/tags/{{name}}/{name}", handler, scope=scope, params=ByName, answer=Tag)


ROUTES = (
    endpoints.seen(
        "GET",
        "/api/v1/tags/{name}",
        one,
        scope="read:follows",
        params=ByName,
        answer=Tag,
        remembered=True,
        by_owner=True,
    ),
    endpoints.route("POST", "/api/v1/tags/{name}/follow", follow, scope="write:follows", params=ByName, answer=Tag),
    endpoints.route("POST", "/api/v1/tags/{name}/unfollow", unfollow, scope="write:follows", params=ByName, answer=Tag),
    _verb("feature", feature, "write:accounts"),
    _verb("unfeature", unfeature, "write:accounts"),
    endpoints.page("GET", "/api/v1/followed_tags", followed, scope="read:follows", answer=list[Tag]),
)


class NewTag(msgspec.Struct, frozen=True):
    """A tag, with or without its `#`."""

    name: Annotated[str, Meta(max_length=400)] = ""


async def mine(context: Context, _params: None) -> object:
    """The tags on the caller's profile."""
    return await _of(context, actor(context))


async def of_account(context: Context, params: One) -> object:
    """The tags on an account's profile, with how much it posted under each."""
    front = context.deps
    await access_member(front.graph, params.id)
    return await _of(context, params.id)


async def add(context: Context, params: NewTag) -> object:
    """Show a tag on the caller's profile; at most ten."""
    front = context.deps
    held = await tags.feature(front.writes, actor(context), params.name)
    return people_entities.featured_tag((await tag_queries.counted(front.graph, actor(context), (held,)))[0], front.at)


async def remove(context: Context, params: One) -> object:
    """Show a tag there no longer."""
    front = context.deps
    await tags.unfeature_at(front.writes, actor(context), params.id)
    return {}


async def suggestions(context: Context, _params: None) -> object:
    """The tags that the caller used most of late and does not show."""
    front = context.deps
    return await shown_tags(context, await tag_queries.suggested(front.reads, actor(context)))


async def _of(context: Context, member_id: int) -> list[people_entities.FeaturedTag]:
    front = context.deps
    return [people_entities.featured_tag(one, front.at) for one in await tag_queries.featured(front.graph, member_id)]


ACCOUNT_ROUTES = (
    endpoints.seen(
        "GET",
        "/api/v1/accounts/{id}/featured_tags",
        of_account,
        scope="read:accounts",
        params=One,
        answer=list[FeaturedTag],
    ),
)

FEATURED_ROUTES = (
    endpoints.route("GET", "/api/v1/featured_tags", mine, scope="read:accounts", answer=list[FeaturedTag]),
    endpoints.route(
        "POST",
        "/api/v1/featured_tags",
        add,
        scope="write:accounts",
        params=NewTag,
        answer=FeaturedTag,
    ),
    endpoints.route("GET", "/api/v1/featured_tags/suggestions", suggestions, scope="read:accounts", answer=list[Tag]),
    endpoints.one("DELETE", "/api/v1/featured_tags/{id}", remove, scope="write:accounts", answer=dict),
)
