"""Tags on a profile."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.entities import people as people_entities
from shoal.api.entities.people import FeaturedTag
from shoal.api.entities.tags import Tag
from shoal.api.listing import One, actor
from shoal.api.tags import shown_tags
from shoal.commands import tags
from shoal.graph.access import access_member
from shoal.queries import tags as tag_queries


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
    rows.seen(
        "GET",
        "/api/v1/accounts/{id}/featured_tags",
        of_account,
        scope="read:accounts",
        params=One,
        answer=list[FeaturedTag],
    ),
)

ROUTES = (
    rows.route("GET", "/api/v1/featured_tags", mine, scope="read:accounts", answer=list[FeaturedTag]),
    rows.route(
        "POST",
        "/api/v1/featured_tags",
        add,
        scope="write:accounts",
        params=NewTag,
        answer=FeaturedTag,
    ),
    rows.route("GET", "/api/v1/featured_tags/suggestions", suggestions, scope="read:accounts", answer=list[Tag]),
    rows.one("DELETE", "/api/v1/featured_tags/{id}", remove, scope="write:accounts", answer=dict),
)
