"""Timelines that a client reads page by page."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from shoal.api.calls import Context
from shoal.api.front import Front
from shoal.api.listing import actor, cursor_of, entries_page
from shoal.api.pages import PageQuery
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.text import check_tag
from shoal.feeds import home as home_feed
from shoal.feeds import tagged


class Tagged(PageQuery, frozen=True, kw_only=True):
    """A page of the posts under a tag."""

    tag: Annotated[str, Meta(max_length=400)]
    only_media: bool = False
    local: bool = False
    """Everybody is local here."""


async def home(context: Context, params: PageQuery) -> object:
    """The newest by the caller, by those they follow and under the tags they follow."""
    front: Front = context.deps
    cursor = cursor_of(params)
    return await entries_page(context, await home_feed.page(front.reads, actor(context), cursor), cursor)


async def tag(context: Context, params: Tagged) -> object:
    """The newest public statuses under a tag."""
    front: Front = context.deps
    try:
        name = check_tag(params.tag)
    except InvalidInput:
        raise NotFound("Record not found") from None
    cursor = cursor_of(params)
    viewer = context.caller.member_id
    page = await tagged.page(front.reads, viewer, name, cursor, only_media=params.only_media)
    return await entries_page(context, page, cursor)
