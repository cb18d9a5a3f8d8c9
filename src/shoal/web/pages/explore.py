"""Explore: photos that many like now, tags, and the posts that carry one of them."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from shoal.core.errors import Unavailable
from shoal.graph.cache.dependencies import not_noted
from shoal.graph.contract import Cursor
from shoal.queries import public_timelines, trends
from shoal.queries.hydration import Profile
from shoal.web import rows
from shoal.web.pages.discover.people import followed_most
from shoal.web.rendering import page
from shoal.web.views.explore import cloud_of, cloud_words, drawn_cloud, wall_of, words_of_cloud
from shoal.web.views.people import people_of
from shoal.web.visit import Visit

_PHOTOS = 24
_CLOUD = 80
_PEOPLE = 9


async def explore(visit: Visit, _params: None) -> Response:
    """Photos that many react to now, and new ones, in rows; the tag cloud, and people whom many follow."""
    reads = visit.front.reads
    trending, newest, words, rising, (people, _) = await asyncio.gather(
        trends.page(reads, visit.viewer_id, _PHOTOS),
        public_timelines.public_page(reads, visit.viewer_id, Cursor(limit=_PHOTOS), only_media=True),
        words_of_cloud(visit, _CLOUD),
        cloud_of(visit, 12, "rising"),
        _people(visit),
    )
    first = wall_of(visit, trending)
    known = {picture.path for picture in first}
    return await page(
        visit,
        "explore",
        title=visit.words.text("Explore"),
        trending=first,
        newest=[picture for picture in wall_of(visit, newest.entries) if picture.path not in known],
        cloud=cloud_words(visit, words),
        drawn=await drawn_cloud(visit, words),
        rising=rising,
        people=await people_of(visit, people),
    )


async def _people(visit: Visit) -> tuple[list[Profile], bool]:
    try:
        return await followed_most(visit, 0, _PEOPLE)
    except Unavailable:
        not_noted()
        return [], False


async def about(visit: Visit, _params: None) -> Response:
    """About this network, and its rules."""
    return await page(visit, "about", title=visit.words.text("About"), shown=visit.front.settings)


ROUTES = (
    rows.page("/explore", explore, remembered=True),
    rows.page("/about", about),
)
