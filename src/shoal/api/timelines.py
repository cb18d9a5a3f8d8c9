"""Timelines that a client reads page by page."""

from __future__ import annotations

from shoal.api.calls import Context
from shoal.api.front import Front
from shoal.api.listing import actor, cursor_of, entries_page
from shoal.api.pages import PageQuery
from shoal.feeds import home as home_feed


async def home(context: Context, params: PageQuery) -> object:
    """The newest by the caller, by those they follow and under the tags they follow."""
    front: Front = context.deps
    cursor = cursor_of(params)
    return await entries_page(context, await home_feed.page(front.reads, actor(context), cursor), cursor)
